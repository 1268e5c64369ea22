"""Each test runs in a folder of its own. A short run is made once."""

from __future__ import annotations

import os
import pathlib
import warnings
from collections.abc import Iterator

import pytest
import storebench


@pytest.fixture(autouse=True)
def here(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """The current folder, empty."""
    before = pathlib.Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


@pytest.fixture(scope="session")
def short(tmp_path_factory: pytest.TempPathFactory) -> storebench.Run:
    """A short run at a rate."""
    out = tmp_path_factory.mktemp("short")
    with warnings.catch_warnings():
        # So short a run may be invalid on a busy machine.
        warnings.simplefilter("ignore", storebench.StorebenchWarning)
        return storebench.bench(
            "memory:", docs=500, size="200B", warm_up="0s", duration="2s", rate=2_000, out=str(out), progress=False
        )
