#!/usr/bin/env bash
# The long end-to-end tests: half an hour of SIGKILL under load, as long of harmed drives, then memory caps
# and scale.
#
# usage: tests/e2e/long.sh [MINUTES]
set -euo pipefail
cd "$(dirname "$0")"
export PYTHONDONTWRITEBYTECODE=1
python3 sigkill.py --minutes "${1:-30}"
python3 drives_suffer.py --minutes "${1:-30}"
python3 limits.py
