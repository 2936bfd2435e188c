#!/usr/bin/env bash
# Installs, upgrades, removes and purges the Debian package in a fresh Debian tree. By hand or nightly, as root.
#
# usage: tests/package/run.sh [PROGRAM]
# systemd is in the tree and does what it does in one: it enables units by its presets. It does not run there: what the
# scripts would have it start is written down and carried out by supervisor.sh, from the unit's own ExecStart. With /dev/fuse and loop devices a volume is attached and written to over the upgrade.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
root="$(cd "$here/../.." && pwd)"
# Its mounts are nobody else's, and go with it.
[ -n "${ASHLAR_PACKAGE_APART:-}" ] || exec env ASHLAR_PACKAGE_APART=1 unshare --mount --propagation private "$0" "$@"
. "$here/tree.sh"

program="$(program_under_test "$root" "${1:-}")"
work="$(mktemp -d -p "${TMPDIR:-/var/tmp}" ashlar-package-XXXXXX)"
tree="$work/tree"
# A chroot is not always told for one: what asks systemd is told that none runs, and works on files.
inside() { SYSTEMD_OFFLINE=1 chroot "$tree" "$@"; }
clean() {
    rm -f "$tree/run/writer.go" 2> /dev/null || true
    if [ -S "$tree/var/lib/ashlar/api.sock" ]; then
        inside ashlar stop --detach --force --yes > /dev/null 2>&1 || true
    fi
    umount --recursive --lazy "$tree/dev" "$tree/proc" "$tree/sys" 2> /dev/null || true
    rm -rf --one-file-system "$work"
}
trap clean EXIT

say "builds two packages of $program"
first="$("$root/deploy/debian/build.sh" "$program" "$work/packages" 1)"
second="$("$root/deploy/debian/build.sh" "$program" "$work/packages" 2)"
say "$(basename "$first"): $(du -h "$first" | cut -f 1)"
make_tree "$tree" e2fsprogs,mount,man-db,bash-completion,systemd
mount --rbind /dev "$tree/dev"
mount -t proc proc "$tree/proc"
mount --rbind /sys "$tree/sys"
mkdir -p "$tree/run/systemd/system" "$tree/packages"
cp "$first" "$second" "$tree/packages/"
inside dpkg-divert --quiet --rename --add /usr/bin/deb-systemd-invoke 2> /dev/null
cp "$here/supervisor.sh" "$tree/usr/bin/deb-systemd-invoke"
chmod 755 "$tree/usr/bin/deb-systemd-invoke"
# minbase leaves out manual pages by a setting of dpkg, if at all.
rm -f "$tree"/etc/dpkg/dpkg.cfg.d/*doc*

install() { inside dpkg --install "/packages/$(basename "$1")" > "$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2; fail "dpkg --install $1"; }; }
calls() { cat "$tree/run/calls" 2> /dev/null || true; }
forget_calls() { rm -f "$tree/run/calls"; }
process() { inside ashlar status --json | sed -n 's/.*"process_id": \([0-9]*\).*/\1/p'; }
mount_number() { inside sed -n 's|^\([0-9]*\) .* /mnt/db .*|\1|p' /proc/self/mountinfo; }
wanted="$tree/etc/systemd/system/multi-user.target.wants/ashlar.service"
is_enabled() { [ -L "$wanted" ] && [ "$(inside systemctl is-enabled ashlar.service)" = enabled ]; }
json_number() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" | head -1; }

install "$first"
[ "$(calls)" = "start ashlar.service" ] || fail "the first installation asked for: $(calls)"
inside ashlar status > /dev/null || fail "the array does not answer"
is_enabled || fail "the unit is not enabled: $(inside systemctl is-enabled ashlar.service)"
[ "$(stat -c %a "$tree/etc/ashlar/ashlar.toml")" = 640 ] || fail "mode of the settings"
inside man --where ashlar-pool-create > /dev/null || fail "there is no manual page of a command"
inside man ashlar 2> /dev/null | grep "ashlar serve" > /dev/null || fail "the manual page does not show"
inside bash -c '. /usr/share/bash-completion/completions/ashlar && complete -p ashlar' > /dev/null || fail "completion"
[ "$(inside dpkg-query -W -f '${Conffiles}' ashlar | grep -c ashlar.toml)" = 1 ] || fail "the settings are no conffile"
[ -z "$(inside dpkg --verify ashlar)" ] || fail "files differ from what the package says: $(inside dpkg --verify ashlar)"
say "installed: the array serves, the unit is enabled, manual pages and completion are there"

inside ashlar pool create main --drive /srv/drive.img,size=1GiB > /dev/null
inside ashlar volume create db --size 256MiB > /dev/null
echo "deleted_volumes_hours = 48" >> "$tree/etc/ashlar/ashlar.toml"
is_attached=
if [ -c "$tree/dev/fuse" ] && [ -c "$tree/dev/loop-control" ]; then
    is_attached=yes
    inside ashlar attach db --format ext4 --mount /mnt/db > /dev/null
    touch "$tree/run/writer.go"
    # Ends at its first error, and keeps it.
    inside sh -c 'exec > /dev/null 2> /run/writer.err
        cd /mnt/db
        while [ -e /run/writer.go ]; do
            date +%s.%N >> /mnt/db/lines && sync /mnt/db/lines || exit 1
            echo x >> /run/writer.count
            sleep 0.02
        done' &
    writer=$!
    sleep 1
