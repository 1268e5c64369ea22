"""What builds and tests the Python package, from the Python Package Index."""

import pathlib
import sys

from . import cache

REQUIREMENTS = pathlib.Path(__file__).parent.parent / "python-tools/requirements.txt"


def install():
    """The distributions of `requirements.txt`, for this Python version."""

    def build(folder):
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        cache.run([*pip, "--require-hashes", "--no-deps", "--target", str(folder), "-r", str(REQUIREMENTS)])

    return cache.installed(f"python-tools-{cache.digest(REQUIREMENTS)}-{sys.implementation.cache_tag}", build)
