#!/usr/bin/env python3
"""Limits that take minutes to reach: memory caps under load, ten thousand snapshots, and a start without a drive.

usage: limits.py [memory] [snapshots] [degraded] [lists]
"""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "rig"))
from array_of_run import MIB, Array
from site_of_run import Site, run

SNAPSHOTS = int(os.environ.get("SNAPSHOTS", "10000"))
# Beside the caches: program, buffers in flight, segment table, connections.
REST_BYTES = 160 * MIB


def load(array, volume, seconds, *options):
    return run("fio", "--name=load", "--ioengine=nbd", f"--uri={array.uri(volume)}", "--rw=randrw", "--bs=8k",
               "--iodepth=64", f"--runtime={seconds}", "--time_based", "--norandommap", "--thread",
               "--output-format=json", *options, seconds=seconds + 60)


def memory():
    """Caps of 32 MiB each on cache and map hold while 10 GiB of volume are written and read at random."""
    with Site("ashlar-limits-") as site:
        caps = {"cache_bytes": "32MiB", "map_cache_bytes": "32MiB", "buffer_bytes": "32MiB"}
        array = Array(site, settings=caps)
        array.start()
        array.pool("p", 2, 4096)
        array.volume("v", "1TiB")
        highest, is_over = [0], threading.Event()

        def watch():
            while not is_over.wait(0.1):
                highest[0] = max(highest[0], array.resident_bytes())

        watcher = threading.Thread(target=watch)
        watcher.start()
        # Random over 10 GiB touches every page of the map: far more than the cap holds.
        load(array, "v", 45, "--size=10g", "--buffer_compress_percentage=60")
        is_over.set()
        watcher.join()
        limit = 96 * MIB + REST_BYTES
        print(f"limits: caps of 3 x 32 MiB, highest resident {highest[0] / MIB:.0f} MiB, limit {limit / MIB:.0f} MiB")
        assert highest[0] < limit, "the memory caps do not hold"
        array.check()


