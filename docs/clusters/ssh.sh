#!/bin/sh
# Runs a study in parts, one per host, and merges them on this machine. The hosts need no shared folder, because phases
# begin at given times.
#
#   ssh.sh STUDY OUT "HOST HOST …" [SECONDS [PHASE=SECONDS …]]
#
# The first phase begins in SECONDS (default 20). A phase that follows one without a fixed length, such as a load, needs
# its own PHASE=SECONDS. Each host needs `storebench` in its PATH.
set -eu
study=$1 out=$2 hosts=$3
first=${4:-20}
[ $# -ge 4 ] && shift 4 || shift 3
: "${SSH:=ssh}" "${SCP:=scp}"

now=$(date +%s)
times="--start-at @$((now + first))"
for later; do
    times="$times --start-at ${later%%=*}=@$((now + ${later#*=}))"
done
# shellcheck disable=SC2086 # one word per host
set -- $hosts
parts=$#
for old in "$out"/part-*-of-*; do
    [ ! -e "$old" ] || { echo "$out contains parts of another run; use a new folder" >&2; exit 2; }
done
mkdir -p "$out"
name=storebench-parts-$now

number=0
running=""
for host; do
    number=$((number + 1))
    # Each part gets its own folder, because several parts may run on one host.
    there=/tmp/$name-$number
    $SSH "$host" mkdir -p "$there"
    $SCP -q "$study" "$host:$there/study.toml"
    $SSH "$host" storebench run "$there/study.toml" --part "$number/$parts" $times --out "$there" --quiet \
        > "$out/part-$number.log" 2>&1 &
    running="$running $!"
done
# Ctrl-C also stops the parts; their results so far are merged.
stop() {
    number=0
    for host; do
        number=$((number + 1))
        $SSH "$host" pkill -INT -f "$name-$number/study.toml" || true
    done
}
trap 'stop "$@"' INT TERM
for process in $running; do
    # The merged result reports failures.
    wait "$process" || true
done

number=0
for host; do
    number=$((number + 1))
    if $SCP -q -r "$host:/tmp/$name-$number/part-$number-of-$parts" "$out/"; then
        $SSH "$host" rm -rf "/tmp/$name-$number"
    else
        echo "could not copy part $number; look for it on $host in /tmp/$name-$number" >&2
    fi
done
exec storebench merge "$out" --out "$out"
