"""A pool that is overwritten for long must neither fill nor forget, whoever keeps old blocks alive."""
import json

from array_of_run import MIB
from cases import case, must, serving
from site_of_run import run

SPAN = 180 * MIB


def overwrite(site, target, mib, name):
    """Random overwrites; fio keeps what it wrote and reads it back at the end."""
    run("fio", f"--name={name}", "--thread", "--rw=randwrite", "--bsrange=4k-16k", "--iodepth=16", f"--size={SPAN}",
        f"--io_size={mib}m", "--randrepeat=0", "--refill_buffers=1", "--verify=crc32c",
        "--do_verify=1", "--verify_fatal=1", *target)


@case
def random_overwrites_do_not_fill_a_pool(site):
    """Three times the pool's size is overwritten at random in a pool with 70 % alive, beside a snapshot, over a restart."""
    array = serving(site, drives=1, drive_mib=280)
    array.volume("v", f"{SPAN // MIB}MiB")
    target = ["--ioengine=nbd", f"--uri={array.uri('v')}"]
    run("fio", "--name=fill", "--thread", "--rw=write", "--bs=1m", "--iodepth=4", f"--size={SPAN}", "--refill_buffers=1", *target)
    overwrite(site, target, 350, "a")
    array.run("snapshot", "create", "s", "v")
    image = digest(site, array, "v@s")
    overwrite(site, target, 30, "b")
    must(digest(site, array, "v@s") == image, "the snapshot changed while its volume was overwritten and the pool cleaned")
    array.run("snapshot", "delete", "s", "--yes")
    overwrite(site, target, 300, "c")
    counters = array.json("pool", "show", "p")["counters"]
    must(counters["segments_emptied"] > 50, f"the cleaner moved next to nothing: {json.dumps(counters)}")
    before = digest(site, array, "v")
    array.stop()
    array.start()
    must(digest(site, array, "v") == before, "the volume changed over a restart")
    overwrite(site, ["--ioengine=nbd", f"--uri={array.uri('v')}"], 300, "d")
    array.check()
    array.stop()


def digest(site, array, name):
    path = site.file("copy")
    run("nbdcopy", array.uri(name), path)
    return run("sha256sum", path).stdout.split()[0]
