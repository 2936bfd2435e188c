#!/usr/bin/env python3
"""Measures the array beside its peers, on this machine, in one run, and prints goals met and not met.

usage: bench.py [nbd] [device] [postgres] [snapshot] [overwrite] [steady] [dedupe] [space] [discard] [parity] [rebuild] [before] [attached] [databases] [clones] [hour] [iscsi] [limits]   all of them by default

Environment: QUICK=1 (fewer cells, shorter), ROUNDS=3, SECONDS_PER_CELL, PG_SCALE, PG_SECONDS,
PG_PEERS, STEADY_POOL_MIB, STEADY_SECONDS, STEADY_FULL, STEADY_LOAD, SNAPSHOTS, SPACE_POOL_MIB,
SPACE_SECONDS, SPACE_SNAPSHOTS, SPACE_FILES_GIB, DB_SCALE, DB_SNAPSHOTS, DB_CHECKED,
RESULTS (directory; default target/bench/TIME), KEEP=1 (the figures go into docs/benchmarks.md), ASHLAR_BIN, ASHLAR_BEFORE (an earlier program, for `before` and `attached`), TMPDIR.
"""
import os
import platform
import sys
import time
import traceback

import measure
import part_attached
import part_before
import part_clones
import part_databases
import part_dedupe
import part_device
import part_discard
import part_hour
import part_iscsi
import part_limits
import part_nbd
import part_overwrite
import part_parity
import part_postgres
import part_rebuild
import part_snapshot
import part_space
import part_steady
import report
from array_of_run import ROOT, binary, measure_release
from site_of_run import Site, run

PARTS = {"nbd": part_nbd, "device": part_device, "postgres": part_postgres, "snapshot": part_snapshot,
         "overwrite": part_overwrite, "steady": part_steady, "dedupe": part_dedupe, "space": part_space,
         "discard": part_discard, "parity": part_parity, "rebuild": part_rebuild, "before": part_before,
         "attached": part_attached, "databases": part_databases,
         "clones": part_clones, "hour": part_hour, "iscsi": part_iscsi, "limits": part_limits}


def keep(part, goals):
    """Keeps a part's figures for docs/benchmarks.md, if KEEP says so."""
    if not os.environ.get("KEEP") or not goals:
        return
    commit = run("git", "-C", ROOT, "rev-parse", "--short", "HEAD").stdout.strip()
    machine = f"{os.cpu_count()} processors, kernel {platform.release()}"
    report.keep(part, goals, measure.ROUNDS, commit, time.strftime("%Y-%m-%d"), machine)


def main():
    chosen = sys.argv[1:] or list(PARTS)
    unknown = [name for name in chosen if name not in PARTS]
    if unknown:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    measure_release()
    out = os.environ.get("RESULTS") or os.path.join(ROOT, "target", "bench", time.strftime("%Y%m%d-%H%M%S"))
    os.makedirs(out, exist_ok=True)
    table, status = measure.Table(out), 0
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8") if "model name" in line), "?")
    print(f"bench: {binary()} ({run(binary(), '--version').stdout.strip()}), {cpu}, {os.cpu_count()} processors, "
          f"kernel {platform.release()}, {measure.ROUNDS} rounds of {measure.SECONDS:g} s")
    print("Rates are medians of the rounds, ± half the range; CPU is the server's, per operation, its work after the"
          " cell included; `ours` is our rate over the peer's in the same round.")
    for name in chosen:
        print(f"bench: {name}", flush=True)
        goals_before = len(table.goals)
        try:
            with Site("ashlar-bench-") as site:
                PARTS[name].play(site, table)
            keep(name, table.goals[goals_before:])
        except Exception:
            traceback.print_exc()
            status = 1
    table.print()
    if os.environ.get("KEEP"):
        report.write()
    print(f"\nbench: raw cells and this table are in {out}")
    return status


if __name__ == "__main__":
    sys.exit(main())
