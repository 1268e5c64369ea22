"""Gates: conditions that the figures of a run must meet, such as ``read.response.p99 < 5ms``."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from . import _errors
from ._run import Run

UNITS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "": 1.0, "k": 1e3, "M": 1e6, "%": 0.01}
"""Units of values: times in ns, counts, shares."""

CONDITION = re.compile(r"\s*(?P<path>[^\s<>]+)\s*(?P<sign>[<>])\s*(?P<number>\d[\d_]*(\.\d+)?)\s*(?P<unit>[^\s\d.]*)\s*$")


class GateFailed(_errors.StorebenchError, AssertionError):
    """A figure does not meet its condition, or it cannot be said whether it does."""


@dataclasses.dataclass(frozen=True)
class Condition:
    """A condition on figures."""

    text: str
    """As it was written."""
    path: str
    """``[PHASE.][OP.]MEASURE``: the names of figures in ``configurations[].figures`` that end with it."""
    below: bool
    """Whether the figure must be below the limit; otherwise above it."""
    limit: float
    """The limit: ns for a time, per second for a rate."""

    @classmethod
    def of(cls, text: str) -> Condition:
        """Reads ``read.response.p99 < 5ms`` or ``throughput > 10k``.

        Raises:
            BadInput: The text is no condition.
        """
        found = CONDITION.match(text)
        if found is None or found["unit"] not in UNITS:
            raise _errors.of(
                2, f"`{text}` is no condition; write the figure, < or >, and a limit, such as read.response.p99 < 5ms"
            )
        limit = float(found["number"].replace("_", "")) * UNITS[found["unit"]]
        return cls(text.strip(), found["path"], found["sign"] == "<", limit)

    def problem(self, configuration: str, name: str, of: dict[str, Any]) -> str | None:
        """Why a figure does not meet the condition; None if it does. With an interval, all of it must meet it."""
        figure = of["figure"]
        where = f"{configuration}: {name}"
        if of.get("none_in"):
            return f"{where} has no figure in trial {of['none_in'][0]}, so it cannot be judged"
        value = float(figure["value"])
        low, high = (figure[end] if figure.get(end) is not None else value for end in ("low", "high"))
        shown = f"{value:,.0f}" + ("" if low == high else f" [{low:,.0f}, {high:,.0f}]")
        limit = f"{self.limit:,.0f}"
        if high < self.limit if self.below else low > self.limit:
            return None
        if low >= self.limit if self.below else high <= self.limit:
            return f"{where} is {shown}, the limit is {limit}"
        return f"{where} is {shown}, which includes the limit {limit}, so it cannot be judged; measure more rounds"


def names(run: Run, figure: str) -> list[str]:
    """The names of a figure. Those of a phase with one operation may also name the operation."""
    known = [figure]
    for phase in {of["name"]: of for trial in run.result["trials"] for of in trial["phases"]}.values():
        if figure.startswith(phase["name"] + ".") and len(phase["ops"]) == 1:
            known.append(f"{phase['name']}.{next(iter(phase['ops']))}{figure[len(phase['name']):]}")
    return known


def gate(run: Run, *conditions: str) -> Run:
    """Checks that a run is valid, and that its figures meet conditions. Returns the run.

    Args:
        conditions: ``[PHASE.][OP.]MEASURE < LIMIT`` or ``> LIMIT``, such as ``read.response.p99 < 5ms``,
            ``mixed.throughput > 10k``. Every figure whose name ends so must meet it, in every configuration.

    Raises:
        GateFailed: A figure does not meet a condition, or the interval of a figure includes the limit.
        InvalidMeasurement: The run is invalid by its own checks, so its figures say nothing.
        BadInput: A condition cannot be read, or no figure has its name.
    """
    wanted = [Condition.of(text) for text in conditions]
    invalid = [check for check in run.checks if check.severity == "invalid"]
    if invalid:
        said = "; ".join(f"{check.name}: {check.observed}" for check in invalid[:3])
        raise _errors.of(4, f"the run is invalid, so no gate can pass: {said} ({run.folder})")
    failed = [trial["failure"] for trial in run.result["trials"] if trial.get("failure")]
    if failed:
        raise _errors.of(4, f"a trial ended early, in {failed[0]['during']}: {failed[0]['message']} ({run.folder})")
    problems: list[str] = []
    for condition in wanted:
        found = [
            (one["configuration"], name, figure)
            for one in run.result["configurations"]
            for name, figure in one["figures"].items()
            if any(known == condition.path or known.endswith("." + condition.path) for known in names(run, name))
        ]
        if not found:
            known = sorted({name for one in run.result["configurations"] for name in one["figures"]})
            raise _errors.of(2, f"`{condition.text}`: the run has no such figure; it has {', '.join(known)}")
        told = (condition.problem(*figure) for figure in found)
        problems.extend(f"{condition.text}: {problem}" for problem in told if problem)
    if problems:
        raise GateFailed("\n".join(problems) + f"\n({run.folder})")
    return run
