#!/bin/sh
# Stands for systemd in a tree without one: writes down what the package's scripts ask for, and does it.
echo "$*" >> /run/calls
action="$1"
shift
# A zombie that nobody reaps has ended.
runs() { [ -d "/proc/$1" ] && ! grep -q '^State:.Z' "/proc/$1/status"; }
end() {
    process="$(cat /run/ashlar.pid 2> /dev/null)" || return 0
    kill -TERM "$process" 2> /dev/null || true
    while runs "$process"; do sleep 0.02; done
    rm -f /run/ashlar.pid
}
start() {
    if [ -e /run/ashlar.pid ] && runs "$(cat /run/ashlar.pid)"; then return 0; fi
    command="$(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/ashlar.service)"
    # shellcheck disable=SC2086
    setsid $command > /run/ashlar.log 2>&1 < /dev/null &
    echo $! > /run/ashlar.pid
    for _ in $(seq 500); do
        ashlar status > /dev/null 2>&1 && return 0
        sleep 0.05
    done
    cat /run/ashlar.log >&2
    return 1
}
for unit in "$@"; do
    [ "$unit" = ashlar.service ] || continue
    case "$action" in
    start) start ;;
    stop) end ;;
    restart) end && start ;;
    esac
done
