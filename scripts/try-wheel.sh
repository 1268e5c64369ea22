#!/usr/bin/env bash
# Installs a wheel into a clean virtual environment, and tries what its README shows, with and without data frames.
set -euo pipefail
wheel=$(realpath "$1")
tools=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../servers/python-tools/requirements.txt")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"

bytes=$(stat --format %s "$wheel")
echo "wheel: $bytes bytes"

python3 -m venv clean
pip="clean/bin/pip --disable-pip-version-check --quiet"
$pip install "$wheel"
$pip list
clean/bin/storebench --version
# It needs no other package.
clean/bin/python -c '
import sys, time
began = time.perf_counter()
import storebench
took = time.perf_counter() - began
assert not {"pyarrow", "numpy", "polars"} & set(sys.modules)
print(f"import: {took * 1e3:.0f} ms")
run = storebench.bench("sqlite:first.db", docs=10_000, duration="5s", progress=False)
print(run)
print(run.answer)
print(run.trials().to_pylist()[0]["service_p99_ns"])
'
$pip install --require-hashes --no-deps --only-binary :all: -r "$tools"
clean/bin/python -c '
import importlib.util, duckdb, polars, storebench
assert importlib.util.find_spec("pyarrow") is None
run = storebench.open_run(next(__import__("pathlib").Path("storebench-runs").glob("bench-*")))
print(polars.DataFrame(run.trials()).select("phase", "op", "count"))
intervals = run.intervals()
print(duckdb.sql("select phase, sum(succeeded) from intervals group by phase"))
'
# The plugin is found without being named, and fails a build.
cat > test_speed.py <<'EOF'
def test_passes(storebench):
    storebench.gate(storebench.bench("memory:", docs=100, operations=2000, warm_up="0s"), "read.service.p50 < 10s")

def test_fails(storebench):
    storebench.gate(storebench.bench("memory:", docs=100, operations=2000, warm_up="0s"), "read.service.p50 < 1ns")
EOF
clean/bin/python -m pytest -q -p no:cacheprovider test_speed.py > pytest.log || true
grep -q "1 failed, 1 passed" pytest.log || { cat pytest.log; exit 1; }
echo "the wheel works"
# Last, so that a wheel that is too large is tried all the same.
[ "$bytes" -le 25000000 ] || { echo "the wheel is larger than 25 MB" >&2; exit 1; }
