#!/usr/bin/env bash
# What `make demo` does: a published study, small, on two embedded stores, then a
# quick benchmark on real documents. Everything it writes is in .demo/, which begins empty but for
# the downloaded documents.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Real documents: which browser supports what, CC0. The checksum keeps results comparable.
package=@mdn/browser-compat-data
version=8.1.9
checksum=1ba5af938601e572d37f19129b923cb077e7f084899e2d032593f661a5a32ea8

runs=.demo/runs
stores=.demo/stores
dataset=.demo/dataset
documents=$dataset/browser-compat.jsonl

say() { printf '\n==> %s\n' "$*"; }

say "building (the first time takes some minutes)"
# Only embedded stores: what the demo needs, and minutes less to build.
cargo build --locked --profile demo -p storebench --no-default-features --features embedded
storebench=${CARGO_TARGET_DIR:-target}/demo/storebench

rm -rf "$runs" "$stores"
mkdir -p "$stores" "$dataset"
data=$dataset/node_modules/$package/data.json
if ! echo "$checksum  $data" | sha256sum --check --status 2>/dev/null; then
    say "fetching $package $version from the npm registry"
    npm install --prefix "$dataset" --no-audit --no-fund --no-save --ignore-scripts --loglevel error \
        "$package@$version"
    if ! echo "$checksum  $data" | sha256sum --check --status; then
        echo "$data is not the file that this demo was made with; remove $dataset and try again" >&2
        exit 1
    fi
fi
python3 scripts/browser-compat.py "$data" > "$documents.part"
mv "$documents.part" "$documents"

# What fails is told at the end: the second part is worth seeing all the same.
code=0

say "the built-in study bulk-insert, as large as a laptop takes"
"$storebench" run bulk-insert --preset laptop --out "$runs" \
    --store "sqlite:$stores/bulk-insert.db" --store "fjall:$stores/bulk-insert" || code=$?

say "$(wc -l < "$documents") documents of $package on sqlite:"
"$storebench" bench "sqlite:$stores/browser-compat.db" --from "$documents" --key '{path}' \
    --mix read=95,update=5 --popularity zipf:0.99 --duration 15s --out "$runs" || code=$?

say "what was measured is kept in $runs; open the reports in a browser"
printf '%s\n' "$PWD"/"$runs"/*/report.html
exit "$code"
