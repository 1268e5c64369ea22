"""The pytest plugin. Its fixture ``storebench`` fails a test if a gate fails."""

from __future__ import annotations

import pathlib
from typing import Literal

import pytest

from . import _errors, _gate, _verbs
from ._call import Option
from ._run import Run
from ._studies import Study


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option ``--storebench-out``."""
    parser.getgroup("storebench").addoption(
        "--storebench-out",
        default="storebench-runs",
        metavar="DIR",
        help="folder for the runs of gates (default: storebench-runs)",
    )


class Gates:
    """The fixture ``storebench``."""

    def __init__(self, out: pathlib.Path) -> None:
        self.out = out
        """The folder for runs."""

    def bench(self, url: str, **options: Option) -> Run:
        """Like :func:`storebench.bench`, but saves the run in the folder for runs."""
        return _verbs.bench(url, **{"progress": False, "out": str(self.out), **options})  # type: ignore[arg-type]

    def run(self, study: Study, stores: _verbs.Stores | None = None, **options: Option) -> Run:
        """Like :func:`storebench.run`, but saves the run in the folder for runs."""
        return _verbs.run(study, stores, **{"progress": False, "out": str(self.out), **options})  # type: ignore[arg-type]

    def gate(
        self,
        run_or_study: Run | Study,
        *conditions: str,
        stores: _verbs.Stores | None = None,
        undecided: Literal["fail", "pass"] = "fail",
        **options: Option,
    ) -> Run:
        """Fails the test unless a run is valid and meets conditions such as ``read.response.p99 < 5ms``.

        Runs a study first, on ``stores`` if given. ``undecided="pass"`` accepts a figure whose interval includes the
        limit, or that has no interval. The message says which figure failed and where the run is.
        """
        run = run_or_study if isinstance(run_or_study, Run) else self.run(run_or_study, stores, **options)
        try:
            return _gate.gate(run, *conditions, undecided=undecided)
        except _errors.StorebenchError as error:
            problem = str(error)
        # Fail outside the handler; otherwise pytest would also show the exception.
        pytest.fail(problem, pytrace=False)


@pytest.fixture(scope="session")
def storebench(request: pytest.FixtureRequest) -> Gates:
    """Runs studies and gates; see :class:`Gates`."""
    out = pathlib.Path(str(request.config.getoption("--storebench-out")))
    return Gates(out if out.is_absolute() else request.config.rootpath / out)
