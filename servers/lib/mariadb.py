"""MariaDB 10.11 from Debian."""

import os
import pathlib
import shutil
import subprocess
from urllib.parse import quote

from . import cache, debian, process
from .fault import Fault

# With Debian's epoch.
VERSION = "1:10.11."
# MariaDB refuses to run as root, so root runs it as nobody.
NOBODY = 65534


def install():
    """The unpacked server, and the clients `mariadb`, `mariadb-dump` and `mariadb-slap`."""
    packages = dict.fromkeys(["mariadb-server-core", "mariadb-client-core", "mariadb-client"], VERSION)
    needing = ["usr/sbin/mariadbd", "usr/bin/mariadb", "usr/bin/mariadb-dump", "usr/bin/mariadb-slap"]
    return debian.installed("mariadb-10.11", packages, needing)


def start(port, folder, options):
    """One node with the database and user `storebench`, and MariaDB's durable defaults."""
    return _Server(folder, options).start(port)


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
        for place in [self.folder, self.root / "usr/bin"]:
            reached = subprocess.run([*self.as_user, "test", "-x", str(place)], stdin=subprocess.DEVNULL)
            if reached.returncode != 0:
                raise Fault(
                    f"MariaDB does not run as root, and as user nobody it cannot enter {place}; "
                    "use a --data and an XDG_CACHE_HOME outside of root's own folders"
                )

    def _own(self, name, text=None):
        """A folder of the unprivileged user, or a file with this text."""
        place = self.folder / name
        if text is None:
            place.mkdir(mode=0o700, exist_ok=True)
        else:
            place.touch(mode=0o600)
            place.write_bytes(text)
        if self.as_user:
            os.chown(place, NOBODY, NOBODY)
        return place

    def start(self, port):
        data = self.folder / "data"
        if not data.exists():
            self._initialize()
        if not process.alive(self.folder, "server"):
            process.require_free(port)
            self._launch(port, data)
        return f"mysql://storebench:{quote(self.password, safe='')}@127.0.0.1:{port}/storebench"

    def _common(self):
        """Options of every start. No file of the machine is read, which may have another MariaDB."""
        usr = self.root / "usr"
        places = [f"--basedir={usr}", f"--lc-messages-dir={usr}/share/mysql", f"--plugin-dir={usr}/lib/mysql/plugin"]
        return ["--no-defaults", *places, f"--character-sets-dir={usr}/share/mysql/charsets"]

    def _initialize(self):
        # Use a folder of another name first, so that a folder called `data` is always complete.
        unfinished = self.folder / "data.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        self._own(unfinished.name)
        password = self.password.replace("\\", "\\\\").replace("'", "\\'")
        user = f"FLUSH PRIVILEGES;\nCREATE USER storebench@'127.0.0.1' IDENTIFIED BY '{password}';\n"
        user += "GRANT ALL ON *.* TO storebench@'127.0.0.1' WITH GRANT OPTION;\nCREATE DATABASE storebench;\n"
        extra = self._own("extra.sql", user.encode())
        script = [*self.as_user, "sh", str(self.root / "usr/bin/mariadb-install-db"), *self._common()]
        script += [f"--datadir={unfinished}", "--skip-test-db", "--skip-name-resolve", f"--extra-file={extra}"]
        # A server removes temporary tables that it finds where it starts: also those of another one.
        cache.run(script, env=self.environment | {"TMPDIR": str(self._own("tmp"))}, cwd="/")
        extra.unlink()
        unfinished.rename(self.folder / "data")

    def _launch(self, port, data):
        # No socket in the file system, because its path may be longer than the kernel allows.
        command = [*self.as_user, str(self.root / "usr/sbin/mariadbd"), *self._common(), f"--datadir={data}"]
        command += ["--bind-address=127.0.0.1", f"--port={port}", "--socket=", f"--tmpdir={self._own('tmp')}"]
        command += [f"--pid-file={data}/server.pid"]
        if self.tls:
            for option, name, source in zip(["cert", "key"], ["cert.pem", "key.pem"], self.tls):
                copy = self._own(name, pathlib.Path(source).read_bytes())
                command.append(f"--ssl-{option}={copy}")
        command += [f"--{option}" for option in self.options]
        process.launch(self.folder, "server", command, lambda: self._ready(port), env=self.environment, cwd="/")

    def _ready(self, port):
        client = [str(self.root / "usr/bin/mariadb"), "--no-defaults", "-h127.0.0.1", f"-P{port}", "-ustorebench"]
        environment = self.environment | {"MYSQL_PWD": self.password}
        asked = subprocess.run([*client, "-eSELECT 1"], env=environment, stdin=subprocess.DEVNULL, capture_output=True)
        return asked.returncode == 0
