"""dynalite from npm: DynamoDB's interface over LevelDB. Not DynamoDB."""

import pathlib

from . import cache, npm, process

LOCK = pathlib.Path(__file__).parent.parent / "dynalite/package-lock.json"


def install():
    """Its package contains LevelDB already built."""
    return cache.installed(f"dynalite-{cache.digest(LOCK)}", lambda folder: npm.install("dynalite", folder))


def start(port, folder, options):
    """One node. It takes any key. Tables are made, changed and removed after a moment, as on DynamoDB."""
    root = install()
    if not process.alive(folder, "server"):
        process.require_free(port)
        command = ["node", root / "node_modules/dynalite/cli.js", "--host", "127.0.0.1", "--port", port]
        command += ["--path", folder / "data"]
        command += options.option or ["--createTableMs", "10", "--deleteTableMs", "10", "--updateTableMs", "10"]
        ready = lambda: process.fetch(port, "/") is not None
        process.launch(folder, "server", command, ready, cwd=folder)
    return f"dynamodb://127.0.0.1:{port}"
