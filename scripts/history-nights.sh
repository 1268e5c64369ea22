#!/usr/bin/env bash
# Sixty runs of a small study on a real Redis, as a team would run it every night. From night 40 on, Redis syncs each
# write to the disk. After each night the history is checked; docs/evidence/history-nights.txt records which nights had
# an alarm: none before night 40, and one soon after it.
#
#     scripts/history-nights.sh STOREBENCH [NIGHTS] [SLOWER_FROM]
#
# Takes about 10 minutes on a machine that does nothing else. TMPDIR (default /var/tmp) must be on a disk: in memory, a
# sync takes no time. PORT (default 16390) is that of Redis.
set -euo pipefail
storebench=$(realpath "${1:?which storebench? scripts/history-nights.sh target/release/storebench}")
nights=${2:-60}
slower_from=${3:-40}
port=${PORT:-16390}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
evidence=docs/evidence/history-nights.txt

work=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
trap 'servers/stop redis --data "$work/redis" || true; rm -rf "$work"' EXIT
case $(stat -f -c %T "$work") in
    tmpfs | ramfs) echo "$work is in memory: set TMPDIR to a folder on a disk" >&2; exit 1 ;;
esac

mkdir "$work/redis"
url=$(servers/start redis --port "$port" --data "$work/redis")

# Sends one command to Redis.
ask() {
    local answer
    exec 3<>"/dev/tcp/127.0.0.1/$port"
    printf '%s\r\n' "$*" >&3
    IFS= read -r answer <&3
    exec 3>&-
    [[ $answer == +OK* ]] || { echo "redis: $*: $answer" >&2; exit 1; }
}

cat > "$work/nightly.toml" <<STUDY
title    = "Nightly"
question = "Did Redis become slower?"
stores   = ["$url"]
seed     = 1

[collections.docs]
count = 2_000
size  = "500B"

[[phases]]
name = "load"
load = ["docs"]

[[phases]]
name     = "warm-up"
warm_up  = true
mix      = { read = 50, update = 50 }
rate     = 500
duration = "500ms"

[[phases]]
name     = "steady"
mix      = { read = 50, update = 50 }
rate     = 500
duration = "3s"

[[phases]]
name     = "peak"
mix      = { read = 50, update = 50 }
workers  = 1
duration = "2s"
STUDY

history() {
    local verb=$1
    shift
    "$storebench" history "$verb" --history "$work/history" --branch main "$@"
}
figures=(--figure steady.response.p50 --figure steady.response.p99 --figure peak.throughput)

early=() late=() invalid=()
for ((night = 1; night <= nights; night++)); do
    if ((night == slower_from)); then
        ask CONFIG SET appendfsync always
        ask CONFIG SET appendonly yes
        sleep 2 # It first writes all that it has into the file.
    fi
    code=0
    "$storebench" run "$work/nightly.toml" -q --out "$work/runs/$night" > "$work/log" 2>&1 || code=$?
    # 4: a check found figures invalid, which are then in no line.
    case $code in
        0) ;;
        4) invalid+=("$night") ;;
        *) cat "$work/log" >&2; exit "$code" ;;
    esac
    history add "$work/runs/$night"/* --commit "night-$night" > "$work/log"
    code=0
    # Only what this night has found.
    history check "${figures[@]}" --recent 1 --undecided pass > "$work/log" 2>&1 || code=$?
    case $code in
        0) printf 'night %s: fine\n' "$night" ;;
        1)
            printf 'night %s: ALARM\n' "$night"
            if ((night < slower_from)); then early+=("$night"); else late+=("$night"); fi
            ;;
        *) cat "$work/log" >&2; exit "$code" ;;
    esac
    rm -rf "$work/runs/$night"
done

{
    printf 'date     %s\n' "$(date -u +%F)"
    printf 'commit   %s\n' "$(git describe --always --dirty 2>/dev/null || echo unknown)"
    printf 'command  scripts/history-nights.sh STOREBENCH %s %s\n\n' "$nights" "$slower_from"
    printf '%s nights; from night %s on Redis syncs each write (appendonly yes, appendfsync always)\n' "$nights" "$slower_from"
    printf 'alarms before night %s: %s\n' "$slower_from" "${early[*]:-none}"
    printf 'alarms from night %s on: %s\n' "$slower_from" "${late[*]:-none}"
    printf 'nights with figures that a check found invalid: %s\n\n' "${invalid[*]:-none}"
    COLUMNS=120 history show "${figures[@]}"
} > "$evidence"
cat "$evidence"
((${#early[@]} == 0 && ${#late[@]} > 0))
