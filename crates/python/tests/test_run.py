"""Runs as tables, histograms and HTML."""

from __future__ import annotations

import importlib.util
import pathlib

import duckdb
import polars
import pytest
import storebench


def test_no_test_has_pyarrow() -> None:
    assert importlib.util.find_spec("pyarrow") is None


def test_trials_are_rows_with_figures(short: storebench.Run) -> None:
    rows = short.trials().to_pylist()
    phase = [row for row in rows if row["response_p99_ns"] is not None]
    assert {row["op"] for row in phase} == {"read", "update"}
    assert sum(row["count"] for row in phase) == 4_000
    for row in phase:
        assert row["response_p50_ns"] <= row["response_p99_ns"] <= row["response_max_ns"]
        assert row["store"] == "memory" and row["failure"] is None


def test_polars_and_duckdb_take_tables(short: storebench.Run) -> None:
    frame = polars.DataFrame(short.intervals())
    assert {"trial", "phase", "op", "from_ns", "succeeded", "response_p99_ns"} <= set(frame.columns)
    measured = frame.filter(polars.col("op").is_in(["read", "update"]))
    assert measured["succeeded"].sum() == 4_000
    trials = short.trials()
    answer = duckdb.sql("select sum(count) from trials where response_p99_ns is not null")
    assert answer is not None and answer.fetchall() == [(4_000,)]
    # A table can be read again.
    assert len(polars.DataFrame(trials)) == len(trials) == len(trials.to_pylist())


def test_resources_have_a_time_axis(short: storebench.Run) -> None:
    rows = short.resources().to_pylist()
    assert len(rows) > 10 and all(row["rss_bytes"] > 0 for row in rows)
    with pytest.raises(storebench.BadInput, match="unknown table `nothing`; expected one of intervals"):
        short.table("nothing")


def test_histograms_have_every_operation(short: storebench.Run) -> None:
    phase = short.result["trials"][0]["phases"][-1]
    times = short.histogram("read", phase["name"])
    expected = phase["ops"]["read"]["response_ns"]
    assert len(times) == expected["count"]
    assert times.percentile(99) == expected["p99"] and times.max == expected["max"]
    assert times.mean == pytest.approx(expected["mean"], rel=1e-3)
    buckets = times.buckets().to_pylist()
    assert sum(bucket["count"] for bucket in buckets) == len(times)
    assert all(a["to_ns"] < b["from_ns"] for a, b in zip(buckets, buckets[1:]))
    service = short.histogram("read", phase["name"], "service", trial=1, configuration="memory")
    assert service.percentile(50) == phase["ops"]["read"]["service_ns"]["p50"]
    assert len(short.histogram("read", phase["name"], "failed")) == 0
    assert all(row["warm_up"] is False for row in short.trials().to_pylist())
    for wrong in ({"op": "write"}, {"phase": "nothing"}):
        with pytest.raises(storebench.BadInput):
            short.histogram(**{"op": "read", "phase": phase["name"], **wrong})
    with pytest.raises(ValueError, match="not a percentile"):
        times.percentile(101)


def test_a_run_says_what_it_found(short: storebench.Run) -> None:
    assert short.answer and short.trust
    names = {check.name for check in short.checks}
    assert {"too-short", "client-saturated"} <= names
    assert "storebench.Run" in repr(short)
    assert short.report().name == "report.html"


def test_a_notebook_shows_the_first_screen(short: storebench.Run) -> None:
    shown = short._repr_html_()
    assert short.answer.split(":")[0] in shown and "<svg" in shown
    # Nothing is loaded from the network.
    assert "http://" not in shown.replace("http://www.w3.org/", "") and "https://" not in shown


def test_a_moved_run_is_read_where_it_is(short: storebench.Run, here: pathlib.Path) -> None:
    assert short.folder is not None
    moved = here / "moved"
    moved.mkdir()
    for file in short.folder.iterdir():
        (moved / file.name).write_bytes(file.read_bytes())
    run = storebench.open_run(moved / "run.json")
    assert run.folder == moved and len(run.intervals()) == len(short.intervals())


STUDY = 'title = "x"\nstores = ["null:"]\n[collections.books]\ncount = 10_000\nsize = "100B"\n[[phases]]\nname = "load"\nload = ["books"]\n'


def test_documents_are_those_of_a_run(here: pathlib.Path) -> None:
    frame = polars.DataFrame(storebench.documents(STUDY, "books"))
    assert frame.columns == ["index", "key", "document"] and len(frame) == 10_000
    assert frame["key"].n_unique() == 10_000
    # Any part of them is the same.
    some = list(storebench.documents(STUDY, "books", 5_000, 5_003))
    assert [row["index"] for row in some] == [5_000, 5_001, 5_002]
    assert [row["document"] for row in some] == frame["document"][5_000:5_003].to_list()
    assert [row["document"] for row in storebench.documents(STUDY, "books", 0, 1, version=1)] != [frame["document"][0]]
    # Iterating and Arrow do not share one stream.
    begun = storebench.documents(STUDY, "books", 0, 10)
    next(begun)
    with pytest.raises(ValueError, match="have been read"):
        polars.DataFrame(begun)
    # What a run writes.
    storebench.run(STUDY, "sqlite:books.db", progress=False, quiet=True)
    storebench.copy("sqlite:books.db", "out.jsonl", progress=False)
    assert len((here / "out.jsonl").read_text().splitlines()) == 10_000
    assert storebench.verify("sqlite:books.db", STUDY, progress=False)["collections"][0]["wrong"] == 0


def test_documents_are_read_once_and_errors_say_why() -> None:
    stream = storebench.documents(STUDY, "books", 0, 10)
    assert len(polars.DataFrame(stream)) == 10
    with pytest.raises(ValueError, match="have been read"):
        polars.DataFrame(stream)
    with pytest.raises(storebench.BadInput, match="unknown collection `films`; the study has books"):
        storebench.documents(STUDY, "films")
    with pytest.raises(storebench.BadInput, match="it has 10000 documents"):
        storebench.documents(STUDY, "books", 0, 10_001)
    assert len(list(storebench.documents("first-look", next(iter(storebench.plan("first-look")["collections"]))["collection"], 0, 3))) == 3
