#!/usr/bin/env bash
# Makes .venv ready to run, test and check Paddock; does nothing when it already is.
#
# It needs Python 3.11 or newer and a C compiler. Missing Debian packages
# (python3-venv, bubblewrap, ripgrep, libseccomp2, zsh, fish, btrfs-progs) are installed only when the caller is
# root or has sudo without a password; otherwise one sentence says what to run.
# PYTHON chooses the interpreter, CC the compiler.
#
# What was installed from a lock file is kept in the user's cache, so that the next clone on the same
# machine starts from it: in seconds, and without the network. pip still has the last word.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/packages.sh
source scripts/packages.sh

readonly venv=.venv
readonly stamp=$venv/.setup-done
readonly origin=$venv/.made-in
readonly programs=(src/paddock/native/paddock-{spawner,init,stub,execve-wrapper,leader,janitor,worker.so})
readonly modules=(src/paddock/{fs/_status,protocol/_scanner,sandbox/host/_linkless,transport/_frames}.abi3.so)
readonly log=$venv/setup.log

# To stderr: the first line that `make run` prints on stdout is the server's URL.
say() { printf 'setup: %s\n' "$*" >&2; }
warn() { printf 'setup: warning: %s\n' "$*" >&2; }
die() {
    printf 'setup: error: %s\n' "$*" >&2
    exit 1
}

# True when .venv works from this directory: its scripts name their interpreter by
# absolute path, so a moved or copied tree needs a new one.
is_made_here() {
    [[ -f $origin && $(<"$origin") == "$PWD" ]] && is_new_enough "$venv/bin/python"
}

# True when nothing that shaped .venv has changed since it was finished.
is_ready() {
    [[ -f $stamp && -x $venv/bin/paddock ]] && is_made_here &&
        [[ -z $(find requirements.lock pyproject.toml hatch_build.py scripts/setup.sh -newer "$stamp" -print -quit) ]]
}