def snapshots():
    """Start-up with 10,000 snapshots is no slower than with none; deleting any returns at once."""
    with Site("ashlar-limits-") as site:
        array = Array(site)
        array.start()
        array.pool("p", 2, 2048)
        array.volume("v", "1TiB")
        load(array, "v", 5, "--size=1g")
        array.stop()
        bare = min(restart(array) for _ in range(3))
        array.start()
        began = time.monotonic()
        for index in range(SNAPSHOTS):
            create(array, f"s{index}")
            if index % 500 == 0:
                load(array, "v", 1, "--size=1g")
        took = time.monotonic() - began
        array.stop()
        full = min(restart(array) for _ in range(3))
        array.start()
        array.kill()
        crashed = array.start()
        deletes = []
        for index in range(0, SNAPSHOTS, max(1, SNAPSHOTS // 50)):
            begin = time.monotonic()
            array.run("snapshot", "delete", f"s{index}", "--yes")
            deletes.append(time.monotonic() - begin)
        print(f"limits: {SNAPSHOTS} snapshots in {took:.0f} s; start {bare * 1e3:.0f} ms without, {full * 1e3:.0f} ms"
              f" with them, {crashed * 1e3:.0f} ms after SIGKILL; slowest delete {max(deletes) * 1e3:.0f} ms")
        assert full < bare + 1.0, "start-up grows with the number of snapshots"
        assert max(deletes) < 0.5, "a delete does not return at once"
        array.check()


def degraded():
    """SIGKILL under load when the journal is as long as it gets, 10,000 snapshots, and a drive that is gone afterwards:
    the first read is answered in under five seconds."""
    with Site("ashlar-limits-") as site:
        array = Array(site)
        array.start()
        paths = [site.file(f"d-{number}.img") for number in range(8)]
        drives = [word for path in paths for word in ("--drive", f"{path},size=2GiB")]
        array.run("pool", "create", "p", "--protection", "dual", *drives)
        array.volume("v", "1TiB")
        for index in range(SNAPSHOTS):
            create(array, f"s{index}")
            if index % 500 == 0:
                load(array, "v", 1, "--size=1g", "--io_size=16m")
        loader = threading.Thread(target=lambda: quietly_load(array, "v", 60))
        loader.start()
        journal_bytes = until_journal_is_long(array)
        array.kill()
        loader.join()
        os.remove(paths[3])
        begin = time.monotonic()
        array.start()
        run("fio", "--name=first", "--ioengine=nbd", f"--uri={array.uri('v')}", "--rw=read", "--bs=8k", "--size=8k",
            "--thread")
        took = time.monotonic() - begin
        pool = array.json("pool", "show", "p")
        groups = pool["recovery"]["groups_replayed"]
        print(f"limits: start after SIGKILL with {SNAPSHOTS} snapshots and one of 8 drives gone: first read after"
              f" {took * 1e3:.0f} ms, {groups} groups of {journal_bytes // MIB} MiB replayed")
        assert groups > 100, "the journal was empty"
        assert pool["drives"][3]["state"] == "out", pool["drives"][3]
        assert took < 5, "the start takes too long"
        array.check()


def lists():
    """With 10,000 volumes and 10,000 snapshots what the console's dashboard and lists ask for comes within 200 ms."""
    with Site("ashlar-limits-") as site:
        array = Array(site)
        array.start()
        array.pool("p", 2, 4096)
        for index in range(SNAPSHOTS):
            array.api("POST", "/v1/volumes", {"name": f"v{index}", "size_bytes": 64 * MIB})
        for index in range(SNAPSHOTS):
            array.api("POST", "/v1/snapshots", {"name": f"s{index}", "volumes": [f"v{index % 100}"]})
        slow = []
        for path in ("/v1/status", "/v1/pools", "/v1/volumes", "/v1/snapshots", "/v1/events", "/v1/databases", "/v1/schedules",
                     "/v1/clients", "/v1/attachments", "/v1/deleted-volumes", "/v1/objectives", "/v1/marks", "/v1/jobs",
                     "/v1/slow-requests", "/v1/history?object=array&range=day", "/v1/latencies?object=array&range=day",
                     "/v1/volumes?limit=100&sort=size&order=descending", "/v1/snapshots?limit=100&volume=v7"):
            took = []
            for _ in range(5):
                begin = time.monotonic()
                array.api("GET", path)
                took.append((time.monotonic() - begin) * 1e3)
            print(f"limits: {path}: {min(took):.0f} to {max(took):.0f} ms with {SNAPSHOTS} volumes and as many snapshots")
            if sorted(took)[2] >= 200:
                slow.append(path)
        assert not slow, f"slower than 200 ms: {slow}"


def until_journal_is_long(array):
    """Waits until what a start would replay is nearly as much as it ever was in ten seconds of load."""
    longest, begin = 0, time.monotonic()
    while True:
        journal_bytes = array.json("pool", "show", "p")["space"]["journal_bytes"]
        if time.monotonic() > begin + 10 and journal_bytes > longest * 0.9:
            return journal_bytes
        longest = max(longest, journal_bytes)
        assert time.monotonic() < begin + 50, f"the journal stays shorter than the {longest} bytes it had"


def quietly_load(array, volume, seconds):
    """A load that the end of the array cuts short."""
    run("fio", "--name=load", "--ioengine=nbd", f"--uri={array.uri(volume)}", "--rw=randwrite", "--bs=8k",
        "--iodepth=64", "--size=1g", f"--runtime={seconds}", "--time_based", "--norandommap", "--thread", check=False,
        seconds=seconds + 60)


def create(array, name):
    array.run("snapshot", "create", name, "v")


def restart(array):
    seconds = array.start()
    array.stop()
    return seconds


def main():
    chosen = sys.argv[1:] or ["memory", "snapshots", "degraded", "lists"]
    for name in chosen:
        {"memory": memory, "snapshots": snapshots, "degraded": degraded, "lists": lists}[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
