"""Drives that leave and are replaced under load, and a pool that outlives the loss of two others."""
import os
import threading
import time

from cases import Array, case, must, must_refuse, run

DRIVES, DRIVE_MIB, SPAN_MIB = 6, 128, 128
FIO = ("--rw=randwrite", "--bs=8k", f"--size={SPAN_MIB}m", "--iodepth=16", "--verify=crc32c",
       "--verify_fatal=1", "--verify_state_save=0", "--thread", "--refill_buffers=1")


class Load:
    """fio that writes a volume and verifies it, again and again, until it is told to end."""

    def __init__(self, uri):
        self.uri, self.rounds, self.failure, self.is_ending = uri, 0, None, False
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        while not self.is_ending and not self.failure:
            done = run("fio", "--name=load", "--ioengine=nbd", f"--uri={self.uri}", f"--randseed={self.rounds}",
                       "--do_verify=1", *FIO, check=False, seconds=60)
            if done.returncode != 0:
                self.failure = done.stderr[-500:] or done.stdout[-500:]
            self.rounds += 1

    def end(self):
        self.is_ending = True
        self.thread.join()
        must(not self.failure, f"fio in round {self.rounds}: {self.failure}")


def states(pool):
    return [drive["state"] for drive in pool["drives"]]


def image(site, array):
    path = site.file("image")
    run("nbdcopy", array.uri("v"), path)
    return run("sha256sum", path).stdout.split()[0]


@case
def drives_are_replaced_under_load(site):
    """Two drives of a pool with dual parity leave while fio writes and verifies, new ones are rebuilt in
    their place, then two of the others are lost: no byte is missing, and the check finds nothing."""
    array = Array(site)
    array.start()
    paths = [site.file(f"p-{number}.img") for number in range(DRIVES)]
    array.run("pool", "create", "p", "--protection", "dual",
              *(word for path in paths for word in ("--drive", f"{path},size={DRIVE_MIB}MiB")))
    array.volume("v", f"{SPAN_MIB}MiB")
    load = Load(array.uri("v"))
    try:
        for number in (1, 4):
            array.run("pool", "offline-drive", "p", number, "--yes")
        pool = array.json("pool", "show", "p")
        must(states(pool).count("out") == 2 and "survives 0 more" in pool["reason"], f"not degraded: {pool}")
        must_refuse(array.try_run("pool", "offline-drive", "p", 0, "--yes"), "needed")
        before = load.rounds
        for number in (1, 4):
            spare = site.file(f"spare-{number}.img")
            pool = array.json("pool", "replace-drive", "p", number, "--with", f"{spare},size={DRIVE_MIB}MiB", "--wait")
            must(pool["drives"][number] == {**pool["drives"][number], "state": "online", "path": spare},
                 f"drive {number} was not replaced: {pool['drives']}")
        must(states(pool) == ["online"] * DRIVES, f"not whole: {pool}")
        must(load.thread.is_alive(), f"no load during the rebuild, after {before} rounds")
    finally:
        load.end()
    written = image(site, array)
    array.check()
    array.kill()
    for number in (0, 3):
        os.remove(paths[number])
    array.start()
    pool = array.json("pool", "show", "p")
    must(states(pool) == ["out", "online", "online", "out", "online", "online"], f"other drives are out: {pool}")
    must(image(site, array) == written, "the volume changed when two drives were lost")
    run("fio", "--name=after", "--ioengine=nbd", f"--uri={array.uri('v')}", "--do_verify=1", "--io_size=32m", *FIO)
    array.check()
    array.stop()


@case
def pools_grow_under_load(site):
    """Drives are added while fio writes and verifies, without protection and with: there is more room at once,
    and after SIGKILL the pool has them all. Too few for a row, or a drive that is in use, is refused."""
    for name, words, first, more in (("n", (), 1, 1), ("s", ("--protection", "single"), 3, 3)):
        array = Array(site, name)
        array.start()
        paths = [site.file(f"{name}-{number}.img") for number in range(first + more)]
        drives = [word for path in paths for word in ("--drive", f"{path},size={2 * DRIVE_MIB}MiB")]
        before = array.json("pool", "create", "p", *words, *drives[:2 * first])
        array.volume("v", f"{SPAN_MIB}MiB")
        load = Load(array.uri("v"))
        try:
            must_refuse(array.try_run("pool", "add-drive", "p", "--drive", paths[0]), "is drive 0 of pool")
            if more > 1:
                few = array.try_run("pool", "add-drive", "p", *drives[2 * first:2 * first + 2])
                must_refuse(few, "at least 3 drives at once")
                must(not os.path.exists(paths[first]), "a refused drive's file is left behind")
            after = array.json("pool", "add-drive", "p", *drives[2 * first:])
            must(states(after) == ["online"] * (first + more), f"not all serve: {after['drives']}")
            grown = after["space"]["free_bytes"] - before["space"]["free_bytes"]
            whole = before["space"]["physical_bytes"]
            must(grown > whole * (more / first) * 0.5, f"{more} drives brought {grown} bytes to {whole}")
        finally:
            load.end()
        written = image(site, array)
        array.check()
        array.kill()
        array.start()
        must(states(array.json("pool", "show", "p")) == ["online"] * (first + more), "drives are missing")
        must(image(site, array) == written, "the volume changed when its pool grew")
        array.check()
        array.stop()


