"""RavenDB 4.1.0, the real server, from its package for embedding in the Python Package Index.

It needs the .NET Core 2.1 runtime and OpenSSL 1.1, which are also in packages. The packages are only unpacked: none of
their Python code runs.
"""

import os
import shutil
import tempfile
import zipfile
from pathlib import Path

from . import cache, process

EMBEDDED = (
    "pyravendb-embedded==4.1.1.4",
    "pyravendb-embedded-4.1.1.4.tar.gz",
    "fe65d9f40827934d4521d5a254fd72348970b48bc949055e7929bf1efce26172",
)
DOTNET = (
    "dotnetcore2==2.1.23",
    "dotnetcore2-2.1.23-py3-none-manylinux1_x86_64.whl",
    "76c9dea3ebeecfd1485e7f275072c694e856e707527b34af3fdf5f4f8f8f6461",
)
OPENSSL = (
    "psycopg2-binary==2.9.3",
    "psycopg2_binary-2.9.3-cp39-cp39-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
    "887dd9aac71765ac0d0bac1d0d4b4f2c99d5f5c1382d8b770404f0f3d0ce8a39",
)


def install():
    """`server/Raven.Server.dll`, `dotnet/dotnet` and `openssl/lib*.so.1.1` in one folder."""

    def build(folder):
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".ravendb-download-") as download:
            _build(Path(download), folder)

    return cache.installed("ravendb-4.1.0", build)


def _build(download, folder):
    any_python = ["--platform", "manylinux1_x86_64"]
    python_39 = ["--platform", "manylinux2014_x86_64", "--python-version", "3.9", "--implementation", "cp"]
    shutil.unpack_archive(cache.pip_download(*EMBEDDED, download), download / "embedded")
    for wheel, name in [((*DOTNET, download, *any_python), "dotnet"), ((*OPENSSL, download, *python_39), "psycopg2")]:
        with zipfile.ZipFile(cache.pip_download(*wheel)) as archive:
            archive.extractall(download / name)
    server = next((download / "embedded").glob("*/pyravendb_embedded/RavenDBServer"))
    server.rename(folder / "server")
    (download / "dotnet/dotnetcore2/bin").rename(folder / "dotnet")
    (folder / "dotnet/dotnet").chmod(0o755)
    (folder / "openssl").mkdir()
    for name in ["libssl", "libcrypto"]:
        # Its file name contains a hash. libssl looks for libcrypto under that name, .NET under the plain one.
        library = next((download / "psycopg2/psycopg2_binary.libs").glob(f"{name}-*.so.1.1"))
        shutil.copy(library, folder / "openssl" / library.name)
        (folder / "openssl" / f"{name}.so.1.1").symlink_to(library.name)


def start(port, folder, options):
    """One node without encryption. Its studio is on the same port."""
    root = install()
    if not process.alive(folder, "server"):
        process.require_free(port)
        (folder / "data").mkdir(exist_ok=True)
        settings = {
            "ServerUrl": f"http://127.0.0.1:{port}",
            "DataDir": folder / "data",
            "Logs.Path": folder / "logs",
            "Setup.Mode": "None",
            "License.Eula.Accepted": "true",
            "Security.UnsecuredAccessAllowed": "PublicNetwork",
        }
        command = [root / "dotnet/dotnet", root / "server/Raven.Server.dll", "--non-interactive"]
        command += [f"--{name}={value}" for name, value in settings.items()]
        command += [f"--{option}" for option in options.option]
        environment = os.environ | {
            "LD_LIBRARY_PATH": str(root / "openssl"),
            "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1",
            "DOTNET_CLI_TELEMETRY_OPTOUT": "1",
            # The workstation garbage collector returns memory, because several servers run at once in tests.
            "COMPlus_gcServer": "0",
            "COMPlus_GCRetainVM": "0",
        }
        ready = lambda: _ready(process.fetch(port, "/cluster/topology"))
        process.launch(folder, "server", command, ready, env=environment, cwd=folder)
    return f"ravendb://127.0.0.1:{port}"


def _ready(topology):
    """Whether it can serve requests. It accepts them earlier. A new one is passive until its first database."""
    return topology is not None and any(f'"CurrentState":"{state}"'.encode() in topology for state in ["Leader", "Passive"])
