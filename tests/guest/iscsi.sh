#!/usr/bin/env bash
# Runs in the guest: open-iscsi and dm-multipath on the array's volumes, over two paths that are cut and an array
# that is killed. The array has a network of its own (namespace `array`), so its addresses are off loopback.
set -uo pipefail
first=192.0.2 second=198.51.100
portal_1="$first.2:3260" portal_2="$second.2:3260"
secret="a secret of db1" mutual="what the array proves"
record=/var/lib/story-record
faults=0

say() { echo "story: $*" > /dev/console; }
shown() { sed 's/^/story:     /' > /dev/console; }
journal() { journalctl -b -u ashlar -u iscsid -u multipathd -u iscsi-story --no-pager -o short-precise | tail -"$1"; }
fail() {
    say "FAILED: $*"
    journal 60 > /dev/console
    dmesg | tail -40 > /dev/console
    grep -q story_stays /proc/cmdline || systemctl --force poweroff
    exit 1
}
# What does not hold, and does not keep the rest from being looked at.
fault() {
    say "FAULT: $*"
    journal 15 | shown
    faults=$((faults + 1))
}
# Waits until a command holds: within SECONDS, which are long ones on a machine in software.
within() {
    local end=$((SECONDS + $1))
    shift
    until "$@" > /dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 1
    done
}
# One value of the JSON on standard input.
value() { python3 -c "import json, sys; print(json.load(sys.stdin)$1)"; }
main_pid() { systemctl show --property MainPID --value ashlar; }
runs_again() { [ "$(main_pid)" != 0 ] && [ "$(main_pid)" != "$1" ] && systemctl is-active --quiet ashlar; }
has_sessions() { [ "$(grep -l LOGGED_IN /sys/class/iscsi_session/session*/state 2> /dev/null | wc -l)" = "$1" ]; }
# How many paths of a map are good: multipath_paths MAP.
good_paths() { multipathd show paths raw format "%m|%t|%T" | grep -c "^$1 *|active *|ready"; }
has_paths() { [ "$(good_paths "$1")" = "$2" ]; }
listens() { [ "$(ip netns exec array ss -Hltn | grep -c ':3260 ')" = 2 ]; }
reaches() { timeout 5 bash -c "exec 3<> /dev/tcp/${1%:*}/${1##*:}"; }
# The disk behind a unit of the session at a portal's address: disk_of ADDRESS LUN.
disk_of() {
    local link
    link="$(ls -d /dev/disk/by-path/ip-"$1":3260-iscsi-*-lun-"$2" 2> /dev/null | head -1)"
    [ -n "$link" ] && readlink -f "$link"
}
acknowledged() { wc -l < "$record"; }
# Whether the load goes on: it has come further by so many writes.
goes_on() {
    local before
    before="$(acknowledged)"
    within "$1" eval "[ \$(acknowledged) -gt $((before + $2)) ]"
}

network() {
    ip netns add array
    ip -n array link set lo up
    for number in 1 2; do
        ip link add "host$number" type veth peer name "array$number" netns array
    done
    ip addr add "$first.1/24" dev host1
    ip addr add "$second.1/24" dev host2
    ip link set host1 up
    ip link set host2 up
    printf '[Service]\nNetworkNamespacePath=/run/netns/array\n' > "$drop_ins/network.conf"
}
addresses_of_array() {
    ip -n array addr add "$first.2/24" dev array1
    ip -n array addr add "$second.2/24" dev array2
    ip -n array link set array1 up
    ip -n array link set array2 up
}

