# A fresh Debian tree for the tests of packages; sourced. Sets nothing but the function.
# shellcheck shell=bash

# make_tree DIR|FILE.tar PACKAGES: minimal Debian 12 with these packages, from the machine's own mirror.
make_tree() {
    local sources mirror
    command -v mmdebstrap > /dev/null || { echo "package: mmdebstrap is missing: apt-get install mmdebstrap" >&2; return 1; }
    sources="$(mktemp)"
    mirror="$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -1)"
    printf 'deb %s bookworm main\n' "$mirror" > "$sources"
    mmdebstrap --quiet --variant=minbase --mode=root --include="$2" \
        --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Check-Date "false"' bookworm "$1" "$sources"
    rm -f "$sources"
}

say() { echo "package: $*"; }
fail() {
    echo "package: FAILED: $*" >&2
    exit 1
}

# The program under test: the argument, ASHLAR_BIN, or the release build.
program_under_test() {
    local root="$1" named="${2:-}"
    local program="${named:-${ASHLAR_BIN:-${CARGO_TARGET_DIR:-$root/target}/release/ashlar}}"
    [ -x "$program" ] || fail "no program $program: cargo build --release --package ashlar-cli"
    realpath "$program"
}
