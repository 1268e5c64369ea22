"""pouchdb-server from npm: CouchDB's HTTP interface over LevelDB or memory. Not CouchDB."""

import json
from urllib.parse import quote

from . import cache, npm, process


def install():
    """Its package contains LevelDB already built."""
    return cache.installed("pouchdb-server-4.2.0", lambda folder: npm.install("pouchdb", folder))


def start(port, folder, options):
    """One node. `--password` is that of the administrator `storebench`."""
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