# 1: the array, at two addresses off loopback.
array() {
    drop_ins=/etc/systemd/system/ashlar.service.d
    mkdir -p "$drop_ins"
    network
    printf 'iscsi_listen = ["%s", "%s"]\n' "$portal_1" "$portal_2" >> /etc/ashlar/ashlar.toml
    systemctl daemon-reload
    # At the start of a machine its addresses may come after the array.
    systemctl restart ashlar || fail "the array does not start while its addresses are not there"
    addresses_of_array
    if ! within 40 listens; then
        fault "addresses that came after the array are not opened"
        systemctl restart ashlar || fail "the array does not start"
        within 40 listens || fail "the array does not listen"
    fi
    reaches "$portal_1" && fault "the unit lets in whoever comes, without a line that says so"
    printf '[Service]\nIPAddressAllow=%s.0/24 %s.0/24\n' "$first" "$second" > "$drop_ins/iscsi.conf"
    systemctl daemon-reload
    systemctl restart ashlar || fail "the array does not start with iscsi.conf"
    within 40 reaches "$portal_1" || fail "nobody listens at $portal_1"
    within 40 reaches "$portal_2" || fail "nobody listens at $portal_2"
    ashlar pool create main --drive /dev/vdb > /dev/null || fail "pool"
    ashlar volume create db --size 640MiB > /dev/null || fail "volume db"
    ashlar volume create quorum --size 64MiB > /dev/null || fail "volume quorum"
    ashlar volume create other --size 64MiB > /dev/null || fail "volume other"
    echo "$secret" > /root/db1.secret
    echo "$mutual" > /root/array.secret
    ashlar host create open --iqn iqn.1993-08.org.debian:01:open \
        && fault "a host without a secret was let in off loopback"
    ashlar host create db1 --iqn iqn.1993-08.org.debian:01:story --chap-user db1 --chap-secret-file /root/db1.secret \
        > /dev/null || fail "host db1"
    ashlar host create db2 --iqn iqn.1993-08.org.debian:01:two --chap-user db1 --chap-secret-file /root/db1.secret \
        --mutual-user array --mutual-secret-file /root/array.secret > /dev/null || fail "host db2"
    ashlar export create db --host db1 --lun 0 > /dev/null || fail "export db"
    ashlar export create quorum --host db1 --lun 1 --block-size 512 > /dev/null || fail "export quorum"
    ashlar export create other --host db2 --lun 5 > /dev/null || fail "export other"
    target="$(ashlar export show db --json | value '["target"]')"
    say "1: $target is served at $portal_1 and $portal_2, off loopback"
}

# What docs/iscsi.md tells, and no more.
initiator() {
    echo "InitiatorName=iqn.1993-08.org.debian:01:story" > /etc/iscsi/initiatorname.iscsi
    local settings=/etc/iscsi/iscsid.conf
    sed -i 's/^\(node.session.timeo.replacement_timeout\) *=.*/\1 = 5/' "$settings"
    printf 'discovery.sendtargets.auth.%s = %s\n' authmethod CHAP username db1 password "$secret" >> "$settings"
    cp /usr/local/share/iscsi-multipath.conf /etc/multipath.conf
    modprobe -a iscsi_tcp dm_multipath dm_round_robin || fail "modules"
    systemctl start iscsid multipathd || fail "iscsid and multipathd do not start"
}
# chap PORTAL IFACE METHOD SECRET: what a login there proves.
chap() {
    local node=(iscsiadm -m node -T "$target" -p "$1" -I "$2" -o update)
    "${node[@]}" -n node.session.auth.authmethod -v "$3" || return
    "${node[@]}" -n node.session.auth.username -v db1 || return
    "${node[@]}" -n node.session.auth.password -v "$4"
}
# The map over a unit.
mapped() {
    local disk
    disk="$(disk_of "$first.2" "$1")" || return
    multipathd show paths raw format "%d|%m" | sed -n "s:^${disk##*/} *|\\([^[].*[^ ]\\) *$:\\1:p"
}
is_mapped() { [ -n "$(mapped "$1")" ]; }

# 2: both paths.
login() {
    local discovered
    discovered="$(iscsiadm -m discovery -t sendtargets -p "$first.2")" || fail "discovery"
    shown <<< "$discovered"
    [ "$(grep -c "$target" <<< "$discovered")" = 2 ] || fail "discovery does not name both addresses"
    chap "$portal_1" default CHAP "$secret" && chap "$portal_2" default CHAP "$secret" || fail "CHAP of the nodes"
    iscsiadm -m node -T "$target" --login > /tmp/login 2>&1 || fail "login: $(cat /tmp/login)"
    within 120 has_sessions 2 || fail "not two sessions"
    within 120 is_mapped 0 && within 120 is_mapped 1 || fail "no map: $(multipath -ll; multipathd show paths; lsblk -S)"
    map="$(mapped 0)" quorum="$(mapped 1)"
    within 120 has_paths "$map" 2 || fail "not two paths: $(multipath -ll)"
    multipath -ll "$map" | shown
    disk_of "$first.2" 5 && fault "db1 sees what was exported to db2"
    [ "$(multipath -ll "$map" | grep -c 'policy=')" = 1 ] || fault "the two paths are not one group: one of them idles"
    ashlar host show db1 | shown
    [ "$(ashlar host show db1 --json | value '["sessions"].__len__()')" = 2 ] || fault "host show: not two sessions"
    say "2: one disk with two paths"
}

