#!/usr/bin/env bash
# Installs the agent frameworks that Paddock has adapters for into .ecosystem, from ecosystem.lock.
#
# Nothing of Paddock needs them to run, and they need a hundred packages: so they have an environment of their
# own, with this clone's Paddock in it. `make ecosystem` runs their own suites there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly folder=.ecosystem
readonly stamp=$folder/.done

say() { printf 'ecosystem: %s\n' "$*" >&2; }

# Scripts in the environment name its interpreter by absolute path: a moved tree needs a new one.
readonly wanted="$PWD $(sha256sum <ecosystem.lock)"
if [[ ! -f $stamp || $(<"$stamp") != "$wanted" ]]; then
    say "installing the frameworks of ecosystem.lock into $folder"
    rm -rf "$folder"
    .venv/bin/python -m venv "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r ecosystem.lock
    printf '%s\n' "$wanted" >"$stamp"
fi
# Its entry points are known once it is installed.
if [[ ! pyproject.toml -ot $folder/.paddock ]]; then
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
    touch "$folder/.paddock"
fi
