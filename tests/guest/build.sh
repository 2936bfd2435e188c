#!/usr/bin/env bash
# Builds the guest: Debian with the kernel of its backports, systemd, PostgreSQL, open-iscsi and dm-multipath, as a
# disk image for qemu. Takes some minutes. By hand, as root.
#
# usage: tests/guest/build.sh DIR [PROGRAM]     PROGRAM: the release build of ashlar
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
root="$(cd "$here/../.." && pwd)"
out="${1:?usage: build.sh DIR [PROGRAM]}"
program="${2:-$root/target/release/ashlar}"
mkdir -p "$out"

for tool in mmdebstrap qemu-system-x86_64 mke2fs; do
    command -v "$tool" > /dev/null || { echo "guest: $tool is missing: apt-get install mmdebstrap qemu-system-x86 e2fsprogs" >&2; exit 1; }
done

# The machine's own sources, and the backports of the same place.
sources="$(mktemp)"
trap 'rm -f "$sources"' EXIT
mirror="$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -1)"
printf 'deb %s bookworm main\ndeb %s bookworm-backports main\n' "$mirror" "$mirror" > "$sources"

tree="$out/tree"
if [ ! -e "$out/tree.done" ]; then
    rm -rf "$tree"
    mmdebstrap --variant=minbase --mode=root \
        --include=systemd-sysv,udev,kmod,dbus,procps,util-linux,e2fsprogs,xfsprogs,postgresql,initramfs-tools \
        --include=open-iscsi,multipath-tools,sg3-utils,iproute2,python3 \
        --customize-hook='chroot "$1" apt-get install -y --no-install-recommends -t bookworm-backports linux-image-amd64' \
        --customize-hook='chroot "$1" systemctl disable postgresql.service' \
        --customize-hook='chroot "$1" systemctl disable open-iscsi.service iscsid.socket' \
        --customize-hook='chroot "$1" systemctl disable multipathd.service multipathd.socket' \
        bookworm "$tree" "$sources"
    touch "$out/tree.done"
fi

# The array comes as an operator gets it: the package's scripts enable the units, and systemd starts them.
package="$("$root/deploy/debian/build.sh" "$program" "$out/packages" 1)"
cp "$package" "$tree/tmp/ashlar.deb"
SYSTEMD_OFFLINE=1 DEBIAN_FRONTEND=noninteractive chroot "$tree" dpkg --force-confnew --install /tmp/ashlar.deb
install -D -m 644 "$here/postgresql-ashlar.conf" "$tree/etc/systemd/system/postgresql@.service.d/ashlar.conf"
install -m 755 "$here/story.sh" "$tree/usr/local/bin/story"
install -m 644 "$here/story.service" "$tree/etc/systemd/system/story.service"
install -m 755 "$here/iscsi.sh" "$tree/usr/local/bin/iscsi-story"
install -m 755 "$here/iscsi-load.py" "$tree/usr/local/bin/iscsi-load"
install -m 644 "$here/iscsi-multipath.conf" "$tree/usr/local/share/iscsi-multipath.conf"
install -m 644 "$here/iscsi-story.service" "$tree/etc/systemd/system/iscsi-story.service"
mkdir -p "$tree/var/log/journal"
chroot "$tree" systemctl enable story.service iscsi-story.service
cp "$tree"/boot/vmlinuz-* "$out/vmlinuz"
cp "$tree"/boot/initrd.img-* "$out/initrd.img"
rm -f "$out/root.img" "$out/drive.img"
mke2fs -q -t ext4 -d "$tree" "$out/root.img" 4G
truncate --size 2G "$out/drive.img"
echo "guest: built in $out; tests/guest/run.sh $out"
