"""Measures the Python package and Spark, each figure beside its reference in the same rounds.

    measure.py GROUP --rounds N --documents N --program FILE --servers DIR --folder DIR

Prints one JSON object: for each figure its values by round, in documents a second, and those of its reference.
"""

import argparse
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import time
import urllib.parse

import storebench

WORKERS = 2
STUDY = """
title = "Python"
seed = 435
[collections.documents]
count = {count}
size = "2KB"
key = "k{{index}}"
[[phases]]
name = "load"
load = ["documents"]
"""


def interleaved(rounds, sides):
    """Calls every side once in each round, every second round backwards. Returns the values of each."""
    values = [[] for _ in sides]
    for number in range(rounds):
        order = range(len(sides)) if number % 2 == 0 else reversed(range(len(sides)))
        for at in order:
            values[at].append(sides[at]())
    return values


def per_second(count, work):
    """How many a second."""
    begun = time.perf_counter()
    done = work()
    assert done == count, f"{done} of {count} documents"
    return count / (time.perf_counter() - begun)


def arrow_rows(stream):
    """Reads a stream to its end, batch by batch."""
    import pyarrow

    return sum(batch.num_rows for batch in pyarrow.RecordBatchReader.from_stream(stream))


class Lab:
    """What all groups need."""

    def __init__(self, given):
        self.given, self.count, self.rounds = given, given.documents, given.rounds
        self.folder = pathlib.Path(given.folder)
        self.study = STUDY.format(count=self.count)

    def program(self, *words):
        """Runs a verb of the program in a process of its own. Returns its JSON."""
        out = f"--out={self.folder / 'runs'}"
        done = subprocess.run([self.given.program, *words, "--json", "--quiet", out], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def copies(self, source, target, *words):
        """Documents a second of a copy by the program, as its report says."""
        report = self.program("copy", source, target, "--restart", f"--workers={WORKERS}", *words)
        assert report["counts"]["written"] == self.count, report
        return self.count / report["seconds"]

    def file(self, name):
        """The documents as a file, made once."""
        path = self.folder / name
        if not path.exists():
            lines = self.folder / "documents.jsonl"
            if not lines.exists():
                with lines.open("w") as out:
                    for row in storebench.documents(self.study, "documents"):
                        out.write('{"_id":"%s",%s\n' % (row["key"], row["document"][1:]))
            if path != lines:
                self.program("copy", str(lines), str(path), "--restart")
        return str(path)

    def server(self, name, *words):
        """Starts a server. Returns its URL, and what stops it."""
        sys.path.insert(0, self.given.servers)
        from lib import process

        data = self.folder / name
        data.mkdir()
        # PostgreSQL does not run as root, so another user must reach its folder.
        for place in [data, *data.parents][:-2]:
            place.chmod(place.stat().st_mode | 0o055)
        servers = pathlib.Path(self.given.servers)
        start = [servers / "start", name, "--port", str(process.free_port()), "--data", data, *words]
        url = subprocess.run(start, check=True, capture_output=True, text=True).stdout.strip()
        return url, lambda: subprocess.run([servers / "stop", name, "--data", data, "--kill"], check=True)


def documents(lab):
    """One round of the generator as an Arrow stream."""
    values = [per_second(lab.count, lambda: arrow_rows(storebench.documents(lab.study, "documents")))]
    return {"documents": (values, None)}


def read(lab):
    """One round of reading a file as an Arrow stream."""
    lines = lab.file("documents.jsonl")
    return {"read": ([per_second(lab.count, lambda: arrow_rows(storebench.read(lines, workers=WORKERS)))], None)}


def emptied(redis):
    """Empties a Redis server, whose memory has room for a few copies only."""
    place = urllib.parse.urlsplit(redis)
    with socket.create_connection((place.hostname, place.port)) as server:
        server.sendall(b"FLUSHALL\r\n")
        assert server.recv(64).startswith(b"+OK")


def session(lab, url):
    """A session on a cluster, warm: its executors and their Python processes run."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(url).appName("storebench bench")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.cores": "1",
        "spark.cores.max": str(WORKERS),
        "spark.executor.memory": "2g",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.sparkContext.parallelize(range(WORKERS), WORKERS).foreach(lambda _: __import__("storebench.spark"))
    return spark


def spark(lab):
    """Copies and the data source on a standalone cluster with two workers."""
    import storebench.spark

    cluster, stop = lab.server("spark", "--option", "cores=1", "--option", "memory=2g")
    redis, stop_redis = lab.server("redis")
    postgres, stop_postgres = lab.server("postgres", "--option", "max_wal_size=8GB")
    lines, parquet = lab.file("documents.jsonl"), lab.file("documents.parquet")
    try:
        spark = session(lab, cluster)

        def fresh():
            return f"c{random.randrange(10**9)}"

        def by_spark(source, target):
            emptied(redis)
            report = storebench.spark.copy(
                spark, source, target, to_collection=fresh(), restart=True, progress=False, out=str(lab.folder / "runs")
            )
            assert report["counts"]["written"] == lab.count, report
            return lab.count / report["seconds"]

        def by_program(source, target):
            emptied(redis)
            return lab.copies(source, target, f"--to-collection={fresh()}")

        # The JVMs compile what they run often, which takes them a few seconds.
        by_spark(lines, redis)
        found = {}
        for name, source, target in [("jsonl to redis", lines, redis), ("parquet to postgres", parquet, postgres)]:
            sides = [lambda: by_spark(source, target), lambda: by_program(source, target)]
            found[name] = interleaved(lab.rounds, sides)
        frame = spark.read.format("storebench").options(url=lines, documents="true", workers=str(WORKERS))

        def rows():
            # Reads every column of every row, and keeps nothing.
            return per_second(lab.count, lambda: written(frame.load().write.format("noop").mode("overwrite")))

        def written(writer):
            writer.save()
            return lab.count

        cached = frame.load().repartition(WORKERS).cache()
        cached.count()

        def writes():
            emptied(redis)
            options = {"url": redis, "collection": fresh(), "documents": "true", "out": str(lab.folder / "runs")}
            writer = cached.write.format("storebench").options(**options).mode("append")
            return per_second(lab.count, lambda: written(writer))

        rows(), writes()
        found["read"], found["write"] = ((values, None) for values in interleaved(lab.rounds, [rows, writes]))
        spark.stop()
        return found
    finally:
        for one in (stop, stop_redis, stop_postgres):
            one()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("group", choices=["documents", "read", "spark"])
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--documents", type=int, required=True)
    for name in ["program", "servers", "folder"]:
        parser.add_argument(f"--{name}", required=True)
    lab = Lab(parser.parse_args())
    found = {"documents": documents, "read": read, "spark": spark}[lab.given.group](lab)
    print(json.dumps({name: {"ours": ours, "reference": theirs} for name, (ours, theirs) in found.items()}))


main()
