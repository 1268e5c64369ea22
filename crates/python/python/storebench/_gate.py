"""Gates: conditions that a run's figures must meet, such as ``read.response.p99 < 5ms``."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from . import _errors
from ._run import Run

UNITS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "": 1.0, "k": 1e3, "M": 1e6, "%": 0.01}
"""The factor of each unit: times in ns, counts and fractions."""

CONDITION = re.compile(r"\s*(?P<path>[^\s<>]+)\s*(?P<sign>[<>])\s*(?P<number>\d[\d_]*(\.\d+)?)\s*(?P<unit>[^\s\d.]*)\s*$")


class GateFailed(_errors.StorebenchError, AssertionError):
    """A figure does not meet its condition, or the result is inconclusive."""


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

    def problem(self, name: str, of: dict[str, Any], trials: int) -> str | None:
        """Returns why a figure over this many trials fails the condition; None if its whole interval meets it."""
        figure = of["figure"]
        if of.get("none_in") or figure["trials"] < trials:
            return f"{name} has no figure in some of {trials} trials, so it cannot be judged"
        if of.get("at_least") and self.below:
            return f"{name} is only a lower bound, so it cannot be judged"
        if figure["trials"] > 1 and figure.get("low") is None:
            return f"{name} has no interval, so it cannot be judged; measure more rounds"
        value = float(figure["value"])
        low, high = (figure[end] if figure.get(end) is not None else value for end in ("low", "high"))
        shown = number(value) + ("" if low == high else f" [{number(low)}, {number(high)}]")
        if high < self.limit if self.below else low > self.limit:
            return None
        if low >= self.limit if self.below else high <= self.limit:
            return f"{name} is {shown}, the limit is {number(self.limit)}"
        return f"{name} is {shown}, which includes the limit {number(self.limit)}, so it cannot be judged; measure more rounds"


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


def gate(run: Run, *conditions: str) -> Run:
    """Checks that a run is valid and that its figures meet all conditions. Returns the run.

    Args:
        conditions: ``[PHASE.][OP.]MEASURE < LIMIT`` or ``> LIMIT``, such as ``read.response.p99 < 5ms`` or
            ``mixed.throughput > 10k``. Every figure with a matching name must meet it, in every configuration.

    Raises:
        GateFailed: A figure does not meet a condition, or the interval of a figure includes the limit.
        InvalidMeasurement: The run is invalid or incomplete, so its figures do not measure the store.
        BadInput: A condition is invalid, or no figure matches it.
    """
    wanted = [Condition.of(text) for text in conditions]
    invalid = [check for check in run.checks if check.severity == "invalid"]
    if invalid:
        said = "; ".join(f"{check.name}: {check.observed}" for check in invalid[:3])
        raise _errors.of(4, f"the run is invalid, so no gate can pass: {said} ({run.folder})")
    if run.missing:
        raise _errors.of(4, f"{run.missing}, so no gate can pass ({run.folder})")
    problems: list[str] = []
    for condition in wanted:
        problems.extend(f"{condition.text}: {problem}" for problem in broken(run, condition))
    if problems:
        raise GateFailed("\n".join(problems) + f"\n({run.folder})")
    return run


def broken(run: Run, condition: Condition) -> list[str]:
    """Returns every violation of a condition, in all configurations."""
    problems: list[str] = []
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
        problems.extend(f"{one['configuration']}: {problem}" for problem in told if problem)
    if len(lacking) == len(configurations):
        known = sorted({name for one in configurations for name in one["figures"]})
        raise _errors.of(2, f"`{condition.text}`: the run has no such figure; it has {', '.join(known)}")
    return problems + [f"{name} has no such figure, so it cannot be judged" for name in lacking]
