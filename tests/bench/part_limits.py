"""Rates and floors: whether a limited volume keeps its limit and its burst, what others feel of it, and what a floor
does for a log beside a full load, a rebuild and the cleaner."""
import json
import os
import statistics
import time

import measure
from array_of_run import MIB, Array
from site_of_run import run, wait_for

# A rate that any machine exceeds without it, and a burst that it gives in less than a run.
LIMIT, BURST_SECONDS = 1000, 4
LIMIT_SECONDS = 4 if measure.QUICK else 10
BURST_RUN_SECONDS = 4
OTHER_PER_SECOND = 300
DRIVES = 6
DRIVE_MIB = 512 if measure.QUICK else 1024
LOG_MIB, DATA_MIB = 256, 1024 if measure.QUICK else 2304
LOG_PER_SECOND = 300
WINDOW_SECONDS = 5 if measure.QUICK else 20
SETTLE_SECONDS = 4
# Of the p99 in an idle pool: what it is to stay below is twice that.
FLOOR_OF_IDLE = 1.5
RATES, FLOOR = "A limit of its rates", "A floor under a log"


def play(site, table):
    rates(site, table)
    floors(site, table)


class Steady:
    """Writes of 4 KiB, one at a time and so many a second, each with its time."""

    def __init__(self, site, name, target, span, per_second, pattern="randwrite"):
        self.log = site.file(name)
        self.process = site.start(
            ["fio", "--name=steady", "--thread", f"--rw={pattern}", "--bs=4k", "--iodepth=1", "--refill_buffers=1",
             f"--size={span}", "--norandommap", "--randrepeat=0", f"--rate_iops={per_second}", "--time_based",
             "--runtime=900", "--log_unix_epoch=1", f"--write_lat_log={self.log}", *target], name + ".fio")

    def end(self):
        # fio writes its log when it is told to end.
        self.process.terminate()
        self.process.wait()

    def p99_us(self, begin, end):
        taken = []
        with open(self.log + "_lat.1.log", encoding="utf-8") as f:
            for line in f:
                at, took, _ = line.split(",", 2)
                if begin <= int(at) / 1e3 < end:
                    taken.append(int(took))
        taken.sort()
        return taken[len(taken) * 99 // 100] / 1e3 if taken else float("nan")


def window(seconds):
    begin = time.time()
    time.sleep(seconds)
    return begin, time.time()


def requests_done(target, span, depth, seconds):
    """Writes within a time, and that time."""
    done = run("fio", "--name=limited", "--thread", "--output-format=json", "--rw=randwrite", "--bs=4k",
               f"--iodepth={depth}", "--norandommap", "--randrepeat=0", "--refill_buffers=1", f"--size={span}",
               "--time_based", f"--runtime={seconds}", *target)
    side = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]["write"]
    return side["total_ios"], side["runtime"] / 1e3


# A limit.

def rates(site, table):
    array = Array(site, "rates")
    array.start()
    array.pool("p", 2, 2048)
    span = 128 * MIB
    targets = {}
    for name in ("limited", "other"):
        array.volume(name, "256MiB")
        targets[name] = measure.nbd_target(array.uri(name))
        measure.fill(targets[name], span)
    array.run("volume", "set", "limited", "--iops", LIMIT)
    shares, bursts, worse = [], [], []
    for number in range(measure.ROUNDS):
        other = Steady(site, f"other-{number}", targets["other"], span, OTHER_PER_SECOND)
        time.sleep(1)
        alone = window(LIMIT_SECONDS)
        begin = time.time()
        count, seconds = requests_done(targets["limited"], span, 32, LIMIT_SECONDS)
        beside = begin, time.time()
        other.end()
        before, with_it = other.p99_us(*alone), other.p99_us(*beside)
        shares.append(count / seconds / LIMIT)
        worse.append(with_it / before)
        table.add(RATES, f"4k writes of another volume, {OTHER_PER_SECOND} a second", "alone", {"p99_us": before})
        table.add(RATES, f"4k writes of another volume, {OTHER_PER_SECOND} a second",
                  f"beside one limited to {LIMIT} a second, depth 32", {"p99_us": with_it})
        bursts.append(burst(array, targets["limited"], span))
    share, saved = statistics.median(shares), statistics.median(bursts)
    table.bound("limited volume: requests against its limit", abs(share - 1), 0.05, f"{share:.3f}x", "0.95x to 1.05x")
    table.bound("limited volume after an idle time: requests against its rate and its burst", abs(saved - 1), 0.05,
                f"{saved:.3f}x", "0.95x to 1.05x")
    middle = statistics.median(worse)
    table.bound("p99 of another volume beside the limited one, against alone", middle, 1.5, f"{middle:.2f}x", "under 1.5x")
    array.check()
    array.stop()


