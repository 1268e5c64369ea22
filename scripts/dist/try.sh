#!/usr/bin/env bash
# Tries what `make dist` built where people install it: in new roots of Debian, which have no compiler. Needs root.
#
#     scripts/dist/try.sh [SUITE…]     default: bookworm bullseye
#
# Each package goes into a root of its own. Prints each command with its time, and stops at the first that fails.
# KEEP=DIR keeps the roots of Debian for the next time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
dist=$PWD/dist
suites=("$@")
(( $# )) || suites=(bookworm bullseye)
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
mirror=$(apt-get --print-uris update | sed -n "s|^'\(\S*\)/dists/bookworm/InRelease'.*|\1|p" | head -1)

work=$(mktemp -d)
bases=${KEEP:-$work/bases}
root=$work/root
mkdir -p "$bases"
mounted=()
bind() {
    mount "${@:2}" "$1"
    mounted=("$1" "${mounted[@]}")
}
remove_root() {
    for place in "${mounted[@]}"; do umount "$place"; done
    mounted=()
    rm -rf --one-file-system "$root"
}
leave() {
    remove_root
    rm -rf --one-file-system "$work"
}
trap leave EXIT

say() { printf '\n== %s\n' "$*"; }

# Runs a command in the root, and prints it with its time. Nothing of this machine's environment gets in.
inside() {
    local began=$EPOCHREALTIME code=0
    env -i PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/root TERM=xterm LC_ALL=C.UTF-8 \
        chroot "$root" bash -c "cd /root && $1" > "$work/output" 2>&1 || code=$?
    printf '  %6.1f s  %s\n' "$(bc <<< "$EPOCHREALTIME - $began")" "$1"
    if (( code )) || { [[ -n ${2:-} ]] && ! grep -qE -- "$2" "$work/output"; }; then
        sed 's/^/    | /' "$work/output"
        echo "ended with $code; expected 0${2:+ and the text \"$2\"}" >&2
        exit 1
    fi
}

# A new root of a suite, with the files of dist/ in /root.
new_root() {
    local suite=$1 base=$bases/$1
    shift
    if [[ ! -e $base.complete ]]; then
        debootstrap --variant=minbase --include=man-db,bash-completion,zsh,python3-venv,ca-certificates \
            "$suite" "$base" "$mirror" > "$bases/$suite.log"
        touch "$base.complete"
    fi
    remove_root
    cp -a "$base" "$root"
    bind "$root/dev" --bind /dev
    bind "$root/dev/pts" --bind /dev/pts
    bind "$root/proc" -t proc proc
    if chroot "$root" sh -c 'command -v cc gcc rustc cargo' > /dev/null; then
        echo "the root has a compiler" >&2
        exit 1
    fi
    cp "$@" scripts/dist/complete.zsh "$root/root"
}

# What every installation must do: say who it is, and answer the first question.
try_program() {
    inside "storebench --version" "storebench $version"
    inside "storebench run first-look --store sqlite:a.db --store fjall:b.fjall" "p99"
    inside "storebench copy sqlite:a.db books.jsonl --from-collection books && test -s books.jsonl" "written 60,000"
}

# What the first root measured is repeated in the next one.
try_bundle() {
    if [[ -e $work/first-look.sbz ]]; then
        cp "$work/first-look.sbz" "$root/root"
        # 1: a claim differs here. 5: none could be tested.
        inside "storebench rerun first-look.sbz > out; code=\$?; cat out; ((code == 0 || code == 1 || code == 5))" "repro"
        grep -i -m 1 "reproduc" "$work/output" | sed 's/^/            | /'
    else
        inside "storebench pack storebench-runs/first-look-* -o first-look.sbz && storebench pack --check first-look.sbz"
        cp "$root/root/first-look.sbz" "$work"
    fi
}

# Both shells offer the command after its first letters.
try_completion() {
    inside ". /usr/share/bash-completion/bash_completion; ${1:-_completion_loader storebench;}
        COMP_WORDS=(storebench hist) COMP_CWORD=1; _storebench storebench hist storebench; echo \"\${COMPREPLY[@]}\"" '^history$'
    inside "zsh -f complete.zsh ${2:-}"
}

if command -v lintian > /dev/null; then
    say "lintian"
    lintian --allow-root --fail-on error,warning "$dist"/*.deb && echo "  nothing but what scripts/dist/lintian-overrides states"
fi

for suite in "${suites[@]}"; do
    say "$suite: storebench_${version}_amd64.deb"
    new_root "$suite" "$dist/storebench_${version}_amd64.deb"
    inside "dpkg --install storebench_${version}_amd64.deb"
    try_program
    try_bundle
    inside "man storebench | cat" "benchmarks|document stores"
    inside "man storebench-history | cat" "history"
    try_completion
    inside "dpkg --remove storebench && ! command -v storebench"

    say "$suite: storebench-$version-x86_64-linux.tar.gz"
    new_root "$suite" "$dist/storebench-$version-x86_64-linux.tar.gz" "$dist/SHA256SUMS"
    inside "sha256sum --check --ignore-missing SHA256SUMS" "tar.gz: OK"
    inside "tar -xzf storebench-$version-x86_64-linux.tar.gz"
    inside "install storebench-$version-x86_64-linux/storebench /usr/local/bin"
    try_program
    inside "man -l storebench-$version-x86_64-linux/man/storebench.1 | cat" "document stores"
    try_completion ". storebench-$version-x86_64-linux/completions/storebench.bash;" \
        "/root/storebench-$version-x86_64-linux/completions"

    wheel=$(basename "$dist"/storebench-"$version"-*x86_64.whl)
    say "$suite: $wheel"
    new_root "$suite" "$dist/$wheel"
    if chroot "$root" python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
        inside "python3 -m venv env && env/bin/pip install --no-index $wheel"
        inside "install -d /usr/local/bin && ln -s /root/env/bin/storebench /usr/local/bin/storebench"
        try_program
        inside "env/bin/python -c 'import storebench; print(storebench.bench(\"memory:\", docs=1000, duration=\"2s\").answer)'" "memory"
    else
        echo "  not tried: the wheel needs Python 3.10, and this root has an older one"
    fi
done

say "an empty root: storebench-$version-1.x86_64.rpm"
if command -v rpm > /dev/null; then
    rpm --install --nodeps --root "$work/rpm" "$dist/storebench-$version-1.x86_64.rpm"
    "$work/rpm/usr/bin/storebench" --version
    rpm --root "$work/rpm" -qR storebench | head -3
else
    echo "  not tried: there is no rpm on this machine"
fi

for arch in x86_64 aarch64; do
    image=$dist/storebench-$version-$arch-oci.tar
    [[ -e $image ]] || continue
    say "the image $(basename "$image")"
    emulator=()
    if [[ $arch != "$(uname -m)" ]]; then
        if ! command -v "qemu-$arch-static" > /dev/null; then
            echo "  not tried: there is no qemu-$arch-static on this machine (Debian's qemu-user-static)"
            continue
        fi
        emulator=(/qemu)
    fi
    remove_root
    rm -rf --one-file-system "$work/layout"
    mkdir "$work/layout"
    tar -xf "$image" -C "$work/layout"
    "$(servers/where dist-tools)/bin/umoci" unpack --image "$work/layout:$version" "$root"
    python3 - "$root/config.json" <<'END'
import json, sys
process = json.load(open(sys.argv[1]))["process"]
assert process["user"]["uid"] == 65532 and process["args"] == ["/usr/bin/storebench"] and process["cwd"] == "/data", process
END
    bind "$root/rootfs/proc" --mkdir -t proc proc
    ((${#emulator[@]} == 0)) || install -m 755 "$(command -v "qemu-$arch-static")" "$root/rootfs/qemu"
    as_user() {
        chroot --userspec=65532:65532 "$root/rootfs" "${emulator[@]}" /usr/bin/storebench "$@"
    }
    began=$EPOCHREALTIME
    as_user --version
    as_user bench sqlite:/data/a.db --docs 1000 --duration 3s --out /data/runs --quiet > "$work/output" ||
        { cat "$work/output"; exit 1; }
    sed -n 1,4p "$work/output"
    printf '  %6.1f s\n' "$(bc <<< "$EPOCHREALTIME - $began")"
done
