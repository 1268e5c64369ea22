"""A run and its results."""

from __future__ import annotations

import dataclasses
import html
import json
import os
import pathlib
from typing import Any, Literal

from . import _call, _errors, _native
from ._native import Histogram, Table

Severity = Literal["pass", "note", "caution", "invalid"]


@dataclasses.dataclass(frozen=True)
class Check:
    """A validity check: whether the figures of a run measure the store."""

    name: str
    """Its name; ``docs/validity-checks.md`` explains it."""
    severity: Severity
    """``invalid`` means that the figures do not measure the store."""
    observed: str
    """What was observed."""
    advice: str
    """What to do; empty if it passed."""
    configuration: str | None
    """The configuration that it is about, if it is not about all."""
    phase: str | None
    """The phase that it is about, if it is not about the whole trial or run."""


class Run:
    """The result of a run. Nothing of it is read from a store."""

    def __init__(self, result: dict[str, Any], exit_code: int | None = None) -> None:
        self.result = result
        """The document ``run.json``: see ``docs/results-format.md``."""
        folder = result["run"].get("folder")
        self.folder: pathlib.Path | None = pathlib.Path(folder) if folder else None
        """The run folder; None if it was not saved."""
        self.exit_code = exit_code
        """The exit code of the command line; None for a run that was opened from its folder."""

    @property
    def name(self) -> str:
        """The name of the run."""
        return str(self.result["run"]["name"])

    @property
    def checks(self) -> list[Check]:
        """Every validity check, the run's first, then by trial and phase."""
        return [
            Check(
                name=one["check"],
                severity=one["severity"],
                observed=one["observed"],
                advice=one.get("advice", ""),
                configuration=one.get("configuration"),
                phase=one.get("phase"),
            )
            for one in self.result["checks"]
        ]

    @property
    def valid(self) -> bool:
        """Whether no check is invalid and no trial failed."""
        failed = any(trial.get("failure") for trial in self.result["trials"])
        return not failed and all(check.severity != "invalid" for check in self.checks)

    @property
    def answer(self) -> str:
        """What was found, in a sentence or two."""
        return str(self._said()["found"])

    @property
    def worth(self) -> str:
        """How far to trust it, in a sentence."""
        return str(self._said()["worth"])

    def trials(self) -> Table:
        """A row for each operation of each phase of each trial: counts, rates per second, and percentiles in ns.

        ``response_…`` is null in a closed loop. Factors are columns, named by their paths.
        """
        return _native.trials(self._folder())

    def intervals(self) -> Table:
        """A row for each interval (1 s) and operation. ``from_ns`` and ``to_ns`` count from the phase's start."""
        return self.table("intervals")

    def resources(self) -> Table:
        """What the client's process used: a row for every 17 ms."""
        return self.table("resources")

    def table(self, name: str) -> Table:
        """A table of the run folder: ``intervals``, ``resources``, ``server_resources`` or ``store_stats``.

        Raises:
            ValueError: There is no such table, or its file is damaged.
        """
        return _native.table(self._folder(), name)

    def histogram(
        self,
        op: str,
        phase: str,
        series: Literal["response", "service", "failed", "client-queueing"] | None = None,
        *,
        trial: int | None = None,
        configuration: str | None = None,
    ) -> Histogram:
        """The times of an operation over all trials, or those of one trial or configuration. Nothing is averaged.

        Args:
            op: The operation's name in the study, such as ``read``.
            phase: The phase's name.
            series: By default ``response`` if the phase has a rate, else ``service``.

        Raises:
            IndexError: The run has no such operation.
        """
        if series is None:
            phases = [of for trial in self.result["trials"] for of in trial["phases"] if of["name"] == phase]
            series = "response" if any(of.get("rate") for of in phases) else "service"
        return _native.histogram(self._folder(), op, phase, series, trial, configuration)

    def report(self) -> pathlib.Path:
        """The page with the report: one HTML file that loads nothing from the network."""
        page = self._folder() / "report.html"
        if not page.exists():
            _call.result(["report", str(self._folder())], False)
        return page

    def _said(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(_native.said(self._folder()))
        return said

    def _folder(self) -> pathlib.Path:
        if self.folder is None:
            raise _errors.of(2, "this run was not saved, so it has no folder to read")
        return self.folder

    def __repr__(self) -> str:
        invalid = sorted({check.name for check in self.checks if check.severity == "invalid"})
        state = f"invalid: {', '.join(invalid)}" if invalid else "valid" if self.valid else "incomplete"
        return f"<storebench.Run {self.name}: {state}, {self.folder}>"

    def _repr_html_(self) -> str:
        """The first screen of the report: question, answer, how far to trust it, and the chart."""
        if self.folder is None:
            return f"<p>{html.escape(repr(self))}</p>"
        said = self._said()
        question, answer, worth = said["question"], said["found"], said["worth"]
        colour = {"invalid": "#b3261e", "caution": "#8a5a00"}.get(said["severity"], "#1a7f37")
        code, picture, _ = _call.call(["report", str(self.folder), "--picture", "-"], False)
        chart = picture[picture.index("<svg") :] if code == 0 and "<svg" in picture else ""
        asked = f"<div style='opacity:.75'>{html.escape(question)}</div>" if question else ""
        more = "".join(f"<li>{html.escape(change)}</li>" for change in said["changes"])
        return (
            f"<div style='max-width:760px'>{asked}<div style='font-size:1.15em;font-weight:600'>{html.escape(answer)}</div>"
            f"<ul>{more}</ul><div style='color:{colour}'>{html.escape(worth)}</div>{chart}"
            f"<div style='opacity:.75'>report: {html.escape(str(self.folder / 'report.html'))}</div></div>"
        )


def open_run(path: str | os.PathLike[str]) -> Run:
    """Opens the run in a folder, or from the path of its ``run.json``. Older formats are read, too.

    Raises:
        BadInput: There is no run, or it is damaged.
    """
    try:
        result: dict[str, Any] = json.loads(_native.read_run(path))
    except ValueError as error:
        raise _errors.of(2, str(error)) from None
    found = Run(result)
    # It may have been moved since.
    place = pathlib.Path(path)
    found.folder = place if place.is_dir() else place.parent
    return found
