"""Runs with several generators."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import socket
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import storebench
import storebench.spark
from conftest import PASSWORD, Server, all_slots

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


def test_after_a_lost_executor_nobody_sends_and_what_others_measured_is_kept(
    spark: Any, redis: Server, here: pathlib.Path
) -> None:
    all_slots(spark)
    longer = {**STUDY, "phases": [STUDY["phases"][0], {**STUDY["phases"][1], "duration": "40s"}]}

    killer = threading.Thread(target=kill_executor, args=[lambda: len(mixing(here)) == 4], daemon=True)
    killer.start()
    run = quietly(storebench.spark.run, spark, longer, 4, f"{redis.url}/1", shared="shared", progress=False)
    assert sent_in_5_s(redis) < 10, "somebody sends after the call has returned"
    killer.join()
    (check,) = [check for check in run.checks if check.name == "parts-incomplete"]
    parts = {part["part"]: part.get("incomplete") for part in run.result["run"]["parts"]["merged"]}
    print(check.observed, run.messages)
    assert sorted(parts.values()) == ["it ended before its run did"] * 2 + ["it was interrupted"] * 2
    mixed = [row for row in run.generators().to_pylist() if row["phase"] == "mixed"]
    assert {row["part"] for row in mixed} == {part for part, why in parts.items() if why == "it was interrupted"}
    # Of five seconds at a quarter of 2,000/s.
    assert all(row["operations"] > 1_000 for row in mixed), mixed


def test_without_a_shared_folder_nobody_sends_after_a_lost_executor(spark: Any, redis: Server) -> None:
    all_slots(spark)
    longer = {**STUDY, "phases": [STUDY["phases"][0], {**STUDY["phases"][1], "duration": "40s"}]}
    killer = threading.Thread(target=kill_executor, args=[lambda: all(sent_in_5_s(redis) > 5_000 for _ in range(2))], daemon=True)
    killer.start()
    with pytest.raises(storebench.DataLost, match="lost a generator"):
        quietly(storebench.spark.run, spark, longer, 4, f"{redis.url}/1", progress=False)
    assert sent_in_5_s(redis) < 10, "somebody sends after the call has returned"
    killer.join()


def kill_executor(moment: Callable[[], bool]) -> None:
    """Kills an executor with its generators, some seconds after this moment."""
    until = time.monotonic() + 300
    while time.monotonic() < until and not moment():
        time.sleep(0.1)
    time.sleep(5)
    (executor, *_) = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if executes(pid)]
    os.kill(executor, signal.SIGKILL)


def mixing(here: pathlib.Path) -> list[pathlib.Path]:
    """The parts in the second phase."""
    found = (here / "shared").glob("*/*/events.jsonl.part")
    return [path for path in found if '"phase":"mixed"' in path.read_text(errors="replace")]


def executes(pid: int) -> bool:
    """Whether a process is an executor of Spark."""
    try:
        return b"CoarseGrainedExecutorBackend" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def commands(redis: Server) -> int:
    """The number of commands that the server has processed."""
    with socket.create_connection(("127.0.0.1", redis.port)) as connection:
        connection.sendall(f"AUTH {PASSWORD}\r\nINFO stats\r\nQUIT\r\n".encode())
        said = connection.makefile().read()
    return int(re.search(r"total_commands_processed:(\d+)", said)[1])  # type: ignore[index]


def sent_in_5_s(redis: Server) -> int:
    """What it processes in five seconds. The questions are commands, too."""
    before = commands(redis)
    time.sleep(5)
    return commands(redis) - before


def generates(pid: int) -> bool:
    """Whether a process is a Python worker of Spark with threads of the engine."""
    try:
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        names = [path.read_text() for path in pathlib.Path(f"/proc/{pid}/task").glob("*/comm")]
    except OSError:
        return False
    return b"pyspark.daemon" in words and any("storebench" in name or "worker" in name for name in names)
