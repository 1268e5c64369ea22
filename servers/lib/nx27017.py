"""nx-27017 from the Python Package Index: MongoDB's wire protocol over SQLite. Not MongoDB."""

import os
import pathlib
import sys

from . import cache, process

REQUIREMENTS = pathlib.Path(__file__).parent.parent / "nx-27017/requirements.txt"


def install():
    """The distributions of `requirements.txt`, for this Python version."""

    def build(folder):
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        cache.run([*pip, "--require-hashes", "--no-deps", "--target", str(folder), "-r", str(REQUIREMENTS)])

    return cache.installed(f"nx-27017-0.8.1-{sys.implementation.cache_tag}", build)


def start(port, folder, options):
    """One node with a SQLite file for each database."""
    root = install()
    if not process.alive(folder, "server"):
        process.require_free(port)
        (folder / "data").mkdir(exist_ok=True)
        # It trusts the pid file of a killed server as long as nobody has reaped that process.
        own_pid = folder / "nx-27017"
        own_pid.unlink(missing_ok=True)
        # It would log every command with its documents.
        program = "import logging; logging.disable(logging.INFO); from nx_27017.nx_27017 import main; main()"
        command = [sys.executable, "-c", program, "--host", "127.0.0.1", "-p", port]
        command += ["--data-dir", folder / "data", "--pid-file", own_pid, "--log-file", "/dev/null", *options.option]
        environment = os.environ | {"PYTHONPATH": str(root)}
        ready = lambda: process.answers(port)
        process.launch(folder, "server", command, ready, env=environment, cwd=folder)
    return f"mongodb://127.0.0.1:{port}"
