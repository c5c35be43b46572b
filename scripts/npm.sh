#!/usr/bin/env bash
# Makes an npm tarball of programs: npm.sh VERSION VENDOR DIRECTORY
#
# VENDOR holds a directory for each kind of machine, by its target triple: the wrapper, and for each system a patched Bash
# (bash/ID-VERSION/bash), as @openai/codex-shell-tool-mcp has them. VERSION is a tag or a version of Python; only stable and alpha
# versions have a tarball, for others nothing is made. It is written with tar alone, in npm's layout, and the same files make
# the same bytes.
set -euo pipefail
readonly version=${1#v} vendor=$2 directory=$3

# The same version in npm's words; empty for one that has no tarball.
npm_version() {
    if [[ $1 =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]]; then
        printf '%s\n' "$1"
    elif [[ $1 =~ ^([0-9]+\.[0-9]+\.[0-9]+)(a|-alpha\.?)([0-9]+)$ ]]; then
        printf '%s-alpha.%s\n' "${BASH_REMATCH[1]}" "${BASH_REMATCH[3]}"
    fi
}

name=$(npm_version "$version")
if [[ -z $name ]]; then
    printf 'npm: %s is neither a stable nor an alpha version, so it has no tarball\n' "$version"
    exit 0
fi
readonly name
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/package"
cp -r "$vendor" "$work/package/vendor"
cp "$root/LICENSE" "$work/package/LICENSE"
cp -r "$root/patches" "$work/package/patches"
cat >"$work/package/package.json" <<END
{
  "name": "paddock-execve-wrapper",
  "version": "$name",
  "description": "paddock-execve-wrapper and a patched Bash, which ask about each program that a shell executes.",
  "license": "Apache-2.0 AND GPL-3.0-or-later",
  "os": ["linux"],
  "files": ["vendor", "patches", "LICENSE", "README.md"]
}
END
cat >"$work/package/README.md" <<'END'
# paddock-execve-wrapper

`vendor/TRIPLE/paddock-execve-wrapper` and `vendor/TRIPLE/bash/SYSTEM/bash` belong to Paddock's interception of programs. Name the Bash of
your system in the setting `interception_shell` of a server, or give both to a server of the same protocol.

The wrapper is under the Apache License 2.0 (`LICENSE`). Bash is under the GNU General Public License, version 3 or later: it is the
distribution's, with the patch in `patches/`. The release that this tarball is from has the source package of each.
END
find "$work/package" -type f -name '*wrapper' -o -type f -name bash | xargs chmod 755
readonly target=$directory/paddock-execve-wrapper-$name.tgz
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 --mode=go-w,a+rX -C "$work" -c package | gzip -9n >"$target"
printf 'npm: %s\n' "${target##*/}"
