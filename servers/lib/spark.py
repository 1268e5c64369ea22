"""Spark from the Python Package Index: a standalone master and two workers, each a JVM. Installed only by name, because
it takes 700 MB.
"""

import os
import pathlib
import shutil
import sys

from . import cache, process
from .fault import Fault

REQUIREMENTS = pathlib.Path(__file__).parent.parent / "spark/requirements.txt"


def install():
    """The distributions of `requirements.txt`, for this Python version."""

    def build(folder):
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        # Without its cache, which would keep another 500 MB.
        pip.append("--no-cache-dir")
        cache.run([*pip, "--require-hashes", "--no-deps", "--target", str(folder), "-r", str(REQUIREMENTS)])

    return cache.installed(f"spark-{cache.digest(REQUIREMENTS)}-{sys.implementation.cache_tag}", build)


def start(port, folder, options):
    """A master on this port and the workers `worker-1` and `worker-2`. An option is a setting such as `cores=2`, the
    number of tasks that each worker runs at the same time."""
    home = install() / "pyspark"
    given = dict(option.partition("=")[::2] for option in options.option)
    for name in given.keys() - {"cores", "memory"}:
        raise Fault(f"unknown option `{name}`; expected cores=N or memory=SIZE")
    if shutil.which("java") is None:
        raise Fault("Spark needs Java; install a Java runtime, version 17 or later")
    # Not `SPARK_LOCAL_IP`, which Spark would put into messages of executors.
    environment = os.environ | {"SPARK_HOME": str(home), "SPARK_NO_DAEMONIZE": "1"}
    url = f"spark://127.0.0.1:{port}"

    def launch(node, kind, said, *words):
        log = folder / f"{node}.log"
        if not process.alive(folder, node):
            log.unlink(missing_ok=True)
        command = [home / "bin/spark-class", f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1", *words]
        ready = lambda: said in log.read_bytes()
        process.launch(folder, node, command, ready, env=environment, cwd=folder)

    if not process.alive(folder, "server"):
        process.require_free(port)
    launch("server", "master.Master", b"I have been elected leader", "--port", port, "--webui-port", "0")
    for worker in ["worker-1", "worker-2"]:
        words = ["--cores", given.get("cores", "2"), "--memory", given.get("memory", "1g"), "--webui-port", "0"]
        words += ["--work-dir", folder / worker, url]
        launch(worker, "worker.Worker", b"Successfully registered with master", *words)
    return url
