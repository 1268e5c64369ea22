#!/usr/bin/env bash
# What action.yml does, with its inputs as variables INPUT_…. `make nightly` measures with it too.
#
#   scripts/ci-action.sh install    adds the program of a release to the PATH, after a check of its SHA256SUMS
#   scripts/ci-action.sh measure    runs a study, then compares with a baseline or adds to a history
set -euo pipefail

fail() {
    echo "::error title=Storebench::$*"
    exit 2
}

install_release() {
    local from=${INPUT_FROM:-} version=${INPUT_VERSION:-}
    if [[ -z $from ]]; then
        # `uses: OWNER/REPOSITORY@vVERSION` is in a folder …/_actions/OWNER/REPOSITORY/vVERSION.
        [[ ${GITHUB_ACTION_PATH:-} =~ /_actions/([^/]+/[^/]+)/([^/]+)/?$ ]] ||
            fail "the action is not from another repository, so it has no releases; set \`from\`"
        local repository=${BASH_REMATCH[1]} ref=${BASH_REMATCH[2]}
        version=${version:-${ref#v}}
        [[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+ ]] || fail "\`$version\` is not a version such as 0.1.0; set \`version\`"
        from=${GITHUB_SERVER_URL:-https://github.com}/$repository/releases/download/v$version
    fi
    local place
    place=$(mktemp -d "${RUNNER_TEMP:-/tmp}/storebench-XXXXXX")
    fetch "$from" SHA256SUMS "$place"

    local ending
    ending=$(uname -m)-$(uname -s | tr '[:upper:]' '[:lower:]').tar.gz
    local lines
    mapfile -t lines < <(grep -E "^[0-9a-f]{64} [ *]storebench-${version:-[^/ ]+}-$ending\$" "$place/SHA256SUMS")
    [[ ${#lines[@]} -eq 1 ]] ||
        fail "$from/SHA256SUMS names ${#lines[@]} files storebench-${version:-VERSION}-$ending, expected one"
    local tarball=${lines[0]:66}
    fetch "$from" "$tarball" "$place"
    (cd "$place" && sha256sum --check --strict <<< "${lines[0]}") || fail "$tarball is not what SHA256SUMS says"
    tar -xzf "$place/$tarball" -C "$place"

    local program
    program=$(find "$place" -type f -name storebench -perm -u+x)
    "$program" --version
    dirname "$program" >> "${GITHUB_PATH:-/dev/stdout}"
}

# Copies or downloads a file of a release into a folder.
fetch() {
    if [[ -d $1 ]]; then
        cp "$1/$2" "$3/$2"
    else
        curl --fail --silent --show-error --location --retry 3 --output "$3/$2" "$1/$2" || fail "cannot download $1/$2"
    fi
}

# The lines of a text that are not empty, without the spaces around them.
lines_of() {
    sed -e 's/^[[:space:]]*//' -e 's/[[:space:]]*$//' -e '/^$/d' <<< "$1"
}

# The words of a summary in a block. No line of the program's output begins with a fence.
summarize() {
    printf '### %s\n\n```text\n%s\n```\n\n' "$1" "$2" >> "${GITHUB_STEP_SUMMARY:-/dev/null}"
}

measure() {
    local storebench=${STOREBENCH:-storebench} study=${INPUT_STUDY:?} out=${INPUT_OUT:-storebench-runs}
    local undecided=${INPUT_UNDECIDED:-pass} options=() gates=() keep=() baseline=() more line
    while read -r line; do options+=(--store "$line"); done < <(lines_of "${INPUT_STORES:-}")
    mapfile -t more < <(lines_of "${INPUT_ARGUMENTS:-}")
    while read -r line; do gates+=(--fail-on "$line"); done < <(lines_of "${INPUT_FAIL_ON:-}")

    mkdir -p "$out"
    local runs=() valid=() nth=0 code=0 place text
    while [[ ${#runs[@]} -lt ${INPUT_RUNS:-1} ]]; do
        nth=$((nth + 1))
        place=$out/$nth
        # The run of an earlier step.
        [[ ! -e $place ]] || continue
        code=0
        text=$("$storebench" run "$study" --quiet --out "$place" "${options[@]}" "${more[@]}") || code=$?
        echo "$text"
        summarize "Run $nth of $study" "$text"
        # An invalid run (4) is marked in a history, and refused by a comparison. The step fails at its end.
        case $code in
            0) valid+=("$(echo "$place"/*/)") ;;
            4) echo "::warning title=Storebench::run $nth of $study is invalid: it does not measure the store" ;;
            *) exit "$code" ;;
        esac
        runs+=("$(echo "$place"/*/)")
    done
    local all
    all=$(IFS=, && echo "${runs[*]%/}")
    echo "runs=$all" >> "${GITHUB_OUTPUT:-/dev/null}"

    local codes=() folder=(--baselines "${INPUT_BASELINES:-.storebench/baselines}")
    [[ -z ${INPUT_BASELINE:-} ]] || baseline=(--baseline "$INPUT_BASELINE" "${folder[@]}")
    # Without a baseline, the configurations of the run are compared with its first one.
    if [[ ${#baseline[@]} -gt 0 || ${#gates[@]} -gt 0 ]]; then
        [[ -z ${INPUT_MUST_DETECT:-} ]] || gates+=(--must-detect "$INPUT_MUST_DETECT")
        code=0
        "$storebench" compare "$all" "${baseline[@]}" --format markdown "${gates[@]}" \
            --undecided "$undecided" > "$out/comparison.md" || code=$?
        tee -a "${GITHUB_STEP_SUMMARY:-/dev/null}" < "$out/comparison.md"
        echo "comparison=$out/comparison.md" >> "${GITHUB_OUTPUT:-/dev/null}"
        codes+=("$code")
    fi
    if [[ -n ${INPUT_SAVE_BASELINE:-} ]]; then
        [[ -z ${INPUT_KEEP_NEWEST:-} ]] || keep=(--keep-newest "$INPUT_KEEP_NEWEST")
        # Nothing can be compared with an invalid run.
        for place in "${valid[@]}"; do
            "$storebench" compare "$place" --save-baseline "$INPUT_SAVE_BASELINE" "${folder[@]}" "${keep[@]}"
        done
    fi
    if [[ -n ${INPUT_HISTORY:-} ]]; then
        # One by one, because only then the commit is that of the job.
        for place in "${runs[@]}"; do "$storebench" history add "$place" --history "$INPUT_HISTORY"; done
        code=0
        "$storebench" history check --history "$INPUT_HISTORY" --github --junit "$out/history.xml" --force \
            --undecided "$undecided" || code=$?
        echo "junit=$out/history.xml" >> "${GITHUB_OUTPUT:-/dev/null}"
        codes+=("$code")
    fi
    for code in "${codes[@]}"; do [[ $code -eq 0 ]] || exit "$code"; done
    [[ ${#valid[@]} -eq ${#runs[@]} ]] || exit 4
}

case ${1:-} in
    install) install_release ;;
    measure) measure ;;
    *) fail "usage: scripts/ci-action.sh install|measure" ;;
esac
