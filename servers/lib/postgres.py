"""PostgreSQL 15 from Debian: alone, or as a primary with a synchronous standby."""

import os
import pathlib
import shutil
import signal
import subprocess
from urllib.parse import quote

from . import cache, debian, process
from .fault import Fault

VERSION = "15."
BINARIES = "usr/lib/postgresql/15/bin"
# PostgreSQL refuses to run as root, so root runs it as nobody.
NOBODY = 65534


def install():
    """The unpacked packages `postgresql-15` and `postgresql-client-15`."""
    packages = {"postgresql-15": VERSION, "postgresql-client-15": VERSION}
    needing = [f"{BINARIES}/{name}" for name in ["postgres", "initdb", "psql", "pg_basebackup", "pgbench"]]
    return debian.installed("postgresql-15", packages, needing)


def start(port, folder, options, node="server"):
    """One node with the database and user `storebench`, and PostgreSQL's durable defaults."""
    server = _Server(folder, options)
    server.primary(port, node)
    return server.url(port)


def start_with_standby(port, folder, options):
    """A primary (`server`) and a standby (`replica`) that takes part in its commits.

    `synchronous_standby_names` is `*`, so the session's `synchronous_commit` decides what a commit waits for.
    """
    server = _Server(folder, options)
    server.primary(port)
    if server.standby(port):
        server.sql(port, "alter system set synchronous_standby_names = '*'")
        server.sql(port, "select pg_reload_conf()")
    server.await_synchronous(port)
    return server.url(port)


class _Server:
    def __init__(self, folder, options):
        self.root = install()
        self.folder = folder
        self.password = options.password or "storebench"
        self.tls = options.tls
        self.options = options.option
        self.environment = debian.environment(self.root)
        self.as_user = []
        if os.geteuid() == 0:
            self.as_user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            self._let_nobody_in()

    def _let_nobody_in(self):
        self.folder.chmod(self.folder.stat().st_mode | 0o011)
        for place in [self.folder, self.root / BINARIES]:
            reached = subprocess.run([*self.as_user, "test", "-x", str(place)], stdin=subprocess.DEVNULL)
            if reached.returncode != 0:
                raise Fault(
                    f"PostgreSQL does not run as root, and as user nobody it cannot enter {place}; "
                    "use a --data and an XDG_CACHE_HOME outside of root's own folders"
                )

    def _own(self, name):
        """A folder of the unprivileged user."""
        place = self.folder / name
        place.mkdir(mode=0o700, exist_ok=True)
        if self.as_user:
            os.chown(place, NOBODY, NOBODY)
        return place

    def _program(self, name, *arguments):
        return [*self.as_user, str(self.root / BINARIES / name), *map(str, arguments)]

    def url(self, port):
        return f"postgres://storebench:{quote(self.password, safe='')}@127.0.0.1:{port}/storebench"

    def sql(self, port, statement, database="storebench"):
        """Runs a statement with psql, and returns the answer as text."""
        command = self._program("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", statement)
        command += ["-h", "127.0.0.1", "-p", str(port), "-U", "storebench", "-d", database]
        return cache.run(command, env={**self.environment, "PGPASSWORD": self.password}, cwd="/").strip()

    def primary(self, port, node="server"):
        data = self.folder / "data"
        if not (data / "PG_VERSION").exists():
            self._initialize()
        self._launch(node, port, data)
        if self.sql(port, "select count(*) from pg_database where datname = 'storebench'", "postgres") == "0":
            self.sql(port, "create database storebench", "postgres")

    def _initialize(self):
        # Use a folder of another name first, so that a folder called `data` is always complete.
        unfinished = self.folder / "data.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        self._own(unfinished.name)
        password = self._own("secret") / "password"
        password.write_text(self.password)
        if self.as_user:
            os.chown(password, NOBODY, NOBODY)
        # A collation by language, as most databases have. A sort by bytes has to be requested.
        language = ["--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US", "--encoding=UTF8"]
        access = ["--username=storebench", f"--pwfile={password}", "--auth=scram-sha-256"]
        place = ["--no-sync", "--no-instructions", "-D", unfinished]
        cache.run(self._program("initdb", *language, *access, *place), env=self.environment, cwd="/")
        password.unlink()
        unfinished.rename(self.folder / "data")

    def _launch(self, node, port, data):
        if process.alive(self.folder, node):
            return
        process.require_free(port)
        # This file is from a killed server. PostgreSQL trusts it as long as nobody has reaped that process.
        (data / "postmaster.pid").unlink(missing_ok=True)
        # No socket in the file system, because its path may be longer than the kernel allows.
        settings = {"port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "jit": "off"}
        settings |= {"logging_collector": "off", "max_wal_senders": 10, "wal_keep_size": "64MB"}
        if self.tls:
            settings |= {"ssl": "on"} | self._tls_files()
        settings |= dict(option.split("=", 1) for option in self.options)
        arguments = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        ready = lambda: self._ready(port)
        # SIGINT is PostgreSQL's fast shutdown: it does not wait for clients.
        command = self._program("postgres", "-D", data, *arguments)
        process.launch(self.folder, node, command, ready, stop=signal.SIGINT, env=self.environment, cwd="/")

    def _ready(self, port):
        command = self._program("pg_isready", "-q", "-h", "127.0.0.1", "-p", port)
        return subprocess.run(command, env=self.environment, cwd="/", stdin=subprocess.DEVNULL).returncode == 0

    def _tls_files(self):
        """Copies that belong to the server's user, because it rejects a key that others may read."""
        place = self._own("tls")
        for name, source in zip(["cert.pem", "key.pem"], self.tls):
            copy = place / name
            copy.write_bytes(pathlib.Path(source).read_bytes())
            copy.chmod(0o600)
            if self.as_user:
                os.chown(copy, NOBODY, NOBODY)
        return {"ssl_cert_file": place / "cert.pem", "ssl_key_file": place / "key.pem"}

    def standby(self, port):
        """Starts the standby. Returns true if it was created just now."""
        data = self.folder / "replica"
        new = not (data / "PG_VERSION").exists()
        if new:
            shutil.rmtree(data, ignore_errors=True)
            self._own(data.name)
            secret = self.password.replace("\\", "\\\\").replace("'", "\\'")
            source = f"host=127.0.0.1 port={port} user=storebench password='{secret}'"
            arguments = ["-d", source, "-D", data, "-R", "--checkpoint=fast", "--no-sync", "--wal-method=stream"]
            cache.run(self._program("pg_basebackup", *arguments), env=self.environment, cwd="/")
        self._launch("replica", process.kept_port(self.folder, "replica"), data)
        return new

    def await_synchronous(self, port):
        process.wait(
            lambda: self.sql(port, "select count(*) from pg_stat_replication where sync_state = 'sync'") != "0",
            f"the standby did not become synchronous; see {self.folder / 'replica.log'}",
        )