load_begins() {
    rm -f "$record.stop"
    python3 /usr/local/bin/iscsi-load run /mnt/db "$record" > /tmp/load 2>&1 &
    load=$!
    within 300 eval "[ \$(acknowledged) -gt 20 ]" || fail "the load does not begin: $(cat /tmp/load)"
}
load_ends() {
    touch "$record.stop"
    wait "$load" || fail "the load met an error: $(cat /tmp/load)"
    say "$1: $(acknowledged) writes were acknowledged, no error, $(head -1 /tmp/load)"
    umount /mnt/db || fail "umount"
    e2fsck -fn "/dev/mapper/$map" > /tmp/fsck 2>&1 || fault "fsck: $(cat /tmp/fsck)"
    echo 3 > /proc/sys/vm/drop_caches
    mount "/dev/mapper/$map" /mnt/db || fail "mount"
    python3 /usr/local/bin/iscsi-load check /mnt/db "$record" > /tmp/check || fail "lost: $(cat /tmp/check)"
    say "$1: all of it is there: $(cat /tmp/check)"
    # Paths may fail; the disk that is made of them, and what is on it, may not.
    dmesg | grep -E "I/O error(,| on) dev dm-|EXT4-fs (error|warning)|JBD2.*(error|abort)" > /tmp/kernel \
        && fail "the kernel's log: $(head -5 /tmp/kernel)"
}
paths_are_back() {
    within 300 has_sessions 2 || fail "$1: sessions do not come back"
    within 300 has_paths "$map" 2 || fail "$1: paths do not come back: $(multipath -ll)"
    goes_on 300 20 || fail "$1: the load does not go on: $(cat /tmp/load)"
}

# 3 and 8: the array is killed, restarted, stopped for longer than a path waits, and upgraded, under the load.
restarts() {
    local before began
    mkfs.ext4 -q "/dev/mapper/$map" || fail "mkfs"
    mkdir -p /mnt/db
    mount "/dev/mapper/$map" /mnt/db || fail "mount"
    load_begins
    for time in 1 2; do
        before="$(main_pid)" began=$SECONDS
        kill -KILL "$before"
        within 300 runs_again "$before" || fail "the array is not started again"
        paths_are_back "kill -9"
        say "3: kill -9 under load, $time: sessions are back and the load goes on after $((SECONDS - began)) s"
    done
    load_ends 3
    load_begins
    began=$SECONDS
    systemctl restart ashlar || fail "restart"
    paths_are_back "restart"
    say "8: restart under load: back after $((SECONDS - began)) s"
    began=$SECONDS
    systemctl stop ashlar || fail "stop"
    sleep 20
    has_paths "$map" 0 || fault "paths are good while no array runs"
    systemctl start ashlar || fail "start"
    paths_are_back "stop and start"
    say "8: stop, 20 s of no array (paths give up after 5), start, under load: back after $((SECONDS - began)) s"
    began=$SECONDS before="$(main_pid)"
    ashlar upgrade /usr/bin/ashlar > /tmp/upgrade 2>&1 || fault "upgrade: $(cat /tmp/upgrade)"
    [ "$(main_pid)" = "$before" ] || fault "the upgrade is another process"
    paths_are_back "upgrade"
    say "8: upgrade under load: back after $((SECONDS - began)) s"
    load_ends 8
}

# 4: one path is cut, then the other.
cut_paths() {
    load_begins
    for number in 1 2; do
        ip link set "host$number" down
        within 300 has_paths "$map" 1 || fail "path $number was cut, and both are good"
        goes_on 300 50 || fail "path $number was cut, and the load does not go on: $(cat /tmp/load)"
        say "4: path $number is cut, the load goes on over the other"
        ip link set "host$number" up
        paths_are_back "path $number"
        say "4: path $number is back"
    done
    load_ends 4
}

# 5: a larger volume, and space that comes back.
resize_and_trim() {
    local sectors before after
    ashlar volume resize db --size 1GiB > /dev/null || fail "resize"
    iscsiadm -m session --rescan > /dev/null || fail "rescan"
    within 30 multipathd resize map "$map" || fault "multipathd does not resize"
    sectors="$(blockdev --getsz "/dev/mapper/$map")"
    [ "$sectors" = 2097152 ] || fault "the disk has $sectors sectors after the resize: $(multipath -ll "$map")"
    resize2fs "/dev/mapper/$map" > /tmp/resize 2>&1 || fault "resize2fs: $(cat /tmp/resize)"
    say "5: 640 MiB became $((sectors / 2048)) MiB, the file system has $(df -h --output=size /mnt/db | tail -1)"
    head -c 150M /dev/urandom > /mnt/db/large
    sync /mnt/db/large
    before="$(ashlar volume show db --json | value '["written_bytes"]')"
    rm /mnt/db/large
    sync
    fstrim -v /mnt/db > /tmp/trim 2>&1 || fault "fstrim: $(cat /tmp/trim)"
    after="$(ashlar volume show db --json | value '["written_bytes"]')"
    [ "$after" -lt $((before - 140 * 1024 * 1024)) ] || fault "fstrim gave nothing back: $before, then $after bytes"
    say "5: $(cat /tmp/trim); the volume has $((before >> 20)) MiB before, $((after >> 20)) MiB after"
    umount /mnt/db && mount "/dev/mapper/$map" /mnt/db || fail "umount and mount"
    python3 /usr/local/bin/iscsi-load check /mnt/db "$record" > /tmp/check \
        || fail "lost by resize or trim: $(cat /tmp/check)"
}

