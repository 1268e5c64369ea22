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
    """The name of the check; see ``docs/validity-checks.md``."""
    severity: Severity
    """``invalid`` means that the figures do not measure the store."""
    observed: str
    """What the check observed."""
    advice: str
    """What to do; empty if the check passed."""
    configuration: str | None
    """The configuration that the check applies to; None for all."""
    phase: str | None
    """The phase that the check applies to; None for the whole trial or run."""


class Run:
    """The result of a run. Reading it does not access any store."""

    def __init__(self, result: dict[str, Any], exit_code: int | None = None) -> None:
        self.result = result
        """The content of ``run.json``; see ``docs/results-format.md``."""
        folder = result["run"].get("folder")
        self.folder: pathlib.Path | None = pathlib.Path(folder).absolute() if folder else None
        """The run folder; None if the run was not saved."""
        self.exit_code = exit_code
        """The exit code of the command line; None for a run opened from its folder."""
        self.messages: list[str] = []
        """The messages from the run, in order."""

    @property
    def name(self) -> str:
        """The name of the run."""
        return str(self.result["run"]["name"])

    @property
    def checks(self) -> list[Check]:
        """All validity checks: those of the run first, then by trial and phase."""
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
        """True if the run is complete and no check is invalid."""
        return not self.missing and all(check.severity != "invalid" for check in self.checks)

    @property
    def missing(self) -> str | None:
        """Why the run is incomplete; None if it is complete."""
        run, trials = self.result["run"], self.result["trials"]
        if run["interrupted"]:
            return "the run was interrupted"
        if run["ended"] is None:
            return "the run has not ended, or it was killed"
        if run.get("part"):
            return f"this is part {run['part']['number']} of {run['part']['of']}; merge the parts first"
        for trial in trials:
            if trial.get("failure"):
                return f"a trial ended early, in {trial['failure']['during']}: {trial['failure']['message']}"
            for phase in trial["phases"]:
                if phase.get("partial"):
                    return f"phase {phase['name']} ended early: {phase['partial']}"
        planned = len(self.result["plan"]["trials"])
        return f"{len(trials)} of {planned} trials ran" if len(trials) < planned else None

    @property
    def answer(self) -> str:
        """The answer to the study's question, in one or two sentences."""
        return str(self._said()["found"])

    @property
    def trust(self) -> str:
        """How far to trust the answer, in one sentence."""
        return str(self._said()["trust"])

    def trials(self) -> Table:
        """One row per trial, phase and operation: counts, rates per second, and percentiles in ns.

        Percentiles cover all attempts: a failed or unanswered attempt counts as infinitely slow. A percentile is null
        if it is infinite. ``response_…`` is null in a closed loop. Factors are columns named by their paths.

        ``control`` marks trials of a study's control, which repeats its first configuration: leave them out of means.
        """
        return _native.trials(self._folder())

    def generators(self) -> Table:
        """One row per part of a merged run and phase: what each load generator did, and what its client used.

        ``began_after_ns`` is how long after the first part it began the phase. Empty for a run in one process.
        """
        return _native.generators(self._folder())

    def intervals(self) -> Table:
        """One row per interval and operation. ``from_ns`` and ``to_ns`` count from the start of the phase.

        An interval is 1 s long, or 0.1 s in phases with faults. ``pass`` distinguishes warm-ups and probes of a search.
        """
        return self.table("intervals")

    def resources(self) -> Table:
        """The resource use of the client process, one row every 17 ms."""
        return self.table("resources")

    def table(self, name: str) -> Table:
        """Returns a table of the run folder: ``intervals``, ``resources``, ``server_resources`` or ``store_stats``.

        Raises:
            BadInput: The table does not exist, or its file is damaged.
        """
        return _native.table(self._folder(), _errors.text("name", name))

    def histogram(
        self,
        op: str,
        phase: str,
        series: Literal["response", "service", "failed", "client-queueing"] | None = None,
        *,
        trial: int | None = None,
        configuration: str | None = None,
    ) -> Histogram:
        """Returns the latencies of an operation's answered attempts, over all complete trials or one trial.

        Histograms are added; nothing is averaged. The series ``failed`` has the failed attempts. Percentiles in tables
        and gates cover all attempts.

        Args:
            op: The name of the operation in the study, such as ``read``.
            phase: The name of the phase.
            series: Defaults to ``response`` if the phase has a rate, else to ``service``.
            trial: Selects one trial, even if it is incomplete.
            configuration: Required if the run has several configurations.

        Raises:
            BadInput: The run has no such operation, or several configurations, or a file is damaged.
        """
        names = {"op": op, "phase": phase, "series": series or "service", "configuration": configuration or ""}
        for name, value in names.items():
            _errors.text(name, value)
        if trial is not None:
            _errors.whole("trial", trial, 1)
        if series is None:
            phases = [of for trial in self.result["trials"] for of in trial["phases"] if of["name"] == phase]
            series = "response" if any(of.get("rate") for of in phases) else "service"
        return _native.histogram(self._folder(), op, phase, series, trial, configuration)

    def report(self) -> pathlib.Path:
        """Returns the path of the report: one HTML file that loads nothing from the network."""
        page = self._folder() / "report.html"
        if not page.exists():
            _call.call(["report", str(self._folder())], False).printed()
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
        state = self.missing or (f"invalid: {', '.join(invalid)}" if invalid else "valid")
        return f"<storebench.Run {self.name}: {state}, {self.folder}>"

    def _repr_html_(self) -> str:
        """Returns the first screen of the report: question, answer, how far to trust it, and chart."""
        if self.folder is None:
            return f"<p>{html.escape(repr(self))}</p>"
        said = self._said()
        question, answer, trust = said["question"], said["found"], said["trust"]
        colour = {"invalid": "#b3261e", "caution": "#8a5a00"}.get(said["severity"], "#1a7f37")
        picture = _call.call(["report", str(self.folder), "--picture", "-"], False).out
        chart = picture[picture.index("<svg") :] if "<svg" in picture else ""
        asked = f"<div style='opacity:.75'>{html.escape(question)}</div>" if question else ""
        more = "".join(f"<li>{html.escape(change)}</li>" for change in said["changes"])
        return (
            f"<div style='max-width:760px'>{asked}<div style='font-size:1.15em;font-weight:600'>{html.escape(answer)}</div>"
            f"<ul>{more}</ul><div style='color:{colour}'>{html.escape(trust)}</div>{chart}"
            f"<div style='opacity:.75'>report: {html.escape(str(self.folder / 'report.html'))}</div></div>"
        )


def open_run(path: str | os.PathLike[str]) -> Run:
    """Opens a run from its folder or from the path of its ``run.json``. Also reads older formats.

    Raises:
        BadInput: The path has no run, or the run is damaged.
    """
    place = pathlib.Path(_errors.path("path", path))
    result: dict[str, Any] = json.loads(_native.read_run(place))
    found = Run(result)
    # The run may have been moved since it was saved.
    found.folder = (place if place.is_dir() else place.parent).absolute()
    return found
