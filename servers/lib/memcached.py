"""memcached 1.6 from Debian."""

import os

from . import debian, process

VERSION = "1.6.18-"


def install():
    """The unpacked package `memcached`."""
    return debian.installed("memcached-1.6.18", {"memcached": VERSION}, ["usr/bin/memcached"])


def start(port, folder, options):
    """One node with `--memory` MiB, 64 by default."""
    root = install()
    if not process.alive(folder, "server"):
        process.require_free(port)
        command = [root / "usr/bin/memcached", "-l", "127.0.0.1", "-p", port, "-U", 0, "-m", options.memory or 64]
        if os.geteuid() == 0:
            command += ["-u", "root"]
        command += [word for option in options.option for word in option.split()]
        # With a password file (`-Y`), it answers that we are not logged in, which is also an answer.
        ready = lambda: process.answers(port, b"version\r\n", b"\r\n")
        process.launch(folder, "server", command, ready, env=debian.environment(root))
    return f"memcached://127.0.0.1:{port}"
