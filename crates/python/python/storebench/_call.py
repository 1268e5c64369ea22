"""Runs verbs of the command line in this process."""

import dataclasses
import numbers
import os
import pathlib
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

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
        elif isinstance(value, ONE):
            words.append(f"{flag}={text(name, value)}")
        else:
            words.extend(f"{flag}={text(name, one)}" for one in _errors.several(name, value, f"{EXPECTED}, or a list"))
    return words


ONE = (str, os.PathLike, numbers.Real)
EXPECTED = "text, a number, a path, True or False"


def text(name: str, value: object) -> str:
    """Formats a value for the command line. Floats get no exponent, because times and counts do not accept one."""
    if isinstance(value, bool) or not isinstance(value, ONE):
        raise _errors.not_expected(name, "text, a number or a path", value)
    if isinstance(value, os.PathLike):
        return _errors.path(name, value)
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


class Tasks(Protocol):
    """Runs the tasks of a copy in other processes."""

    at_once: int
    """The number of tasks that run at the same time."""
    may_repeat: bool
    """Whether operations are allowed that change the target again if a task is repeated."""

    def run(self, tasks: list[str], done: Callable[[str], None], stopping: Callable[[], bool]) -> None:
        """Runs the tasks. Calls ``done`` with the report of each, as soon as the task has ended.

        Args:
            tasks: The tasks. Another process performs one with :func:`perform`.
            done: Takes a report. Any thread may call it.
            stopping: Whether to stop early.
        """


def call(
    words: Sequence[str],
    progress: bool | None = None,
    *,
    tasks: Tasks | None = None,
    task: str | None = None,
    meet: Callable[[str], list[str]] | None = None,
    input: str | None = None,
) -> Done:
    """Runs a verb.

    Args:
        words: The command line, without the program.
        progress: Whether to show progress. By default, shows it in a notebook and on a terminal.
        tasks: Runs the tasks of a copy.
        task: A task of a copy to perform. The copy's report is then that of the task.
        meet: Sends a message to all parts of a run, and returns the messages of all parts in their order.
        input: A file that takes the place of standard input.
    """
    for word in words:
        # A name of a file that is not valid Unicode, as Python holds it.
        if not word.isprintable() and word.encode(errors="ignore").decode() != word:
            raise _errors.of(2, f"{word!r} is not valid Unicode")
    with Progress.of(progress) as shown:
        code, out, message, interrupted = _native.call(list(words), shown.tell, program(), tasks, task, meet, input)
    return Done(code, out, message, interrupted, [_errors.in_python(one) for one in shown.messages])


def perform(words: Sequence[str], task: str) -> str:
    """Performs a task of a copy, and returns its report. ``words`` are the command line of the copy."""
    return call(words, False, task=task).printed()
