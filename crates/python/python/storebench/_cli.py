"""The command ``storebench``."""

import sys
from typing import NoReturn

from . import _native


def main() -> NoReturn:
    """Runs the command line of this process and exits with its code."""
    # What is still in Python's buffers would come after what the command prints.
    sys.stdout.flush()
    sys.exit(_native.main(sys.argv))
