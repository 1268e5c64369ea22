"""Hadoop's file system (HDFS) 3.4.1: the real name node and data node in one process, as in Hadoop's own tests.

Maven fetches the jars; the main class is `servers/minidfs/MiniDfs.java`. Installed only by name, because it has 90 MB.
"""

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from . import cache, process
from .fault import Fault

SOURCE = Path(__file__).resolve().parent.parent / "minidfs"
SHA256 = {
    "hadoop-client-api-3.4.1.jar": "a964d4daa054c9615bbafb4553efbb140fa7fb9ac6f358a24393f183a5703438",
    "hadoop-client-runtime-3.4.1.jar": "f6a800a159f918670db533606d33560d6c13b7e13f14eda493280ae33b9eeb2f",
    "hadoop-client-minicluster-3.4.1.jar": "5b90be54a39d856f237a4530e25f62aea4b67c180c73b5cfb1aff35c502b2d29",
}


def install():
    """`jars/*.jar` and `classes/MiniDfs.class` in one folder."""
    # A changed main class needs another installation.
    ours = hashlib.sha256((SOURCE / "MiniDfs.java").read_bytes()).hexdigest()[:8]

    def build(folder):
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".minidfs-download-") as download:
            maven = ["mvn", "--batch-mode", "--quiet", f"-Dmaven.repo.local={download}", "-f", SOURCE / "pom.xml"]
            cache.run([*maven, "dependency:copy-dependencies", f"-DoutputDirectory={folder / 'jars'}"])
        for name, sha256 in SHA256.items():
            found = hashlib.sha256((folder / "jars" / name).read_bytes()).hexdigest()
            if found != sha256:
                raise Fault(f"{name} has the SHA-256 {found}, expected {sha256}")
        cache.run(["javac", "-cp", f"{folder / 'jars'}/*", "-d", folder / "classes", SOURCE / "MiniDfs.java"])

    return cache.installed(f"minidfs-3.4.1-{ours}", build)


def start(port, folder, options):
    """A name node on this port and one data node, without login."""
    root = install()
    if not process.alive(folder, "server"):
        process.require_free(port)
        (folder / "server.log").unlink(missing_ok=True)
        command = [shutil.which("java") or "java", "-Xmx512m", *(f"-D{option}" for option in options.option)]
        command += ["-cp", f"{root / 'classes'}:{root / 'jars'}/*", "MiniDfs", port, folder / "data"]
        ready = lambda: b"serving hdfs://" in (folder / "server.log").read_bytes()
        process.launch(folder, "server", command, ready, env=os.environ | {"HADOOP_USER_NAME": "storebench"}, cwd=folder)
    return f"hdfs://127.0.0.1:{port}"
