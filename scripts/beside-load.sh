#!/usr/bin/env bash
# Runs a command beside processes that keep the processors busy: `scripts/beside-load.sh 4 make test`. Tests must pass on a
# busy machine, only later.
set -euo pipefail
busy=$1
shift
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
for ((n = 0; n < busy; n++)); do
    (while :; do :; done) &
done
began=$SECONDS
code=0
"$@" || code=$?
echo "took $((SECONDS - began)) s beside $busy busy processes, on $(nproc) processors"
exit "$code"
