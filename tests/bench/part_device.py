"""The attached device: against the same FUSE and loop path over memory and over the raw file with nothing behind
it, and against the raw file itself."""
import os

import measure
from array_of_run import GIB, MIB, Array
from site_of_run import quietly, run, wait_for

CACHE = "64MiB"  # read cache of the array, so that the large span is uncached indeed
SMALL = 32 * MIB  # inside it
LARGE = (1 if measure.QUICK else 2) * GIB  # far larger than it
SWITCH = "/sys/module/fuse/parameters/enable_uring"
CELLS = (("randread", 32), ("randwrite", 32), ("randread", 1), ("randwrite", 1))


def switch_on(site):
    """FUSE over io_uring for ceiling and ours alike; put back as it was."""
    with open(SWITCH, encoding="utf-8") as f:
        before = f.read().strip()

    def write(value):
        with open(SWITCH, "w", encoding="utf-8") as f:
            f.write(value)

    if before != "Y":
        write("Y")
        site.at_close(lambda: write(before))


def build_ceiling(site):
    program = site.file("fuse_ceiling")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fuse_ceiling.c")
    run("cc", "-O2", "-o", program, source, "-luring", "-lpthread")
    return program


def ceiling(site, program, span, name, *drive):
    """A loop device upon the least server there can be: memory, or reads of the file `drive`."""
    door = site.file(name + ".disk")
    open(door, "wb").close()
    process = site.start([program, door, str(span // MIB), *drive], f"ceiling-{name}.log")
    wait_for(lambda: os.stat(door).st_size == span or process.poll() is not None, 20, f"the ceiling over {name}")
    if process.poll() is not None:
        with open(site.file(f"ceiling-{name}.log"), encoding="utf-8") as f:
            raise RuntimeError(f.read())
    device = run("losetup", "-f", "--show", "--direct-io=on", door).stdout.strip()
    site.at_close(lambda: quietly("umount", door))
    site.at_close(lambda: quietly("losetup", "-d", device))
    return device, (process.pid,)


def play(site, table):
    switch_on(site)
    program = build_ceiling(site)
    memory, memory_pids = ceiling(site, program, LARGE, "memory")
    array = Array(site, settings={"cache_bytes": CACHE})
    array.start()
    doors = {door["name"]: door["transport"] for door in array.json("status")["doors"]}
    array.pool("p", 2, 12 * 1024 * LARGE // (2 * GIB))
    array.volume("v", f"{LARGE // MIB}MiB")
    device = array.attach("v")
    print(f"  attached through {doors.get('fuse', '?')}: {device}")
    raw = site.file("raw.img")
    measure.fill(measure.file_target(raw), LARGE)
    measure.read_once(measure.file_target(raw), LARGE)
    measure.fill(measure.file_target(memory), LARGE)
    contestants = {"ashlar": (device, (array.process.pid,)), "memory ceiling": (memory, memory_pids), "raw file": (raw, ())}
    readers = {**contestants, "raw file through the door": ceiling(site, program, LARGE, "raw", raw)}
    for _ in range(measure.ROUNDS):
        for span, kind in ((SMALL, "cached"), (LARGE, "uncached")):
            measure.fill(measure.file_target(device), LARGE)
            measure.read_once(measure.file_target(device), LARGE)
            for pattern, depth in CELLS:
                is_read = pattern == "randread"
                for name, (path, pids) in (readers if is_read else contestants).items():
                    if is_read:
                        measure.read_once(measure.file_target(path), min(span, 64 * MIB))
                    values = measure.fio(measure.file_target(path), pattern, "4k", depth, span, pids)
                    table.add("Attached device", f"4k {pattern} depth {depth} {kind}", name, values)
    table.goal("attached, 4k randread depth 32, cached: memory ceiling", 0.6, "Attached device",
               "4k randread depth 32 cached", "ashlar", ("memory ceiling",))
    table.goal("attached, 4k randread depth 32, uncached: raw file O_DIRECT", 0.8, "Attached device",
               "4k randread depth 32 uncached", "ashlar", ("raw file",))
    table.goal("attached, the same: the raw file through FUSE and loop device, nothing else", 0.8, "Attached device",
               "4k randread depth 32 uncached", "ashlar", ("raw file through the door",))
    array.run("detach", "v")
    array.check()
    array.stop()
