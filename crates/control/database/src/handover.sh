
# The same for every database from here on.

set -eu
unit="ashlar-database-$database.service"
units=/etc/systemd/system

say() { echo "$database: $*"; }
fail() { echo "$database: $*" >&2; exit 1; }

# For each volume: runs a command with its role, its name among SCSI units and its directory.
for_each_volume() {
    while read -r role wwn directory; do
        "$@" "$role" "$wwn" "$directory" < /dev/null
    done << VOLUMES
$volumes
VOLUMES
}

# Logs in to the array and tells the machine to do so at each of its starts. A session that is there already
# looks for what is new.
log_in() {
    modprobe iscsi_tcp || true
    systemctl start iscsid || true
    for portal in $portals; do
        node="iscsiadm -m node -T $target -p $portal"
        $node > /dev/null 2>&1 || iscsiadm -m node -T "$target" -p "$portal,1" -o new > /dev/null
        $node -o update -n node.startup -v automatic
        if [ -n "$chap_secret" ]; then
            $node -o update -n node.session.auth.authmethod -v CHAP
            $node -o update -n node.session.auth.username -v "$chap_user"
            $node -o update -n node.session.auth.password -v "$chap_secret"
        fi
        if [ -n "$mutual_chap_secret" ]; then
            $node -o update -n node.session.auth.username_in -v "$mutual_chap_user"
            $node -o update -n node.session.auth.password_in -v "$mutual_chap_secret"
        fi
        if iscsiadm -m session 2> /dev/null | grep -qF "$portal,1 $target"; then
            $node --rescan > /dev/null
        else
            $node --login || fail "the array at $portal does not let this machine in: is the secret in this script?"
        fi
    done
}

# The device of a volume. Which names there are depends on the rules of this machine's udev. With multipath it
# is the map that holds the disk, which takes some seconds to come.
device_of() {
    name="wwn-$1"
    [ -e "/dev/disk/by-id/$name" ] || [ ! -e "/dev/disk/by-id/scsi-3${1#0x}" ] || name="scsi-3${1#0x}"
    map="$(map_of "$name")"
    echo "/dev/disk/by-id/${map:-$name}"
}
map_of() {
    disk="$(readlink -f "/dev/disk/by-id/$1" || true)"
    for uuid in "/sys/block/${disk##*/}/dm/uuid" "/sys/block/${disk##*/}"/holders/dm-*/dm/uuid; do
        ! grep -qs "^mpath-" "$uuid" || { echo "dm-uuid-$(cat "$uuid")"; return; }
    done
}
has_map() { case "$(device_of "$2")" in */dm-uuid-mpath-*) ;; *) return 1 ;; esac; }
has_device() { [ -e "$(device_of "$2")" ]; }
within() {
    left=$1
    shift
    until "$@"; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || return 1
        sleep 1
    done
}
wait_for() {
    case "$portals" in
        *\ *) if systemctl -q is-active multipathd; then within 30 has_map "$@" || true; fi ;;
    esac
    within 60 has_device "$@" || fail "the volume for $1 ($2) is not there: lsblk -S shows what is"
}
wait_for_devices() {
    udevadm settle --timeout=30 || true
    for_each_volume wait_for
}

# The server's account. On the volumes its number is the one that it has on the array's machine.
make_account() {
    id "$account" > /dev/null 2>&1 && return
    groupadd --system --gid "$group_id" "$account" 2> /dev/null || groupadd --system "$account"
    useradd --system --gid "$account" --uid "$user_id" --no-create-home --shell /usr/sbin/nologin "$account" \
        2> /dev/null || useradd --system --gid "$account" --no-create-home --shell /usr/sbin/nologin "$account"
}
give() {
    chown -hR --from="$user_id" "$(id -u "$account"):$(id -g "$account")" "$3"
}
give_files() {
    [ "$(id -u "$account")" = "$user_id" ] || for_each_volume give
    mkdir -p "$socket_directory"
    chown "$(id -u "$account"):$(id -g "$account")" "$socket_directory"
    chmod 700 "$socket_directory"
}

