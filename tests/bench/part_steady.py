"""A pool that is nearly full and overwritten for long: bytes to the drives per byte from the host, and how
even the rate is. What every log-structured store must show and few do."""
import itertools
import os
import statistics
import subprocess
import time

import measure
from array_of_run import MIB, Array
from site_of_run import run

POOL_MIB = int(os.environ.get("STEADY_POOL_MIB", "2048" if measure.QUICK else "8192"))
SECONDS_STEADY = int(os.environ.get("STEADY_SECONDS", "40" if measure.QUICK else "180"))
FULL_PERCENT = int(os.environ.get("STEADY_FULL", "80"))
LOADS = (("uniform", "random", 2.7), ("skewed, zipf 1.1", "zipf:1.1", 1.8))
ONLY = os.environ.get("STEADY_LOAD", "")
WINDOW = 10  # Seconds: a rate is flat when no such window is far below the median.
PART = f"Steady state, {FULL_PERCENT} % full, 4k random overwrite depth 32"


def counters(array):
    return array.json("pool", "show", "p")["counters"]


def media_bytes(now, before):
    names = ("journal_bytes_written", "metadata_bytes_written", "moved_bytes")
    return sum(now[name] - before[name] for name in names)


def watch(array, load):
    """The time and the counters at the begin of each window, and when the load is at its end."""
    seen = []
    while load.poll() is None:
        seen.append((time.monotonic(), counters(array)))
        try:
            load.wait(WINDOW)
        except subprocess.TimeoutExpired:
            pass
    return [*seen, (time.monotonic(), counters(array))]


def write_series(path, seen):
    """Rate and bytes to drives window by window: whether a slow one is ours or the machine's."""
    with open(path, "w", encoding="utf-8") as f:
        f.write("seconds,iops,media_per_host\n")
        for (since, before), (until, now) in itertools.pairwise(seen):
            if until - since < WINDOW / 2:
                continue
            host = now["host_bytes_written"] - before["host_bytes_written"]
            media = media_bytes(now, before) / max(host, 1)
            f.write(f"{until - seen[0][0]:.0f},{host / 4096 / (until - since):.0f},{media:.2f}\n")


def overwrite(site, array, target, distribution, span, series):
    """Overwrites for the given time. The first half brings the pool into its steady state, the second counts."""
    log = site.file("steady")
    load = site.start(["fio", "--name=load", "--thread", "--rw=randwrite", "--bs=4k", "--iodepth=32", "--refill_buffers=1",
                       f"--size={span}", "--norandommap", "--randrepeat=0", f"--random_distribution={distribution}",
                       "--time_based", f"--runtime={SECONDS_STEADY}", f"--write_iops_log={log}", f"--write_lat_log={log}",
                       "--log_avg_msec=1000", "--log_max_value=1", *target], "steady.fio")
    seen = watch(array, load)
    if load.returncode != 0:
        raise RuntimeError(f"fio ended with {load.returncode}, see steady.fio")
    write_series(series, seen)
    before = next(counted for at, counted in seen if at - seen[0][0] >= SECONDS_STEADY / 2 - 1)
    now = seen[-1][1]
    def seconds(name):
        with open(f"{log}_{name}.1.log", encoding="utf-8") as f:
            lines = [line.split(",") for line in f]
        return [int(value) for _, value, *_ in lines[len(lines) // 2:]]
    in_turn, longest = seconds("iops"), sorted(seconds("lat"))
    windows = sorted(statistics.mean(in_turn[at:at + WINDOW]) for at in range(0, len(in_turn) - WINDOW + 1, WINDOW))
    rates = sorted(in_turn)
    host = now["host_bytes_written"] - before["host_bytes_written"]
    return {"iops": statistics.median(rates), "iops_low": rates[len(rates) // 20], "iops_high": rates[-1 - len(rates) // 20],
            "below_median": 1 - windows[len(windows) // 20] / statistics.median(windows),
            "longest_ms": longest[-1] / 1e6, "longest_ms_99_seconds_of_100": longest[len(longest) * 99 // 100] / 1e6,
            "media_per_host": media_bytes(now, before) / host,
            "metadata_per_host": (now["metadata_bytes_written"] - before["metadata_bytes_written"]) / host,
            "moved_per_host": (now["moved_bytes"] - before["moved_bytes"]) / host}


def play(site, table):
    for name, distribution, goal in [load for load in LOADS if load[0].startswith(ONLY)]:
        array = Array(site, "steady-" + distribution.split(":")[0])
        array.start()
        drives = array.pool("p", 2, POOL_MIB)
        space = array.json("pool", "show", "p")["space"]
        span = space["free_bytes"] * FULL_PERCENT // 100 // MIB * MIB
        array.volume("v", f"{span // MIB}MiB")
        target = measure.nbd_target(array.uri("v"))
        measure.fill(target, span)
        series = os.path.join(table.out, f"steady-{distribution.split(':')[0]}.csv")
        values = overwrite(site, array, target, distribution, span, series)
        table.add(PART, name, "ashlar", values)
        table.bound(f"{FULL_PERCENT} % full, {name}: bytes to drives per host byte", values["media_per_host"], goal,
                    f"{values['media_per_host']:.2f}", f"under {goal}")
        below = values["below_median"]
        table.bound(f"{FULL_PERCENT} % full, {name}: how far the rate of the slowest of twenty windows of {WINDOW} s is below "
                    "the median", below, 0.2, f"{below * 100:.0f} %", "within 20 %")
        array.check()
        array.stop()
        for drive in drives:
            os.remove(drive)
        run("sync")
