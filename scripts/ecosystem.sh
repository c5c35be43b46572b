#!/usr/bin/env bash
# Installs the agent frameworks that Paddock has adapters for into .ecosystem, from ecosystem.lock.
#
# Nothing of Paddock needs them to run, and they need a hundred packages: so they have an environment of their
# own, with this clone's Paddock in it. `make ecosystem` runs their own suites there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly folder=.ecosystem
readonly stamp=$folder/.done
# Without what it needs: it pins other versions of the same packages. Its modules about sandboxes need none of that.
readonly apart="deepagents-code==0.1.57 --hash=sha256:055eb1f497145508a3c670c3bc3438e7a442e3636047e19d099c345e13e1ed23"

say() { printf 'ecosystem: %s\n' "$*" >&2; }

# fetch_tests PACKAGE...: their tests, which only the source distributions have, into $folder/upstream/PACKAGE.
fetch_tests() {
    local sources package
    sources=$(mktemp -d)
    # What a package is pinned to is in its line and the indented ones behind it.
    awk -v names=" $* " '/^[^ ]/ { split($1, pin, "=="); is_in = index(names, " " pin[1] " ") } is_in' ecosystem.lock \
        >"$sources/pins"
    "$folder/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --no-build-isolation \
        --no-binary :all: --require-hashes -r "$sources/pins" -d "$sources"
    for package; do
        mkdir -p "$folder/upstream/${package//-/_}"
        tar -xzf "$sources/${package//-/_}"-*.tar.gz -C "$folder/upstream/${package//-/_}" --strip-components=2 \
            --wildcards '*/tests/*'
    done
    rm -rf "$sources"
}

# Scripts in the environment name its interpreter by absolute path: a moved tree needs a new one.
readonly wanted="$PWD $(sha256sum <ecosystem.lock) $apart"
if [[ ! -f $stamp || $(<"$stamp") != "$wanted" ]]; then
    say "installing the frameworks of ecosystem.lock into $folder"
    rm -rf "$folder"
    .venv/bin/python -m venv "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r ecosystem.lock
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r <(echo "$apart")
    fetch_tests smolagents swe-rex
    printf '%s\n' "$wanted" >"$stamp"
fi
# Its entry points are known once it is installed.
if [[ ! pyproject.toml -ot $folder/.paddock ]]; then
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
    touch "$folder/.paddock"
fi