# Attention that waits for a host goes with its next command.
persist() { sg_persist "$@" > /tmp/persist 2>&1 || sg_persist "$@" > /tmp/persist 2>&1; }
writes_to() { dd if=/dev/zero of="$1" bs=4096 count=1 oflag=direct > /tmp/dd 2>&1; }
# fenced HOLDER FENCED: what holds after the reservation, and has to hold after a restart.
is_fenced() {
    local before="$faults"
    persist --in --read-keys "$1" && grep -qi 0xabc1 /tmp/persist && ! grep -qi 0xabc2 /tmp/persist \
        || fault "$3: keys: $(cat /tmp/persist)"
    persist --in --read-reservation "$1" && grep -q "Write Exclusive, registrants only" /tmp/persist \
        || fault "$3: reservation: $(cat /tmp/persist)"
    writes_to "$1" || fault "$3: who holds the reservation cannot write: $(cat /tmp/dd)"
    writes_to "$2" && fault "$3: who was fenced off writes"
    [ "$faults" = "$before" ] \
        && say "6: $3: the registration and the reservation are there, who was fenced off is refused"
}
reservations() {
    local one two before
    one="$(disk_of "$first.2" 1)" two="$(disk_of "$second.2" 1)"
    persist --out --register --param-sark=0xabc1 --param-aptpl "$one" || fail "register: $(cat /tmp/persist)"
    persist --out --register --param-sark=0xabc2 --param-aptpl "$two" || fail "register: $(cat /tmp/persist)"
    persist --out --reserve --param-rk=0xabc1 --prout-type=5 "$one" || fail "reserve: $(cat /tmp/persist)"
    writes_to "$two" || fault "a registrant cannot write: $(cat /tmp/dd)"
    persist --out --preempt-abort --param-rk=0xabc1 --param-sark=0xabc2 --prout-type=5 "$one" \
        || fail "preempt and abort: $(cat /tmp/persist)"
    is_fenced "$one" "$two" "before a restart"
    systemctl restart ashlar || fail "restart"
    within 300 has_sessions 2 && within 300 has_paths "$map" 2 || fail "sessions do not come back"
    is_fenced "$one" "$two" "after a restart"
    before="$(main_pid)"
    kill -KILL "$before"
    within 300 runs_again "$before" && within 300 has_sessions 2 && within 300 has_paths "$map" 2 \
        || fail "sessions do not come back"
    is_fenced "$one" "$two" "after kill -9"
    persist --out --clear --param-rk=0xabc1 "$one" || fault "clear: $(cat /tmp/persist)"
    writes_to "$two" || writes_to "$two" || fault "after CLEAR a host cannot write: $(cat /tmp/dd)"
}

# a_host IFACE INITIATOR: another host on this machine, with a session of its own.
a_host() {
    iscsiadm -m iface -I "$1" -o new > /dev/null || fail "iface $1"
    iscsiadm -m iface -I "$1" -o update -n iface.initiatorname -v "iqn.1993-08.org.debian:01:$2" > /dev/null \
        || fail "iface $1"
    iscsiadm -m node -T "$target" -p "$portal_1,1" -I "$1" -o new > /dev/null || fail "node of $1"
}
at() { iscsiadm -m node -T "$target" -p "$portal_1" -I "$1" "$2" > /tmp/login 2>&1; }
# is_refused WHAT IFACE [STATUS]. By open-iscsi's numbers the array refuses the host with 24, "login failed due to
# authorization failure", and the host refuses the array with 19.
is_refused() {
    at "$2" --login
    local status=$?
    has_sessions 2 || fault "$1: there is a session"
    [ "$status" = "${3:-24}" ] && say "7: $1: refused" || fault "$1: login ended with $status: $(cat /tmp/login)"
}
is_let_in() {
    at "$2" --login && within 120 has_sessions 3 && say "7: $1: let in" || fault "$1: $(cat /tmp/login)"
}

