"""Copies whose parts Spark schedules."""

from __future__ import annotations

import json
import pathlib
import random
import threading
import time
from typing import Any

import pytest
import storebench
import storebench.spark
from conftest import Server, all_slots, books
from storebench.spark._copy import SparkTasks


def collection(prefix: str) -> str:
    """A name that no other test uses."""
    return f"{prefix}{random.randrange(10**9)}"


def stored(url: str, name: str) -> dict[str, Any]:
    """The documents of a collection."""
    return {row["key"]: json.loads(row["document"]) for row in storebench.read(url, name)}


def without_key(books: list[dict[str, Any]]) -> dict[str, Any]:
    return {book["_id"]: {name: value for name, value in book.items() if name != "_id"} for book in books}


def test_a_copy_arrives_is_verified_and_comes_back(spark: Any, redis: Server, here: pathlib.Path) -> None:
    all, name = books(here / "books.jsonl", 20_000), collection("books")
    report = storebench.spark.copy(spark, "books.jsonl", redis.url, to_collection=name, verify=True)
    assert (report["counts"]["written"], report["counts"]["rejected"]) == (20_000, 0)
    assert report["verified"]["equal"] and report["verified"]["found"] == 20_000
    assert stored(redis.url, name) == without_key(all)
    back = storebench.spark.copy(spark, redis.url, "back/", from_collection=name, verify=True)
    assert back["verified"]["equal"]
    found = [json.loads(line) for path in (here / "back").glob("part-*") for line in path.read_text().splitlines()]
    assert sorted(found, key=lambda book: book["_id"]) == all
    assert not list((here / "back").glob(".storebench-*")), "nothing else is left"
    assert not list(here.glob("storebench-runs/*/log.jsonl")), "both copies are finished"


def test_columns_and_rejects_reach_the_driver(spark: Any, postgres: Server, here: pathlib.Path) -> None:
    written = books(here / "books.jsonl", 5_000)
    report = storebench.spark.copy(spark, "books.jsonl", "books.parquet", verify=True)
    assert report["verified"]["equal"]
    with (here / "books.jsonl").open("a") as file:
        file.write('{"title": "no key"}\n[1]\n')
    name = collection("books")
    with pytest.raises(storebench.DataLost, match="2 rejected") as caught:
        storebench.spark.copy(spark, "books.jsonl", postgres.url, to_collection=name)
    assert caught.value.report is not None
    lines = pathlib.Path(caught.value.report["rejects"]).read_text().splitlines()
    assert sorted(json.loads(line)["why"][:7] for line in lines) == ["it is a", "the key"], lines
    assert len(stored(postgres.url, name)) == len(written)


def test_what_differs_is_named_and_only_that_is_copied_again(
    spark: Any, redis: Server, here: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, name = without_key(books(here / "books.jsonl", 20_000)), collection("books")
    (here / "gone.jsonl").write_text('{"_id": "b/000007"}\n')
    jobs = 0

    class Loses(SparkTasks):
        """Loses a document between the job that copies and the job that reads back."""

        def run(self, tasks: list[str], done: Any, stopping: Any) -> None:
            nonlocal jobs
            jobs += 1
            if jobs == 2:
                storebench.copy("gone.jsonl", redis.url, to_collection=name, op="delete", out="other", progress=False)
            super().run(tasks, done, stopping)

    monkeypatch.setattr("storebench.spark._copy.SparkTasks", Loses)
    words: dict[str, Any] = {"to_collection": name, "verify": True, "workers": 8}
    with pytest.raises(storebench.DataLost) as caught:
        storebench.spark.copy(spark, "books.jsonl", redis.url, **words)
    report = caught.value.report
    assert report is not None and report["splits"] > 1
    assert report["verified"]["differing"] == [{"key": "b/000007", "what": "is missing"}]
    assert report["splits_to_repeat"] == 1
    again = storebench.spark.copy(spark, "books.jsonl", redis.url, resume=True, **words)
    assert again["verified"]["equal"] and again["counts"]["written"] == 20_000
    assert 0 < again["before"]["written"] < 20_000, "only one part was copied again"
    assert stored(redis.url, name) == expected


def test_operations_that_must_not_be_repeated_are_refused(spark: Any, redis: Server, here: pathlib.Path) -> None:
    (here / "counts.jsonl").write_text("".join(f'{{"_id": "c{n}", "n": {n}}}\n' for n in range(100)))
    words: dict[str, Any] = {"to_collection": collection("counts"), "op": "counter", "value": "n"}
    with pytest.raises(storebench.BadInput, match="must not be applied twice"):
        storebench.spark.copy(spark, "counts.jsonl", redis.url, **words)
    report = storebench.spark.copy(spark, "counts.jsonl", redis.url, allow_repeats=True, **words)
    assert report["counts"]["written"] == 100


def test_workers_that_cannot_see_the_source_or_write_the_target(spark: Any, here: pathlib.Path) -> None:
    books(here / "books.jsonl", 100)
    with pytest.raises(storebench.BadInput, match="embedded store"):
        storebench.spark.copy(spark, "books.jsonl", "sqlite:books.db")
    with pytest.raises(storebench.Unreachable):
        storebench.spark.copy(spark, "books.jsonl", "redis://127.0.0.1:1/", to_collection="b", tries=1)


@pytest.mark.parametrize("seed", range(5))
def test_a_killed_worker_loses_nothing_and_repeats_nothing(
    spark: Any, cluster: Server, postgres: Server, here: pathlib.Path, seed: int
) -> None:
    all_slots(spark)
    count = 80_000
    all, name = books(here / "books.jsonl", count), collection("books")
    moment = random.Random(seed).uniform(0.5, 4)

    def begun() -> bool:
        try:
            return next(iter(storebench.read(postgres.url, name)), None) is not None
        except storebench.StorebenchError:
            return False

    def kill() -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until and not begun():
            time.sleep(0.05)
        time.sleep(moment)
        cluster.stop("--kill", "--only", "worker-1")

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        report = storebench.spark.copy(
            spark,
            "books.jsonl",
            postgres.url,
            to_collection=name,
            verify=True,
            op="insert",
            # Slow enough that a killed task has written a part of its documents.
            rate_docs=20_000,
        )
    finally:
        killer.join()
        cluster.start()
    counts = report["counts"]
    print(f"seed {seed}: killed {moment:.2f} s after the first document arrived; {counts}; {report['seconds']:.1f} s")
    assert report["verified"]["equal"] and report["verified"]["found"] == count
    assert (counts["read"], counts["written"], counts["rejected"]) == (count, count, 0)
    assert stored(postgres.url, name) == without_key(all)
