"""Programs in Go, built from a module with a known hash by the machine's Go. They need no libraries."""

import json
import os
import tempfile
from pathlib import Path

from . import cache
from .fault import Fault


def build(module, sum, package, program, prepare=lambda source: None):
    """Builds a package of `MODULE@VERSION` as the file `program`.

    `sum` is Go's hash of the module, whose go.sum has the hashes of its dependencies. `prepare(source)` may change the
    source before.
    """
    with tempfile.TemporaryDirectory(dir=cache.folder(), prefix=f".{program.name}-build-") as own:
        # Go's own caches would keep up to 1 GB. Only a writable module can be changed and removed.
        places = {"GOMODCACHE": f"{own}/modules", "GOCACHE": f"{own}/objects"}
        environment = os.environ | places | {"GOFLAGS": "-modcacherw -buildvcs=false", "CGO_ENABLED": "0"}
        downloaded = json.loads(cache.run(["go", "mod", "download", "-json", module], env=environment, cwd=own))
        if downloaded["Sum"] != sum:
            raise Fault(f"{module} has the hash {downloaded['Sum']}, expected {sum}")
        source = Path(downloaded["Dir"])
        prepare(source)
        cache.run(["go", "build", "-trimpath", "-o", program, package], env=environment, cwd=source)
