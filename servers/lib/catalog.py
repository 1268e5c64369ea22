"""The servers by name, and everything else that can be installed."""

from collections import namedtuple

from . import (
    bench_tools,
    cassandra,
    chromium,
    couchbackup,
    dist_tools,
    dynalite,
    ferretdb,
    mariadb,
    memcached,
    minidfs,
    moto,
    nx27017,
    opensearch,
    postgres,
    pouchdb,
    prometheus,
    python_tools,
    ravendb,
    redis,
    report_tools,
    spark,
    ssh,
    vega_datasets,
    workflow_tools,
)

# install() installs it into the cache; start(port, folder, options) returns its URL once it answers.
# `takes` has the options of `servers/start` that it supports.
Server = namedtuple("Server", "install start takes")

SERVERS = {
    "postgres": Server(postgres.install, postgres.start, {"password", "tls", "option"}),
    "postgres-standby": Server(postgres.install, postgres.start_with_standby, {"password", "tls", "option"}),
    "redis": Server(redis.install, redis.start, {"password", "tls", "option"}),
    "redis-replica": Server(redis.install, redis.start_with_replica, {"password", "tls", "option"}),
    "redis-cluster": Server(redis.install, redis.start_cluster, {"option"}),
    "valkey": Server(redis.install_valkey, redis.start_valkey, {"password", "tls", "option"}),
    "mariadb": Server(mariadb.install, mariadb.start, {"password", "tls", "option"}),
    "memcached": Server(memcached.install, memcached.start, {"memory", "option"}),
    "pouchdb-server": Server(pouchdb.install, pouchdb.start, {"password", "in_memory", "option"}),
    "ravendb": Server(ravendb.install, ravendb.start, {"option"}),
    "opensearch": Server(opensearch.install, opensearch.start, {"option"}),
    "ferretdb": Server(ferretdb.install, ferretdb.start, {"option"}),
    "ferretdb-postgres": Server(ferretdb.install_on_postgres, ferretdb.start_on_postgres, {"option"}),
    "cassandra": Server(cassandra.install, cassandra.start, {"password", "tls", "option"}),
    "nx-27017": Server(nx27017.install, nx27017.start, {"option"}),
    "dynalite": Server(dynalite.install, dynalite.start, {"option"}),
    "moto": Server(moto.install, moto.start, {"option"}),
    "minidfs": Server(minidfs.install, minidfs.start, {"option"}),
    "spark": Server(spark.install, spark.start, {"option"}),
}

# Data and tools that tests use: installed with the servers.
DATA = {
    "vega-datasets": vega_datasets.install,
    "chromium": chromium.install,
    "report-tools": report_tools.install,
    "python-tools": python_tools.install,
    "ssh": ssh.install,
    "prometheus": prometheus.install,
}
# Large, and only for soak tests: `servers/install all` skips them.
BY_NAME_ONLY = {"minidfs", "spark"}

# Installed only by name, and never started.
TOOLS = {
    "bench-tools": bench_tools.install,
    "couchbackup": couchbackup.install,
    "dist-tools": dist_tools.install,
    "workflow-tools": workflow_tools.install,
}
