"""Apache Cassandra 5.0.5, the real server: one node, from its jars in Maven Central.

Maven fetches the jars, and each is checked against `servers/cassandra/SHA256SUMS`. An option is a line of
`cassandra.yaml`, such as `commitlog_sync: batch`, or an option of Java, such as `-Dname=value`. A node of a cluster has
its own `listen_address` and `rpc_address`, and the others' `storage_port` and `seed_provider`.
"""

import hashlib
import os
import shutil
import socket
import ssl
import struct
import tempfile
from pathlib import Path

from . import cache, process
from .fault import Fault

SOURCE = Path(__file__).resolve().parent.parent / "cassandra"
SUMS = SOURCE / "SHA256SUMS"
# It takes longer to start than other servers, above all on a machine that compiles at the same time.
START_LIMIT_S = 400
# What Cassandra's own `jvm17-server.options` opens to it.
EXPORTED = [
    *(f"java.base/{package}" for package in ["jdk.internal.misc", "java.lang.ref"]),
    *(f"java.rmi/sun.rmi.{package}" for package in ["registry", "server", "transport.tcp"]),
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.sql/java.sql",
    "jdk.unsupported/sun.misc",
]
OPENED = [
    *(f"java.base/jdk.internal.{package}" for package in ["loader", "ref", "reflect", "math", "module", "util.jar"]),
    *(f"java.base/{package}" for package in ["java.io", "java.lang", "java.lang.module", "java.nio", "java.util"]),
    *(f"java.base/{package}" for package in ["java.lang.reflect", "java.util.concurrent", "sun.nio.ch"]),
    "jdk.management/com.sun.management.internal",
]


def install():
    """`jars/*.jar` in one folder."""

    def build(folder):
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".cassandra-download-") as download:
            maven = ["mvn", "--batch-mode", "--quiet", f"-Dmaven.repo.local={download}", "-f", SOURCE / "pom.xml"]
            cache.run([*maven, "dependency:copy-dependencies", f"-DoutputDirectory={folder / 'jars'}"])
        expected = dict(line.split()[::-1] for line in SUMS.read_text().splitlines())
        for jar in sorted((folder / "jars").iterdir()):
            found = hashlib.sha256(jar.read_bytes()).hexdigest()
            if found != expected.get(jar.name):
                raise Fault(f"{jar.name} has the SHA-256 {found}, expected {expected.get(jar.name)}")

    return cache.installed(f"cassandra-5.0.5-{cache.digest(SUMS)}", build)


def start(port, folder, options):
    """One node on this port."""
    root = install()
    settings = _settings(port, folder, options)
    credentials = f"storebench:{options.password}@" if options.password else ""
    address = settings["rpc_address"]
    url = f"cassandra{'s' if options.tls else ''}://{credentials}{address}:{port}"
    if process.alive(folder, "server"):
        return url
    process.require_free(port)
    if options.tls:
        (folder / "tls.pem").write_text("\n".join(Path(file).read_text() for file in reversed(options.tls)))
    (folder / "cassandra.yaml").write_text("".join(f"{name}: {value}\n" for name, value in settings.items()))
    shutil.copy(SOURCE / "logback.xml", folder)
    command = [shutil.which("java") or "java", "-Xms256m", "-Xmx512m", "-XX:+UseSerialGC"]
    # The full compiler would be busy with Cassandra's start for longer than tests run.
    command += ["-XX:TieredStopAtLevel=1", "-Xss512k"]
    command += [f"-javaagent:{next((root / 'jars').glob('jamm-*.jar'))}", "-XX:+ExitOnOutOfMemoryError"]
    command += [f"--add-exports={name}=ALL-UNNAMED" for name in EXPORTED]
    command += [f"--add-opens={name}=ALL-UNNAMED" for name in OPENED]
    command += [
        "-Djdk.attach.allowAttachSelf=true",
        "-Dio.netty.tryReflectionSetAccessible=true",
        f"-Djava.io.tmpdir={folder}",
        f"-Dlogback.configurationFile={folder / 'logback.xml'}",
        f"-Dcassandra.config=file://{folder / 'cassandra.yaml'}",
        f"-Dcassandra.storagedir={folder / 'data'}",
        f"-Dcassandra.logdir={folder}",
        # A single node need not wait for others.
        "-Dcassandra.skip_wait_for_gossip_to_settle=0",
        "-Dcassandra.ring_delay_ms=0",
        "-Dcassandra.superuser_setup_delay_ms=0",
        *(option for option in options.option if option.startswith("-")),
        *["-Dcassandra-foreground=yes", "-cp", f"{root / 'jars'}/*", "org.apache.cassandra.service.CassandraDaemon"],
    ]
    connect = lambda: _connect(address, port, options.tls)
    ready = lambda: _answers(connect)
    within = {"env": os.environ | {"LC_ALL": "C.UTF-8"}, "cwd": folder}
    process.launch(folder, "server", command, ready, limit_s=START_LIMIT_S, **within)
    if options.password and not (folder / "role").exists():
        process.wait(lambda: _add_role(connect, options.password), "cannot add the user storebench", START_LIMIT_S)
        (folder / "role").touch()
    return url


