"""The command ``storebench``."""

import signal
import sys
from typing import NoReturn

from . import _call, _native


def main() -> NoReturn:
    """Runs this process's command line and exits with its exit code."""
    # Otherwise, text in Python's buffers would appear after the command's output.
    sys.stdout.flush()
    # Otherwise, Python would only record Ctrl-C and raise an exception at the end.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_native.main([_call.program() or sys.argv[0], *sys.argv[1:]]))