def burst(array, target, span):
    """What an idle volume takes at once, against what it is to have."""
    array.run("volume", "set", "limited", "--burst", f"{BURST_SECONDS}s")
    time.sleep(BURST_SECONDS + 1)
    count, seconds = requests_done(target, span, 32, BURST_RUN_SECONDS)
    array.run("volume", "set", "limited", "--burst", "none")
    return count / (LIMIT * (seconds + BURST_SECONDS))


# A floor.

def floors(site, table):
    array = Array(site, "floors")
    array.start()
    paths = [site.file(f"floors-{number}.img") for number in range(DRIVES)]
    words = [word for path in paths for word in ("--drive", f"{path},size={DRIVE_MIB}MiB")]
    array.run("pool", "create", "f", "--protection", "dual", *words)
    array.volume("log", f"{LOG_MIB}MiB", "--pool", "f", "--profile", "oltp")
    array.volume("data", f"{DATA_MIB}MiB", "--pool", "f", "--profile", "oltp")
    log, data = measure.nbd_target(array.uri("log")), measure.nbd_target(array.uri("data"))
    measure.fill(log, LOG_MIB * MIB)
    # Twice, so that the cleaner is at work.
    measure.fill(data, DATA_MIB * MIB)
    measure.fill(data, DATA_MIB * MIB)
    measure.settle(array.process.pid)
    ratios = {"without a floor": [], "with a floor": []}
    for number in range(measure.ROUNDS):
        for name, has_floor in (("without a floor", False), ("with a floor", True)):
            idle, loaded, others = beside_load(site, array, (log, data), paths, number, has_floor)
            ratios[name].append(loaded / idle)
            cell = f"4k log writes, {LOG_PER_SECOND} a second"
            table.add(FLOOR, cell, "idle pool", {"p99_us": idle})
            table.add(FLOOR, cell, f"beside depth 64, a rebuild and the cleaner, {name}", {"p99_us": loaded})
            table.add(FLOOR, "8k random writes, depth 64, of the data volume meanwhile", name, {"iops": others})
    for name, found in ratios.items():
        middle = statistics.median(found)
        if name == "with a floor":
            table.bound(f"p99 of a log {name}, against an idle pool", middle, 2, f"{middle:.2f}x", "under 2x")
        else:
            print(f"  p99 of a log {name}, against an idle pool: {middle:.2f}x", flush=True)
    array.check("f")
    array.stop()


def beside_load(site, array, targets, paths, number, has_floor):
    """The log's p99 in an idle pool and beside everything, and what the data volume did a second."""
    (log, data), name = targets, f"{number}-{'with' if has_floor else 'without'}"
    quiet = Steady(site, f"idle-{name}", log, LOG_MIB * MIB, LOG_PER_SECOND, "write")
    time.sleep(2)
    idle = window(WINDOW_SECONDS)
    quiet.end()
    idle_us = quiet.p99_us(*idle)
    if has_floor:
        array.run("volume", "set", "log", "--floor", f"{int(idle_us * FLOOR_OF_IDLE)}us")
    steady = Steady(site, f"log-{name}", log, LOG_MIB * MIB, LOG_PER_SECOND, "write")
    load = site.start(["fio", "--name=load", "--thread", "--rw=randwrite", "--bs=8k", "--iodepth=64", "--refill_buffers=1",
                       f"--size={DATA_MIB * MIB}", "--norandommap", "--randrepeat=0", "--time_based", "--runtime=900", *data],
                      f"load-{name}.fio")
    time.sleep(2)
    drive = number % DRIVES
    spare = site.file(f"floors-spare-{name}.img")
    array.run("pool", "offline-drive", "f", drive, "--yes")
    array.run("pool", "replace-drive", "f", drive, "--with", f"{spare},size={DRIVE_MIB}MiB")
    time.sleep(SETTLE_SECONDS)
    before = array.json("pool", "show", "f")
    loaded = window(WINDOW_SECONDS)
    pool = array.json("pool", "show", "f")
    written = pool["counters"]["host_bytes_written"] - before["counters"]["host_bytes_written"]
    seconds = loaded[1] - loaded[0]
    shown = f"{before['drives'][drive]['state']} to {pool['drives'][drive]['state']}"
    freed = pool["counters"]["segments_freed"] - before["counters"]["segments_freed"]
    print(f"  meanwhile: drive {drive} {shown}, {freed} segments freed", flush=True)
    for process in (load, steady.process):
        process.terminate()
        process.wait()
    array.run("volume", "set", "log", "--floor", "none")
    wait_for(lambda: array.json("pool", "show", "f")["drives"][drive]["state"] == "online", 600, f"drive {drive}")
    os.remove(paths[drive])
    paths[drive] = spare
    return idle_us, steady.p99_us(*loaded), (written / seconds - LOG_PER_SECOND * 4096) / 8192
