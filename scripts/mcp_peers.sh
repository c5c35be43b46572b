#!/usr/bin/env bash
# Installs other MCP servers with a shell into .mcp-peers, for the benchmark.
#
# Nothing of Paddock needs them. Each has an environment of its own: one from the Python index, one from the npm registry. Whatever is in
# the way is a warning: the benchmark then leaves their figures out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly python_package=mcp-shell-server==1.1.14
readonly npm_package=@wonderwhy-er/desktop-commander npm_version=0.2.52
readonly versions="$python_package $npm_package@$npm_version"
readonly folder=.mcp-peers

say() { printf 'mcp_peers: %s\n' "$*"; }
warn() { printf 'mcp_peers: warning: %s; the benchmark does without it\n' "$*" >&2; }

[[ -f $folder/version && $(<"$folder/version") == "$versions" ]] && exit 0

rm -rf "$folder"
mkdir -p "$folder/npm"
say "installing $python_package into $folder"
if ! { python3 -m venv "$folder/venv" && "$folder/venv/bin/pip" install "$python_package"; } >"$folder/venv.log" 2>&1; then
    rm -rf "$folder/venv"
    warn "$python_package could not be installed, see $folder/venv.log"
fi

say "installing $npm_package into $folder"
# Some registries lack the newest version of that one dependency.
cat >"$folder/npm/package.json" <<END
{
  "private": true,
  "dependencies": {"$npm_package": "$npm_version"},
  "overrides": {"typedarray.prototype.slice": "1.0.5"}
}
END
# Install scripts fetch browsers and other programs, and are not run.
if ! npm install --prefix "$folder/npm" --no-audit --no-fund --prefer-offline --ignore-scripts --omit=dev >"$folder/npm.log" 2>&1; then
    rm -rf "$folder/npm"
    warn "$npm_package could not be installed, see $folder/npm.log"
fi
printf '%s\n' "$versions" >"$folder/version"
