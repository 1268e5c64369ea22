"""The package and these tests are typed."""

from __future__ import annotations

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def test_mypy_finds_nothing() -> None:
    words = ["-m", "mypy", "--no-incremental", "--cache-dir=/dev/null"]
    words += ["--config-file", str(HERE.parent / "pyproject.toml")]
    for folders in (["python/storebench", "tests"], ["spark_tests"]):
        places = [str(HERE.parent / folder) for folder in folders]
        done = subprocess.run([sys.executable, *words, *places], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
