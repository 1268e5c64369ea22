"""FerretDB 1.24.2 from its Go module: MongoDB's wire protocol over SQLite or PostgreSQL. Not MongoDB."""

import argparse
import struct

from . import cache, go, postgres, process

VERSION = "v1.24.2"
MODULE = f"github.com/FerretDB/FerretDB@{VERSION}"
SUM = "h1:trrUU0LbmusMbyubhPS1IELncvrIwKrsRT2LW1UUWCw="

# The BSON document `{ping: 1, $db: "admin"}` in an OP_MSG. FerretDB asks its storage before it answers.
_DOCUMENT = b"\x1e\0\0\0" b"\x10ping\0\1\0\0\0" b"\x02$db\0\6\0\0\0admin\0" b"\0"
PING = struct.pack("<iiiiIB", 21 + len(_DOCUMENT), 1, 0, 2013, 0, 0) + _DOCUMENT
PONG = b"\x01ok\0" + struct.pack("<d", 1)

# The PostgreSQL node. In order of name it comes after `server`, so `servers/stop` ends FerretDB before its storage.
STORAGE = "storage"


def install():
    """The program `ferretdb`."""

    def build(folder):
        prepare = lambda source: (source / "build/version/version.txt").write_text(VERSION)
        go.build(MODULE, SUM, "./cmd/ferretdb", folder / "ferretdb", prepare)

    return cache.installed("ferretdb-1.24.2", build)


def install_on_postgres():
    """The same, and PostgreSQL."""
    postgres.install()
    return install()


def start(port, folder, options):
    """One node with a SQLite file for each database."""
    (folder / "data").mkdir(exist_ok=True)
    # Relative, because FerretDB takes characters such as `?` in a path for the end of it, even if they are escaped.
    return _start(port, folder, "sqlite", "--sqlite-url=file:data/", options.option)


def start_on_postgres(port, folder, options):
    """FerretDB (`server`) over a PostgreSQL (`storage`). Options that begin with `--` are FerretDB's."""
    install()
    _require_free(port, folder)
    flags = [option for option in options.option if option.startswith("--")]
    settings = [option for option in options.option if option not in flags]
    of_postgres = argparse.Namespace(password=None, tls=None, option=settings)
    storage = postgres.start(process.kept_port(folder, STORAGE), folder, of_postgres, STORAGE)
    return _start(port, folder, "postgresql", f"--postgresql-url={storage}", flags)


def _require_free(port, folder):
    if not process.alive(folder, "server"):
        process.require_free(port)


def _start(port, folder, handler, storage, flags):
    root = install()
    _require_free(port, folder)
    # By default it sends usage data to its maker after an hour, and listens on a second port.
    private = ["--telemetry=disable", "--debug-addr=-", f"--state-dir={folder}"]
    command = [root / "ferretdb", f"--listen-addr=127.0.0.1:{port}", f"--handler={handler}", storage, *private, *flags]
    ready = lambda: process.answers(port, PING, PONG)
    process.launch(folder, "server", command, ready, cwd=folder)
    # If it ran without its storage, it may need time to connect again.
    process.wait(ready, f"FerretDB does not answer; see {folder / 'server.log'}")
    return f"mongodb://127.0.0.1:{port}"
