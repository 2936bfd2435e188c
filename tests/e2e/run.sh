#!/usr/bin/env bash
# End-to-end tests: real clients, file systems, bad input, half a minute of SIGKILL, harmed drives as long.
# Under five minutes.
#
# usage: tests/e2e/run.sh [WORD...]     only the cases whose name contains one of the words
# ASHLAR_BIN names the program under test; without it the newest build below target/ is taken.
set -euo pipefail
cd "$(dirname "$0")"

if [ "$(id -u)" -ne 0 ]; then
    echo "e2e: needs root (loop devices, mounts): skipped" >&2
    exit 77
fi
export PYTHONDONTWRITEBYTECODE=1
python3 ../bench/report.py --check
python3 run.py "$@"
[ $# -gt 0 ] || python3 sigkill.py --minutes 0.5 --seed "${SEED:-1}"
[ $# -gt 0 ] || python3 drives_suffer.py --minutes 0.5 --seed "${SEED:-1}"
