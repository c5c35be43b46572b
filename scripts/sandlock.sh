#!/usr/bin/env bash
# Installs sandlock into .sandlock, an environment of its own, for the benchmark: another package that confines commands.
#
# Nothing of Paddock needs it. Whatever is in the way is a warning: the row that compares with it is left out then.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly version=0.9.0
readonly folder=.sandlock

give_up() {
    printf 'sandlock: warning: %s; the benchmark does without it\n' "$*" >&2
    exit 0
}

[[ -f $folder/version && $(<"$folder/version") == "$version" ]] && exit 0

printf 'sandlock: installing sandlock %s into %s\n' "$version" "$folder"
rm -rf "$folder"
.venv/bin/python -m venv "$folder" || give_up "no environment can be made"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check "sandlock==$version" >"$folder/install.log" 2>&1 ||
    give_up "it could not be installed, see $folder/install.log"
printf '%s\n' "$version" >"$folder/version"
