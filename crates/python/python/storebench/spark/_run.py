"""Runs with many load generators, as barrier tasks of a Spark job."""

from __future__ import annotations

import _thread
import dataclasses
import io
import json
import pathlib
import tarfile
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark import BarrierTaskContext

from .. import _call, _errors, _verbs
from .._call import Option
from .._run import Run
from .._stores import words_of
from .._studies import Study, overrides_of, text_of
from . import _job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(
    spark: SparkSession,
    study: Study,
    generators: int,
    stores: str | Sequence[str] | Mapping[str, str] | None = None,
    *,
    out: str = "storebench-runs",
    shared: str | None = None,
    progress: bool | None = None,
    set: Iterable[str] = (),
    **options: Option,
) -> Run:
    """Runs a study with several load generators, each a barrier task of one Spark job.

    Each generator runs its part of the study; together they send what one process would send. They agree on the start
    of each phase through the barrier. The driver merges the parts into one run, with every percentile over all
    operations. ``Run.generators()`` shows what each generator did.

    Args:
        spark: The session.
        study: A path, the name of a built-in study, TOML text, or a dictionary. Workers do not see the driver's files,
            so files that the study reads need absolute paths on shared storage.
        generators: The number of generators. ``workers`` of the study must be a multiple of it.
        stores: Stores to measure instead of those in the study.
        out: The folder in which to create the folder of the merged run.
        shared: A folder that the driver and all workers share. With it, what the other generators measured is kept if
            a task is lost. The run is then partial and invalid. Without it, the parts come back when all tasks end.
        progress: Whether to show progress of the merge.
        set: Overrides such as ``"phases.mixed.rate=500"``.
        **options: The options of ``storebench run --help``: ``preset="laptop"``, ``scale=0.1``, …

    Raises:
        BadInput: The study or an option is invalid, or Spark cannot run so many tasks at the same time.
        DataLost: A task was lost and nothing of the run was kept, or a generator failed.
        Unreachable: A store does not answer.
    """
    context = _job.context_of(spark)
    generators = _errors.whole("generators", generators, 1)
    shared = None if shared is None else str(folder_of(_errors.path("shared", shared)))
    if context.getConf().get("spark.dynamicAllocation.enabled", "false") == "true":
        raise _errors.of(2, "barrier tasks need a fixed number of executors; set spark.dynamicAllocation.enabled=false")
    slots = _job.slots(context)
    if generators > slots:
        raise _errors.of(
            2,
            f"{generators} generators need {generators} slots, but Spark has {slots}; add executors or cores, use fewer"
            " generators, or wait until all executors have started (Spark itself would wait for"
            " spark.scheduler.barrier.maxConcurrentTasksCheck.interval times its maxFailures)",
        )
    stores_too = words_of(stores if stores is None else checked(stores))
    words = _call.arguments({"store": stores_too, "set": overrides_of(set), **options})
    task = Generator(Sent.of(study), words, shared, generators)
    merge = ["merge", *_call.arguments({"out": out})]
    group = f"storebench-{uuid.uuid4()}"
    with tempfile.TemporaryDirectory(prefix="storebench-parts-") as local:
        place = pathlib.Path(shared or local)
        lost: _errors.StorebenchError | None = None
        try:
            context.setJobGroup(group, "storebench run")
            parts = context.parallelize(range(generators), generators).barrier().mapPartitions(task.perform).collect()
        except BaseException as error:
            if not isinstance(error, Exception):
                context.cancelJobGroup(group)
            if shared and place.exists():
                (place / STOP).touch()
            # Nobody sends to the store after this.
            _job.wait_for_tasks(context, group)
            if not isinstance(error, Exception):
                raise
            lost, parts = _job.failure(error, "the Spark job lost a generator or did not start: it"), []
        for part in parts:
            part.unpack(place)
        folders = sorted(str(path.parent) for path in place.glob("*/run.json"))
        failed = [(number, part) for number, part in enumerate(parts, 1) if part.code != 0]
        said = [
            _errors.of(part.code, f"part {number}: {part.message or 'failed without a message'}") for number, part in failed
        ]
        if not folders:
            raise lost or next(iter(said), _errors.of(1, "no generator measured anything"))
        found = _verbs.measured([*merge, *folders], progress)
    found.messages += [str(error) for error in ([] if lost is None else [lost]) + said]
    return found


def checked(stores: str | Sequence[str] | Mapping[str, str]) -> str | Sequence[str] | Mapping[str, str]:
    """Refuses stores that are classes: workers do not have them."""
    if isinstance(stores, str):
        return stores
    all = stores.values() if isinstance(stores, Mapping) else stores if isinstance(stores, Sequence) else [stores]
    for store in all:
        if not isinstance(store, str):
            raise _errors.of(2, f"load generators on Spark need the URL of a store, not {store!r}")
    return stores


