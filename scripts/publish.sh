#!/usr/bin/env bash
# Publishes dist/ as the release of a tag on GitHub. Needs gh, and GH_TOKEN of one who may write releases.
#
#   scripts/publish.sh TAG
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

notes=$(mktemp)
trap 'rm -f "$notes"' EXIT
python3 scripts/release-notes.py "$1" > "$notes"
(cd dist && sha256sum --check --strict --quiet SHA256SUMS)
# A file that SHA256SUMS does not name would be published unchecked.
for file in dist/*; do
    name=${file#dist/}
    [[ $name = SHA256SUMS ]] || grep -q "^[0-9a-f]* [ *]$name\$" dist/SHA256SUMS || {
        echo "dist/SHA256SUMS does not name $name" >&2
        exit 1
    }
done
gh release create "$1" --verify-tag --title "Storebench ${1#v}" --notes-file "$notes" dist/*
