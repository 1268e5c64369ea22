"""OpenSearch 2.19.6, the real server, from the jars of Maven Central, which has no package of the whole.

Maven fetches the jars; the main class is `servers/opensearch/OneNode.java`. It has no plugins except the one for HTTP:
no security (so neither passwords nor TLS), no scripts, no analyzers beyond the standard one.
"""

import hashlib
import shutil
import tempfile
from pathlib import Path

from . import cache, process
from .fault import Fault

SOURCE = Path(__file__).resolve().parent.parent / "opensearch"


def install():
    """`jars/*.jar` and `classes/OneNode.class` in one folder."""
    wanted = dict(line.split()[::-1] for line in (SOURCE / "jars.sha256").read_text().splitlines())
    # Another main class or other jars need another installation.
    ours = hashlib.sha256(b"".join((SOURCE / name).read_bytes() for name in ["OneNode.java", "jars.sha256"])).hexdigest()

    def build(folder):
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".opensearch-download-") as download:
            maven = ["mvn", "--batch-mode", "--quiet", f"-Dmaven.repo.local={download}", "-f", SOURCE / "pom.xml"]
            cache.run([*maven, "dependency:copy-dependencies", f"-DoutputDirectory={folder / 'jars'}"])
        found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in (folder / "jars").iterdir()}
        for name in sorted(found.keys() | wanted.keys()):
            if found.get(name) != wanted.get(name):
                raise Fault(f"{name} has the SHA-256 {found.get(name)}, expected {wanted.get(name)}")
        cache.run(["javac", "-cp", f"{folder / 'jars'}/*", "-d", folder / "classes", SOURCE / "OneNode.java"])

    return cache.installed(f"opensearch-2.19.6-{ours[:8]}", build)


def start(port, folder, options):
    """One node without login. An option that begins with `-` is Java's (`-Xmx1g`), any other is a setting."""
    root = install()
    if not process.alive(folder, "server"):
        process.require_free(port)
        (folder / "tmp").mkdir(exist_ok=True)
        java = [option for option in options.option if option.startswith("-")]
        settings = [option for option in options.option if not option.startswith("-")]
        command = [shutil.which("java") or "java", "-Xms512m", "-Xmx512m", f"-Djava.io.tmpdir={folder / 'tmp'}", *java]
        command += ["-cp", f"{root / 'classes'}:{root / 'jars'}/*", "OneNode", port, folder / "data", *settings]
        ready = lambda: _ready(process.fetch(port, "/_cluster/health"))
        process.launch(folder, "server", command, ready, cwd=folder)
    return f"opensearch://127.0.0.1:{port}"


def _ready(health):
    """Whether all documents that it kept can be read again. It accepts requests earlier."""
    return health is not None and b'"status":"red"' not in health
