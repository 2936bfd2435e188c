#!/usr/bin/env bash
# Boots the guest, plays a story in it, and says how it ended. Build it anew before another story.
#
# usage: tests/guest/run.sh DIR [STORY]
#   STORY   package (if left out): tests/guest/story.sh, over a reboot; iscsi: tests/guest/iscsi.sh
# GUEST_SHELL=SOCKET gives a shell of root in it (socat - UNIX-CONNECT:SOCKET), which stays when the iscsi story fails.
set -euo pipefail
out="${1:?usage: run.sh DIR [STORY]}"
story="${2:-package}"
log="$out/console.log"
shell=() shell_words=
if [ -n "${GUEST_SHELL:-}" ]; then
    shell=(-serial "unix:$GUEST_SHELL,server=on,wait=off") shell_words="systemd.debug_shell=ttyS1 story_stays"
fi
timeout 4000 qemu-system-x86_64 -machine q35 -cpu max -smp 2 -m 2048 -nographic -nodefaults -serial file:"$log" "${shell[@]}" \
    -kernel "$out/vmlinuz" -initrd "$out/initrd.img" \
    -append "root=/dev/vda rw console=ttyS0 systemd.show_status=no loglevel=4 story=$story $shell_words" \
    -drive file="$out/root.img",format=raw,if=virtio,cache=unsafe \
    -drive file="$out/drive.img",format=raw,if=virtio,cache=unsafe || true
grep -a "^story:" "$log"
grep -aq "^story: all of it held" "$log"
