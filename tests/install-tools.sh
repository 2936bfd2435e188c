#!/usr/bin/env bash
# Installs what `make test`, `make demo` and `make bench` need on Debian 12. Quick when all is present.
#
# The Rust toolchain is not installed here: it is the one thing a developer brings.
set -euo pipefail

# package:command that proves it is there. qemu-system-common brings qemu-storage-daemon on Debian 12.
TOOLS=(
    git:git
    gcc:cc
    python3:python3
    libc6-dev:/usr/include/stdio.h
    liburing-dev:/usr/include/liburing.h
    fio:fio
    nbdkit:nbdkit
    libnbd-bin:nbdinfo
    qemu-utils:qemu-img
    qemu-system-common:qemu-storage-daemon
    libisal-dev:/usr/include/isa-l.h
    e2fsprogs:mkfs.ext4
    xfsprogs:mkfs.xfs
    btrfs-progs:mkfs.btrfs
    fuse3:fusermount3
    util-linux:losetup
    postgresql:/usr/lib/postgresql/*/bin/pgbench
    postgresql-contrib:/usr/share/postgresql/*/extension/amcheck.control
)

fail() {
    echo "install-tools: $*" >&2
    exit 1
}

# Debian keeps mkfs.* and losetup in /usr/sbin, which is not on every user's path.
PATH="$PATH:/usr/sbin:/sbin"

has() {
    case "$1" in
        /*) compgen -G "$1" > /dev/null ;;
        *) command -v "$1" > /dev/null ;;
    esac
}

[ -d "${CARGO_HOME:-$HOME/.cargo}/bin" ] && PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
has cargo || fail "cargo is not on the path: install a Rust toolchain first (https://rustup.rs)"
for component in clippy rustfmt; do
    has "cargo-${component/rustfmt/fmt}" && continue
    has rustup || fail "cargo ${component/rustfmt/fmt} is missing: add the $component component"
    echo "install-tools: rustup component add $component"
    rustup component add "$component"
done

missing=()
for tool in "${TOOLS[@]}"; do
    has "${tool#*:}" || missing+=("${tool%%:*}")
done
[ ${#missing[@]} -eq 0 ] && exit 0

has apt-get || fail "missing: ${missing[*]}; this script knows only apt-get (Debian 12)"
sudo=()
if [ "$(id -u)" -ne 0 ]; then
    has sudo || fail "missing: ${missing[*]}; run as root, or install them: apt-get install ${missing[*]}"
    sudo=(sudo)
fi

echo "install-tools: installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet \
        --no-install-recommends "${missing[@]}" > "$log" 2>&1
}
# The package lists of a fresh machine are empty or old, so a first failure only asks for new lists.
if ! install; then
    "${sudo[@]}" apt-get update --quiet > "$log" 2>&1 || { tail -5 "$log" >&2; fail "apt-get update failed"; }
    install || { tail -20 "$log" >&2; fail "apt-get install failed: ${missing[*]}"; }
fi

for tool in "${TOOLS[@]}"; do
    has "${tool#*:}" || fail "${tool%%:*} is installed but ${tool#*:} is not there"
done
