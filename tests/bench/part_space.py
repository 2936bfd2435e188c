"""How space comes back and what it costs: deletes beside a load, a thousand snapshots, fstrim, first writes, and
the memory it all takes. What arrays are known to be bad at and benchmarks do not show."""
import os
import random
import resource
import time

import measure
import nbd
import part_overwrite
import part_snapshot
from array_of_run import GIB, MIB, Array
from site_of_run import run

QUICK = measure.QUICK
POOL_MIB = int(os.environ.get("SPACE_POOL_MIB", "1024" if QUICK else "3072"))  # each of two drives
WINDOW_SECONDS = int(os.environ.get("SPACE_SECONDS", "20" if QUICK else "60"))
SNAPSHOTS = int(os.environ.get("SPACE_SNAPSHOTS", "1000"))
WRITES_BETWEEN = 64 if QUICK else 256
WIDE_WRITES = 40_000 if QUICK else 200_000
FILES_GIB = int(os.environ.get("SPACE_FILES_GIB", "2" if QUICK else "20"))
FULL_PERCENT, FREED_PERCENT = 86, 10
# Reads and writes a second of the load beside a delete: well below what the array can do, so that the
# record shows what a delete adds and not how a queue fills.
READS_PER_SECOND, WRITES_PER_SECOND = 2000, 1000
MEMORY_BYTES = 2 * GIB
PATIENCE = 120
BACK_SHARE = 0.9  # Space counts as back when this share of it is...
SEGMENTS_BYTES = 32 * MIB  # ... but for some segments that hold other things too: only whole ones get free.


