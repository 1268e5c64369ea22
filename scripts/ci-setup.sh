#!/usr/bin/env bash
# Installs what CONTRIBUTING.md names on a clean Debian 12 that has rustup, such as the container image rust:1-bookworm.
# Needs root. Go is not among it, because Debian 12 has only 1.19.
set -euo pipefail

apt-get update --quiet
apt-get install --yes --quiet --no-install-recommends \
    bc debootstrap gcc git iproute2 make nodejs npm openssl procps python3-pip python3-venv qemu-user-static rpm zstd
rustup toolchain install stable --profile minimal --component clippy,rustfmt
