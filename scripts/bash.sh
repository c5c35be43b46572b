#!/usr/bin/env bash
# Builds the Bash of the wrapper back-end: src/paddock/native/paddock-bash, the distribution's Bash with patches/.
#
# The source is that of the distribution (Debian and its kin), with its fixes. apt verifies the lists of packages by
# their signature; each file is held against the digest in there once more. Build tools are installed only
# when the caller is root or has sudo without a password. What was built is kept in the user's cache with its source, so that
# the next clone on the same machine needs neither the network nor a minute. Bash is under the GPL 3 or later: whoever
# passes the result on must offer this source too. With an argument, the files of the source package and the patch
# are copied into that directory.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/packages.sh
source scripts/packages.sh
# shellcheck source=scripts/source_package.sh
source scripts/source_package.sh

readonly sources=${1:+$(realpath "$1")}
readonly patch=$PWD/patches/bash-exec-wrapper.patch
readonly target=$PWD/src/paddock/native/paddock-bash
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
readonly log=$work/log

die() {
    printf 'bash: error: %s\n' "$*" >&2
    exit 1
}

# run LABEL COMMAND...: one line of progress, and the command's output only if it fails.
run() {
    printf 'bash: %s\n' "$1"
    shift
    if ! "$@" >"$log" 2>&1; then
        cat "$log" >&2
        die "this command failed: $*"
    fi
}

# Where the result for this system, patch and script is kept.
kept_build() {
    local key home=~
    key=$({ uname -m; cat /etc/os-release "$patch" scripts/bash.sh; } | sha256sum | cut -c1-16)
    printf '%s\n' "${XDG_CACHE_HOME:-$home/.cache}/paddock/bash/$key"
}

build() {
    cd "$work"/bash-*/
    patch -p1 <"$patch"
    # Its own malloc is of use to nobody but it, and refuses to live with sanitizers and static tools.
    ./configure --without-bash-malloc --disable-nls
    make -j "$(nproc)"
    strip -o "$work/built/bash" bash
}

make_kept() {
    local kept=$1 package
    command -v apt-get >/dev/null || die "only distributions with apt are supported; build Bash with patches/ by hand instead"
    for package in dpkg-dev gcc libc6-dev make patch; do
        need "$package"
    done
    run "fetching the source package" fetch_source bash
    mkdir "$work/built" "$work/built/source"
    run "compiling" build
    find "$work" -maxdepth 1 -name 'bash_*' -type f -exec cp -t "$work/built/source" {} +
    mkdir -p "${kept%/*}"
    find "${kept%/*}" -mindepth 1 -maxdepth 1 -mtime +90 -exec rm -rf {} +
    # Another clone may have been quicker; what it has made is as good.
    cp -a "$work/built" "$kept.$$"
    mv -T "$kept.$$" "$kept" 2>/dev/null || rm -rf "$kept.$$"
}

kept=$(kept_build)
[[ -x $kept/bash ]] || make_kept "$kept"
touch "$kept"
[[ -z $sources ]] || cp "$kept"/source/* "$patch" "$sources"
if ! cmp -s "$kept/bash" "$target"; then
    mkdir -p "${target%/*}"
    cp "$kept/bash" "$target.new"
    mv "$target.new" "$target"
fi
printf 'bash: %s\n' "$("$target" -c 'echo $BASH_VERSION') is in ${target#"$PWD"/}"
