"""NBD over a UNIX socket: our server beside nbdkit and qemu-nbd, the same disk, the same client."""
import os

import measure
from array_of_run import GIB, MIB, Array
from site_of_run import run, wait_for

SPAN = (1 if measure.QUICK else 2) * GIB
BLOCKS = ("4k",) if measure.QUICK else ("4k", "8k", "64k")
PEERS = ("nbdkit file", "nbdkit memory", "qemu raw", "qemu qcow2")


def start_peers(site):
    """Every server with the file it serves, written through and read once."""
    raw, qcow = site.file("peer.raw"), site.file("peer.qcow2")
    measure.fill(measure.file_target(raw), SPAN)
    run("qemu-img", "convert", "-W", "-t", "none", "-T", "none", "-f", "raw", "-O", "qcow2", raw, qcow)
    run("cp", raw, site.file("qemu.raw"))
    sockets = {name: site.file(name.replace(" ", "-") + ".sock") for name in PEERS}
    qemu = ["qemu-nbd", "-t", "-e", "8", "--cache=none", "--aio=io_uring"]
    commands = {
        "nbdkit file": ["nbdkit", "-f", "-U", sockets["nbdkit file"], "file", f"file={raw}", "cache=none"],
        "nbdkit memory": ["nbdkit", "-f", "-U", sockets["nbdkit memory"], "memory", f"size={SPAN}", "allocator=malloc"],
        "qemu raw": [*qemu, "-k", sockets["qemu raw"], "-f", "raw", site.file("qemu.raw")],
        "qemu qcow2": [*qemu, "-k", sockets["qemu qcow2"], "-f", "qcow2", qcow]}
    contestants = {}
    for name, command in commands.items():
        process = site.start(command, name.replace(" ", "-") + ".log")
        wait_for(lambda path=sockets[name]: os.path.exists(path), 20, f"{name}'s socket")
        contestants[name] = (measure.nbd_target(f"nbd+unix:///?socket={sockets[name]}"), (process.pid,))
    measure.fill(contestants["nbdkit memory"][0], SPAN, "256k")
    # Making the files left them in the page cache, where one of the peers would find them.
    measure.drop_caches()
    for name, (target, _) in contestants.items():
        measure.read_once(target, SPAN)
    return contestants


def play(site, table):
    array = Array(site)
    array.start()
    array.pool("p", 2, 12 * 1024 * SPAN // (2 * GIB))
    array.volume("v", f"{SPAN // MIB}MiB")
    ours = measure.nbd_target(array.uri("v"))
    contestants = {"ashlar": (ours, (array.process.pid,)), **start_peers(site)}
    for _ in range(measure.ROUNDS):
        # A fresh sequential layout, as the peers' files have, and the room of the last round's overwrites.
        measure.fill(ours, SPAN)
        measure.read_once(ours, SPAN)
        for block in BLOCKS:
            for pattern in ("randread", "randwrite"):
                for depth in (1, 64):
                    for name, (target, pids) in contestants.items():
                        # nbdkit has no direct I/O: in a page cache that holds the whole file it would race as a
                        # second memory plugin.
                        measure.drop_caches()
                        values = measure.fio(target, pattern, block, depth, SPAN, pids)
                        table.add("NBD", f"{block} {pattern} depth {depth}", name, values)
        # We answer a write when it is durable, the peers when it is somewhere; with a flush after each all do the same.
        for name, (target, pids) in contestants.items():
            values = measure.fio(target, "randwrite", "4k", 1, SPAN, pids, options=("--fsync=1",))
            table.add("NBD", "4k randwrite depth 1, flush after each", name, values)
    for pattern in ("randread", "randwrite"):
        cell = f"4k {pattern} depth 64"
        table.goal(f"NBD {cell}: better of nbdkit file and qemu raw", 1.0, "NBD", cell, "ashlar", ("nbdkit file", "qemu raw"))
        table.goal(f"NBD {cell}: qemu qcow2", 1.5, "NBD", cell, "ashlar", ("qemu qcow2",))
    array.check()
    array.stop()
