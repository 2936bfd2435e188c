"""Attached devices of this program beside an earlier one of ours, in turn.

Wants ASHLAR_BEFORE, the path of the earlier program; without it the part says so and does nothing."""
import os

import measure
import part_before

PART = "attached device, now and before"
CELLS = [(pattern, depth) for pattern in ("randread", "randwrite") for depth in (1, 32)]


def play(site, table):
    before = os.environ.get("ASHLAR_BEFORE")
    if not before:
        print("  ASHLAR_BEFORE names no earlier program: nothing to compare with")
        return
    arrays = [("now", part_before.serve(site, "now")),
              ("before", part_before.serve(site, "before", os.path.abspath(before)))]
    contestants = [(name, array, measure.file_target(array.attach("v"))) for name, array in arrays]
    for _, _, target in contestants:
        measure.fill(target, part_before.SPAN)
    for _ in range(measure.ROUNDS):
        for pattern, depth in CELLS:
            for name, array, target in contestants:
                measure.drop_caches()
                values = measure.fio(target, pattern, "4k", depth, part_before.SPAN, (array.process.pid,))
                table.add(PART, f"4k {pattern} depth {depth}", name, values)
        # Whoever is second finds the disk as the first left it.
        contestants.reverse()
    for pattern, depth in CELLS:
        cell = f"4k {pattern} depth {depth}"
        table.kept(f"attached {cell}: the program before", part_before.LEAST, PART, cell, "now", ("before",))
    for _, array in arrays:
        array.run("detach", "v")
        array.stop()
