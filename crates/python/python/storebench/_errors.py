"""Exceptions, one for each exit code of the command line."""

import functools
import keyword
import os
import re
import reprlib
from collections.abc import Iterable, Mapping
from typing import Any

from . import _native


class StorebenchError(Exception):
    """A function failed. The message is that of the command line, with options as Python writes them."""

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
    error = kinds.get(code, DataLost)(in_python(message))
    error.code = code
    return error


flags = functools.cache(_native.options)
"""The options of the command line, and whether each is a flag."""

OPTION = re.compile(r"`storebench [^`]*`|(?<![\w-])(?P<unknown>argument ')?--(?P<name>[a-z][a-z0-9-]*)(?P<value> (?=[A-Z]{2}))?")
"""A command for the shell, or an option, before its value."""


def in_python(message: str) -> str:
    """Returns a message of the command line with options as keyword arguments: ``--max-errors`` is ``max_errors``."""

    def argument(found: re.Match[str]) -> str:
        name, before = found["name"], found["unknown"] or ""
        if name is None or not (before or name in flags()):
            return found[0]
        word = "stores" if name == "store" else name.replace("-", "_")
        after = "=True" if flags().get(name) else "=" if found["value"] else ""
        return before + word + "_" * keyword.iskeyword(word) + after

    return OPTION.sub(argument, message)


def not_expected(name: str, expected: str, value: object) -> StorebenchError:
    """Returns the error for an argument that cannot be used."""
    return of(2, f"{name}: expected {expected}, not {reprlib.repr(value)}")


def text(name: str, value: object) -> str:
    """Returns an argument that must be text."""
    if not isinstance(value, str):
        raise not_expected(name, "text", value)
    return value


def whole(name: str, value: object, least: int = 0) -> int:
    """Returns an argument that must be a whole number."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or not least <= value.__index__() < 2**64:
        raise not_expected(name, f"a whole number from {least}", value)
    return int(value.__index__())


def path(name: str, value: object, expected: str = "a path") -> str:
    """Returns an argument that must be a path."""
    found = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(found, str):
        raise not_expected(name, expected, value)
    return found


def several(name: str, value: object, expected: str) -> list[Any]:
    """Returns an argument that must be a sequence, as a list."""
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes, Mapping)):
        raise not_expected(name, expected, value)
    return list(value)