def play(site, table):
    for step in (delete_beside_load, many_snapshots, fstrim, first_write):
        array = Array(site, step.__name__)
        array.start()
        # The rounds of first writes shall not meet the cleaner: room for two times two.
        drives = array.pool("p", 2, 2 * part_overwrite.SPAN // MIB if step is first_write else POOL_MIB)
        step(site, table, array)
        array.check()
        array.stop()
        for drive in drives:
            os.remove(drive)
        run("sync")


def free_bytes(array):
    return array.api("GET", "/v1/pools/p")["space"]["free_bytes"]


def marks(array):
    return array.api("GET", "/v1/pools/p")["counters"]["marks"]


def wanted_back(size):
    return size * BACK_SHARE - SEGMENTS_BYTES


def seconds_until(condition, begin):
    """Seconds from a moment until the condition holds; as long as our patience when it does not."""
    while time.monotonic() - begin < PATIENCE and not condition():
        time.sleep(0.05)
    return time.monotonic() - begin


# A tenth of the pool is deleted beside a load.

def delete_beside_load(site, table, array):
    physical = array.json("pool", "show", "p")["space"]["physical_bytes"]
    freed = physical * FREED_PERCENT // 100 // MIB * MIB
    kept = free_bytes(array) * FULL_PERCENT // 100 // MIB * MIB - freed
    for name, span in (("kept", kept), ("freed", freed)):
        array.volume(name, f"{span // MIB}MiB")
        measure.fill(measure.nbd_target(array.uri(name)), span)
    log = site.file("beside")
    load = site.start(["fio", "--name=load", "--thread", "--rw=randrw", "--bs=4k", "--iodepth=16", "--refill_buffers=1",
                       f"--size={kept}", "--norandommap", "--randrepeat=0", "--time_based",
                       f"--rate_iops={READS_PER_SECOND},{WRITES_PER_SECOND}", "--log_unix_epoch=1",
                       f"--runtime={2 * WINDOW_SECONDS + 5}", f"--write_lat_log={log}",
                       *measure.nbd_target(array.uri("kept"))], "beside.fio")
    time.sleep(WINDOW_SECONDS + 3)
    deleted_at, call, back = delete_volume(array, "freed", freed)
    if load.wait() != 0:
        raise RuntimeError(f"fio ended with {load.returncode}, see beside.fio")
    add_penalty(table, log + "_lat.1.log", deleted_at)
    part = "Deleting beside a load"
    shown = f"delete a volume of {FREED_PERCENT} % of a pool {FULL_PERCENT} % full"
    table.add(part, shown, "ashlar", {"call_ms": call * 1e3, "back_seconds": back})
    table.bound("10 % of a pool deleted: time until the space is back", back, 60, f"{back:.1f} s", "under 60 s")


def delete_volume(array, name, span):
    """The moment (wall clock), seconds of the call, seconds until the space is back whatever the load takes meanwhile."""
    def supply():
        pool = array.api("GET", "/v1/pools/p")
        return pool["space"]["free_bytes"] + pool["counters"]["journal_bytes_written"]
    before = supply()
    begin, deleted_at = time.monotonic(), time.time()
    array.api("DELETE", f"/v1/volumes/{name}?now=true")
    call = time.monotonic() - begin
    return deleted_at, call, seconds_until(lambda: supply() - before >= wanted_back(span), begin)


def add_penalty(table, path, deleted_at):
    """Latencies of the window before the delete and of the one after it."""
    windows = {"before": ([], []), "after": ([], [])}
    with open(path, encoding="utf-8") as f:
        for line in f:
            at, took, direction, _ = line.split(",", 3)
            seconds = int(at) / 1e3 - deleted_at
            if abs(seconds) <= WINDOW_SECONDS:
                windows["after" if seconds >= 0 else "before"][int(direction)].append(int(took))
    for index, kind in enumerate(("read", "write")):
        p99 = {}
        for window, samples in windows.items():
            taken = sorted(samples[index])
            p99[window] = taken[len(taken) * 99 // 100] / 1e3
            table.add("Latency beside a delete", f"4k random {kind}, {WINDOW_SECONDS} s", window,
                      {"p99_us": p99[window], "p50_us": taken[len(taken) // 2] / 1e3, "longest_ms": taken[-1] / 1e6})
        ratio = p99["after"] / p99["before"]
        table.bound(f"10 % of a pool deleted: p99 of {kind}s in the {WINDOW_SECONDS} s after, against before", ratio, 1.5,
                    f"{ratio:.2f}x ({p99['before']:.0f} to {p99['after']:.0f} µs)", "within 1.5x")


# A thousand snapshots of a busy volume: what they take, how the array starts with them, how they go.

def many_snapshots(_site, table, array):
    empty = free_bytes(array)
    span = GIB // 2
    array.volume("v", "16GiB")
    array.volume("wide", "16TiB")
    measure.fill(measure.nbd_target(array.uri("v")), span)
    before = array.json("space")[0]["parts"]
    bare = part_snapshot.restarts(array)
    array.start()
    took = take_snapshots(array, span)
    census = array.json("space", seconds=120)[0]
    metadata = (census["parts"]["metadata_alive_bytes"] - before["metadata_alive_bytes"]) / SNAPSHOTS
    part = f"{SNAPSHOTS} snapshots, {WRITES_BETWEEN} random 4k writes between"
    table.add(part, "metadata a snapshot", "ashlar",
              {"kib": metadata / 1024, "kib_a_write": metadata / 1024 / WRITES_BETWEEN})
    table.add(part, "create, with the writes between", "ashlar", {"ms": took / SNAPSHOTS * 1e3})
    table.add(part, "walk of all images (`ashlar space`)", "ashlar", {"ms": census["duration_millis"]})
    full = part_snapshot.restarts(array)
    table.add(part, "start without and with them", "ashlar", {"without_ms": bare * 1e3, "with_ms": full * 1e3})
    table.bound(f"start with {SNAPSHOTS} snapshots of a busy volume: added time", full - bare, 0.5,
                f"{(full - bare) * 1e3:.0f} ms", "under 500 ms")
    array.start()
    widen(array)
    array.stop()
    array.start(preexec_fn=limit_memory)
    delete_snapshots(table, part, array)
    delete_rest(table, array, empty)


def take_snapshots(array, span):
    chance, door = random.Random(7), nbd.Connection(array.nbd_socket, "v")
    blocks, body = span // 4096, os.urandom(2 * MIB)
    begin = time.monotonic()
    for index in range(SNAPSHOTS):
        write_scattered(door, chance, blocks, WRITES_BETWEEN, body)
        array.api("POST", "/v1/snapshots", {"name": f"s{index}", "volumes": ["v"]})
    door.close()
    return time.monotonic() - begin


def write_scattered(door, chance, blocks, count, body):
    def block():
        start = chance.randrange(len(body) - 4096)
        return body[start:start + 4096]
    def answered(_, error, __):
        if error:
            raise nbd.ServerError(error)
    door.batch([(nbd.WRITE, chance.randrange(blocks) * 4096, 0, block(), 0) for _ in range(count)], answered)


def widen(array):
    """A block here and there in 16 TiB: a map far larger than its cache, with few data below it."""
    chance, door = random.Random(8), nbd.Connection(array.nbd_socket, "wide")
    body = os.urandom(64) * 128  # Compresses: the map is what shall be large.
    for _ in range(WIDE_WRITES // 64):
        write_scattered(door, chance, 16 << 28, 64, body)
    door.close()


def limit_memory():
    """Everything private that the process may map. A control group would do, but not every machine lets us make one."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))


def delete_snapshots(table, part, array):
    names = [f"s{index}" for index in range(SNAPSHOTS)]
    wanted = array.api("POST", "/v1/space/reclaim", {"names": names})
    gone = wanted["chunk_bytes"] + wanted["map_page_bytes"]
    before, free = marks(array), free_bytes(array)
    begin = time.monotonic()
    array.run("snapshot", "delete", *names, "--yes")
    took = time.monotonic() - begin
    # What is dead is room for whoever writes once the cleaner has marked. What lies between data that are
    # alive stays where it is until room is needed: it does not show in the free bytes.
    back = seconds_until(lambda: marks(array) > before, begin)
    time.sleep(3)  # A checkpoint publishes what the mark found.
    free = free_bytes(array) - free
    table.add(part, "delete all (one command)", "ashlar",
              {"ms": took * 1e3, "marked_seconds": back, "dead_mib": gone / MIB, "free_after_3_s_mib": free / MIB})
    table.bound(f"delete {SNAPSHOTS} snapshots", took, 1.0, f"{took * 1e3:.0f} ms", "under 1 s")
    table.bound(f"delete {SNAPSHOTS} snapshots: time until their {gone / MIB:.0f} MiB are marked as dead", back, 60,
                f"{back:.1f} s", "under 60 s")


def delete_rest(table, array, empty):
    begin = time.monotonic()
    array.api_many("DELETE", ["/v1/volumes/v?now=true", "/v1/volumes/wide?now=true"])
    used = empty - free_bytes(array)
    back = seconds_until(lambda: empty - free_bytes(array) <= used - wanted_back(used), begin)
    peak = peak_bytes(array)
    table.add("Deleting a pool's content", f"after {WIDE_WRITES} blocks in 16 TiB", "ashlar",
              {"back_seconds": back, "peak_mib": peak / MIB, "used_mib": used / MIB})
    table.bound("everything deleted within 2 GiB of memory: peak resident", peak, MEMORY_BYTES, f"{peak / MIB:.0f} MiB",
                "under 2048 MiB")


def peak_bytes(array):
    with open(f"/proc/{array.process.pid}/status", encoding="utf-8") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM:"))


# Files deleted in a file system, and fstrim.

def fstrim(site, table, array):
    array.volume("files", f"{FILES_GIB * 2 + 4}GiB")
    point = site.directory("m-files")
    array.attach("files", "--format", "ext4", "--mount", point)
    run("sync")
    before = alive_bytes(array)
    write_files(point)
    full = alive_bytes(array)
    for index in range(FILES_GIB):
        os.remove(f"{point}/{index}")
    run("sync", "-f", point)
    free, known, wanted = free_bytes(array), alive_by_mark(array), full - before
    begin = time.monotonic()
    run("fstrim", point)
    trim = time.monotonic() - begin
    back = seconds_until(lambda: known - alive_by_mark(array) >= wanted_back(wanted), begin)
    left = alive_bytes(array)
    time.sleep(3)
    table.add("fstrim", f"ext4, {FILES_GIB} GiB of deleted files", "ashlar",
              {"ms": trim * 1e3, "marked_seconds": back, "files_mib": wanted / MIB, "gone_mib": (full - left) / MIB,
               "free_after_3_s_mib": (free_bytes(array) - free) / MIB})
    table.bound(f"fstrim of {FILES_GIB} GiB: what the files took and is still there", (left - before) / wanted, 0.02,
                f"{(left - before) / wanted * 100:.1f} %", "under 2 %")
    table.bound(f"fstrim of {FILES_GIB} GiB: time until it is marked as dead", back, 60, f"{back:.1f} s", "under 60 s")
    array.run("detach", "files")


def alive_bytes(array):
    parts = array.json("space")[0]["parts"]
    return parts["data_alive_bytes"] + parts["stranded_bytes"]


def alive_by_mark(array):
    """By the cleaner's last mark. What is not, is room: at once where a whole segment is dead; where a few blocks of the
    file system's journal are alive among it, when room is needed."""
    return array.api("GET", "/v1/pools/p/space?is_quick=true")["parts"]["data_alive_bytes"]


def write_files(point):
    """Files of 1 GiB of which a twentieth is left after compression: full size on little disk."""
    noise = random.Random(9)
    for index in range(FILES_GIB):
        with open(f"{point}/{index}", "wb") as f:
            for _ in range(1024):
                f.write(b"".join(noise.randbytes(192) + bytes([65 + index]) * (4096 - 192) for _ in range(16)) * 16)
            os.fsync(f.fileno())


# Fresh thin space against space written before.

def first_write(_site, table, array):
    part = "First write against overwrite, NBD"
    cells = (("randwrite", "4k", 32), ("randwrite", "64k", 16))
    for _ in range(measure.ROUNDS):
        for pattern, block, depth in cells:
            cell = f"{block} random depth {depth}"
            array.volume("v", "2GiB")
            for which in ("first write", "overwrite"):
                values = part_overwrite.write_all(measure.nbd_target(array.uri("v")), pattern, block, depth,
                                                  (array.process.pid,))
                table.add(part, cell, which, values)
            array.run("volume", "delete", "v", "--now", "--yes")
            wait_for_room(array)
    for _, block, depth in cells:
        table.goal(f"first write of thin space, {block} random depth {depth}: overwrite", 0.7, part,
                   f"{block} random depth {depth}", "first write", ("overwrite",))


def wait_for_room(array):
    """The next round shall not pay for the space of this one."""
    space = array.json("pool", "show", "p")["space"]
    seconds_until(lambda: free_bytes(array) >= space["physical_bytes"] * 0.85, time.monotonic())
