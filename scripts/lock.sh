#!/usr/bin/env bash
# Renews requirements.lock: runtime dependencies with every extra, dev and bench dependencies, pinned and hashed for every supported Python on Linux.
#
# The resolver lives in a temporary environment, because nothing but this script needs it.
# Arguments are passed on to it, for example: --upgrade, or --upgrade-package msgspec.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

resolver=$(mktemp -d)
trap 'rm -rf "$resolver"' EXIT
.venv/bin/python -m venv "$resolver"
"$resolver/bin/pip" install --quiet --disable-pip-version-check uv

"$resolver/bin/uv" --quiet pip compile pyproject.toml --all-extras --group dev --group bench \
    --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
    --output-file requirements.lock "$@" >/dev/null

if grep -nE '://|--(extra-)?index-url|--find-links' requirements.lock; then
    echo 'lock: error: requirements.lock names a package index; it must work with any' >&2
    exit 1
fi
