#!/usr/bin/env bash
# Runs in the guest: a database on a volume, restarts and a kill of the array under it, a reboot.
set -uo pipefail
say() { echo "story: $*" > /dev/console; }
fail() {
    say "FAILED: $*"
    journalctl -b -u ashlar -u ashlar-keeper -u 'postgresql@*' -u story --no-pager | tail -40 > /dev/console
    systemctl poweroff
    exit 1
}
query() { runuser -u postgres -- psql -qAt -c "$1"; }
adjust() { cat "/proc/$1/oom_score_adj"; }
main_pid() { systemctl show --property MainPID --value "$1"; }
# Waits until a unit that was killed runs as another process. A machine in software takes its time.
runs_again() {
    local unit="$1" before="$2" now
    for _ in $(seq 120); do
        now="$(main_pid "$unit")"
        [ "$now" != 0 ] && [ "$now" != "$before" ] && [ "$(systemctl is-active "$unit")" = active ] && return
        sleep 1
    done
    return 1
}

if [ ! -e /var/lib/story ]; then
    say "Linux $(uname -r)"
    [ "$(systemctl is-active ashlar)" = active ] || fail "the array does not run"
    [ "$(systemctl is-active ashlar-keeper)" = active ] || fail "the keeper does not run"
    [ "$(adjust "$(main_pid ashlar)")" = -900 ] || fail "OOM score of the array"
    [ "$(adjust "$(main_pid ashlar-keeper)")" = -1000 ] || fail "OOM score of the keeper"
    grep -q "Max open files *65536 *65536" "/proc/$(main_pid ashlar)/limits" || fail "open files of the array"
    say "array and keeper run in units of their own, with their OOM scores and limits"
    systemctl start postgresql@15-main 2> /dev/null
    systemctl is-active --quiet postgresql@15-main && fail "the database started without its volume"
    say "without its volume the database does not start"
    ashlar pool create main --drive /dev/vdb || fail "pool"
    ashlar volume create db --size 4GiB --profile oltp || fail "volume"
    ashlar attach db --format ext4 --mount /mnt/db || fail "attach"
    install -d -m 0700 -o postgres -g postgres /mnt/db/main
    cp -a /var/lib/postgresql/15/main/. /mnt/db/main/
    sed -i "s|^data_directory.*|data_directory = '/mnt/db/main'|" /etc/postgresql/15/main/postgresql.conf
    systemctl enable postgresql@15-main
    systemctl start postgresql@15-main || fail "database"
    query "create table kept (n int); insert into kept select generate_series(1, 1000)"
    before="$(main_pid postgresql@15-main)"
    runuser -u postgres -- pgbench -i -q -s 1 postgres 2> /dev/null
    runuser -u postgres -- pgbench -n -c 4 -T 120 postgres > /tmp/pgbench 2>&1 &
    load=$!
    sleep 5
    systemctl restart ashlar || fail "restart"
    say "restart under load: volumes waited $(ashlar status --json | grep -o '"handover_pause_millis":[ 0-9]*')"
    sleep 5
    array="$(main_pid ashlar)"
    kill -KILL "$array"
    runs_again ashlar "$array" || fail "the array is not started again"
    say "kill -9 under load: volumes waited $(ashlar status --json | grep -o '"handover_pause_millis":[ 0-9]*')"
    ashlar upgrade /usr/bin/ashlar || fail "upgrade"
    sleep 3
    keeper="$(main_pid ashlar-keeper)"
    kill -KILL "$keeper"
    runs_again ashlar-keeper "$keeper" || fail "the keeper is not started again"
    wait "$load" || fail "pgbench: $(tail -3 /tmp/pgbench)"
    [ "$(main_pid postgresql@15-main)" = "$before" ] || fail "the database was started anew"
    say "pgbench met no error: $(grep 'number of transactions actually' /tmp/pgbench)"
    touch /var/lib/story
    sync
    say "reboot"
    systemctl reboot
    exit 0
fi

mountpoint -q /mnt/db || fail "after the reboot nothing is mounted"
systemctl is-active --quiet postgresql@15-main || fail "after the reboot the database does not run"
[ "$(query 'select count(*) from kept')" = 1000 ] || fail "rows are lost"
grep -q ext4 <(findmnt -n -o FSTYPE /mnt/db) || fail "another file system"
journalctl -b -1 -u ashlar --no-pager | grep -q "the machine stops: what is attached is detached" || fail "the stop of the machine"
journalctl -b -1 -k --no-pager | grep -Ei "I/O error|EXT4-fs error" && fail "the kernel's log of the stop"
say "after the reboot the volume was mounted before the database started: $(query 'select count(*) from kept') rows"
say "all of it held"
systemctl poweroff