# True when all are there and newer than every source of them; the modules may be missing where they cannot be made.
is_compiled() {
    local result
    for result in "${programs[@]}" "${modules[@]}"; do
        if [[ ! -x $result ]]; then
            [[ $result == *.abi3.so ]] && ! has_python_headers || return
        elif [[ -n $(find hatch_build.py native/*.[ch] -newer "$result" -print -quit) ]]; then
            return 1
        fi
    done
}

# run LABEL COMMAND...: one line of progress, and the command's output only if it fails.
run() {
    say "$1"
    shift
    if ! "$@" >"$log" 2>&1; then
        cat "$log" >&2
        die "this command failed: $*"
    fi
}

is_new_enough() {
    # A version manager can leave a python3.12 on PATH that only prints an error, so it is run, not just found.
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

choose_python() {
    local candidate
    if [[ -n ${PYTHON:-} ]]; then
        is_new_enough "$PYTHON" || die "PYTHON=$PYTHON does not run, or is older than 3.11"
        printf '%s\n' "$PYTHON"
        return
    fi
    for candidate in python3.14 python3.13 python3.12 python3.11 python3; do
        if is_new_enough "$candidate"; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    die "no Python 3.11 or newer was found; install one, or set PYTHON to its path"
}

make_venv() {
    local python=$1 package
    rm -rf "$venv"
    mkdir "$venv"
    # Debian ships venv without ensurepip; the package that holds it carries the version in its name.
    if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        package=$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
        can_install_packages || die "$python cannot make a virtual environment; run: apt-get install $package"
        run "installing $package" install_package "$package"
    fi
    run "making $venv with $("$python" --version)" "$python" -m venv "$venv"
    printf '%s\n' "$PWD" >"$origin"
}

# The directory that holds what this Python installed from this lock file.
kept_packages() {
    local key home=~
    key=$({ "$venv/bin/python" -c 'import platform, sys; print(sys.version, platform.machine(), platform.libc_ver())'
        cat requirements.lock; } | sha256sum | cut -c1-16)
    printf '%s\n' "${XDG_CACHE_HOME:-$home/.cache}/paddock/environments/$key"
}

site_packages() { "$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

# Fills a new .venv with the packages another clone has installed.
take_kept_packages() {
    local kept=$1 script
    cp -a --reflink=auto "$kept/site-packages/." "$(site_packages)" && cp -a "$kept/bin/." "$venv/bin" || return
    # A script names its interpreter by absolute path, which was another clone's.
    for script in "$kept"/bin/*; do
        script=$venv/bin/${script##*/}
        [[ $(head -c 2 "$script") != '#!' ]] || sed -i "1s|^#!.*/python[0-9.]*|#!$PWD/$venv/bin/python|" "$script"
    done
}

# Keeps what was installed, without Paddock itself, and drops what no clone has used for a month.
keep_packages() {
    local kept=$1 new
    mkdir -p "${kept%/*}" || return
    find "${kept%/*}" -mindepth 1 -maxdepth 1 -mtime +30 -exec rm -rf {} +
    new=$(mktemp -d "${kept%/*}/.new.XXXXXX") || return
    if mkdir "$new/bin" &&
        cp -a --reflink=auto "$(site_packages)" "$new/site-packages" &&
        rm -rf "$new"/site-packages/*paddock* &&
        find "$venv/bin" -type f ! -iname 'activate*' ! -name paddock -exec cp -a -t "$new/bin" {} + &&
        mv -T "$new" "$kept"; then
        return
    fi
    rm -rf "$new"
    # Another clone may have been quicker with the same packages.
    [[ -d $kept ]]
}

# install_optional PACKAGE CONSEQUENCE: a Debian package without which only a part is missing.
install_optional() {
    if ! can_install_packages; then
        warn "$1 is missing, so $2; run: apt-get install $1"
        return
    fi
    say "installing $1"
    if ! install_package "$1" >"$log" 2>&1; then
        warn "$1 could not be installed, so $2; see $log"
    fi
}

has_python_headers() {
    "$venv/bin/python" -c 'import pathlib, sysconfig, sys; sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").is_file())'
}

has_libseccomp() {
    "$venv/bin/python" -c 'import ctypes; ctypes.CDLL("libseccomp.so.2")' 2>/dev/null
}

compile_native() {
    local compiler
    # The build hook would compile as well, but pip wraps whatever the compiler says in its own report.
    read -ra compiler <<<"${CC:-cc}"
    command -v "${compiler[0]}" >/dev/null || die "no C compiler was found; run: apt-get install gcc libc6-dev, or set CC"
    run "compiling native/" "$venv/bin/python" hatch_build.py
    # The warning says why there are none, below what the compiler says.
    [[ -f ${modules[0]} ]] || cat "$log" >&2
}

main() {
    local python kept
    if is_ready && is_compiled; then
        return
    fi
    # Two runs at once would remove each other's files; the second waits, then finds nothing to do.
    exec 9<scripts/setup.sh
    flock 9
    if is_ready; then
        is_compiled || compile_native
        return
    fi

    python=$(choose_python)
    is_made_here || make_venv "$python"
    kept=$(kept_packages)
    if [[ ! -f $stamp && -d $kept ]]; then
        run "taking the packages of another clone" take_kept_packages "$kept"
        touch "$kept"
    fi
    rm -f "$stamp"
    # Older than the work, so that a file edited meanwhile counts as changed.
    touch "$stamp.new"
    run "installing the locked dependencies" \
        "$venv/bin/python" -m pip install --disable-pip-version-check --require-hashes -r requirements.lock
    [[ -d $kept ]] || keep_packages "$kept" || warn "the packages could not be kept for other clones in ${kept%/*}"
    compile_native
    run "installing paddock" \
        "$venv/bin/python" -m pip install --disable-pip-version-check --no-deps --no-build-isolation -e .
    # A checkout starts as quickly as an installed package, also where Python is told to keep no bytecode.
    run "compiling src/" "$venv/bin/python" -m compileall -q -j 0 src/paddock
    command -v bwrap >/dev/null || install_optional bubblewrap "sandboxes will not be available"
    command -v rg >/dev/null || install_optional ripgrep "searching files will be slower"
    command -v zsh >/dev/null || install_optional zsh "tests of its completion will be skipped"
    command -v fish >/dev/null || install_optional fish "tests of its completion will be skipped"
    # Only root's tests mount one.
    [[ $EUID != 0 ]] || command -v mkfs.btrfs >/dev/null ||
        install_optional btrfs-progs "tests of snapshots will be skipped"
    has_libseccomp || install_optional libseccomp2 "tests of the system call filters will be skipped"
    mv "$stamp.new" "$stamp"
    say "done"
}

main
