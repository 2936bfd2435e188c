"""Pools with parity: what it costs while all is well, how fast a lost drive is rebuilt beside a load, and which
layer writes what. btrfs raid1 and raid10 over as many loop devices are the peer."""
import os
import time

import measure
from array_of_run import MIB, Array
from site_of_run import quietly, run

DRIVES, PEER_DRIVES = 8, 4
DRIVE_MIB = 512 if measure.QUICK else 1024
DATA_MIB = 1024 if measure.QUICK else 3072
BEFORE_SECONDS = 10 if measure.QUICK else 20
# Well below what each can do: the record shows what a rebuild adds and not how a queue fills.
READS_PER_SECOND, WRITES_PER_SECOND = 1000, 500
LAYERS_SECONDS = 10 if measure.QUICK else 30
REBUILD, LAYERS, COST = "Rebuild beside a load", "Bytes written per host byte, by layer", "Dual parity beside none"


def play(site, table):
    parity_beside_none(site, table)
    layers(site, table)
    ours(site, table, [2])
    ours(site, table, [2, 5])
    for profile in ("raid1", "raid10"):
        btrfs(site, table, profile)


def dual(site, name, drive_mib=DRIVE_MIB):
    array = Array(site, name)
    array.start()
    paths = [site.file(f"{name}-{number}.img") for number in range(DRIVES)]
    words = [word for path in paths for word in ("--drive", f"{path},size={drive_mib}MiB")]
    array.run("pool", "create", "p", "--protection", "dual", *words)
    return array, paths


def forget(array, paths):
    array.check()
    array.stop()
    for path in paths:
        if os.path.exists(path):
            os.remove(path)
    run("sync")


# What parity costs.

def parity_beside_none(site, table):
    array, paths = dual(site, "cost", DRIVE_MIB)
    array.volume("dual", f"{DATA_MIB}MiB")
    more = [site.file(f"none-{number}.img") for number in range(DRIVES)]
    words = [word for path in more for word in ("--drive", f"{path},size={DRIVE_MIB}MiB")]
    array.run("pool", "create", "n", *words)
    array.run("volume", "create", "none", "--pool", "n", "--size", f"{DATA_MIB}MiB")
    targets = {name: measure.nbd_target(array.uri(name)) for name in ("dual", "none")}
    span = DATA_MIB * MIB // 2
    for target in targets.values():
        measure.fill(target, span)
    for _ in range(measure.ROUNDS):
        for pattern, block, depth in (("randwrite", "8k", 32), ("randwrite", "8k", 1), ("write", "64k", 8),
                                      ("randread", "8k", 32)):
            for name, target in targets.items():
                cell = measure.fio(target, pattern, block, depth, span, (array.process.pid,))
                table.add(COST, f"{block} {pattern} depth {depth}", name, cell)
    forget(array, paths + more)


# Which layer writes what.

def written(array):
    pool = array.json("pool", "show", "p")
    counters = pool["counters"]
    values = {name: counters[f"{name}_bytes_written"] for name in ("host", "journal", "metadata")}
    return {**values, "moved": counters["moved_bytes"], "drives": sum(drive["written_bytes"] for drive in pool["drives"])}


def layers(site, table):
    """All that reaches the drives is data of the journal, metadata, what the cleaner moves, and parity of all three;
    the rest is superblocks, what fills stripes, and the first writing of fresh places of drives that are files."""
    for pattern, block, depth in (("randwrite", "8k", 32), ("write", "64k", 8)):
        array, paths = dual(site, f"layers-{pattern}")
        span = int(array.json("pool", "show", "p")["space"]["free_bytes"] * 0.75) // MIB * MIB
        array.volume("v", f"{span // MIB}MiB")
        target = measure.nbd_target(array.uri("v"))
        # Twice over, so that every place was written before and the cleaner is at work.
        measure.fill(target, span)
        measure.fio(target, pattern, block, depth, span, (array.process.pid,), seconds=LAYERS_SECONDS)
        before = written(array)
        measure.fio(target, pattern, block, depth, span, (array.process.pid,), seconds=LAYERS_SECONDS)
        now = written(array)
        layer = {name: now[name] - before[name] for name in now}
        host, data = layer["host"], layer["journal"] + layer["metadata"] + layer["moved"]
        parity = data * 2 / (DRIVES - 2)
        table.add(LAYERS, f"{block} {pattern} over 75 % of the free space", "dual, 6 and 2", {
            "journal": layer["journal"] / host, "metadata": layer["metadata"] / host, "cleaner": layer["moved"] / host,
            "parity": parity / host, "rest": (layer["drives"] - data - parity) / host, "all": layer["drives"] / host})
        forget(array, paths)


