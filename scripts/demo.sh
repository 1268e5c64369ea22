#!/usr/bin/env bash
# What `make demo` does: answers one question about two embedded stores, then shows what larger batches gain. Writes
# only to .demo/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

runs=.demo/runs
stores=.demo/stores

say() { printf '\n==> %s\n\n' "$*"; }

say "building (takes some minutes the first time)"
# Only embedded stores: the demo needs no others, and the build is minutes shorter.
cargo build --locked --profile demo -p storebench --no-default-features --features embedded
storebench=${CARGO_TARGET_DIR:-target}/demo/storebench

rm -rf "$runs" "$stores"
mkdir -p "$stores"
began=$SECONDS
# Report a failure at the end, so that the second part runs in any case.
code=0

say "storebench run first-look"
"$storebench" run first-look --out "$runs" \
    --store "sqlite:$stores/first-look.db" --store "fjall:$stores/first-look.fjall" || code=$?

say "storebench run studies/examples/insert-batches.toml"
# SQLite alone, so that both parts measure for less than two minutes.
"$storebench" run studies/examples/insert-batches.toml --out "$runs" \
    --store "sqlite:$stores/insert-batches.db" || code=$?

say "measured in $((SECONDS - began)) s; open the reports in a browser, or write your own study: storebench init"
exit "$code"
