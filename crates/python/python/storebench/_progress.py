"""Progress of a verb: one line that changes, in a notebook or on a terminal."""

from __future__ import annotations

import html
import importlib
import sys
import time
from types import TracebackType
from typing import Any

Told = str | tuple[str, float | None, str]
"""A message, or what runs, the share that is done, and rates."""

EVERY_S = 0.2
"""The shortest time between two changes of the line."""


class Progress:
    """Shows nothing. Its classes show more."""

    @staticmethod
    def of(wanted: bool | None) -> Progress:
        """How progress is shown: in a notebook, on a terminal, or not at all. None means: where somebody can see it."""
        if wanted is False:
            return Progress()
        handle = notebook()
        if handle is not None:
            return InNotebook(handle)
        if wanted or sys.stderr.isatty():
            return OnTerminal()
        return Progress()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the line."""

    def __call__(self, told: Told) -> None:
        """Shows what a verb says."""


class OnTerminal(Progress):
    """One line on stderr; messages stay above it."""

    def __init__(self) -> None:
        self.width = 0
        self.shown = 0.0

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

    def __call__(self, told: Told) -> None:
        if isinstance(told, str):
            self.clear()
            sys.stderr.write(told + "\n")
            return
        if time.monotonic() - self.shown < EVERY_S:
            return
        self.shown = time.monotonic()
        what, share, text = told
        done = "" if share is None else f"{share:4.0%} "
        line = f"{what}: {done}{text}"[:100]
        sys.stderr.write("\r" + line.ljust(self.width))
        sys.stderr.flush()
        self.width = len(line)


class InNotebook(Progress):
    """A bar in the output of a cell, which disappears at the end."""

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        self.shown = 0.0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.update("")

    def update(self, markup: str) -> None:
        """Replaces the output."""
        self.handle.update({"text/html": markup}, raw=True)

    def __call__(self, told: Told) -> None:
        # Messages repeat what the result says.
        if isinstance(told, str) or time.monotonic() - self.shown < EVERY_S:
            return
        self.shown = time.monotonic()
        what, share, text = told
        bar = "" if share is None else f"<progress value='{share:.3f}' max='1'></progress> "
        self.update(f"{bar}<b>{html.escape(what)}</b> {html.escape(text)}")


def notebook() -> Any:
    """An output of the current cell; None outside of a notebook."""
    # Where nobody has imported it, there is no notebook.
    ipython: Any = sys.modules.get("IPython")
    shell: Any = None if ipython is None else ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    display: Any = importlib.import_module("IPython.display").display
    return display({"text/html": ""}, raw=True, display_id=True)