else
    say "SKIPPED: without /dev/fuse and loop devices nothing is attached"
fi
written() { wc -l < "$tree/run/writer.count"; }

before="$(process)"
mounted="$(mount_number)"
[ -z "$is_attached" ] || count="$(written)"
forget_calls
install "$second"
[ "$(calls)" = "restart ashlar.service" ] || fail "the upgrade asked for: $(calls)"
[ "$(process)" != "$before" ] || fail "the old program still runs"
is_enabled || fail "the upgrade disabled the unit"
case "$(inside dpkg-query -W -f '${Version}' ashlar)" in *-2) ;; *) fail "the version after the upgrade" ;; esac
grep -q "^deleted_volumes_hours = 48" "$tree/etc/ashlar/ashlar.toml" || fail "the upgrade lost a setting"
inside ashlar volume create other --size 1MiB > /dev/null
[ "$(inside ashlar volume delete other --yes --json | json_number recoverable_seconds)" = 172800 ] || fail "the setting is not in force"
if [ -n "$is_attached" ]; then
    sleep 1
    kill -0 "$writer" 2> /dev/null || fail "the writer met an error: $(cat "$tree/run/writer.err")"
    [ "$(written)" -gt "$count" ] || fail "nothing was written since the upgrade"
    [ "$(mount_number)" = "$mounted" ] || fail "it was mounted anew"
    say "upgraded: the writer went on, $(inside ashlar status --json | grep -o '"handover_pause_millis": [0-9]*')"

    forget_calls
    if inside dpkg --remove ashlar > "$work/dpkg.log" 2>&1; then fail "it was removed under a writer"; fi
    grep -q "not removed, and nothing was stopped" "$work/dpkg.log" || fail "why it was not removed: $(cat "$work/dpkg.log")"
    # The scripts put back what they found. That somebody wanted it removed is dpkg's own to remember.
    state="$(inside dpkg-query -W -f '${Status}' ashlar)"
    [ "$state" = "deinstall ok installed" ] || [ "$state" = "install ok installed" ] || fail "after a refused removal: $state"
    [ "$(calls)" = "start ashlar.service" ] || fail "a refused removal asked for: $(calls)"
    kill -0 "$writer" 2> /dev/null || fail "the refused removal disturbed the writer: $(cat "$tree/run/writer.err")"
    say "a removal under a writer is refused, and he goes on"
    rm "$tree/run/writer.go"
    wait "$writer" || fail "the writer met an error: $(cat "$tree/run/writer.err")"
fi

sum() { sha256sum "$tree/srv/drive.img" | cut -d ' ' -f 1; }
inside dpkg --remove ashlar > "$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2; fail "dpkg --remove"; }
[ ! -S "$tree/var/lib/ashlar/api.sock" ] || fail "the array still serves after the removal"
[ -z "$(mount_number)" ] || fail "the volume is still mounted after the removal"
[ -e "$tree/etc/ashlar/ashlar.toml" ] && [ -e "$tree/var/lib/ashlar/pools.toml" ] || fail "the removal took settings or state"
drive="$(sum)"
say "removed: stopped and detached, settings and state are there"

inside dpkg --purge ashlar > "$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2; fail "dpkg --purge"; }
grep -q "/var/lib/ashlar is kept.*: main" "$work/dpkg.log" || fail "the purge does not name the pool: $(cat "$work/dpkg.log")"
[ ! -e "$tree/etc/ashlar" ] || fail "the purge left settings"
[ ! -L "$wanted" ] || fail "the purge left the unit enabled"
[ -e "$tree/var/lib/ashlar/pools.toml" ] || fail "the purge lost a pool's state"
[ "$(sum)" = "$drive" ] || fail "the purge touched a drive"
say "purged: settings gone, the state of the pool kept and named, the drive untouched"

install "$second"
inside ashlar volume show db > /dev/null || fail "a new installation does not find the pool"
if [ -n "$is_attached" ]; then
    lines() { wc -l < "$tree/mnt/db/lines"; }
    for _ in $(seq 100); do [ ! -e "$tree/mnt/db/lines" ] || break; sleep 0.1; done
    [ "$(lines)" -ge "$(written)" ] || fail "acknowledged lines are lost"
    inside ashlar detach db > /dev/null
fi
inside ashlar pool export main > /dev/null
echo mine > "$tree/var/lib/ashlar/mine"
inside dpkg --purge ashlar > "$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2; fail "dpkg --purge"; }
[ "$(ls "$tree/var/lib/ashlar")" = mine ] || fail "the purge left or took: $(ls "$tree/var/lib/ashlar")"
rm -r "$tree/var/lib/ashlar"
install "$second"
inside ashlar pool import main --drive /srv/drive.img > /dev/null || fail "the drive alone does not bring the pool back"
inside ashlar volume show db > /dev/null || fail "the volume is gone"
inside systemctl disable ashlar.service 2> /dev/null
install "$first"
! is_enabled || fail "an upgrade enabled what was disabled"
inside ashlar volume show db > /dev/null || fail "the volume is gone after the second upgrade"
inside ashlar pool export main > /dev/null
inside dpkg --purge ashlar > "$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2; fail "dpkg --purge"; }
[ ! -e "$tree/var/lib/ashlar" ] || fail "the purge left: $(ls "$tree/var/lib/ashlar")"
say "without a pool a purge removes the state directory, no file of another, and no drive"
say "all of it held"
