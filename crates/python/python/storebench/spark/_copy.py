"""Copies whose parts Spark schedules."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.accumulators import AccumulatorParam

from .. import _call, _verbs
from .._call import Option
from . import _job

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

def copy(
    spark: SparkSession,
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    allow_repeats: bool = False,
    progress: bool | None = None,
    **options: Option,
) -> dict[str, Any]:
    """Copies documents like :func:`storebench.copy`, in tasks of a Spark job.

    The driver divides the source, prepares the target, and keeps the log of the copy in ``out``. Each task reads some
    parts and writes them. If a task fails or its worker is lost, Spark runs it again. The copy writes by key, so a
    repeated task does not change the result. With ``verify=True``, a second job reads the source again and compares it
    with the target. The same call with ``resume=True`` continues an interrupted copy; after a verification that found
    differences, it copies only the parts that differ.

    Args:
        spark: The session.
        source: A file or file pattern that every worker can read, or the URL of a store.
        target: The URL of a store, or a folder that all workers share.
        allow_repeats: Whether to allow ``append``, ``prepend``, ``counter`` and other operations that are not
            idempotent. If Spark runs a task again, it applies them twice.
        progress: Whether to show progress. By default, shows it in a notebook and on a terminal.
        **options: The options of ``storebench copy --help``. ``workers`` controls how many parts the source is divided
            into; the default is the number of tasks that Spark can run at once.

    Returns:
        The report of the copy; see :func:`storebench.copy`.

    Raises:
        BadInput: An option is invalid, the copy would change existing data, or the workers do not see the source.
        DataLost: Documents were rejected or damaged, verification found a difference, or a task failed repeatedly.
        Unreachable: The source or the target does not answer.
        KeyboardInterrupt: The copy was interrupted. The same call with ``resume=True`` continues it.
    """
    words = ["copy", _job.absolute("source", source), _job.absolute("target", target), *_call.arguments(options)]
    tasks = SparkTasks(_job.context_of(spark), words, bool(allow_repeats))
    return _verbs.copied(_call.call([*words, "--json"], progress, tasks=tasks), options)


class Reports(AccumulatorParam[list[str]]):
    """Brings the reports of tasks to the driver. Spark delivers the report of a task once, when the task has ended."""

    def __init__(self, done: Callable[[str], None] | None = None) -> None:
        self.done = done

    def __reduce__(self) -> tuple[type[Reports], tuple[()]]:
        # Only the driver has `done`.
        return (Reports, ())

    def zero(self, value: list[str]) -> list[str]:
        return []

    def addInPlace(self, value1: list[str], value2: list[str]) -> list[str]:
        if self.done is None:
            return value1 + value2
        for report in value2:
            self.done(report)
        return value1


class SparkTasks:
    """Runs the tasks of a copy as a Spark job."""

    def __init__(self, context: SparkContext, words: Sequence[str], may_repeat: bool) -> None:
        self.context = context
        self.words = list(words)
        self.may_repeat = may_repeat
        self.at_once = _job.slots(context)

    def run(self, tasks: list[str], done: Callable[[str], None], stopping: Callable[[], bool]) -> None:
        """Runs the tasks."""
        context, words, group = self.context, self.words, f"storebench-{uuid.uuid4()}"
        reports = context.accumulator([], Reports(done))

        def perform(some: Iterable[str]) -> None:
            for task in some:
                reports.add([_call.perform(words, task)])

        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(_job.LOOK_EVERY_S):
                if stopping():
                    context.cancelJobGroup(group)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            context.setJobGroup(group, "storebench copy", interruptOnCancel=True)
            context.parallelize(tasks, len(tasks)).foreachPartition(perform)
        except Exception as error:
            if not stopping():
                raise _job.failure(error, "the Spark job") from None
        finally:
            ended.set()
            watcher.join()
