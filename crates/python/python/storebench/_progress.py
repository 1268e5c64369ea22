"""Shows the progress of a verb as one updating line, in a notebook or on a terminal."""

from __future__ import annotations

import html
import importlib
import sys
import time
from types import TracebackType
from typing import Any

Told = str | tuple[str, float | None, str]
"""A message; or the current step, the fraction done, and rates."""

EVERY_S = 0.2
"""The minimum time between two updates of the line."""


class Progress:
    """Keeps messages and shows nothing. Subclasses show progress."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        """The messages of the verb so far."""
        self.shown = 0.0

    def tell(self, told: Told) -> None:
        """Receives a message or the progress of a verb."""
        if isinstance(told, str):
            self.messages.append(told)
            self.message(told)
        elif time.monotonic() - self.shown >= EVERY_S:
            self.shown = time.monotonic()
            self.progress(*told)

    def message(self, text: str) -> None:
        """Shows a message."""

    def progress(self, what: str, share: float | None, text: str) -> None:
        """Shows the progress of a verb."""

    @staticmethod
    def of(wanted: bool | None) -> Progress:
        """Chooses a notebook, a terminal, or no display. With None, shows progress only where a user can see it."""
        if wanted is False:
            return Progress()
        handle = notebook()
        if handle is not None:
            return InNotebook(handle)
        if sys.stderr is not None and (wanted or sys.stderr.isatty()):
            return OnTerminal()
        return Progress()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Removes the progress display."""


class OnTerminal(Progress):
    """One line on stderr. Messages stay above it."""

    def __init__(self) -> None:
        super().__init__()
        self.width = 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def clear(self) -> None:
        """Removes the line."""
        if self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            sys.stderr.flush()
            self.width = 0

    def message(self, text: str) -> None:
        self.clear()
        sys.stderr.write(text + "\n")

    def progress(self, what: str, share: float | None, text: str) -> None:
        done = "" if share is None else f"{share:4.0%} "
        line = f"{what}: {done}{text}"[:100]
        sys.stderr.write("\r" + line.ljust(self.width))
        sys.stderr.flush()
        self.width = len(line)


class InNotebook(Progress):
    """A progress bar in the output of a cell. It disappears at the end. ``Run.messages`` keeps the messages."""

    def __init__(self, handle: Any) -> None:
        super().__init__()
        self.handle = handle

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.update("")

    def update(self, markup: str) -> None:
        """Replaces the output."""
        self.handle.update({"text/html": markup}, raw=True)

    def progress(self, what: str, share: float | None, text: str) -> None:
        bar = "" if share is None else f"<progress value='{share:.3f}' max='1'></progress> "
        self.update(f"{bar}<b>{html.escape(what)}</b> {html.escape(text)}")


def notebook() -> Any:
    """Returns an output of the current cell, or None outside a notebook."""
    # A notebook has always imported IPython.
    ipython: Any = sys.modules.get("IPython")
    shell: Any = None if ipython is None else ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    display: Any = importlib.import_module("IPython.display").display
    return display({"text/html": ""}, raw=True, display_id=True)
