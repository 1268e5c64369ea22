"""A standalone Spark cluster with two workers, and real stores. Each is started once."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from storebench.spark._job import slots

SERVERS = pathlib.Path(os.environ["STOREBENCH_SERVERS"])
PASSWORD = "tops3cret"


class Server:
    """A server that ``servers/start`` starts."""

    def __init__(self, name: str, data: pathlib.Path, *words: str) -> None:
        sys.path.insert(0, str(SERVERS))
        from lib import process

        self.name, self.data, self.words, self.port = name, data, words, process.free_port()
        self.url = self.start()

    def start(self) -> str:
        """Starts what does not run, and returns the URL."""
        words = [self.name, "--port", str(self.port), "--data", str(self.data), *self.words]
        done = subprocess.run([SERVERS / "start", *words], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def stop(self, *words: str) -> None:
        """Stops it, or one node of it."""
        done = subprocess.run([SERVERS / "stop", self.name, "--data", str(self.data), *words], capture_output=True)
        assert done.returncode == 0, done.stderr


def served(name: str, factory: pytest.TempPathFactory, *words: str) -> Iterator[Server]:
    server = Server(name, factory.mktemp(name), *words)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from served("spark", tmp_path_factory, "--option", "cores=2")


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    yield from served("redis", tmp_path_factory, "--password", PASSWORD)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("postgres")
    # PostgreSQL does not run as root, so another user must reach its folder.
    for parent in [folder, *folder.parents][:3]:
        parent.chmod(0o755)
    server = Server("postgres", folder, "--password", PASSWORD)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def spark(cluster: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session on the cluster, which logs everything that Spark itself knows of a query."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    events = tmp_path_factory.mktemp("events")
    builder: Any = SparkSession.builder
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        # As an executor starts slower than a small job ends.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
        "spark.cores.max": "4",
        "spark.executor.cores": "2",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.master(cluster.url).appName("storebench tests").getOrCreate()
    session.sparkContext.setLogLevel("WARN")
    session.events = events
    yield session
    session.stop()


def all_slots(spark: Any) -> None:
    """Waits until both workers have an executor, also after one was killed."""
    until = time.monotonic() + 90
    while slots(spark.sparkContext) < 4:
        assert time.monotonic() < until, "the workers have no executors"
        time.sleep(0.1)


@pytest.fixture(autouse=True)
def here(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """The current folder, empty."""
    before = pathlib.Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


def books(path: pathlib.Path, count: int) -> list[dict[str, Any]]:
    """Writes documents. One of a hundred has a field that the others do not have."""
    import json

    all = []
    for n in range(count):
        book: dict[str, Any] = {"_id": f"b/{n:06}", "title": f"title {n}", "year": 1900 + n % 120}
        book |= {"price": n / 4, "tags": ["x"] * (n % 3), "by": {"name": f"n{n % 50}"}}
        if n % 100 == 0:
            book["rare"] = True
        all.append(book)
    path.write_text("".join(json.dumps(book) + "\n" for book in all))
    return all
