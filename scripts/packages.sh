# Sourced by scripts that may need Debian packages: installs them without asking, or not at all.

apt_updated=no

# True when Debian packages can be installed without asking anybody.
can_install_packages() {
    command -v apt-get >/dev/null && { [[ $EUID -eq 0 ]] || sudo -n true 2>/dev/null; }
}

# apt ARGUMENT...: apt-get as root, never asking, output kept for the log.
apt() {
    local as_root=()
    [[ $EUID -eq 0 ]] || as_root=(sudo -n)
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q "$@"
}

install_package() {
    if [[ $apt_updated == no ]]; then
        apt update || return 1
        apt_updated=yes
    fi
    apt install --no-install-recommends "$1"
}
