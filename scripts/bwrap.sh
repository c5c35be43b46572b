#!/usr/bin/env bash
# Builds the bubblewrap that the package brings, for hosts that have none: src/paddock/native/bwrap and its digest.
#
# The source is that of the distribution (Debian and its kin), with its security
# fixes, verified by apt. It is linked statically, so that it runs on any host of
# this architecture. Only build tools are installed, and only when the caller
# is root or has sudo without a password. bubblewrap is under the LGPL 2.0 or
# later: whoever passes the result on must offer this source too. With an argument, the files of
# the source package are copied into that directory.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/packages.sh
source scripts/packages.sh
# shellcheck source=scripts/source_package.sh
source scripts/source_package.sh

readonly sources=${1:+$(realpath "$1")}
readonly target=$PWD/src/paddock/native/bwrap
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
readonly log=$work/log

die() {
    printf 'bwrap: error: %s\n' "$*" >&2
    exit 1
}

# run LABEL COMMAND...: one line of progress, and the command's output only if it fails.
run() {
    printf 'bwrap: %s\n' "$1"
    shift
    if ! "$@" >"$log" 2>&1; then
        cat "$log" >&2
        die "this command failed: $*"
    fi
}

build() {
    local options=(-Dselinux=disabled -Dman=disabled -Dtests=false -Dbash_completion=disabled -Dzsh_completion=disabled)
    LDFLAGS=-static meson setup "$work/build" "$work"/bubblewrap-*/ --buildtype=release --prefer-static "${options[@]}"
    ninja -C "$work/build" bwrap
}

command -v apt-get >/dev/null || die "only distributions with apt are supported; install bubblewrap from yours instead"
for package in dpkg-dev gcc libc6-dev libcap-dev meson ninja-build pkg-config; do
    need "$package"
done
run "fetching the source package" fetch_source bubblewrap
run "compiling" build
[[ -z $sources ]] || find "$work" -maxdepth 1 -name 'bubblewrap_*' -type f -exec cp -t "$sources" {} +
mkdir -p "${target%/*}"
strip -o "$target.new" "$work/build/bwrap"
mv "$target.new" "$target"
(cd "${target%/*}" && sha256sum "${target##*/}") >"$target.sha256"
printf 'bwrap: %s\n' "$("$target" --version) is in ${target#"$PWD"/}"