# 7: who does not come in.
refusals() {
    a_host again story
    a_host stranger nobody
    a_host two two
    chap "$portal_1" again CHAP "$secret"
    is_let_in "db1 once more, with its secret" again
    at again --logout || fault "logout: $(cat /tmp/login)"
    chap "$portal_1" again CHAP "another secret!"
    is_refused "a wrong secret" again
    chap "$portal_1" again None ""
    is_refused "no proof" again
    chap "$portal_1" stranger CHAP "$secret"
    is_refused "a host that is not known, with the right secret" stranger
    local discovery=(iscsiadm -m discoverydb -t sendtargets -p "$portal_1")
    "${discovery[@]}" -o update -n discovery.sendtargets.auth.password -v "another secret!" || fail "discoverydb"
    "${discovery[@]}" --discover > /tmp/login 2>&1 && fault "discovery with a wrong secret: $(cat /tmp/login)" \
        || say "7: discovery with a wrong secret: refused ($(tail -1 /tmp/login))"
    chap "$portal_1" two CHAP "$secret"
    local node=(iscsiadm -m node -T "$target" -p "$portal_1" -I two -o update)
    "${node[@]}" -n node.session.auth.username_in -v array
    "${node[@]}" -n node.session.auth.password_in -v "not the array's"
    is_refused "an array that does not prove itself" two 19
    "${node[@]}" -n node.session.auth.password_in -v "$mutual"
    is_let_in "db2, and the array proves itself to it" two
    within 30 disk_of "$first.2" 5 || fault "db2 does not see its volume: $(lsblk -S)"
    ashlar volume users other | shown
    at two --logout || fault "logout: $(cat /tmp/login)"
    ashlar host show db1 | shown
}

# asked DATABASE STATEMENT: of its superuser, over its socket.
asked() {
    local port
    port="$(ashlar database show "$1" --json | value '["port"]')"
    psql -qAt -h "/var/lib/ashlar/databases/$1/run" -p "$port" -U postgres postgres -c "$2"
}
has_rows() { [ "$(asked "$1" "select count(*) from t")" = "$2" ]; }

# 9: a clone runs here as on another machine, by the script that the array prints: over both paths, with systemd.
handed_over() {
    ashlar database create prod --size 256MiB --log-size 128MiB > /tmp/create 2>&1 || fail "create: $(cat /tmp/create)"
    asked prod "create table t as select generate_series(1, 1000) as x" || fail "prod does not answer"
    ashlar database clone prod dev --host db1 > /root/dev.sh || fail "clone --host"
    ashlar database show dev | shown
    sh /root/dev.sh > /tmp/script 2>&1 || fail "the script: $(cat /tmp/script)"
    within 120 has_rows dev 1000 || fail "dev does not answer: $(systemctl status ashlar-database-dev)"
    findmnt --list --output TARGET,SOURCE,OPTIONS --types ext4 | grep databases/dev | shown
    [ "$(findmnt --noheadings --output SOURCE /var/lib/ashlar/databases/dev/data | grep -c mapper)" = 1 ] \
        || fault "the volume of data is not mounted by its map"
    asked dev "insert into t values (0)" || fault "dev takes no writes"
    ashlar database start dev > /tmp/start 2>&1 && fault "it is started here while it is away"
    sh /root/dev.sh > /tmp/script 2>&1 || fault "the script once more: $(cat /tmp/script)"
    sh /root/dev.sh remove > /tmp/script 2>&1 || fail "remove: $(cat /tmp/script)"
    ashlar database return dev --yes > /tmp/return 2>&1 || fail "return: $(cat /tmp/return)"
    within 60 has_rows dev 1001 || fail "what was written elsewhere is not here"
    ashlar database delete dev --yes > /dev/null && ashlar database delete prod --yes > /dev/null || fault "delete"
    say "9: a clone was away, took a write, and is back with it"
}

say "Linux $(uname -r), $(iscsiadm --version), multipath-tools $(dpkg-query -W -f '${Version}' multipath-tools)"
array
initiator
login
restarts
cut_paths
resize_and_trim
reservations
refusals
handed_over
umount /mnt/db || fault "umount"
multipath -F > /tmp/flush 2>&1 || fault "multipath -F: $(cat /tmp/flush)"
iscsiadm -m node -T "$target" --logout > /tmp/login 2>&1 || fault "logout: $(cat /tmp/login)"
ashlar export delete db > /tmp/delete 2>&1 || fault "export delete after the logout: $(cat /tmp/delete)"
journalctl -b -u ashlar --no-pager | grep -iE "panick|error:" | head | shown
[ "$faults" = 0 ] || fail "$faults of the things above did not hold"
say "all of it held"
systemctl poweroff
