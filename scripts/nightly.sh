#!/usr/bin/env bash
# The nightly benchmark. The history is on the branch `history` of the remote `origin`.
#
#   scripts/nightly.sh measure PROGRAM    measures for about four minutes, and checks the figures against the history
#   scripts/nightly.sh keep               adds the entries in nightly/history to the branch
#
# Writes only to nightly/, and with `keep` to the branch.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

history=nightly/history
mkdir -p "$history"

# Fetches the branch. Is false if there is none, and ends the script if nobody knows.
fetched() {
    local code=0
    git remote get-url origin > /dev/null 2>&1 || return 1
    git ls-remote --exit-code --heads origin refs/heads/history > /dev/null || code=$?
    case $code in
        0) git fetch --quiet --depth 1 origin refs/heads/history || exit ;;
        2) return 1 ;;
        *) exit "$code" ;;
    esac
}

measure() {
    if fetched; then git archive FETCH_HEAD | tar -x -C "$history"; fi
    rm -rf nightly/stores
    mkdir nightly/stores
    export STOREBENCH=$1 INPUT_STUDY=first-look INPUT_OUT=nightly/runs INPUT_HISTORY=$history
    export INPUT_STORES=$'sqlite:nightly/stores/nightly.db\nfjall:nightly/stores/nightly.fjall'
    export INPUT_ARGUMENTS=$'--set\nrepeats=5\n--set\nphases.mixed.duration=20s'
    scripts/ci-action.sh measure
}

keep() {
    local parent=() index tree commit
    index=$(mktemp -u)
    export GIT_INDEX_FILE=$index
    if fetched; then
        git read-tree FETCH_HEAD
        parent=(-p FETCH_HEAD)
    fi
    # Entries that only the branch has stay.
    git --work-tree="$history" add --ignore-removal .
    tree=$(git write-tree)
    rm -f "$index"
    if [[ ${#parent[@]} -gt 0 && $tree = "$(git rev-parse "FETCH_HEAD^{tree}")" ]]; then
        echo "the branch has every entry"
        return
    fi
    commit=$(git -c user.name="Nightly benchmark" -c user.email="nightly@localhost" \
        commit-tree "$tree" "${parent[@]}" -m "The run of $(date -u +%Y-%m-%d)")
    git push origin "$commit:refs/heads/history"
}

case "${1:-}" in
    measure) measure "$2" ;;
    keep) keep ;;
    *) echo "usage: scripts/nightly.sh measure PROGRAM|keep" >&2 && exit 2 ;;
esac
