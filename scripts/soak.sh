#!/usr/bin/env bash
# Runs the tests marked `#[ignore]` whose names contain `soak`, and records the results. The arguments go to
# `cargo test`, which builds nothing that `make test` has not built already.
#
# All of them take about four hours. `ONLY=founding::soak_on_redis make soak` runs those whose names contain that, and
# records them in a file of their own; `WITHOUT="founding fuzz" make soak` leaves those out, and records the others
# in another file; `RUST_TEST_THREADS=1` runs one at a time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

only=${ONLY:-soak}
without=()
for name in ${WITHOUT:-}; do
    without+=(--skip "$name")
done
evidence=docs/evidence/soak.txt
if [[ $only != soak ]]; then
    name=${only//::/-}
    name=${name%-soak}
    evidence=docs/evidence/soak-${name/soak_/}.txt
fi
[[ -z ${WITHOUT:-} ]] || evidence=${evidence%.txt}-in-part.txt
output=$(mktemp)
trap 'rm -f "$output"' EXIT

# What is tested, whatever happens to the tree meanwhile.
commit=$(git describe --always --dirty 2>/dev/null || echo unknown)
began=$SECONDS
code=0
soak() {
    python3 scripts/count-tests.py --patience 3600 cargo test "$@" -- --ignored "$only" "${without[@]}" \
        | tee -a "$output" || code=$?
}
soak "$@"
if [[ $only == soak ]]; then
    # Separate builds. `make test` does not compile the benchmarks, which need the programs that they compare with.
    cargo check --locked --tests --manifest-path dev/bench/Cargo.toml --target-dir "${CARGO_TARGET_DIR:-target}/bench" || code=$?
    # A separate build, which has no library and therefore no documentation tests.
    soak --tests --locked --manifest-path crates/hdfs/Cargo.toml --target-dir "${CARGO_TARGET_DIR:-target}/hdfs"
fi

processor=$(awk -F ': ' '/^model name/ { print $2; exit }' /proc/cpuinfo)
memory=$(awk '/^MemTotal/ { printf "%.1f GiB", $2 / 1048576 }' /proc/meminfo)
{
    echo "date     $(date -u +%Y-%m-%dT%H:%MZ)"
    echo "commit   $commit"
    echo "machine  $(nproc) x ${processor:-unknown processor}, $memory"
    echo "kernel   $(uname -sr)"
    echo "rustc    $(rustc --version)"
    [[ -z ${WITHOUT:-} ]] || echo "without  $WITHOUT"
    echo "took     $((SECONDS - began)) s, including the build of what was missing"
    echo
    grep -E "^(test .* \.\.\. |soak: )" "$output" || true
    echo
    grep -E "^[0-9]+ passed, " "$output"
} > "$evidence"
echo "saved in $evidence"
exit "$code"
