"""Exceptions, one for each exit code of the command line."""

from typing import Any


class StorebenchError(Exception):
    """A function failed. The message is the same as on the command line."""

    code: int = 1
    """The exit code that the command line would return."""
    report: dict[str, Any] | None = None
    """The report of a copy that lost documents."""


class DataLost(StorebenchError):
    """Data were lost, wrong, or could not be read back (the message says which), or another failure occurred (exit code 1)."""


class BadInput(StorebenchError, ValueError):
    """Invalid input. Nothing was started (exit code 2)."""

    code = 2


class Unreachable(StorebenchError, ConnectionError):
    """A store could not be reached (exit code 3)."""

    code = 3


class InvalidMeasurement(StorebenchError):
    """The figures do not measure the store, or a gate is undecided (exit codes 4 and 5)."""

    code = 4


class StorebenchWarning(UserWarning):
    """A run has a result, but it is invalid or data were lost. ``Run.checks`` says why."""


def of(code: int, message: str) -> StorebenchError:
    """Returns the exception for an exit code."""
    kinds: dict[int, type[StorebenchError]] = {
        2: BadInput,
        3: Unreachable,
        4: InvalidMeasurement,
        5: InvalidMeasurement,
    }
    error = kinds.get(code, DataLost)(message)
    error.code = code
    return error
