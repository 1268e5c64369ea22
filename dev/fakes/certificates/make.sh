#!/usr/bin/env bash
# Makes the certificates that tests use. They are checked in, and good until 2126; the keys protect nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1" 2>/dev/null; }
ca_key=$(mktemp)
trap 'rm -f "$ca_key" request.tmp extensions.tmp' EXIT
key "$ca_key"
openssl req -x509 -new -key "$ca_key" -days 36500 -subj "/CN=Storebench tests" -out ca.pem \
    -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign"
for name in both:DNS:localhost,IP:127.0.0.1 localhost:DNS:localhost address:IP:127.0.0.1 named:DNS:db.example client:DNS:a-client; do
    file=${name%%:*}
    key "$file.key"
    openssl req -new -key "$file.key" -subj "/CN=$file" -out request.tmp
    printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth,clientAuth\n' "${name#*:}" > extensions.tmp
    openssl x509 -req -in request.tmp -CA ca.pem -CAkey "$ca_key" -days 36499 -extfile extensions.tmp -out "$file.pem" 2>/dev/null
done
