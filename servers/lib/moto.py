"""moto from the Python Package Index: interfaces of AWS, among them DynamoDB's, in memory. Not DynamoDB."""

import os
import pathlib
import sys

from . import cache, process

REQUIREMENTS = pathlib.Path(__file__).parent.parent / "moto/requirements.txt"

# It would log every request, and its operations are not atomic: several at once lose increments of a counter.
PROGRAM = """
import logging, threading
from moto.moto_server.werkzeug_app import DomainDispatcherApplication as Application
from moto.server import main

logging.disable(logging.INFO)
lock, call = threading.Lock(), Application.__call__

def one_at_a_time(*arguments):
    with lock:
        return call(*arguments)

Application.__call__ = one_at_a_time
main()
"""


def install():
    """The distributions of `requirements.txt`, for this Python version."""

    def build(folder):
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        cache.run([*pip, "--require-hashes", "--no-deps", "--target", str(folder), "-r", str(REQUIREMENTS)])

    return cache.installed(f"moto-{cache.digest(REQUIREMENTS)}-{sys.implementation.cache_tag}", build)


def start(port, folder, options):
    """One node, which loses everything when it ends. It takes any key."""
    root = install()
    if not process.alive(folder, "server"):
        process.require_free(port)
        command = [sys.executable, "-c", PROGRAM, "-H", "127.0.0.1", "-p", port, *options.option]
        environment = os.environ | {"PYTHONPATH": str(root)}
        ready = lambda: process.fetch(port, "/moto-api/") is not None
        process.launch(folder, "server", command, ready, env=environment, cwd=folder)
    return f"dynamodb://127.0.0.1:{port}"
