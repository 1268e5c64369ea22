#!/usr/bin/env bash
# Builds what a release consists of, for one architecture, into dist/: a tarball, a .deb, an .rpm, a wheel, an image.
#
#     scripts/dist/build.sh x86_64|aarch64
#
# Everything comes from one build, which needs glibc 2.28 or later (Debian 10, RHEL 8, Ubuntu 18.10). Two builds of one
# commit are equal, byte by byte, wherever the folder is: times are those of the commit, paths are cut off.
# PROFILE and FEATURES are for trying this script: `PROFILE=demo FEATURES="--no-default-features --features embedded"`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

arch=${1:?x86_64 or aarch64}
case $arch in
    x86_64) deb_arch=amd64 ;;
    aarch64) deb_arch=arm64 ;;
    *) echo "unknown architecture $arch; expected x86_64 or aarch64" >&2; exit 2 ;;
esac
profile=${PROFILE:-dist}
read -ra features <<< "${FEATURES:-}"
target=$arch-unknown-linux-gnu
out=$PWD/dist
built=$(realpath -m "${CARGO_TARGET_DIR:-target}/dist-build")
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
tools=$(servers/where dist-tools)
maturin=$(servers/where python-tools)/bin/maturin

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH TZ=UTC LC_ALL=C.UTF-8
export PATH=$tools/bin:$PATH PYTHONPATH=$tools${PYTHONPATH:+:$PYTHONPATH}
# Error messages name source files: without the folders of this machine.
sources=${CARGO_HOME:-$HOME/.cargo}
export RUSTFLAGS="--remap-path-prefix=$PWD=storebench --remap-path-prefix=$sources=cargo --remap-path-prefix=$built=built"
export CFLAGS="-ffile-prefix-map=$sources=cargo -ffile-prefix-map=$built=built -g0"
umask 022

cargo zigbuild --locked --profile "$profile" "${features[@]}" -p storebench --target "$target.2.28" --target-dir "$built"
binary=$built/$target/$profile/storebench

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$out"
name=storebench-$version-$arch-linux

# Archives everything in a folder, in order and with the commit's time, and whatever owner it has here.
archive() {
    tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu -C "$1" -cf - "${@:2}"
}

tree=$stage/$name
mkdir -p "$tree"
install -m 755 "$binary" "$tree/storebench"
cp -r docs/man docs/completions LICENSE-MIT LICENSE-APACHE README.md CHANGELOG.md "$tree"
scripts/dist/dependencies.py "$target" "${features[@]}" --sbom "$tree/sbom.cdx.json" --licences "$tree/THIRD-PARTY-LICENCES.txt"
archive "$stage" "$name" | gzip -9n > "$out/$name.tar.gz"

# Packages hold the same files, where each kind of file belongs.
root=$stage/root
share=$root/usr/share
mkdir -p "$root/usr/bin" "$share"/{man/man1,doc/storebench,bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
cp "$tree/storebench" "$root/usr/bin"
cp docs/man/*.1 "$share/man/man1"
cp docs/completions/storebench.bash "$share/bash-completion/completions/storebench"
cp docs/completions/_storebench "$share/zsh/vendor-completions"
cp docs/completions/storebench.fish "$share/fish/vendor_completions.d"
mkdir -p "$share/lintian/overrides"
cp scripts/dist/lintian-overrides "$share/lintian/overrides/storebench"
# Debian wants a changelog in its own format.
printf 'storebench (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- %s  %s\n' "$version" \
    "The Storebench developers <storebench@localhost>" "$(date -uR -d "@$SOURCE_DATE_EPOCH")" > "$share/doc/storebench/changelog"
cp README.md CHANGELOG.md "$tree/sbom.cdx.json" "$tree/THIRD-PARTY-LICENCES.txt" "$share/doc/storebench"
cp scripts/dist/copyright "$share/doc/storebench/copyright"
gzip -9n "$share"/man/man1/*.1 "$share/doc/storebench/"{changelog,CHANGELOG.md,THIRD-PARTY-LICENCES.txt,sbom.cdx.json}

export ROOT=$root VERSION=$version DEB_ARCH=$deb_arch
nfpm package --config scripts/dist/nfpm.yaml --packager deb --target "$out/storebench_${version}_$deb_arch.deb"
nfpm package --config scripts/dist/nfpm.yaml --packager rpm --target "$out/storebench-$version-1.$arch.rpm"

scripts/dist/image.sh "$deb_arch" "$root" "$stage/image" "$version" \
    "$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)"
archive "$stage/image" . > "$out/storebench-$version-$arch-oci.tar"

# maturin's own `--zig` would set other compilers than above, and build everything again.
cat > "$stage/cargo" <<END
#!/bin/bash
unset CARGO
exec cargo-zigbuild "\${@/%$target/$target.2.28}"
END
chmod +x "$stage/cargo"
scripts/dist/dependencies.py "$target" --crate crates/python --sbom "$stage/storebench-python.cdx.json"
CARGO=$stage/cargo "$maturin" build --profile "$profile" --locked --manifest-path crates/python/Cargo.toml \
    --target-dir "$built" --target "$target" --compatibility manylinux_2_28 \
    --sbom-include "$stage/storebench-python.cdx.json" --out "$out"

# What names a folder of this machine differs on the next one.
everything=$stage/everything
mkdir "$everything"
tar -xzf "$out/$name.tar.gz" -C "$everything"
python3 -m zipfile -e "$out"/storebench-"$version"-*"manylinux_2_28_$arch.whl" "$everything"
named=$(grep -rlaF -e "$PWD/" -e "$sources/" "$everything") || (($? == 1))
if [[ -n $named ]]; then
    echo "these name a folder of this machine:" "$named" >&2
    exit 1
fi

(cd "$out" && sha256sum -- *.tar.gz *.deb *.rpm *.whl *.tar > SHA256SUMS)
ls -l "$out"
