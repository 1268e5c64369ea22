"""Runs verbs of the command line in this process."""

import dataclasses
import numbers
import os
import pathlib
import sysconfig
from collections.abc import Mapping, Sequence

from . import _errors, _native
from ._progress import Progress

One = str | os.PathLike[str] | int | float
Option = One | bool | None | Sequence[One]
"""An option's value: a number, string or path; True for a flag; a sequence for a repeatable option."""


def arguments(options: Mapping[str, Option]) -> list[str]:
    """Converts options to command-line arguments. Omits None and False."""
    words: list[str] = []
    for name, value in options.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        elif isinstance(value, (str, int, float, os.PathLike, numbers.Real)):
            words.append(f"{flag}={text(value)}")
        else:
            words.extend(f"{flag}={text(one)}" for one in value)
    return words


def text(value: One) -> str:
    """Formats a value for the command line. Floats get no exponent, because times and counts do not accept one."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, float):
        return f"{value:.12f}".rstrip("0").rstrip(".")
    return str(value)


def program() -> str | None:
    """The path of the installed command, which starts a store in a separate process (``hosted+``)."""
    command = pathlib.Path(sysconfig.get_path("scripts")) / "storebench"
    return str(command) if command.is_file() else None


@dataclasses.dataclass(frozen=True)
class Done:
    """The outcome of a verb."""

    code: int
    """The exit code."""
    out: str
    """The text that the verb printed."""
    message: str | None
    """The error message; None if the verb succeeded."""
    interrupted: bool
    """Whether Ctrl-C was pressed."""
    messages: list[str]
    """The messages that the verb printed while it ran."""

    def printed(self, keeps: Sequence[int] = (0,)) -> str:
        """Returns the printed text. Raises an error if there is none or the exit code is not in ``keeps``."""
        if self.interrupted or self.code == 130:
            raise KeyboardInterrupt(self.message or "interrupted")
        if self.code not in keeps or not self.out:
            raise _errors.of(self.code, self.message or self.out or "the verb failed without a message")
        return self.out


def call(words: Sequence[str], progress: bool | None = None) -> Done:
    """Runs a verb."""
    with Progress.of(progress) as shown:
        code, out, message, interrupted = _native.call(list(words), shown.tell, program())
    return Done(code, out, message, interrupted, shown.messages)