@case
def a_lost_drive_lives_on_in_spare_space(site):
    """Under fio a drive is removed that serves, cut short by a SIGKILL, and asked for again; a new one takes
    its place; then a drive is lost for good, spare space takes its place by itself, and two more are lost: no
    byte is missing."""
    array = Array(site, settings={"spare_after_seconds": 2})
    array.start()
    drives = DRIVES + 1
    paths = [site.file(f"p-{number}.img") for number in range(drives)]
    array.run("pool", "create", "p", "--protection", "dual", "--spares", "1",
              *(word for path in paths for word in ("--drive", f"{path},size={DRIVE_MIB}MiB")))
    array.volume("v", f"{SPAN_MIB}MiB")
    load = Load(array.uri("v"))
    try:
        pool = array.json("pool", "remove-drive", "p", 2, "--yes", "--wait")
        must(states(pool)[2] == "spare", f"drive 2 does not live in spare space: {pool['drives']}")
        must_refuse(array.try_run("pool", "remove-drive", "p", 3, "--yes"), "no spare space")
        paths[2] = site.file("new-2.img")
        pool = array.json("pool", "replace-drive", "p", 2, "--with", f"{paths[2]},size={DRIVE_MIB}MiB", "--wait")
        must(states(pool) == ["online"] * drives, f"not whole: {pool}")
        must(not any(line["level"] == "error" for line in array.json("events")), "something was called lost")
    finally:
        load.end()
    written = image(site, array)
    array.run("pool", "remove-drive", "p", 5, "--yes")
    array.kill()
    array.start()
    must(image(site, array) == written, "the volume changed when a removal was cut short")
    array.check()
    array.stop()
    os.remove(paths[0])
    array.start()
    pool = until(array, lambda pool: states(pool)[0] == "spare")
    must("reason" not in pool, f"still degraded: {pool}")
    array.check()
    array.kill()
    for number in (4, 6):
        os.remove(paths[number])
    array.start()
    must(states(array.json("pool", "show", "p")).count("out") == 2, "not two drives are out")
    must(image(site, array) == written, "the volume changed when three drives were lost")
    run("fio", "--name=after", "--ioengine=nbd", f"--uri={array.uri('v')}", "--do_verify=1", "--io_size=32m", *FIO)


@case
def a_drive_leaves_a_pool_without_protection(site):
    """Under fio a drive is emptied and leaves, across a SIGKILL; its file may go."""
    array = Array(site)
    array.start()
    paths = [site.file(f"p-{number}.img") for number in range(3)]
    array.run("pool", "create", "p", *(word for path in paths for word in ("--drive", f"{path},size=512MiB")))
    array.volume("v", f"{SPAN_MIB}MiB")
    load = Load(array.uri("v"))
    try:
        array.run("pool", "remove-drive", "p", 1, "--yes", "--wait", seconds=300)
    finally:
        load.end()
    os.remove(paths[1])
    written = image(site, array)
    array.run("pool", "remove-drive", "p", 0, "--yes")
    array.kill()
    array.start()
    until(array, lambda pool: len(pool["drives"]) == 1)
    array.stop()
    os.remove(paths[0])
    array.start()
    must(image(site, array) == written, "the volume changed when its drives left")
    array.check()


def until(array, is_so, seconds=60):
    """The pool once it is as it should be."""
    end = time.monotonic() + seconds
    while True:
        pool = array.json("pool", "show", "p")
        if is_so(pool):
            return pool
        must(time.monotonic() < end, f"not within {seconds} s: {pool}")
        time.sleep(0.1)
