"""What `make dist` needs besides cargo: `cargo-zigbuild` with Zig as its linker, `nfpm` for packages, `umoci` for images."""

import json
import os
import pathlib
import sys
import tempfile

from . import cache, debian
from .fault import Fault

REQUIREMENTS = pathlib.Path(__file__).parent.parent / "dist-tools/requirements.txt"
# Newer ones also build packages for Windows, with modules that Go's proxy does not have.
NFPM = "github.com/goreleaser/nfpm/v2@v2.43.0"
# Go's hash of the module, whose go.sum has the hashes of its dependencies.
NFPM_SUM = "h1:o5oureuZkhu55RK0M9WSN8JLW7hu6MymtMh7LypInlk="


def install():
    """`bin/` with the programs; `PYTHONPATH` must name the folder, so that `cargo-zigbuild` finds Zig."""

    def build(folder):
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        cache.run([*pip, "--require-hashes", "--no-deps", "--target", str(folder), "-r", str(REQUIREMENTS)])
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".nfpm-build-") as own:
            places = {"GOMODCACHE": f"{own}/modules", "GOCACHE": f"{own}/objects"}
            environment = os.environ | places | {"GOFLAGS": "-modcacherw -buildvcs=false", "CGO_ENABLED": "0"}
            downloaded = json.loads(cache.run(["go", "mod", "download", "-json", NFPM], env=environment, cwd=own))
            if downloaded["Sum"] != NFPM_SUM:
                raise Fault(f"{NFPM} has the hash {downloaded['Sum']}, expected {NFPM_SUM}")
            command = ["go", "build", "-trimpath", "-o", folder / "bin/nfpm", "./cmd/nfpm"]
            cache.run(command, env=environment, cwd=downloaded["Dir"])
        debian.unpack({"umoci": "0.4."}, ["usr/bin/umoci"], folder)
        (folder / "usr/bin/umoci").rename(folder / "bin/umoci")

    return cache.installed(f"dist-tools-{cache.digest(REQUIREMENTS)}-nfpm-2.43.0", build)
