"""Exceptions, one for each exit code of the command line."""


class StorebenchError(Exception):
    """A verb failed. The message is that of the command line."""

    code: int = 1
    """The exit code that the command line would have."""


class DataLost(StorebenchError):
    """Data were lost, wrong or could not be verified, or the verb failed in another way (exit code 1)."""


class BadInput(StorebenchError, ValueError):
    """Invalid input. Nothing was started (exit code 2)."""

    code = 2


class Unreachable(StorebenchError, ConnectionError):
    """A store could not be reached (exit code 3)."""

    code = 3


class InvalidMeasurement(StorebenchError):
    """The figures do not measure the store, or a gate could not be judged (exit codes 4 and 5)."""

    code = 4


class StorebenchWarning(UserWarning):
    """A run has a result, but it is invalid, or data were lost. ``Run.checks`` says why."""


def of(code: int, message: str) -> StorebenchError:
    """The exception for an exit code."""
    kinds: dict[int, type[StorebenchError]] = {
        2: BadInput,
        3: Unreachable,
        4: InvalidMeasurement,
        5: InvalidMeasurement,
    }
    error = kinds.get(code, DataLost)(message)
    error.code = code
    return error
