"""The verbs of the command line."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import _call, _errors
from ._call import Option
from ._run import Run, open_run
from ._studies import Study, as_file

Folder = str | os.PathLike[str]
"""A run: a :class:`Run`, its folder, or its ``run.json``."""

Stores = str | Sequence[str] | Mapping[str, str]
"""Stores: a URL, several, or names with URLs."""


def bench(url: str, *, progress: bool | None = None, **options: Option) -> Run:
    """Measures one store without a study file.

    Args:
        url: The store, such as ``sqlite:bench.db``.
        progress: Whether to show progress; by default, in a notebook and on a terminal.
        **options: Those of ``storebench bench --help``: ``docs=100_000``, ``duration="30s"``, ``rate=5_000``,
            ``in_flight=8``, ``mix="read=95,update=5"``, ``from_="documents.jsonl"``, …

    Raises:
        BadInput: An option is invalid, or the place holds other data. Nothing was started.
        Unreachable: The store does not answer.
        DataLost: Nothing could be measured.

    A run that is invalid, or that lost data, is returned with a :class:`StorebenchWarning`.
    """
    return measured(["bench", url, *_call.arguments(options)], progress)


def run(
    study: Study, stores: Stores | None = None, *, progress: bool | None = None, set: Iterable[str] = (), **options: Option
) -> Run:
    """Runs a study.

    Args:
        study: A path, the name of a built-in study, a text in TOML, or a dictionary.
        stores: Stores to measure instead of the study's.
        progress: Whether to show progress; by default, in a notebook and on a terminal.
        set: Overrides such as ``"phases.mixed.rate=500"``.
        **options: Those of ``storebench run --help``: ``preset="laptop"``, ``scale=0.1``, ``out="runs"``, …

    Raises:
        BadInput: The study or an option is invalid, or a place holds other data. Nothing was started.
        Unreachable: A store does not answer.
        DataLost: Nothing could be measured.
    """
    overrides: Option = list(set)
    with as_file(study) as file:
        words = ["run", file, *_call.arguments({"store": store_words(stores), "set": overrides, **options})]
        return measured(words, progress)


def copy(source: str, target: str, *more: str, progress: bool | None = None, **options: Option) -> dict[str, Any]:
    """Copies documents between files and stores, in parallel; resumes and verifies.

    Args:
        source: A file, a pattern of files, or a store's URL.
        target: A file, a folder, or a store's URL.
        *more: Further arguments: of several files to read, the last one is the target.
        **options: Those of ``storebench copy --help``: ``key="id"``, ``verify=True``, ``resume="…"``, …

    Returns:
        The report of the copy. Its ``counts`` are of documents: ``read``, ``written``, ``rejected`` and more.

    Raises:
        BadInput: An option is invalid, or the copy would change data of yours. Nothing was started.
        DataLost: Documents were rejected, or verification found a difference.
        Unreachable: A place does not answer.
    """
    words = ["copy", source, target, *more, "--json", *_call.arguments(options)]
    printed: dict[str, Any] = json.loads(_call.result(words, progress))
    return printed


def plan(study: Study, stores: Stores | None = None, **options: Option) -> dict[str, Any]:
    """What a run would do, without touching a store. The options are those of ``storebench plan --help``."""
    with as_file(study) as file:
        words = ["plan", file, "--json", *_call.arguments({"store": store_words(stores), **options})]
        printed: dict[str, Any] = json.loads(_call.result(words, False))
    return printed


def verify(url: str, study: Study, *, progress: bool | None = None, **options: Option) -> dict[str, Any]:
    """Reads back every document that a study loaded, and compares it with what the study generates.

    Returns:
        The report, also if documents are missing or wrong: look at its ``collections``.
    """
    with as_file(study) as file:
        words = ["verify", url, file, "--json", *_call.arguments(options)]
        printed: dict[str, Any] = json.loads(_call.result(words, progress, keeps=(0, 1)))
    return printed


def compare(a: Run | Folder, b: Run | Folder, **options: Option) -> dict[str, Any]:
    """Compares run ``b`` with run ``a``.

    Args:
        **options: Those of ``storebench compare --help``: ``fail_if=["mixed.read.response.p99 > +10%"]``, …

    Returns:
        The comparison. If a gate fails, its ``passed`` is false.
    """
    words = ["compare", folder(a), folder(b), "--json", *_call.arguments(options)]
    printed: dict[str, Any] = json.loads(_call.result(words, False, keeps=(0, 1, 5)))
    return printed


def merge(*folders: Folder, **options: Option) -> Run:
    """Merges the parts of a run; see ``docs/clusters.md``. The options are those of ``storebench merge --help``."""
    return measured(["merge", *(os.fspath(folder) for folder in folders), *_call.arguments(options)], False)


def measured(words: Sequence[str], progress: bool | None) -> Run:
    """The run of a verb that prints a result."""
    code, out, message = _call.call([*words, "--json"], progress)
    if not out:
        if code == 130:
            raise KeyboardInterrupt
        raise _errors.of(code, message or "the verb failed without a message")
    result: dict[str, Any] = json.loads(out)
    found = Run(result, exit_code=code)
    if code == 130:
        raise KeyboardInterrupt(f"the run was interrupted; what was measured is in {found.folder}")
    if message:
        warnings.warn(message, _errors.StorebenchWarning, stacklevel=3)
    return found


def folder(run: Run | Folder) -> str:
    """The folder of a run."""
    if isinstance(run, Run):
        if run.folder is None:
            raise _errors.of(2, "this run was not saved")
        return str(run.folder)
    return os.fspath(run)


def store_words(stores: Stores | None) -> Option:
    """Stores as the option ``--store``."""
    if stores is None or isinstance(stores, str):
        return stores
    if isinstance(stores, Mapping):
        return [f"{name}={url}" for name, url in stores.items()]
    return list(stores)


__all__ = ["Study", "bench", "compare", "copy", "merge", "open_run", "plan", "run", "verify"]