# Rebuild.

class Load:
    """fio at a fixed rate; every request's latency with its time."""

    def __init__(self, site, name, target, span, seconds):
        self.log = site.file(name)
        self.process = site.start(
            ["fio", "--name=load", "--thread", "--rw=randrw", "--bs=8k", "--iodepth=16", "--refill_buffers=1",
             f"--size={span}", "--norandommap", "--randrepeat=0", f"--rate_iops={READS_PER_SECOND},{WRITES_PER_SECOND}",
             "--time_based", f"--runtime={seconds}", "--log_unix_epoch=1", f"--write_lat_log={self.log}", *target],
            name + ".fio")

    def p99_us(self, begin, end):
        taken = []
        with open(self.log + "_lat.1.log", encoding="utf-8") as f:
            for line in f:
                at, took, _ = line.split(",", 2)
                if begin <= int(at) / 1e3 < end:
                    taken.append(int(took))
        taken.sort()
        return taken[len(taken) * 99 // 100] / 1e3 if taken else float("nan")

    def end(self):
        self.process.terminate()
        self.process.wait()


def add(table, name, load, windows, live_bytes):
    (before, begin), (start, end) = windows
    quiet, busy = load.p99_us(before, begin), load.p99_us(start, end)
    seconds = end - start
    table.add(REBUILD, "8k random, 2 reads for a write, 1,500 a second", name, {
        "p99_us": busy, "p99_before_us": quiet, "rebuild_seconds": seconds,
        "minutes_per_live_tib": seconds / 60 * (1 << 40) / live_bytes})
    return busy / quiet


def ours(site, table, lost):
    """`lost` drives at once. While the pool can lose no more the rebuild takes more of the drives' time."""
    array, paths = dual(site, f"rebuild-{len(lost)}")
    array.volume("v", f"{DATA_MIB}MiB")
    span = DATA_MIB * MIB
    target = measure.nbd_target(array.uri("v"))
    measure.fill(target, span)
    load = Load(site, f"ours-{len(lost)}", target, span, 600)
    time.sleep(3)
    before = time.time()
    time.sleep(BEFORE_SECONDS)
    begin = time.time()
    for number in lost:
        array.run("pool", "offline-drive", "p", number, "--yes")
    start = time.time()
    spares = [site.file(f"spare-{number}.img") for number in lost]
    for number, spare in zip(lost, spares):
        wait = ["--wait"] if number == lost[-1] else []
        array.run("pool", "replace-drive", "p", number, "--with", f"{spare},size={DRIVE_MIB}MiB", *wait, seconds=500)
    end = time.time()
    load.end()
    name = f"{len(lost)} of {DRIVES} drives, dual"
    worse = add(table, name, load, ((before, begin), (start, end)), span)
    table.bound(f"{name}, rebuilt: p99 of hosts meanwhile, against before", worse, 2, f"{worse:.2f}x", "under 2x")
    scrub = array.json("pool", "scrub", "p", seconds=600)
    if scrub["parity_block_count"] + scrub["data_block_count"]:
        raise RuntimeError(f"the scrub after a rebuild finds: {scrub}")
    forget(array, [*paths, *spares])


def btrfs(site, table, profile):
    size = DATA_MIB * 2 // PEER_DRIVES + 3072
    devices = []
    for number in range(PEER_DRIVES + 1):
        path = site.file(f"{profile}-{number}.img")
        run("fallocate", "-l", f"{size}M", path)
        device = run("losetup", "-f", "--show", "--direct-io=on", path).stdout.strip()
        site.at_close(lambda device=device: quietly("losetup", "-d", device))
        devices.append(device)
    point = site.directory("m-" + profile)
    run("mkfs.btrfs", "-q", "-f", "-d", profile, "-m", profile, *devices[:-1])
    run("mount", "-o", "noatime", devices[0], point)
    site.at_close(lambda: quietly("umount", point))
    span = DATA_MIB * MIB
    target = ["--ioengine=io_uring", "--direct=1", f"--filename={point}/data"]
    measure.fill(target, span)
    load = Load(site, profile, target, span, 900)
    time.sleep(3)
    before = time.time()
    time.sleep(BEFORE_SECONDS)
    begin = start = time.time()
    # With -r it reads from the others, as when the drive is gone.
    run("btrfs", "replace", "start", "-B", "-f", "-r", "2", devices[-1], point, seconds=800)
    end = time.time()
    load.end()
    add(table, f"btrfs {profile}, {PEER_DRIVES} drives", load, ((before, begin), (start, end)), span)
    run("umount", point)
