#!/bin/sh
# Runs a study in parts, one on each host, and merges them here. The hosts share no folder: phases begin at given times.
#
#   ssh.sh STUDY OUT "HOST HOST …" [SECONDS [PHASE=SECONDS …]]
#
# The first phase begins SECONDS (default 20) from now. A phase that follows one without a fixed length, such as a load,
# needs its own PHASE=SECONDS. `storebench` must be in the PATH of each host.
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
# shellcheck disable=SC2086 # one word for each host
set -- $hosts
parts=$#
mkdir -p "$out"
name=storebench-parts-$now

number=0
running=""
for host; do
    number=$((number + 1))
    # Each host gets its own folder, even if several parts run on one.
    there=/tmp/$name-$number
    $SSH "$host" mkdir -p "$there"
    $SCP -q "$study" "$host:$there/study.toml"
    $SSH "$host" storebench run "$there/study.toml" --part "$number/$parts" $times --out "$there" --quiet \
        > "$out/part-$number.log" 2>&1 &
    running="$running $!"
done
for process in $running; do
    # What failed is in the merged result.
    wait "$process" || true
done

number=0
for host; do
    number=$((number + 1))
    $SCP -q -r "$host:/tmp/$name-$number/part-$number-of-$parts" "$out/" || echo "part $number left no folder" >&2
    $SSH "$host" rm -rf "/tmp/$name-$number"
done
exec storebench merge "$out" --out "$out"
