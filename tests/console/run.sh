#!/usr/bin/env bash
# The console in a real browser: its build, its pages against a mock of the API, then against a real array.
#
# usage: tests/console/run.sh [mock|real]     only one of the two
# ASHLAR_BIN names the program under test; without it the newest build below target/ is taken. Exit status 77
# says that Node 20, the packages of the page or Chromium cannot be had here.
set -euo pipefail
cd "$(dirname "$0")/../../console"
[ ! -x /opt/node/bin/node ] || PATH="/opt/node/bin:$PATH"

skip() {
    echo "console: $*: skipped" >&2
    exit 77
}

node -e 'process.exit(process.versions.node.split(".")[0] >= 20 ? 0 : 1)' 2> /dev/null || skip "Node 20 is not installed"
[ -n "${CHROMIUM:-}" ] || command -v chromium > /dev/null || skip "Chromium is not installed"
if [ package-lock.json -nt node_modules/.package-lock.json ]; then
    npm ci --no-audit --no-fund --loglevel=error || skip "the packages of the page cannot be had"
fi
export PYTHONDONTWRITEBYTECODE=1 NO_UPDATE_NOTIFIER=1
if [ "${1:-mock}" = mock ]; then
    npm run --silent check
    node --test tests/unit/*.test.mjs
    npx playwright test --project mock
fi
[ "${1:-real}" != real ] || python3 ../tests/console/real.py
echo "console: all held"