def _settings(port, folder, options):
    """The lines of `cassandra.yaml`: what Cassandra is shipped with, except for places, sizes and times."""
    seeds = f"127.0.0.1:{process.kept_port(folder, 'storage')}"
    provider = "{class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [{seeds: '%s'}]}" % seeds
    settings = {
        "cluster_name": "storebench",
        "num_tokens": 16,
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
        "seed_provider": f"[{provider}]",
        "listen_address": "127.0.0.1",
        "rpc_address": "127.0.0.1",
        "native_transport_port": port,
        "storage_port": process.kept_port(folder, "storage"),
        "endpoint_snitch": "SimpleSnitch",
        "data_file_directories": f"[{folder / 'data' / 'data'}]",
        "commitlog_directory": folder / "data" / "commitlog",
        "hints_directory": folder / "data" / "hints",
        "saved_caches_directory": folder / "data" / "saved_caches",
        "cdc_raw_directory": folder / "data" / "cdc_raw",
        "commitlog_sync": "periodic",
        "commitlog_sync_period": "10000ms",
        "commitlog_segment_size": "32MiB",
        "commitlog_total_space": "128MiB",
        "memtable_heap_space": "64MiB",
        "memtable_offheap_space": "64MiB",
        "memtable_flush_writers": 1,
        "file_cache_size": "32MiB",
        "key_cache_size": "16MiB",
        "concurrent_reads": 16,
        "concurrent_writes": 16,
        "concurrent_compactors": 1,
        # Tests drop many tables.
        "auto_snapshot": "false",
        # Longer, because several servers run at once in tests.
        "cas_contention_timeout": "20000ms",
        "range_request_timeout": "20000ms",
        "read_request_timeout": "20000ms",
        "write_request_timeout": "20000ms",
        "authenticator": "PasswordAuthenticator" if options.password else "AllowAllAuthenticator",
        "authorizer": "CassandraAuthorizer" if options.password else "AllowAllAuthorizer",
    }
    if options.tls:
        factory = "ssl_context_factory: {class_name: org.apache.cassandra.security.PEMBasedSslContextFactory}"
        settings["client_encryption_options"] = f"{{enabled: true, keystore: '{folder / 'tls.pem'}', {factory}}}"
    for option in (option for option in options.option if not option.startswith("-")):
        name, colon, value = option.partition(":")
        if not colon:
            raise Fault(f"invalid option `{option}`; expected a line of cassandra.yaml, as in `commitlog_sync: batch`")
        settings[name.strip()] = value.strip()
    # Cassandra refuses the period of another way to sync.
    if settings["commitlog_sync"] != "periodic":
        del settings["commitlog_sync_period"]
    return settings


def _connect(address, port, tls):
    connection = socket.create_connection((address, port), timeout=30)
    return ssl._create_unverified_context().wrap_socket(connection) if tls else connection


def _answers(connect):
    """Whether an OPTIONS request, which needs no login, is answered by SUPPORTED."""
    try:
        with connect() as connection:
            return _ask(connection, 5, b"") == 6
    except (OSError, struct.error):
        return False


def _add_role(connect, password):
    """Creates the superuser `storebench` as the user `cassandra`, and takes that one's well-known password away."""
    quoted = password.replace("'", "''")
    try:
        with connect() as connection:
            if _ask(connection, 1, struct.pack(">HH11sH5s", 1, 11, b"CQL_VERSION", 5, b"3.0.0")) != 3:
                return False
            login = b"\0cassandra\0cassandra"
            if _ask(connection, 15, struct.pack(">i", len(login)) + login) != 16:
                return False
            for statement in [
                f"CREATE ROLE IF NOT EXISTS storebench WITH SUPERUSER = true AND LOGIN = true "
                f"AND PASSWORD = '{quoted}'",
                f"ALTER ROLE cassandra WITH PASSWORD = '{quoted}'",
            ]:
                text = statement.encode()
                if _ask(connection, 7, struct.pack(">i", len(text)) + text + b"\x00\x01\x00") != 8:
                    return False
            return True
    except (OSError, struct.error):
        return False


def _ask(connection, opcode, body):
    """Sends a request of the native protocol, version 4. Returns the opcode of its answer."""
    connection.sendall(struct.pack(">BBHBi", 4, 0, 0, opcode, len(body)) + body)
    with connection.makefile("rb") as answer:
        _, _, _, opcode, length = struct.unpack(">BBHBi", answer.read(9))
        answer.read(length)
    return opcode
