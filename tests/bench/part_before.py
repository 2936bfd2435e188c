"""This program beside an earlier one of ours, in turn: what a change gained or lost, told apart from the machine.

Wants ASHLAR_BEFORE, the path of the earlier program; without it the part says so and does nothing."""
import os

import measure
import part_postgres
from array_of_run import GIB, MIB, Array

SPAN = GIB
BLOCKS = ("4k",) if measure.QUICK else ("4k", "8k", "64k")
PART = "NBD, now and before"
# Rounds on a machine that others use spread this much.
LEAST = 0.95


def serve(site, name, program=None):
    # An earlier program may not know the settings that the rig makes otherwise.
    array = Array(site, name, {"missing_drive_wait_seconds": None, "no_space_wait_seconds": None})
    array.binary = program or array.binary
    array.start()
    array.pool(name, 2, 6144)
    array.volume("v", f"{SPAN // MIB}MiB")
    return array


def play(site, table):
    before = os.environ.get("ASHLAR_BEFORE")
    if not before:
        print("  ASHLAR_BEFORE names no earlier program: nothing to compare with")
        return
    arrays = [("now", serve(site, "now")), ("before", serve(site, "before", os.path.abspath(before)))]
    cells = [(block, pattern, depth) for block in BLOCKS for pattern in ("randread", "randwrite") for depth in (1, 64)]
    for _ in range(measure.ROUNDS):
        for _, array in arrays:
            target = measure.nbd_target(array.uri("v"))
            measure.fill(target, SPAN)
            measure.read_once(target, SPAN)
        for block, pattern, depth in cells:
            for name, array in arrays:
                measure.drop_caches()
                values = measure.fio(measure.nbd_target(array.uri("v")), pattern, block, depth, SPAN, (array.process.pid,))
                table.add(PART, f"{block} {pattern} depth {depth}", name, values)
        # Whoever is second finds the disk as the first left it.
        arrays.reverse()
    for block, pattern, depth in cells:
        cell = f"{block} {pattern} depth {depth}"
        table.kept(f"NBD {cell}: the program before", LEAST, PART, cell, "now", ("before",))
    play_postgres(site, table, arrays)
    for name, array in arrays:
        array.check(name)
        array.stop()


def play_postgres(site, table, arrays):
    """pgbench on an attached volume of each; one database server runs at a time."""
    postgres = part_postgres.Postgres(site)
    postgres.make_seed()
    places = []
    for name, array in arrays:
        array.volume("pg", f"{part_postgres.IMAGE_GIB}GiB", "--profile", "oltp", "--pool", name)
        point = site.directory("pg-" + name)
        array.attach("pg", "--format", "ext4", "--mount", point)
        site.at_close(lambda array=array: array.try_run("detach", "pg"))
        places.append((name, array, postgres.copy_to(point)))
    for _ in range(measure.ROUNDS):
        for name, array, data in places:
            table.add(PART, "pgbench", name, postgres.measure(data, (array.process.pid,)))
        places.reverse()
    table.kept("pgbench: the program before", LEAST, PART, "pgbench", "now", ("before",), "tps")
    for _, array in arrays:
        array.run("detach", "pg")
