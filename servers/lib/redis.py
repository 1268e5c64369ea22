"""Redis 7.0 from Debian: alone, as a primary with a replica, or as a cluster of three masters. Valkey 8.0 alone."""

import subprocess
from urllib.parse import quote

from . import cache, debian, process

VERSION = "5:7.0."


def install():
    """The unpacked packages `redis-server` and `redis-tools`."""
    packages = {"redis-server": VERSION, "redis-tools": VERSION}
    needing = ["usr/bin/redis-server", "usr/bin/redis-cli", "usr/bin/redis-benchmark"]
    return debian.installed("redis-7.0", packages, needing)


def install_valkey():
    """The unpacked packages `valkey-server` and `valkey-tools`, which Debian 12 has only in its backports."""
    packages = {"valkey-server/bookworm-backports": "8.0.", "valkey-tools/bookworm-backports": "8.0."}
    needing = ["usr/bin/valkey-server", "usr/bin/valkey-cli", "usr/bin/valkey-benchmark"]
    return debian.installed("valkey-8.0", packages, needing)


def start(port, folder, options):
    """One node. By default it saves nothing; `--option "appendonly yes"` makes it durable."""
    return _start(_Servers(folder, options), port)


def start_valkey(port, folder, options):
    """One node with the settings of Redis."""
    return _start(_Servers(folder, options, install_valkey(), "valkey"), port)


def _start(servers, port):
    servers.launch("server", port)
    return servers.url(port)


def start_with_replica(port, folder, options):
    """A primary (`server`) and a replica (`replica`) that follows it."""
    servers = _Servers(folder, options)
    servers.launch("server", port)
    # The replica logs in with the password that it requires itself, which is the same.
    login = ["--masterauth", options.password] if options.password else []
    encrypted = ["--tls-replication", "yes"] if options.tls else []
    replica = process.kept_port(folder, "replica")
    servers.launch("replica", replica, "--replicaof", f"127.0.0.1 {port}", *login, *encrypted)
    process.wait(
        lambda: "master_link_status:up" in servers.ask(replica, "info", "replication"),
        f"the replica does not follow; see {folder / 'replica.log'}",
    )
    return servers.url(port)


def start_cluster(port, folder, options):
    """Three masters with a third of the slots each: `server`, `node-2`, `node-3`."""
    servers = _Servers(folder, options)
    ports = {"server": port} | {node: process.kept_port(folder, node) for node in ["node-2", "node-3"]}
    for node, its_port in ports.items():
        bus = process.kept_port(folder, f"{node}-bus")
        cluster = ["--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", 5000]
        servers.launch(node, its_port, *cluster)
    if "cluster_slots_assigned:0" in servers.ask(port, "cluster", "info"):
        addresses = [f"127.0.0.1:{its_port}" for its_port in ports.values()]
        servers.ask(port, "--cluster", "create", *addresses, "--cluster-yes")
    for node, its_port in ports.items():
        process.wait(
            lambda: "cluster_state:ok" in servers.ask(its_port, "cluster", "info"),
            f"{node} has not joined the cluster; see {folder / node}.log",
        )
    return f"{servers.url(port)}?cluster=yes"


class _Servers:
    def __init__(self, folder, options, root=None, program="redis"):
        self.root = root or install()
        self.program = self.root / "usr/bin" / program
        self.folder = folder
        self.options = options
        self.environment = debian.environment(self.root)

    def url(self, port):
        login = f":{quote(self.options.password, safe='')}@" if self.options.password else ""
        return f"{'rediss' if self.options.tls else 'redis'}://{login}127.0.0.1:{port}"

    def launch(self, node, port, *settings):
        if process.alive(self.folder, node):
            return
        process.require_free(port)
        place = self.folder / node
        place.mkdir(exist_ok=True)
        command = [f"{self.program}-server", "--bind", "127.0.0.1", "--dir", place, "--save", ""]
        command += ["--port", 0, "--tls-port", port] if self.options.tls else ["--port", port]
        if self.options.tls:
            certificate, key = self.options.tls
            command += ["--tls-cert-file", certificate, "--tls-key-file", key, "--tls-auth-clients", "no"]
            command += ["--tls-ca-cert-file", certificate]
        if self.options.password:
            command += ["--requirepass", self.options.password]
        # Synchronize a replica at once, not after a pause for further replicas.
        command += ["--repl-diskless-sync-delay", 0, *settings]
        for option in self.options.option:
            name, _, value = option.partition(" ")
            command += [f"--{name}", value]
        # It answers with an error until its data is loaded.
        ready = lambda: self._cli(port, "ping").stdout.strip() == "PONG"
        process.launch(self.folder, node, command, ready, env=self.environment)

    def ask(self, port, *words):
        """The answer to a command, or to an option of redis-cli or valkey-cli."""
        return cache.run(self._command(port, *words), env=self._login())

    def _cli(self, port, *words):
        command = self._command(port, *words)
        return subprocess.run(command, env=self._login(), stdin=subprocess.DEVNULL, capture_output=True, text=True)

    def _command(self, port, *words):
        encrypted = ["--tls", "--insecure"] if self.options.tls else []
        return [f"{self.program}-cli", *encrypted, "-h", "127.0.0.1", "-p", str(port), *words]

    def _login(self):
        return self.environment | ({"REDISCLI_AUTH": self.options.password} if self.options.password else {})
