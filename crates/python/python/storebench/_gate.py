"""Gates: conditions that a run's figures must meet, such as ``read.response.p99 < 5ms``."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any, Literal

from . import _errors
from ._run import Run

UNITS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "": 1.0, "k": 1e3, "M": 1e6, "%": 0.01}
"""The factor of each unit: times in ns, counts and fractions."""

CONDITION = re.compile(r"\s*(?P<path>[^\s<>]+)\s*(?P<sign>[<>])\s*(?P<number>\d[\d_]*(\.\d+)?)\s*(?P<unit>[^\s\d.]*)\s*$")


class GateFailed(_errors.StorebenchError, AssertionError):
    """A figure does not meet its condition: its whole interval is beyond the limit."""


class GateUndecided(_errors.StorebenchError, AssertionError):
    """No figure fails its condition, but the limit is inside the interval of one, or it has no interval."""

    code = 5


MOST_ROUNDS = 1_000
"""No study is asked for more rounds than this."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """Why a gate does not pass."""

    failed: bool
    """True if it failed; False if it is undecided."""
    text: str
    """The figure, the limit, and what would decide it."""


@dataclasses.dataclass(frozen=True)
class Condition:
    """A condition on figures."""

    text: str
    """The condition as the user wrote it."""
    path: str
    """``[PHASE.][OP.]MEASURE``. Selects the figures in ``configurations[].figures`` whose names end with it."""
    below: bool
    """True if the figure must be below the limit; False if it must be above."""
    limit: float
    """The limit, in ns for a time and per second for a rate."""

    @classmethod
    def of(cls, text: str) -> Condition:
        """Parses a condition such as ``read.response.p99 < 5ms`` or ``throughput > 10k``.

        Raises:
            BadInput: The text is not a condition.
        """
        found = CONDITION.match(text)
        if found is None or found["unit"] not in UNITS:
            raise _errors.of(
                2, f"`{text}` is not a condition; write the figure, < or >, and a limit, such as read.response.p99 < 5ms"
            )
        limit = float(found["number"].replace("_", "")) * UNITS[found["unit"]]
        return cls(text.strip(), found["path"], found["sign"] == "<", limit)

    def problem(self, name: str, of: dict[str, Any], trials: int) -> Problem | None:
        """Returns why a figure over this many trials does not pass; None if its whole interval meets the condition."""
        figure = of["figure"]
        if of.get("none_in") or figure["trials"] < trials:
            return Problem(False, f"{name} has no figure in some of {trials} trials")
        if of.get("at_least") and self.below:
            return Problem(False, f"{name} is only a lower bound")
        value, low, high = (figure.get(key) for key in ("value", "low", "high"))
        if low is None or high is None:
            why = "a single trial has no interval; use repeats" if trials == 1 else "it has no interval; use more rounds"
            return Problem(False, f"{name} is {number(value)}, the limit is {number(self.limit)}, but {why}")
        shown = f"{name} is {number(value)} [{number(low)}, {number(high)}], the limit is {number(self.limit)}"
        if high < self.limit if self.below else low > self.limit:
            return None
        if low >= self.limit if self.below else high <= self.limit:
            return Problem(True, shown)
        return Problem(False, f"{shown}: {what_decides(value, low, high, self.limit, trials)}")


def what_decides(value: float, low: float, high: float, limit: float, rounds: int) -> str:
    """Says about how many rounds would move the limit out of the interval, if the figure stays as it is."""
    distance, half = abs(math.log(value / limit)), math.log(high / low) / 2
    # An interval narrows with the square root of the rounds.
    needed = math.inf if distance == 0 else rounds * (half / distance) ** 2
    if needed > MOST_ROUNDS:
        return f"the limit is so near to the figure that {MOST_ROUNDS:,} rounds would not decide it"
    return f"the limit is inside the interval; about {max(math.ceil(needed), rounds + 1)} rounds would decide it"


def number(value: float) -> str:
    """Formats a figure with its significant digits."""
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}"


def names(run: Run, configuration: str, figure: str) -> list[str]:
    """Returns the names of a figure. In a phase with one operation, the name may also include the operation."""
    known = [figure]
    for trial in run.result["trials"]:
        if (trial.get("configuration") or trial["store"]) != configuration:
            continue
        for phase in trial["phases"]:
            if figure.startswith(phase["name"] + ".") and len(phase["ops"]) == 1 and not phase["warm_up"]:
                known.append(f"{phase['name']}.{next(iter(phase['ops']))}{figure[len(phase['name']):]}")
    return known


def gate(run: Run, *conditions: str, undecided: Literal["fail", "pass"] = "fail") -> Run:
    """Checks that a run is valid and that its figures meet all conditions. Returns the run.

    As with ``storebench compare --fail-on``, a gate passes if the whole interval of a figure meets the condition, fails
    if none of it does, and is undecided otherwise, as with a single trial, which has no interval.

    Args:
        conditions: ``[PHASE.][OP.]MEASURE < LIMIT`` or ``> LIMIT``, such as ``read.response.p99 < 5ms`` or
            ``mixed.throughput > 10k``. Every figure with a matching name must meet it, in every configuration.
        undecided: ``"pass"`` accepts gates that are undecided.

    Raises:
        GateFailed: A figure does not meet a condition.
        GateUndecided: A gate is undecided. The message says what would decide it.
        InvalidMeasurement: The run is invalid or incomplete, so its figures do not measure the store.
        BadInput: A condition is invalid, or no figure matches it.
    """
    if not isinstance(run, Run):
        raise _errors.not_expected("run", "a Run, such as that of open_run(PATH)", run)
    if undecided not in ("fail", "pass"):
        raise _errors.not_expected("undecided", '"fail" or "pass"', undecided)
    wanted = [Condition.of(_errors.text("a condition", text)) for text in conditions]
    invalid = [check for check in run.checks if check.severity == "invalid"]
    if invalid:
        said = "; ".join(f"{check.name}: {check.observed}" for check in invalid[:3])
        raise _errors.of(4, f"the run is invalid, so no gate can pass: {said} ({run.folder})")
    if run.missing:
        raise _errors.of(4, f"{run.missing}, so no gate can pass ({run.folder})")
    problems = [problem for condition in wanted for problem in problems_of(run, condition)]
    failed = any(problem.failed for problem in problems)
    if failed or (problems and undecided == "fail"):
        told = "\n".join(f"{'failed' if problem.failed else 'undecided'}: {problem.text}" for problem in problems)
        raise (GateFailed if failed else GateUndecided)(f"{told}\n({run.folder})")
    return run


def problems_of(run: Run, condition: Condition) -> list[Problem]:
    """Returns where a condition is not met or undecided, in all configurations."""
    problems: list[Problem] = []
    lacking: list[str] = []
    configurations = run.result["configurations"]
    for one in configurations:
        found = [
            (name, figure)
            for name, figure in one["figures"].items()
            if any(
                known == condition.path or known.endswith("." + condition.path)
                for known in names(run, one["configuration"], name)
            )
        ]
        if not found:
            lacking.append(one["configuration"])
        told = (condition.problem(name, figure, one["trials"] + one["failed"]) for name, figure in found)
        where = f"{condition.text}: {one['configuration']}: "
        problems.extend(Problem(problem.failed, where + problem.text) for problem in told if problem)
    if len(lacking) == len(configurations):
        known = sorted({name for one in configurations for name in one["figures"]})
        raise _errors.of(2, f"`{condition.text}`: the run has no such figure; it has {', '.join(known)}")
    return problems + [Problem(False, f"{condition.text}: {name} has no such figure") for name in lacking]
