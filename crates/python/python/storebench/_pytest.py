"""The pytest plugin: the fixture ``storebench``, whose gates fail a test."""

from __future__ import annotations

import pathlib

import pytest

from . import _errors, _gate, _verbs
from ._call import Option
from ._run import Run
from ._studies import Study


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option for the folder of runs."""
    parser.getgroup("storebench").addoption(
        "--storebench-out",
        default="storebench-runs",
        metavar="DIR",
        help="folder in which the runs of gates are kept (default: storebench-runs)",
    )


class Gates:
    """What the fixture ``storebench`` offers."""

    def __init__(self, out: pathlib.Path) -> None:
        self.out = out
        """The folder in which runs are kept."""

    def bench(self, url: str, **options: Option) -> Run:
        """As :func:`storebench.bench`; the run is kept in the folder of runs."""
        return _verbs.bench(url, **{"progress": False, "out": str(self.out), **options})  # type: ignore[arg-type]

    def run(self, study: Study, stores: _verbs.Stores | None = None, **options: Option) -> Run:
        """As :func:`storebench.run`; the run is kept in the folder of runs."""
        return _verbs.run(study, stores, **{"progress": False, "out": str(self.out), **options})  # type: ignore[arg-type]

    def gate(
        self, run_or_study: Run | Study, *conditions: str, stores: _verbs.Stores | None = None, **options: Option
    ) -> Run:
        """Fails the test unless a run is valid and meets conditions such as ``read.response.p99 < 5ms``.

        A study is run first, on ``stores`` if given. The message says which figure failed, and where the run is.
        """
        run = run_or_study if isinstance(run_or_study, Run) else self.run(run_or_study, stores, **options)
        try:
            return _gate.gate(run, *conditions)
        except _errors.StorebenchError as error:
            problem = str(error)
        # Outside of the exception, which would be shown as well.
        pytest.fail(problem, pytrace=False)


@pytest.fixture(scope="session")
def storebench(request: pytest.FixtureRequest) -> Gates:
    """Runs studies and gates; see :class:`Gates`."""
    out = pathlib.Path(str(request.config.getoption("--storebench-out")))
    return Gates(out if out.is_absolute() else request.config.rootpath / out)
