"""What looking for equal blocks costs when there are none: a volume with dedupe beside one without, unique
data, one array. And what a second copy of the same data costs and saves."""
import os
import time

import measure
from array_of_run import GIB, MIB, Array
from site_of_run import run

SPAN = (1 if measure.QUICK else 2) * GIB
CELLS = (("randwrite", "4k", 64), ("randwrite", "8k", 64), ("write", "64k", 16), ("randread", "4k", 64))
PART = "Dedupe, NBD, unique data"
COPIES = "Dedupe, the same data a second time"


def second_copy(site, array, table):
    source = site.file("source")
    run("fio", "--name=source", "--rw=write", "--bs=1m", f"--size={SPAN // 4}", "--refill_buffers=1", f"--filename={source}")
    array.volume("copy", f"{SPAN // 4 // MIB}MiB", "--dedupe", "on")
    array.volume("again", f"{SPAN // 4 // MIB}MiB", "--dedupe", "on")
    for name in ("copy", "again"):
        begin = time.monotonic()
        run("nbdcopy", source, array.uri(name))
        copied = time.monotonic() - begin
        found = array.deduped()
        table.add(COPIES, name, "ashlar", {"mib_s": SPAN / 4 / MIB / copied, "found_after_s": time.monotonic() - begin - copied,
                                           "shared_share": found["blocks"]["shared_bytes"] / (SPAN / 4)})
    os.remove(source)


def play(site, table):
    array = Array(site)
    array.start()
    array.pool("p", 2, 8 * 1024 * SPAN // (2 * GIB))
    pids = (array.process.pid,)
    volumes = {"dedupe on": "with", "dedupe off": "without"}
    array.volume("with", f"{SPAN // MIB}MiB", "--dedupe", "on")
    array.volume("without", f"{SPAN // MIB}MiB")
    for volume in volumes.values():
        measure.fill(measure.nbd_target(array.uri(volume)), SPAN)
        measure.read_once(measure.nbd_target(array.uri(volume)), SPAN)
    array.deduped()
    for round_number in range(measure.ROUNDS):
        # Who comes second finds another array: cleaner's work done, cleaner's work begun.
        order = list(volumes.items())[::-1 if round_number % 2 else 1]
        for pattern, block, depth in CELLS:
            for contestant, volume in order:
                values = measure.fio(measure.nbd_target(array.uri(volume)), pattern, block, depth, SPAN, pids)
                table.add(PART, f"{block} {pattern} depth {depth}", contestant, values)
                array.deduped()
    for pattern, block, depth in CELLS[:3]:
        cell = f"{block} {pattern} depth {depth}"
        table.goal(f"dedupe on, unique data, {cell}: dedupe off", 0.85, PART, cell, "dedupe on", ("dedupe off",))
    for volume in volumes.values():
        array.run("volume", "delete", volume, "--now", "--yes")
    second_copy(site, array, table)
    array.check()
    array.stop()
