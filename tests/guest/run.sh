#!/usr/bin/env bash
# Boots the guest, plays tests/guest/story.sh in it, over a reboot, and says how it ended.
#
# usage: tests/guest/run.sh DIR
set -euo pipefail
out="${1:?usage: run.sh DIR}"
log="$out/console.log"
timeout 1800 qemu-system-x86_64 -machine q35 -cpu max -smp 2 -m 2048 -nographic -nodefaults -serial file:"$log" \
    -kernel "$out/vmlinuz" -initrd "$out/initrd.img" \
    -append "root=/dev/vda rw console=ttyS0 systemd.show_status=no loglevel=4" \
    -drive file="$out/root.img",format=raw,if=virtio,cache=unsafe \
    -drive file="$out/drive.img",format=raw,if=virtio,cache=unsafe || true
grep -a "^story:" "$log"
grep -aq "^story: all of it held" "$log"
