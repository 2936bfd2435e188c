"""What a snapshot costs a volume under full load: 1 GiB against 1 TiB; and ten thousand of them."""
import multiprocessing
import os
import statistics
import time

import measure
import nbd
from array_of_run import GIB, Array
from site_of_run import run

SNAPSHOTS = 20 if measure.QUICK else 60
WINDOW_SECONDS = 0.02
MANY = int(os.environ.get("SNAPSHOTS", "1000" if measure.QUICK else "10000"))


def probe(socket, volume, is_over, samples):
    """Writes one block at a time and keeps when each began and how long it took, till it is told to end."""
    door, taken, block, index = nbd.Connection(socket, volume), [], os.urandom(4096), 0
    while not is_over.is_set():
        index = (index * 1103515245 + 12345) & 0x3FFFF  # 1 GiB of blocks in a scattered order
        begin = time.perf_counter()
        door.write(index * 4096, block)
        taken.append((begin, time.perf_counter() - begin))
    door.close()
    samples.send(taken)


class Probe:
    """What any single request of a host feels on top of the full load. A process of its own: threads of one
    interpreter wait for each other, and the one that asks for snapshots would be taken for the array."""

    def __init__(self, array, volume):
        self.is_over = multiprocessing.Event()
        self.results, samples = multiprocessing.Pipe(duplex=False)
        work = (array.nbd_socket, volume, self.is_over, samples)
        self.process = multiprocessing.Process(target=probe, args=work)
        self.process.start()
        self.samples = []

    def stop(self):
        self.is_over.set()
        self.samples = self.results.recv()
        self.process.join()

    def worst(self, begin, end):
        """The longest request that was in flight between two moments."""
        return max((took for start, took in self.samples if start < end and start + took > begin), default=0.0)


def measure_volume(site, array, volume, size):
    array.volume(volume, size)
    target = measure.nbd_target(array.uri(volume))
    measure.fill(target, GIB)
    seconds = SNAPSHOTS * 0.25 + 4
    load = site.start(["fio", "--name=load", "--thread", "--rw=randwrite", "--bs=4k", "--iodepth=32", f"--size={GIB}",
                       "--norandommap", "--time_based", f"--runtime={seconds + 10}", *target], "load.log")
    time.sleep(1.5)
    probe, windows, calls = Probe(array, volume), [], []
    for index in range(SNAPSHOTS):
        time.sleep(0.1)
        idle = time.perf_counter()
        time.sleep(0.1)
        begin = time.perf_counter()
        array.api("POST", "/v1/snapshots", {"name": f"{volume}-{index}", "volumes": [volume]})
        calls.append(time.perf_counter() - begin)
        # What follows the call belongs to it too. The same length of time before it is the comparison.
        length = max(calls[-1], WINDOW_SECONDS)
        windows.append((begin, begin + length, idle, idle + length))
        time.sleep(0.05)
    probe.stop()
    site.stop(load)
    # What the snapshots pin is room that the next volume needs.
    for index in range(SNAPSHOTS):
        array.api("DELETE", f"/v1/snapshots/{volume}-{index}")
    with_snapshot = [probe.worst(begin, end) for begin, end, _, _ in windows]
    without = [probe.worst(begin, end) for _, _, begin, end in windows]
    added = statistics.median(with_snapshot) - statistics.median(without)
    return {"added_ms": max(0.0, added * 1e3), "with_ms": statistics.median(with_snapshot) * 1e3,
            "without_ms": statistics.median(without) * 1e3, "call_ms": statistics.median(calls) * 1e3,
            "call_max_ms": max(calls) * 1e3}


def play(site, table):
    array = Array(site)
    array.start()
    drives = array.pool("p", 2, 8 * 1024)
    for size in ("1GiB", "1TiB"):
        values = measure_volume(site, array, "v" + size, size)
        table.add("Snapshot under full load (added latency, ms)", f"thin volume of {size}", "ashlar", values)
        table.bound(f"snapshot of a {size} volume under full load: added latency", values["added_ms"], 1.0,
                    f"{values['added_ms']:.2f} ms (call {values['call_ms']:.1f} ms)", "under 1 ms")
    array.check()
    array.stop()
    for drive in drives:
        os.remove(drive)
    many(site, table)


def many(site, table):
    """Start-up time with none and with ten thousand snapshots; deleting any of them."""
    array = Array(site, "many")
    array.start()
    array.pool("m", 2, 2048)
    array.volume("v", "1TiB")
    target = measure.nbd_target(array.uri("v"))
    measure.fill(target, GIB // 4)
    bare = restarts(array)
    array.start()
    begin = time.monotonic()
    for index in range(MANY):
        array.api("POST", "/v1/snapshots", {"name": f"s{index}", "volumes": ["v"]})
        if index % (MANY // 20) == 0:
            run("fio", "--name=w", "--thread", "--rw=randwrite", "--bs=4k", "--iodepth=16", f"--size={GIB // 4}",
                "--io_size=8m", "--randrepeat=0", *target)
    creating = (time.monotonic() - begin) / MANY
    array.stop()
    full = restarts(array)
    array.start()
    deletes = []
    for index in range(0, MANY, max(1, MANY // 100)):
        begin = time.perf_counter()
        array.api("DELETE", f"/v1/snapshots/s{index}")
        deletes.append(time.perf_counter() - begin)
    part = "Start-up and many snapshots (ms)"
    table.add(part, "start without snapshots", "ashlar", {"ms": bare * 1e3})
    table.add(part, f"start with {MANY} snapshots", "ashlar", {"ms": full * 1e3})
    table.add(part, "create one", "ashlar", {"ms": creating * 1e3})
    table.add(part, "delete one, longest of 100", "ashlar", {"ms": max(deletes) * 1e3})
    table.bound(f"start with {MANY} snapshots: added time", full - bare, 0.5, f"{(full - bare) * 1e3:.0f} ms", "under 500 ms")
    table.bound("delete of any snapshot", max(deletes), 0.1, f"{max(deletes) * 1e3:.1f} ms", "under 100 ms")
    array.check("m")
    array.stop()


def restarts(array):
    """Median of five starts, program start included; the array is stopped before and after."""
    if array.process.poll() is None:
        array.stop()
    times = []
    for _ in range(5):
        times.append(array.start())
        array.stop()
    return statistics.median(times)
