#!/usr/bin/env bash
# Renews requirements.lock: runtime dependencies with the extras of the product, dev and bench dependencies, pinned and hashed for every
# supported Python on Linux; and ecosystem.lock, the frameworks of the adapters, which have an environment of their own.
#
# The resolver lives in a temporary environment, because nothing but this script needs it.
# Arguments are passed on to it, for example: --upgrade, or --upgrade-package msgspec.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

resolver=$(mktemp -d)
trap 'rm -rf "$resolver"' EXIT
.venv/bin/python -m venv "$resolver"
"$resolver/bin/pip" install --quiet --disable-pip-version-check uv

# resolve FILE ARGUMENT...
resolve() {
    local file=$1
    shift
    "$resolver/bin/uv" --quiet pip compile pyproject.toml --universal --python-version 3.11 \
        --generate-hashes --no-emit-index-url --no-header --no-strip-extras --output-file "$file" "$@" >/dev/null
    if grep -nE '://|--(extra-)?index-url|--find-links' "$file"; then
        echo "lock: error: $file names a package index; it must work with any" >&2
        exit 1
    fi
}

resolve requirements.lock --extra credentials --extra mcp --extra rules --group dev --group bench "$@"
resolve ecosystem.lock --all-extras --group ecosystem "$@"
