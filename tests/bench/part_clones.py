"""How soon a clone of a busy database answers, and what clones of one snapshot take of the pool, with and without a
checkpoint of the source first."""
import statistics
import time

import measure
from part_databases import AT_ONCE, SCALE, Load, copies, query, url, with_database

CLONES = 3 if measure.QUICK else 10
PART = f"Clones of a database under load, PostgreSQL under pgbench, scale {SCALE}"
BEHIND = " behind a checkpoint of their source"


def play(site, table):
    with_database(site, table, PART, measured)


def measured(site, table, array, address, rate, size):
    for options, how in ([], ""), (["--checkpoint"], BEHIND):
        load = Load(site, address, 3600, rate, "cloned")
        time.sleep(5)
        made = [one(array, f"c{number}", options) for number in range(CLONES)]
        if options:
            array.run("database", "snapshot", "prod", "base", "--checkpoint", seconds=300)
        load.stop()
        told(table, made, how)
    copies(table, array, PART, size, ["base"] * AT_ONCE, 1, BEHIND)


def one(array, name, options):
    """Seconds from the command to the first answer, and those of the clone's own start."""
    begin = time.monotonic()
    made = array.json("database", "clone", "prod", name, *options, seconds=300)
    query(url(array, name), "select count(*) from pgbench_branches")
    took = time.monotonic() - begin
    array.run("database", "delete", name, "--yes", seconds=300)
    time.sleep(2)
    return took, made["start_millis"] / 1e3


def told(table, made, how):
    took, own = zip(*made)
    values = {"median_s": statistics.median(took), "longest_s": max(took), "own_recovery_s": statistics.median(own)}
    table.add(PART, f"clones{how}, from the command to the first answer", "ashlar", values)
    shown = f"{values['median_s']:.2f} s ({min(took):.2f} to {max(took):.2f}), {values['own_recovery_s']:.2f} s of " \
            "it PostgreSQL's recovery"
    table.bound(f"clones{how}, to the first answer, median of {len(made)}", values["median_s"], 3.0, shown, "under 3 s")
