"""What `make dist` needs besides cargo: `cargo-zigbuild` with Zig as its linker, `nfpm` for packages, `umoci` for images."""

import pathlib
import sys

from . import cache, debian, go

REQUIREMENTS = pathlib.Path(__file__).parent.parent / "dist-tools/requirements.txt"
# Newer ones also build packages for Windows, with modules that Go's proxy does not have.
NFPM = "github.com/goreleaser/nfpm/v2@v2.43.0"
NFPM_SUM = "h1:o5oureuZkhu55RK0M9WSN8JLW7hu6MymtMh7LypInlk="


def install():
    """`bin/` with the programs; `PYTHONPATH` must name the folder, so that `cargo-zigbuild` finds Zig."""

    def build(folder):
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        cache.run([*pip, "--require-hashes", "--no-deps", "--target", str(folder), "-r", str(REQUIREMENTS)])
        go.build(NFPM, NFPM_SUM, "./cmd/nfpm", folder / "bin/nfpm")
        debian.unpack({"umoci": "0.4."}, ["usr/bin/umoci"], folder)
        (folder / "usr/bin/umoci").rename(folder / "bin/umoci")

    return cache.installed(f"dist-tools-{cache.digest(REQUIREMENTS)}-nfpm-2.43.0", build)
