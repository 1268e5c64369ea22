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
from ._stores import OneStore, url_of, urls_of, words_of
from ._studies import Study, as_file, overrides_of

Folder = str | os.PathLike[str]
"""A run: its folder, or the path of its ``run.json``."""

Side = Run | Folder | Sequence[Run | Folder]
"""One side of a comparison: a run, or several runs of the same study."""

Stores = OneStore | Sequence[OneStore] | Mapping[str, OneStore]
"""Stores: one, several, or a mapping of names to stores. Each is a URL or a class (``docs/python-stores.md``)."""


def bench(url: OneStore, *, progress: bool | None = None, **options: Option) -> Run:
    """Measures one store without a study file.

    Args:
        url: The URL of the store, such as ``sqlite:bench.db``, or a class (``docs/python-stores.md``).
        progress: Whether to show progress. By default, shows it in a notebook and on a terminal.
        **options: The options of ``storebench bench --help``: ``docs=100_000``, ``duration="30s"``, ``rate=5_000``,
            ``in_flight=8``, ``mix="read=95,update=5"``, ``from_="documents.jsonl"``, …

    Raises:
        BadInput: An option is invalid, or the store contains other data. Nothing was started.
        Unreachable: The store does not answer.
        DataLost: Nothing could be measured.

    If a run is invalid or lost data, the function returns it and issues a :class:`StorebenchWarning`.
    """
    return measured(["bench", url_of(url), *_call.arguments(options)], progress)


def run(
    study: Study, stores: Stores | None = None, *, progress: bool | None = None, set: Iterable[str] = (), **options: Option
) -> Run:
    """Runs a study.

    Args:
        study: A path, the name of a built-in study, TOML text, or a dictionary.
        stores: Stores to measure instead of those in the study.
        progress: Whether to show progress. By default, shows it in a notebook and on a terminal.
        set: Overrides such as ``"phases.mixed.rate=500"``.
        **options: The options of ``storebench run --help``: ``preset="laptop"``, ``scale=0.1``, ``out="runs"``, …

    Raises:
        BadInput: The study or an option is invalid, or a store contains other data. Nothing was started.
        Unreachable: A store does not answer.
        DataLost: Nothing could be measured.
    """
    with as_file(study) as file:
        words = ["run", file, *_call.arguments({"store": words_of(stores), "set": overrides_of(set), **options})]
        return measured(words, progress)


def copy(source: OneStore, target: OneStore, *, progress: bool | None = None, **options: Option) -> dict[str, Any]:
    """Copies documents between files and stores in parallel. Can resume and verify a copy.

    Args:
        source: A file, a file pattern, or a store.
        target: A file, a folder, or a store.
        progress: Whether to show progress. By default, shows it in a notebook and on a terminal.
        **options: The options of ``storebench copy --help``: ``key="{id}"``, ``verify=True``, ``resume=True``, …

    Returns:
        The report of the copy. Its ``counts`` count documents: ``read``, ``written``, ``rejected`` and more. With
        ``dry_run=True``, a dictionary whose ``dry_run`` describes the planned copy as text.

    Raises:
        BadInput: An option is invalid, or the copy would change existing data. Nothing was started.
        DataLost: Documents were rejected or damaged, or verification found a difference. See its ``report``.
        Unreachable: The source or the target does not answer.
        KeyboardInterrupt: The copy was interrupted. The same call with ``resume=True`` continues it.
    """
    return copied(_call.call(["copy", *urls_of([source, target]), "--json", *_call.arguments(options)], progress), options)


def copied(done: _call.Done, options: Mapping[str, Option]) -> dict[str, Any]:
    """Returns the report of a copy. Raises an error if documents are missing."""
    if done.interrupted or done.code == 130:
        raise KeyboardInterrupt("the copy was interrupted; the same call with resume=True continues it")
    printed = done.printed(keeps=(0, 1))
    if options.get("dry_run"):
        return {"dry_run": printed}
    report: dict[str, Any] = json.loads(printed)
    if done.code != 0:
        said = done.message or why(report)
        error = _errors.of(done.code, said)
        error.report = report
        raise error
    return report


def why(report: Mapping[str, Any]) -> str:
    """Says why a copy did not succeed."""
    counts, verified = report["counts"], report["verified"]
    said = [f"{counts['read']} documents read, {counts['written']} written, {counts['rejected']} rejected"]
    said += [f"damaged: {damage['what']}" for damage in report["damaged"][:3]]
    if report["first_reject"]:
        said.append(f"first rejected record: {report['first_reject']}; all: {report['rejects']}")
    if verified is not None and not verified["equal"]:
        differing = ", ".join(f"{one['key']} {one['what']}" for one in verified["differing"][:5])
        said.append(f"verification found differences: {differing}")
    if report["splits_to_repeat"]:
        said.append(f"the same call with resume=True copies the {report['splits_to_repeat']} parts that differ again")
    return "; ".join(said)