def folder_of(shared: str) -> pathlib.Path:
    """Returns a new folder for the parts of one run."""
    return pathlib.Path(shared).absolute() / f"parts-{uuid.uuid4()}"


@dataclasses.dataclass(frozen=True)
class Sent:
    """A study as workers get it."""

    name: str
    """The name of its file, or of a built-in study."""
    text: str | None
    """The content of the file; None for a built-in study."""

    @staticmethod
    def of(study: Study) -> Sent:
        """Reads the study here, where its file is."""
        text = text_of(study)
        if text is not None:
            return Sent("study.toml", text)
        path = pathlib.Path(str(study))
        if not path.is_file():
            return Sent(str(study), None)
        return Sent(path.name, path.read_text(encoding="utf-8"))

    def put(self, folder: pathlib.Path) -> str:
        """Writes the file, and returns the argument that names the study."""
        if self.text is None:
            return self.name
        path = folder / self.name
        path.write_text(self.text, encoding="utf-8")
        return str(path)


@dataclasses.dataclass(frozen=True)
class Part:
    """What a generator brings back."""

    code: int
    message: str | None
    files: bytes | None
    """Its folder, as a tar file; None if it is in the shared folder."""

    def unpack(self, place: pathlib.Path) -> None:
        """Writes the folder."""
        if self.files is not None:
            with tarfile.open(fileobj=io.BytesIO(self.files)) as files:
                files.extractall(place, filter="data")


class Meeting:
    """Exchanges messages through the barrier. A generator that has ended keeps answering, so that no other waits forever."""

    def __init__(self, gather: Callable[[str], list[str]]) -> None:
        self.gather = gather
        self.ended = False

    def exchange(self, message: str) -> list[str]:
        """Sends a message, and returns the messages of all generators."""
        if self.ended:
            raise RuntimeError("another generator has ended")
        all = [json.loads(one) for one in self.gather(json.dumps({"says": message}))]
        gone = [str(number) for number, one in enumerate(all, 1) if "says" not in one]
        if gone:
            # Everybody gets the same messages, so everybody stops exchanging messages now.
            self.ended = True
            raise RuntimeError(f"part {', '.join(gone)} has ended")
        return [one["says"] for one in all]

    def leave(self) -> None:
        """Says that this generator has ended, until all know that one has."""
        while not self.ended:
            all = [json.loads(one) for one in self.gather(json.dumps({}))]
            self.ended = all != [] and any("says" not in one for one in all)


STOP = "stop"
"""The file in the shared folder that asks the generators to stop. The driver makes it if the job has failed. Through the
barrier, they could not ask all the time: Spark ends the executor of a task that it kills there."""


def watch(folder: pathlib.Path, ended: threading.Event) -> None:
    """Interrupts this process's run when it must stop, as Ctrl-C does, so that what was measured is saved. Spark kills the
    process two to four seconds after the job has failed."""
    while not ended.wait(_job.LOOK_EVERY_S):
        if (folder / STOP).exists():
            _thread.interrupt_main()
            return


@dataclasses.dataclass(frozen=True)
class Generator:
    """One generator: a barrier task."""

    study: Sent
    words: list[str]
    shared: str | None
    generators: int

    def perform(self, numbers: Iterator[int]) -> Iterator[Part]:
        """Runs the part of this task."""
        context: Any = BarrierTaskContext.get()
        if context.attemptNumber() > 0:
            raise _errors.of(1, "a generator was lost; the run was not retried, because the store has changed; start it again")
        meeting = Meeting(context.allGather)
        for number in numbers:
            with tempfile.TemporaryDirectory(prefix="storebench-part-") as local:
                place = pathlib.Path(local)
                out = pathlib.Path(self.shared) if self.shared else place / "out"
                words = ["run", self.study.put(place), f"--part={number + 1}/{self.generators}", f"--out={out}"]
                ended = threading.Event()
                if self.shared:
                    threading.Thread(target=watch, args=[out, ended], daemon=True).start()
                done = _call.call([*words, "--json", *self.words], False, meet=meeting.exchange)
                ended.set()
                if not done.interrupted:
                    meeting.leave()
                yield Part(done.code, done.message, None if self.shared else packed(out))


def packed(folder: pathlib.Path) -> bytes:
    """Returns what is in a folder, as a tar file."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as files:
        for path in sorted(folder.glob("*")) if folder.is_dir() else []:
            files.add(path, arcname=path.name)
    return out.getvalue()
