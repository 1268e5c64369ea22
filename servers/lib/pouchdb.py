"""pouchdb-server of npm: CouchDB's HTTP interface over LevelDB or memory. Not CouchDB."""

import json
import pathlib
import shutil
from urllib.parse import quote

from . import cache, process

MANIFEST = pathlib.Path(__file__).parent.parent / "pouchdb"


def install():
    """`npm ci` of the lock file, which checks every package against its recorded hash."""

    def build(folder):
        for name in ["package.json", "package-lock.json"]:
            shutil.copy(MANIFEST / name, folder)
        # LevelDB comes built in its package; nothing is compiled and no script of a package runs.
        npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        cache.run([*npm, "--omit-lockfile-registry-resolved"], cwd=folder)

    return cache.installed("pouchdb-server-4.2.0", build)


def start(port, folder, options):
    """One node; with `--password`, of the administrator `storebench`."""
    root = install()
    login = ""
    config = {"log": {"level": "none"}}
    if options.password:
        config["admins"] = {"storebench": options.password}
        config["couch_httpd_auth"] = {"require_valid_user": True}
        login = f"storebench:{quote(options.password, safe='')}@"
    if not process.alive(folder, "server"):
        process.require_free(port)
        (folder / "data").mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config))
        command = ["node", root / "node_modules/pouchdb-server/bin/pouchdb-server", "--host", "127.0.0.1"]
        command += ["--port", port, "--dir", folder / "data", "--config", folder / "config.json", "--no-stdout-logs"]
        command += ["--in-memory"] if options.in_memory else []
        command += options.option
        ready = lambda: process.fetch(port, "/") is not None
        process.launch(folder, "server", command, ready, cwd=folder)
    return f"couchdb://{login}127.0.0.1:{port}"
