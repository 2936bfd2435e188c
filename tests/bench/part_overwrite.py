"""First writes against overwrites: a thin volume must not pay for its first touch."""
import json
import os

import measure
from array_of_run import GIB, MIB, Array, cpu_seconds
from site_of_run import run, wait_for

SPAN = (1 if measure.QUICK else 2) * GIB
CELLS = (("write", "1m", 8), ("write", "64k", 16), ("randwrite", "4k", 64))
PART = "First write and overwrite, NBD"


def write_all(target, pattern, block, depth, pids):
    """Writes every block of the span exactly once."""
    span = SPAN if block != "4k" else SPAN // 4
    cpu = cpu_seconds(*pids)
    done = run("fio", "--name=w", "--thread", f"--rw={pattern}", f"--bs={block}", f"--iodepth={depth}", f"--size={span}",
               "--refill_buffers=1", "--randrepeat=0", "--output-format=json", *target)
    measure.settle(*pids)
    job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]["write"]
    return {"iops": job["iops"], "mib_s": job["bw_bytes"] / MIB,
            "cpu_us": (cpu_seconds(*pids) - cpu) * 1e6 / max(1, job["total_ios"])}


def play(site, table):
    array = Array(site)
    array.start()
    array.pool("p", 2, 12 * 1024 * SPAN // (2 * GIB))
    qcow, door = site.file("fresh.qcow2"), site.file("qcow2.sock")
    for _ in range(measure.ROUNDS):
        for pattern, block, depth in CELLS:
            array.volume("v", f"{SPAN // MIB}MiB")
            run("qemu-img", "create", "-q", "-f", "qcow2", qcow, str(SPAN))
            qemu = site.start(["qemu-nbd", "-t", "-k", door, "--cache=none", "--aio=io_uring", "-f", "qcow2", qcow])
            wait_for(lambda: os.path.exists(door), 20, "qemu-nbd's socket")
            contestants = {"ashlar": (measure.nbd_target(array.uri("v")), (array.process.pid,)),
                           "qemu qcow2": (measure.nbd_target(f"nbd+unix:///?socket={door}"), (qemu.pid,))}
            for which in ("first write", "overwrite"):
                for name, (target, pids) in contestants.items():
                    table.add(PART, f"{block} {pattern} depth {depth}, {which}", name,
                              write_all(target, pattern, block, depth, pids))
            array.run("volume", "delete", "v", "--now", "--yes")
            site.stop(qemu)
            os.remove(qcow)
            if os.path.exists(door):
                os.remove(door)
    array.check()
    array.stop()