def plan(study: Study, stores: Stores | None = None, **options: Option) -> dict[str, Any]:
    """Shows what a run would do, without accessing a store. For the options, see ``storebench plan --help``."""
    with as_file(study) as file:
        words = ["plan", file, "--json", *_call.arguments({"store": words_of(stores), **options})]
        printed: dict[str, Any] = json.loads(_call.call(words, False).printed())
    return printed


def verify(url: OneStore, study: Study, *, progress: bool | None = None, **options: Option) -> dict[str, Any]:
    """Reads back every document that a study loaded and compares it with the generated document.

    Returns:
        The report, even if documents are missing or wrong: see its ``collections``.
    """
    with as_file(study) as file:
        words = ["verify", url_of(url), file, "--json", *_call.arguments(options)]
        printed: dict[str, Any] = json.loads(_call.call(words, progress).printed(keeps=(0, 1)))
    return printed


def compare(a: Side, b: Side | None = None, **options: Option) -> dict[str, Any]:
    """Compares run ``b`` with run ``a``, or two lists of runs.

    Without ``b``, compares the configurations of ``a`` with its first one, or ``a`` with a baseline. Two single runs
    cannot show how much runs differ by themselves: pass several runs on each side.

    Args:
        **options: The options of ``storebench compare --help``: ``fail_on=["mixed.read.response.p99 > +10%"]``,
            ``baseline="main"``, …

    Returns:
        The comparison: ``docs/compare.md`` has its keys. ``gates`` holds the outcome of each gate.
    """
    runs = [side(a)] if b is None else [side(a), side(b)]
    words = ["compare", *runs, "--json", *_call.arguments(options)]
    printed: dict[str, Any] = json.loads(_call.call(words, False).printed(keeps=(0, 1, 4, 5)))
    return printed


def merge(*parts: Run | Folder, **options: Option) -> Run:
    """Merges the parts of a run; see ``docs/clusters.md``. For the options, see ``storebench merge --help``."""
    return measured(["merge", *map(folder, parts), *_call.arguments(options)], False)


def measured(words: Sequence[str], progress: bool | None) -> Run:
    """Runs a verb that prints a result, and returns the run."""
    done = _call.call([*words, "--json"], progress)
    if not done.out:
        done.printed()
    result: dict[str, Any] = json.loads(done.out)
    found = Run(result, exit_code=done.code)
    found.messages = done.messages
    if done.interrupted or done.code == 130:
        raise KeyboardInterrupt(f"the run was interrupted; what was measured is in {found.folder}")
    if done.message:
        warnings.warn(done.message, _errors.StorebenchWarning, stacklevel=3)
    return found


def side(runs: Side) -> str:
    """Returns the folders of one side of a comparison."""
    if isinstance(runs, (Run, str, os.PathLike)):
        return folder(runs)
    return ",".join(folder(run) for run in _errors.several("a run", runs, RUN)) or folder(None)


RUN = "a Run, its folder, the path of its run.json, or a list of these"


def folder(run: object) -> str:
    """Returns the folder of a run."""
    if isinstance(run, Run):
        if run.folder is None:
            raise _errors.of(2, "this run was not saved")
        return str(run.folder)
    return _errors.path("a run", run, RUN)


def conform(store: OneStore, *, progress: bool | None = None, **options: Option) -> dict[str, Any]:
    """Checks that a store does what Storebench relies on, with the conformance suite.

    **The checks create, write and drop** their own collections. They refuse a store that contains other data.

    Args:
        store: A URL or a class (``docs/python-stores.md``).
        progress: Whether to show progress. By default, shows it in a notebook and on a terminal.
        **options: The options of ``storebench conform --help``.

    Returns:
        The report: ``passed``, ``failed`` and ``not_supported`` count ``checks``, each with its ``check`` (name),
        ``outcome`` and ``why``.

    Raises:
        BadInput: The store contains other data, or its class lacks a method.
        DataLost: A check failed. The message lists the first ten failures; ``report`` has all.
        Unreachable: The store does not answer.
    """
    done = _call.call(["conform", url_of(store), "--json", *_call.arguments(options)], progress)
    report: dict[str, Any] = json.loads(done.printed(keeps=(0, 1)))
    if done.code != 0:
        failed = [f"{check['check']}: {check['why']}" for check in report["checks"] if check["outcome"] == "fail"]
        error = _errors.of(done.code, f"{len(failed)} checks failed:\n" + "\n".join(failed[:10]))
        error.report = report
        raise error
    return report


__all__ = ["Study", "bench", "compare", "conform", "copy", "merge", "open_run", "plan", "run", "verify"]
