"""Calls a verb of the command line in this process."""

import os
import pathlib
import sysconfig
from collections.abc import Mapping, Sequence

from . import _errors, _native
from ._progress import Progress

One = str | os.PathLike[str] | int | float
Option = One | bool | None | Sequence[One]
"""The value of an option: a number, a text, a path; True for a flag; a list for an option that may be repeated."""


def arguments(options: Mapping[str, Option]) -> list[str]:
    """Options as arguments of a command line. None and False are left out."""
    words: list[str] = []
    for name, value in options.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        elif isinstance(value, (str, int, float, os.PathLike)):
            words.append(f"{flag}={text(value)}")
        else:
            words.extend(f"{flag}={text(one)}" for one in value)
    return words


def text(value: One) -> str:
    """A value as the command line takes it. Floats have no exponent, which times and counts do not know."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, float):
        return f"{value:.12f}".rstrip("0").rstrip(".")
    return str(value)


def program() -> str | None:
    """The command of this installation, with which a store is started in a process of its own (``hosted+``)."""
    command = pathlib.Path(sysconfig.get_path("scripts")) / "storebench"
    return str(command) if command.is_file() else None


def call(words: Sequence[str], progress: bool | None = None) -> tuple[int, str, str | None]:
    """Performs a verb. Returns its exit code, what it printed, and the message of its error."""
    with Progress.of(progress) as shown:
        return _native.call(list(words), shown, program())


def result(words: Sequence[str], progress: bool | None = None, keeps: Sequence[int] = (0,)) -> str:
    """What a verb prints. Raises its error, unless it prints something and its exit code is one of ``keeps``."""
    code, out, message = call(words, progress)
    if code == 130:
        raise KeyboardInterrupt
    if code not in keeps or not out:
        raise _errors.of(code, message or "the verb failed without a message")
    return out
