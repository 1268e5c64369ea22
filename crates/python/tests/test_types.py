"""The package and these tests are typed."""

from __future__ import annotations

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def test_mypy_finds_nothing() -> None:
    words = ["-m", "mypy", "--strict", "--no-incremental", "--cache-dir=/dev/null"]
    folders = [str(HERE.parent / "python/storebench"), str(HERE)]
    done = subprocess.run([sys.executable, *words, *folders], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
