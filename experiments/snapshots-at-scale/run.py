#!/usr/bin/env python3
"""What a thousand snapshots of a busy volume cost: metadata, start, mark. See README.md beside this file.

usage: run.py        as root; needs fio

The array runs with MEMORY_MIB (2048) of memory at most, where control groups say so.

Environment: SNAPSHOTS (1000), WRITES (between two of them, 2000), SPAN_GIB (100), FILL_GIB (written over the
span first, 2), DRIVE_GIB (each of two, 12), RESULTS, ASHLAR_BIN, TMPDIR (twice DRIVE_GIB free).
"""
import json
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "..", "tests", part) for part in ("rig", "bench")]
import measure
from array_of_run import GIB, MIB, ROOT, Array, Refused
from site_of_run import Site, run, wait_for

SNAPSHOTS = int(os.environ.get("SNAPSHOTS", "1000"))
WRITES = int(os.environ.get("WRITES", "2000"))
SPAN_GIB = int(os.environ.get("SPAN_GIB", "100"))
FILL_GIB = int(os.environ.get("FILL_GIB", "2"))
DRIVE_GIB = int(os.environ.get("DRIVE_GIB", "12"))
MEMORY_MIB = int(os.environ.get("MEMORY_MIB", "2048"))
# Version 1, then version 2: directory and the file with the limit.
CONTROL_GROUPS = (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max"))
STEPS = 10


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def writes(array, count, depth=32):
    """Random 4 KiB writes over the whole span."""
    run("fio", "--name=w", "--thread", "--rw=randwrite", "--bs=4k", f"--iodepth={depth}", f"--size={SPAN_GIB}g",
        f"--io_size={count * 4}k", "--norandommap", "--randrepeat=0", "--refill_buffers=1", "--minimal",
        *measure.nbd_target(array.uri("v")))


def counters(array):
    return array.json("pool", "show", "p")["counters"]


class Limit:
    """A control group for one array at a time."""

    def __init__(self, site):
        self.group = None
        for parent, limit in CONTROL_GROUPS:
            if os.path.exists(f"{parent}/cgroup.procs"):
                self.group = parent + "/ashlar-snapshots"
                os.makedirs(self.group, exist_ok=True)
                with open(f"{self.group}/{limit}", "w", encoding="utf-8") as f:
                    f.write(str(MEMORY_MIB * MIB))
                site.at_close(self.remove)
                return
        say("no memory limit: there are no control groups")

    def remove(self):
        with open(self.group + "/cgroup.procs", encoding="utf-8") as f:
            left = f.read().split()
        for pid in left:
            with open(os.path.dirname(self.group) + "/cgroup.procs", "w", encoding="utf-8") as f:
                f.write(pid)
        os.rmdir(self.group)

    def hold(self, array):
        if self.group:
            with open(self.group + "/cgroup.procs", "w", encoding="utf-8") as f:
                f.write(str(array.process.pid))


def peak_mib(array):
    with open(f"/proc/{array.process.pid}/status", encoding="utf-8") as f:
        line = next(line for line in f if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def delete_everything(array):
    """Seconds until the snapshots are gone, and until the pool is empty again."""
    begin = time.monotonic()
    array.run("snapshot", "delete", *(f"s{index}" for index in range(SNAPSHOTS)), "--yes")
    answered = time.monotonic() - begin
    array.run("volume", "delete", "v", "--now", "--yes")
    wait_for(lambda: array.json("pool", "show", "p")["space"]["data_bytes"] < 64 * MIB, 600, "the space")
    return answered, time.monotonic() - begin


def restart(array, limit):
    array.stop()
    seconds = array.start()
    limit.hold(array)
    recovery = array.json("pool", "show", "p").get("recovery", {})
    return seconds, recovery


def seconds_of_mark(array):
    """A deleted snapshot asks for a mark at once."""
    before, begin = counters(array)["marks"], time.monotonic()
    array.api("DELETE", "/v1/snapshots/first")
    wait_for(lambda: counters(array)["marks"] > before, 600, "a mark")
    return time.monotonic() - begin


def main():
    out = os.environ.get("RESULTS") or os.path.join(ROOT, "target", "experiments",
                                                    "snapshots-at-scale-" + time.strftime("%Y%m%d-%H%M%S"))
    os.makedirs(out, exist_ok=True)
    with Site("ashlar-snapshots-") as site:
        array = Array(site)
        limit = Limit(site)
        array.start()
        limit.hold(array)
        array.pool("p", 2, DRIVE_GIB * 1024)
        array.volume("v", f"{SPAN_GIB}GiB")
        say(f"{FILL_GIB} GiB at random over {SPAN_GIB} GiB")
        writes(array, FILL_GIB * GIB // 4096)
        array.api("POST", "/v1/snapshots", {"name": "first", "volumes": ["v"]})
        start_without, recovery_without = restart(array, limit)
        mark_without = seconds_of_mark(array)
        before, calls, rates = counters(array), [], []
        say(f"without snapshots: start {start_without:.2f} s, mark {mark_without:.2f} s")
        array.api("POST", "/v1/snapshots", {"name": "first", "volumes": ["v"]})
        begin = time.monotonic()
        for index in range(SNAPSHOTS):
            writing = time.monotonic()
            writes(array, WRITES)
            rates.append(WRITES / (time.monotonic() - writing))
            call = time.monotonic()
            array.api("POST", "/v1/snapshots", {"name": f"s{index}", "volumes": ["v"]})
            calls.append(time.monotonic() - call)
            if (index + 1) % (SNAPSHOTS // STEPS) == 0:
                say(f"{index + 1} snapshots, {time.monotonic() - begin:.0f} s")
        now = counters(array)
        delta = {name: now[name] - before[name] for name in now}
        say("restart")
        start_with, recovery_with = restart(array, limit)
        mark_with = seconds_of_mark(array)
        say("accounts")
        begin = time.monotonic()
        try:
            space = array.json("space", seconds=700)
            space = {name: value for name, value in space[0].items() if not isinstance(value, list)}
        except Refused as refused:  # it takes a minute at most
            space = {"refused": str(refused)}
        walk_seconds = time.monotonic() - begin
        result = {
            "snapshots": SNAPSHOTS, "writes_between": WRITES, "span_gib": SPAN_GIB,
            "metadata_bytes_written_per_snapshot": delta["metadata_bytes_written"] / SNAPSHOTS,
            "metadata_bytes_written_per_write": delta["metadata_bytes_written"] / SNAPSHOTS / WRITES,
            "checkpoints_per_snapshot": delta["checkpoints"] / SNAPSHOTS,
            "delta_share_of_pages": delta["delta_pages_written"] / max(delta["pages_written"], 1),
            "snapshot_ms_median": statistics.median(calls) * 1e3, "snapshot_ms_longest": max(calls) * 1e3,
            "start_seconds": {"without": start_without, "with": start_with},
            "recovery": {"without": recovery_without, "with": recovery_with},
            "mark_seconds": {"without": mark_without, "with": mark_with},
            "walk_seconds": walk_seconds, "space": space,
            "resident_mib": array.resident_bytes() / MIB, "memory_limit_mib": MEMORY_MIB if limit.group else None,
        }
        say("deleting everything")
        answered, empty = delete_everything(array)
        result.update({"delete_seconds": answered, "pool_empty_seconds": empty, "peak_mib": peak_mib(array)})
        with open(os.path.join(out, "result.json"), "w", encoding="utf-8") as f:
            json.dump(result, f, indent=1)
        for name, value in result.items():
            print(f"{name}: {json.dumps(value)}")
        array.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
