"""Documents of stores and files as streams, and copies by tasks."""

from __future__ import annotations

import concurrent.futures
import json
import pathlib
import time
from collections.abc import Callable
from typing import Any, cast

import duckdb
import polars
import pytest
import storebench
from storebench import _call, _stores, _verbs
from test_stores import Store


def books(count: int) -> list[dict[str, Any]]:
    """Writes documents. One of a hundred has a field that the others do not have."""
    all = [{"_id": f"b/{n:05}", "title": f"t{n}", "year": n % 90, "tags": ["x"] * (n % 3)} for n in range(count)]
    for n in range(0, count, 100):
        all[n]["rare"] = {"deep": True}
    pathlib.Path("books.jsonl").write_text("".join(json.dumps(book) + "\n" for book in all))
    return all


def test_documents_of_files_and_stores_are_read(here: pathlib.Path) -> None:
    written = books(3_000)
    storebench.copy("books.jsonl", "sqlite:books.db", progress=False)
    for source in ("books.jsonl", "sqlite:books.db"):
        rows = sorted(storebench.read(source, workers=3), key=lambda row: str(row["key"]))
        assert [{"_id": row["key"], **json.loads(row["document"])} for row in rows] == written
        frame = polars.DataFrame(storebench.read(source))
        assert frame.columns == ["key", "document"] and frame.height == 3_000
    (row,) = storebench.read("books.jsonl", binary=True, filter='._id == "b/00001"')
    assert json.loads(row["document"])["title"] == "t1"


def test_fields_become_columns_and_none_vanishes(here: pathlib.Path) -> None:
    written = books(500)
    stream = storebench.read("books.jsonl", columns=True)
    found = duckdb.sql("select count(*), sum(year), count(rare) from stream")
    assert found is not None and found.fetchall() == [(500, sum(n % 90 for n in range(500)), 5)]
    # From a sample that has not seen the rare field.
    rows = {row["_id"]: row for row in storebench.read("books.jsonl", columns=True, infer="1", workers=1)}
    assert {"title", "year", "tags"} <= set(rows["b/00007"])
    (pathlib.Path("few.jsonl")).write_text('{"_id": "a", "x": 1}\n{"_id": "b", "x": "text", "y": null}\n')
    few = {row["_id"]: row for row in storebench.read("few.jsonl", columns=True, infer="1")}
    assert few["a"] == {"_id": "a", "x": 1, "y": None, "_more": None}
    assert few["b"] == {"_id": "b", "x": None, "y": None, "_more": '{"x":"text","y":null}'}
    assert len(rows) == len(written)


def test_what_cannot_be_read_is_an_error() -> None:
    with pytest.raises(storebench.BadInput, match="cannot be read"):
        storebench.read("nothing.jsonl")
    for name in ("no_such", "rate_docs", "verify"):
        # What would be ignored is refused.
        with pytest.raises(storebench.BadInput, match=f"unknown option `{name}`; expected one of"):
            storebench.read("nothing.jsonl", None, **cast(Any, {name: 1}))
    with pytest.raises(storebench.Unreachable):
        list(storebench.read("redis://127.0.0.1:1/", "books", tries=1))
    pathlib.Path("bad.jsonl").write_text('{"_id": "a"}\n[1]\n')
    with pytest.raises(storebench.DataLost, match="^bad.jsonl, line 2: it is a list"):
        list(storebench.read("bad.jsonl"))
    stream = storebench.read("bad.jsonl")
    with pytest.raises(polars.exceptions.ComputeError, match="line 2"):
        polars.DataFrame(stream)


def test_a_stream_that_is_not_read_to_its_end_stops(here: pathlib.Path) -> None:
    books(20_000)
    def readers() -> int:
        names = (path / "comm" for path in pathlib.Path("/proc/self/task").iterdir())
        return sum(name.read_text().startswith("read-") for name in names if name.exists())

    stream = storebench.read("books.jsonl", workers=2)
    next(stream)
    del stream
    until = time.monotonic() + 10
    while readers() and time.monotonic() < until:
        time.sleep(0.01)
    assert readers() == 0


class Threads:
    """Runs tasks on threads, as another engine would on machines: each one twice, and some fail before."""

    at_once = 3
    may_repeat = False

    def __init__(self, words: list[str]) -> None:
        self.words, self.jobs = words, 0
        self.between: Callable[[], Any] = list

    def run(self, tasks: list[str], done: Callable[[str], None], stopping: Callable[[], bool]) -> None:
        self.jobs += 1
        if self.jobs == 2:
            self.between()
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            for report in pool.map(lambda task: _call.perform(self.words, task), [*tasks, *tasks]):
                done(report)


def by_tasks(words: list[str], between: Callable[[], Any] = lambda: None) -> dict[str, Any]:
    """A copy whose parts :class:`Threads` runs."""
    tasks = Threads(words)
    tasks.between = between
    return _verbs.copied(_call.call([*words, "--json"], False, tasks=tasks), {})


def test_tasks_copy_verify_and_copy_again_what_differs() -> None:
    class Target(Store):
        pass

    written = {book["_id"]: {name: book[name] for name in book if name != "_id"} for book in books(30_000)}
    words = ["copy", str(pathlib.Path("books.jsonl").absolute()), _stores.url_of(Target), "--verify", "--op", "insert"]
    words += ["--workers", "4"]

    def lose() -> None:
        del Target.data["books"]["b/00007"]

    with pytest.raises(storebench.DataLost, match="b/00007 is missing; the same call with resume=True") as caught:
        by_tasks(words, lose)
    report = caught.value.report
    assert report is not None and report["counts"]["written"] == 30_000
    assert report["verified"]["differing"] == [{"key": "b/00007", "what": "is missing"}]
    assert report["splits"] > 1 and report["splits_to_repeat"] == 1
    again = by_tasks([*words, "--resume"])
    assert again["verified"]["equal"] and 0 < again["before"]["written"] < 30_000
    assert {key: json.loads(document) for key, document in Target.data["books"].items()} == written


def test_tasks_write_into_one_folder() -> None:
    written = books(20_000)
    out = pathlib.Path("out").absolute()
    report = by_tasks(["copy", str(pathlib.Path("books.jsonl").absolute()), f"{out}/", "--verify", "--workers", "4"])
    assert report["verified"]["equal"] and report["splits"] > 1
    found = [json.loads(line) for path in sorted(out.iterdir()) for line in path.read_text().splitlines()]
    assert sorted(found, key=lambda book: str(book["_id"])) == written


def test_tasks_refuse_what_they_could_do_twice_or_not_reach() -> None:
    books(10)
    source = str(pathlib.Path("books.jsonl").absolute())
    for words, why in [
        ([source, "sqlite:books.db"], "embedded store"),
        ([source, "-"], "standard output"),
        (["-", "out.jsonl"], "standard input"),
    ]:
        with pytest.raises(storebench.BadInput, match=why):
            by_tasks(["copy", *words])

    class Target(Store):
        pass

    with pytest.raises(storebench.BadInput, match="`counter` must not be applied twice"):
        by_tasks(["copy", source, _stores.url_of(Target), "--op", "counter", "--value", "year"])