# The server's programs: where they are on the array's machine, or where other systems have them.
find_programs() {
    for place in "$programs" "/usr/lib/postgresql/$major/bin" "/usr/pgsql-$major/bin" "/usr/local/pgsql/bin"; do
        case "$("$place/postgres" --version 2> /dev/null)" in
            "postgres (PostgreSQL) $major"[!0-9]*) programs="$place"; return ;;
        esac
    done
    fail "no PostgreSQL $major is installed here: install it, or write its directory behind programs="
}

# Volumes are found by their names among SCSI units. The file system's own UUID is the source's, too.
mount_unit() {
    [ -d "$3" ] || mkdir -p "$3"
    mountpoint -q "$3" || [ -z "$(ls -A "$3")" ] || fail "$3 is not empty: something else of this machine is there"
    cat > "$units/$(systemd-escape --path --suffix=mount "$3")" << UNIT
# Of $database, a clone on an array. See ashlar-database-$database.service.
[Unit]
Description=Volume of database $database for $1

[Mount]
What=$(device_of "$2")
Where=$3
Type=$file_system
Options=_netdev,nosuid,nodev,discard

[Install]
WantedBy=remote-fs.target
UNIT
}
mount_units() {
    for_each_volume mount_unit
    systemctl daemon-reload
    for_each_volume mount_now
}
mount_now() {
    systemctl enable --now "$(systemd-escape --path --suffix=mount "$3")"
}

server_unit() {
    mark="PostgreSQL on a clone of the array's database"
    [ ! -e "$units/$unit" ] || grep -qF "$mark" "$units/$unit" || fail "$unit is there already, and not of this script"
    cat > "$units/$unit" << UNIT
# $mark $source. Its password is the one that
# \`ashlar database url $database\` prints on the array's machine.
[Unit]
Description=Database $database, a clone on an array
After=network.target remote-fs.target
RequiresMountsFor=$(echo "$volumes" | while read -r _ _ directory; do printf '%s ' "$directory"; done)

[Service]
User=$account
Group=$(id -gn "$account")
ExecStart=$programs/postgres -D $data_directory -k $socket_directory -p $port -h $listen
# SIGINT is PostgreSQL's fast shutdown.
KillMode=mixed
KillSignal=SIGINT
TimeoutStartSec=infinity
TimeoutStopSec=120
$limits

[Install]
WantedBy=multi-user.target
UNIT
    systemctl daemon-reload
    systemctl enable --now "$unit"
}

install_all() {
    find_programs
    log_in
    wait_for_devices
    make_account
    mount_units
    give_files
    setpriv --reuid "$(id -u "$account")" --regid "$(id -g "$account")" --clear-groups \
        test -r "$data_directory/PG_VERSION" \
        || fail "the account $account cannot pass to $data_directory: open the directories above it (chmod a+x)"
    server_unit
    say "its server starts: systemctl status $unit. It listens on $listen, port $port."
}

# Takes everything of the above out of this machine. The session with the array stays: other volumes may
# need it.
forget_mount() {
    name="$(systemd-escape --path --suffix=mount "$3")"
    systemctl disable --now "$name" || true
    if mountpoint -q "$3"; then fail "$3 is still in use here: end whoever works there"; fi
    rm -f "$units/$name"
}
forget_device() {
    if has_map "$@"; then
        map="$(device_of "$2")"
        multipath -f "${map#*/dm-uuid-mpath-}" || true
    fi
    for device in /sys/block/sd*; do
        [ -e "$device/device/delete" ] || continue
        if grep -qsxF "naa.${2#0x}" "$device/device/wwid"; then
            echo 1 > "$device/device/delete"
        fi
    done
}
remove_all() {
    systemctl disable --now "$unit" || true
    for_each_volume forget_mount
    rm -f "$units/$unit"
    systemctl daemon-reload
    for_each_volume forget_device
    say "nothing of it runs here any more. On the array's machine: ashlar database return $database, or delete"
}

[ "$(id -u)" = 0 ] || fail "run this as root"
case "${1:-install}" in
    install) install_all ;;
    remove) remove_all ;;
    *) fail "say install, remove, or nothing, which is install" ;;
esac
