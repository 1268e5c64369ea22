#!/usr/bin/env bash
# What `make demo` does: one question about two embedded stores, then what larger batches bring. Everything that it
# writes is in .demo/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

runs=.demo/runs
stores=.demo/stores

say() { printf '\n==> %s\n\n' "$*"; }

say "building (the first time takes some minutes)"
# Only embedded stores: what the demo needs, and minutes less to build.
cargo build --locked --profile demo -p storebench --no-default-features --features embedded
storebench=${CARGO_TARGET_DIR:-target}/demo/storebench

rm -rf "$runs" "$stores"
mkdir -p "$stores"
began=$SECONDS
# What fails is told at the end: the second part is worth seeing all the same.
code=0

say "storebench run first-look"
"$storebench" run first-look --out "$runs" \
    --store "sqlite:$stores/first-look.db" --store "fjall:$stores/first-look.fjall" || code=$?

say "storebench run studies/examples/insert-batches.toml"
"$storebench" run studies/examples/insert-batches.toml --out "$runs" \
    --store "sqlite:$stores/insert-batches.db" --store "fjall:$stores/insert-batches.fjall" || code=$?

say "measured in $((SECONDS - began)) s; open the reports in a browser, or write a study of your own: storebench init"
exit "$code"
