#!/usr/bin/env bash
# Makes an OCI image layout: the program, the C library, certificates, and a user. Needs no Docker engine.
#
#     scripts/dist/image.sh DEB_ARCH ROOT LAYOUT VERSION CREATED
#
# ROOT is the folder with the program's files. The C library and the certificates are those of Debian 12.
set -euo pipefail
arch=$1 root=$2 layout=$3 version=$4 created=$5

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/debs" "$work/packages" "$work/lists/partial" "$work/archives/partial"
options=(-o "APT::Architecture=$arch" -o "APT::Architectures=$arch" -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work"
    -o APT::Sandbox::User=root -q)
apt-get "${options[@]}" update > /dev/null
(cd "$work/debs" && apt-get "${options[@]}" download libc6 ca-certificates > /dev/null)
for deb in "$work"/debs/*.deb; do dpkg-deb -x "$deb" "$work/packages"; done

files=$work/files
# As in Debian, /lib and /lib64 lead to /usr.
mkdir -p "$files"/{data,etc/ssl/certs,tmp,usr/lib,usr/share/doc}
ln -s usr/lib "$files/lib"
cp -r "$root/usr" "$files"
cp -r "$work/packages/lib/." "$files/usr/lib"
if [[ -d $work/packages/lib64 ]]; then
    ln -s usr/lib64 "$files/lib64"
    mkdir "$files/usr/lib64"
    cp -r "$work/packages/lib64/." "$files/usr/lib64"
fi
for package in libc6 ca-certificates; do cp -r "$work/packages/usr/share/doc/$package" "$files/usr/share/doc"; done
find "$work/packages/usr/share/ca-certificates" -name '*.crt' | LC_ALL=C sort | xargs cat > "$files/etc/ssl/certs/ca-certificates.crt"
echo "storebench:x:65532:65532:storebench:/data:/sbin/nologin" > "$files/etc/passwd"
echo "storebench:x:65532:" > "$files/etc/group"
echo "hosts: files dns" > "$files/etc/nsswitch.conf"
chmod 1777 "$files/tmp"
chown -R 0:0 "$files"
chown 65532:65532 "$files/data"
find "$files" -exec touch --no-dereference --date="$created" {} +

umoci init --layout "$layout"
image=$layout:$version
umoci new --image "$image"
umoci insert --no-history --image "$image" "$files" /
umoci config --image "$image" --architecture "$arch" --os linux --created "$created" --history.created "$created" \
    --history.created_by "scripts/dist/image.sh" --config.user 65532:65532 --config.entrypoint /usr/bin/storebench \
    --config.workingdir /data --config.label "org.opencontainers.image.title=storebench" \
    --config.label "org.opencontainers.image.version=$version" \
    --config.label "org.opencontainers.image.licenses=MIT OR Apache-2.0"
umoci gc --layout "$layout" > /dev/null
