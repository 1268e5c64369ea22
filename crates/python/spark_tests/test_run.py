"""Runs with several generators."""

from __future__ import annotations

import os
import pathlib
import signal
import threading
import time
import warnings
from typing import Any

import pytest
import storebench
import storebench.spark
from conftest import Server, all_slots

STUDY: dict[str, Any] = {
    "title": "Books",
    "seed": 7,
    "collections": {"books": {"count": 40_000, "size": "200B", "key": "b/{index}"}},
    "phases": [
        {"name": "load", "load": ["books"], "batch": 100, "workers": 4},
        {"name": "mixed", "mix": {"read": 3, "update": 1}, "rate": 2_000, "duration": "3s", "workers": 4},
    ],
}


def quietly(run: Any, *words: Any, **options: Any) -> storebench.Run:
    """A short run on a busy machine may be invalid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", storebench.StorebenchWarning)
        done: storebench.Run = run(*words, **options)
        return done


def test_four_generators_make_one_run(spark: Any, redis: Server) -> None:
    all_slots(spark)
    run = quietly(storebench.spark.run, spark, STUDY, 4, f"{redis.url}/1", keep=False)
    generators = run.generators().to_pylist()
    print(generators)
    assert {row["part"] for row in generators} == {1, 2, 3, 4}
    phases = {phase["name"]: phase for phase in run.result["trials"][0]["phases"]}
    loaded = sum(op["documents"] for op in phases["load"]["ops"].values())
    assert loaded == 40_000
    for name in phases:
        of = [row for row in generators if row["phase"] == name]
        spread_ms = max(row["began_after_ns"] for row in of) / 1e6
        print(f"{name}: start spread {spread_ms:.1f} ms")
        assert spread_ms < 50
        attempts = sum(op["count"] for op in phases[name]["ops"].values())
        assert attempts == sum(row["operations"] for row in of), "the merged run is the sum of its parts"
    assert storebench.verify(f"{redis.url}/1", STUDY, progress=False)["collections"]


def test_more_generators_than_slots_fail_at_once_with_advice(spark: Any, redis: Server) -> None:
    all_slots(spark)
    began = time.monotonic()
    with pytest.raises(storebench.BadInput, match="5 slots, but Spark has 4.*maxConcurrentTasksCheck"):
        storebench.spark.run(spark, STUDY, 5, f"{redis.url}/1")
    assert time.monotonic() - began < 10


def test_a_generator_that_fails_ends_the_others(spark: Any) -> None:
    with pytest.raises(storebench.Unreachable):
        storebench.spark.run(spark, STUDY, 2, "redis://127.0.0.1:1/")


def test_a_lost_generator_makes_the_run_partial(spark: Any, redis: Server, here: pathlib.Path) -> None:
    all_slots(spark)
    longer = {**STUDY, "phases": [STUDY["phases"][0], {**STUDY["phases"][1], "duration": "20s"}]}

    def kill() -> None:
        # A Python worker that runs a generator has joined the shared folder.
        until = time.monotonic() + 60
        while time.monotonic() < until and not list((here / "shared").glob("*/*/part.jsonl.gz")):
            time.sleep(0.1)
        # All are in the second phase.
        time.sleep(6)
        victims = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if generates(pid)]
        print(victims)
        os.kill(victims[0], signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    run = quietly(storebench.spark.run, spark, longer, 4, f"{redis.url}/1", shared="shared", progress=False)
    killer.join()
    assert not run.valid and any(check.name == "parts-incomplete" for check in run.checks), run.checks
    assert any("lost" in message for message in run.messages)


def generates(pid: int) -> bool:
    """Whether a process is a Python worker of Spark with threads of the engine."""
    try:
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        names = [path.read_text() for path in pathlib.Path(f"/proc/{pid}/task").glob("*/comm")]
    except OSError:
        return False
    return b"pyspark.daemon" in words and any("storebench" in name or "worker" in name for name in names)
