# Sourced by scripts that build a program from the distribution's source package (Debian and its kin).
#
# The caller has `die`, `run` and a directory `$work`, and has sourced packages.sh.

# need PACKAGE: a build tool; installed if that is possible.
need() {
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null || true) == installed ]] && return
    can_install_packages || die "$1 is missing; run: apt-get install $1"
    run "installing $1" install_package "$1"
}

# Lists of source packages of our own, so that the host's stay as they are.
source_lists() {
    mkdir -p "$work/lists/partial" "$work/parts"
    local file
    for file in /etc/apt/sources.list.d/*.sources; do
        [[ -e $file ]] && sed 's/^Types:.*/Types: deb-src/' "$file" >"$work/parts/${file##*/}"
    done
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [[ -e $file ]] && sed -n 's/^deb /deb-src /p' "$file" >"$work/parts/${file##*/}.list"
    done
    return 0
}

source_apt() {
    local program=$1
    shift
    "$program" -q -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$work/parts" \
        -o "Dir::State::Lists=$work/lists" -o APT::Sandbox::User=root "$@"
}

# The digests of a source package's files, from the lists that apt has verified, as sha256sum reads them.
source_digests() {
    source_apt apt-cache --only-source showsrc "$1" |
        awk '/^[^ ]/ { in_digests = /^Checksums-Sha256:/ } in_digests && NF == 3 { print $1 "  " $3 }' | sort -u
}

# fetch_source PACKAGE: its files, and the unpacked tree, in $work. Fails unless each file has its digest.
fetch_source() {
    source_lists
    source_apt apt-get update
    (cd "$work" && source_apt apt-get source "$1")
    source_digests "$1" >"$work/digests"
    local file
    while read -r file; do
        (cd "$work" && grep -F "  ${file##*/}" digests | sha256sum --check --strict) || return 1
    done < <(find "$work" -maxdepth 1 -name "$1_*" -type f)
}
