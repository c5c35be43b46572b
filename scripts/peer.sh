#!/usr/bin/env bash
# Installs the peer into .peer for interop tests and benchmarks: Codex, whose exec-server and client they use, and the shell server
# that the escalation protocol is from, with its wrapper and its Bash.
#
# Nothing of Paddock needs it to run. It comes from the npm registry; where npm is
# missing it is installed if that needs no password. Whatever is in the way is a
# warning: the tests that need the peer then skip themselves by name.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly version=0.166.0
readonly shell_version=0.97.0
readonly versions="$version $shell_version"
readonly folder=.peer
readonly program=$folder/node_modules/.bin/codex

say() { printf 'peer: %s\n' "$*"; }
give_up() {
    printf 'peer: warning: %s; tests that need the peer will be skipped\n' "$*" >&2
    exit 0
}

[[ -x $program && -f $folder/version && $(<"$folder/version") == "$versions" ]] && exit 0

if ! command -v npm >/dev/null; then
    as_root=()
    [[ $EUID -eq 0 ]] || as_root=(sudo -n)
    command -v apt-get >/dev/null && { [[ $EUID -eq 0 ]] || sudo -n true 2>/dev/null; } ||
        give_up "npm is missing (apt-get install npm)"
    say "installing npm"
    { "${as_root[@]}" apt-get -q update &&
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q install --no-install-recommends npm; } \
        >/dev/null 2>&1 || give_up "npm could not be installed"
fi

readonly packages=("@openai/codex@$version" "@openai/codex-shell-tool-mcp@$shell_version")
say "installing ${packages[*]} into $folder"
rm -rf "$folder"
mkdir "$folder"
npm install --prefix "$folder" --no-save --no-audit --no-fund --prefer-offline "${packages[@]}" >"$folder/install.log" 2>&1 ||
    give_up "it could not be installed, see $folder/install.log"
printf '%s\n' "$versions" >"$folder/version"
