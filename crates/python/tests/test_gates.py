"""Gates, and the pytest plugin that fails a build for the right reason."""

from __future__ import annotations

import copy
import pathlib
import subprocess
import sys
from typing import Any

import pytest
import storebench


def calm(run: storebench.Run, **figures: dict[str, Any]) -> storebench.Run:
    """The run as on a machine that is not busy, with these figures."""
    result = copy.deepcopy(run.result)
    for check in result["checks"]:
        check["severity"] = "pass"
    for name, figure in figures.items():
        result["configurations"][0]["figures"][name.replace("__", ".")]["figure"].update(figure)
    return storebench.Run(result)


def test_a_gate_passes_fails_or_is_undecided_by_its_figures(short: storebench.Run) -> None:
    run = calm(
        short,
        bench__read__response__p99={"value": 2e6, "low": 1.9e6, "high": 2.1e6},
        bench__read__throughput={"value": 1e3, "low": 990.0, "high": 1010.0},
    )
    assert storebench.gate(run, "read.response.p99 < 5ms", "bench.read.response.p99 > 1ms") is run
    with pytest.raises(storebench.GateFailed, match=r"failed: .*read.response.p99 is 2,000,000 \[1,900,000, 2,100,000\], the limit is 1,000,000"):
        storebench.gate(run, "read.response.p99 < 1ms")
    # The whole interval has to meet it.
    wide = calm(short, bench__read__response__p99={"value": 2e6, "low": 1e6, "high": 6e6})
    said = r"undecided: .*the limit is 5,000,000: the limit is inside the interval; about 2 rounds would decide it"
    with pytest.raises(storebench.GateUndecided, match=said) as caught:
        storebench.gate(wide, "read.response.p99 < 5ms")
    assert caught.value.code == 5
    assert storebench.gate(wide, "read.response.p99 < 5ms", undecided="pass") is wide
    with pytest.raises(storebench.GateUndecided, match="1,000 rounds would not decide it"):
        storebench.gate(wide, "read.response.p99 < 2ms")
    # One that fails is not undecided, whatever the others are.
    with pytest.raises(storebench.GateFailed, match="undecided: .*\nfailed: "):
        storebench.gate(wide, "read.response.p99 < 5ms", "read.response.p99 < 0.5ms", undecided="pass")
    # A single trial saw no noise.
    one = calm(short, bench__read__response__p99={"value": 2e6, "low": None, "high": None})
    with pytest.raises(storebench.GateUndecided, match="a single trial has no interval; use repeats"):
        storebench.gate(one, "read.response.p99 < 5ms")
    with pytest.raises(AssertionError, match="memory: bench.read.throughput"):
        storebench.gate(run, "read.throughput > 10M")


def test_an_invalid_run_passes_no_gate(short: storebench.Run) -> None:
    run = calm(short)
    run.result["checks"][0].update(severity="invalid", check="send-delay", observed="far too late")
    with pytest.raises(storebench.InvalidMeasurement, match="send-delay: far too late"):
        storebench.gate(run, "read.response.p99 < 1s")
    failed = calm(short)
    failed.result["trials"][0]["failure"] = {"kind": "failed", "during": "load", "message": "the disk is full"}
    with pytest.raises(storebench.InvalidMeasurement, match="in load: the disk is full"):
        storebench.gate(failed, "read.response.p99 < 1s")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"interrupted": True}, "interrupted"),
        ({"ended": None}, "has not ended, or it was killed"),
        ({"part": {"number": 1, "of": 2}}, "merge the parts first"),
    ],
)
def test_an_incomplete_run_passes_no_gate(short: storebench.Run, change: dict[str, Any], says: str) -> None:
    run = calm(short)
    run.result["run"].update(change)
    assert not run.valid and says in repr(run)
    with pytest.raises(storebench.InvalidMeasurement, match=says):
        storebench.gate(run, "read.response.p99 < 1min")


def test_trials_that_never_ran_or_ended_early_pass_no_gate(short: storebench.Run) -> None:
    fewer = calm(short)
    fewer.result["plan"]["trials"].append(fewer.result["plan"]["trials"][0])
    with pytest.raises(storebench.InvalidMeasurement, match="1 of 2 trials ran"):
        storebench.gate(fewer, "read.response.p99 < 1min")
    partial = calm(short)
    partial.result["trials"][0]["phases"][-1]["partial"] = "the connection was lost"
    with pytest.raises(storebench.InvalidMeasurement, match="phase bench ended early: the connection was lost"):
        storebench.gate(partial, "read.response.p99 < 1min")


def test_a_figure_that_is_missing_somewhere_passes_no_gate(short: storebench.Run) -> None:
    def refused(change: Any, says: str, condition: str = "read.response.p99 < 1min") -> None:
        run = calm(short)
        change(run.result["configurations"])
        with pytest.raises(storebench.GateUndecided, match=says):
            storebench.gate(run, condition)

    name = "bench.read.response.p99"
    # Another configuration was so slow that it has no p99.
    refused(
        lambda all: all.append({**all[0], "configuration": "slow", "figures": {"bench.throughput": all[0]["figures"]["bench.throughput"]}}),
        "slow has no such figure",
    )
    refused(lambda all: all[0].update(trials=3), "no figure in some of 3 trials")
    refused(lambda all: all[0]["figures"][name].update(none_in=[1]), "no figure in some of 1 trials")
    refused(lambda all: all[0]["figures"][name].update(at_least=True), "only a lower bound")


def test_a_gate_that_cannot_be_read_says_what_is_expected(short: storebench.Run) -> None:
    run = calm(short)
    for text in ("read.response.p99", "read.response.p99 < fast", "read.response.p99 < 5 parsecs", "< 5ms", "a b < 5ms"):
        with pytest.raises(storebench.BadInput, match="is not a condition"):
            storebench.gate(run, text)
    with pytest.raises(storebench.BadInput, match="the run has no such figure; it has bench.documents"):
        storebench.gate(run, "write.response.p99 < 5ms")


PROJECT = """
STUDY = '''
title = "Books"
stores = ["memory:"]
repeats = 3
[collections.books]
count = 100
size = "100B"
[[phases]]
name = "mixed"
mix = { upsert = 1 }
operations = 2000
'''

def test_quick_enough(storebench):
    run = storebench.gate(STUDY, "upsert.service.p50 < 10s")
    assert run.folder.is_dir()

def test_far_too_slow(storebench):
    storebench.gate(STUDY, "mixed.upsert.service.p50 < 1ns")
"""


def test_the_plugin_fails_a_build_for_the_right_reason(here: pathlib.Path) -> None:
    (here / "test_project.py").write_text(PROJECT)
    words = ["-m", "pytest", "-q", "-p", "storebench._pytest", "-p", "no:cacheprovider", "--storebench-out", "kept"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=here)
    assert done.returncode == 1 and "1 failed, 1 passed" in done.stdout, done.stdout
    assert "mixed.upsert.service.p50 < 1ns: memory: mixed.service.p50 is " in done.stdout
    assert "Traceback" not in done.stdout and "During handling" not in done.stdout
    assert len(list((here / "kept").iterdir())) == 2, "the runs are kept"
