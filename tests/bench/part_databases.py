"""Databases by name: what a snapshot costs commits, and what copies take of the pool."""
import glob
import os
import subprocess
import time
import urllib.parse

import measure
from array_of_run import GIB, Array
from site_of_run import run

SCALE = int(os.environ.get("DB_SCALE", "20" if measure.QUICK else "680"))
CLIENTS = 8
AT_ONCE = 4 if measure.QUICK else 20
DRIVE_MIB = 2048 if measure.QUICK else 14 * 1024
PART = f"Databases by name, PostgreSQL under pgbench, scale {SCALE}"
PROGRAMS = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[4]))


def program(name):
    return os.path.join(PROGRAMS[-1], name)


def url(array, database):
    return array.run("database", "url", database).strip()


def query(address, text):
    return run(program("psql"), "-qAt", "-c", text, address).stdout.strip()


def written(space):
    """Bytes of a pool that somebody refers to."""
    return space["data_bytes"] + space["metadata_bytes"]


class Load:
    """pgbench at a rate, with a line for each transaction: when it ended and how long it took."""

    def __init__(self, site, address, seconds, rate=None, name="load"):
        self.prefix = os.path.join(site.directory("pgbench"), name)
        command = [program("pgbench"), "-n", "-c", str(CLIENTS), "-j", "2", "-T", str(seconds), "-l",
                   "--log-prefix", self.prefix, *(["--rate", f"{rate:.1f}"] if rate else []), address]
        self.process = site.start(command, f"{name}.log")

    def stop(self):
        """Ends it early; what it logged is there."""
        self.process.send_signal(15)
        return self.wait()

    def wait(self):
        self.process.wait()
        lines = []
        for path in glob.glob(self.prefix + ".*"):
            with open(path, encoding="utf-8") as file:
                # client, number, microseconds (with what it was late), script, second, microsecond
                lines += [(int(f[4]) + int(f[5]) / 1e6, int(f[2]) / 1e3) for f in map(str.split, file) if len(f) > 5]
            os.remove(path)
        return sorted(lines)


def p99(milliseconds):
    ordered = sorted(milliseconds)
    return ordered[len(ordered) * 99 // 100] if ordered else float("nan")


def between(lines, begin, end):
    return [took for at, took in lines if begin <= at < end]


def play(site, table):
    with_database(site, table, PART, measured)


def measured(site, table, array, address, rate, size):
    snapshots(site, table, array, address, rate)
    copies(table, array, PART, size, [f"s{number}" for number in range(AT_ONCE)], AT_ONCE)


def with_database(site, table, part, work):
    """A pool with a loaded database in it, and how many transactions are half of what it can do."""
    array = Array(site, settings={"database_port_first": 21_000})
    array.start()
    array.pool("p", 2, DRIVE_MIB)
    try:
        array.run("database", "create", "prod", "--size", "32GiB", "--memory", "4GiB", seconds=300)
        address = url(array, "prod")
        run(program("pgbench"), "-i", "-q", "-s", str(SCALE), address)
        query(address, "checkpoint")
        size = int(query(address, "select pg_database_size(current_database())"))
        Load(site, address, 10, name="warm").wait()
        saturated = 15 if not measure.QUICK else 5
        rate = len(Load(site, address, saturated, name="most").wait()) / saturated / 2
        table.add(part, "the database", "ashlar", {"gib": size / GIB, "half_of_most_tps": rate})
        work(site, table, array, address, rate, size)
    finally:
        for one in array.json("database", "list"):
            array.try_run("database", "delete", one["name"], "--yes", seconds=300)
    array.check("p")
    array.stop()


def snapshots(site, table, array, address, rate):
    """p99 of the commits that end in the second of a snapshot, against those of the seconds before it."""
    load, moments = Load(site, address, 3600, rate, "snapshots"), []
    time.sleep(8)
    for number in range(AT_ONCE):
        moments.append(time.time())
        array.run("database", "snapshot", "prod", f"s{number}")
        time.sleep(4)
    lines = load.stop()
    during = p99([ms for at in moments for ms in between(lines, at, at + 1)])
    before = p99([ms for at in moments for ms in between(lines, at - 3, at)])
    table.add(PART, f"p99 of commits around {AT_ONCE} snapshots (ms)", "ashlar", {"during_ms": during, "before_ms": before})
    table.bound("p99 of commits in the second of a snapshot, against before", during / before, 2.0,
                f"{during / before:.2f}x ({during:.1f} ms, {before:.1f} before)", "at most 2x")


def copies(table, array, part, size, snapshots, checked, how=""):
    """A clone of each of the snapshots, all at once: what they take, and whether so many of them are whole."""
    def used():
        return written(array.json("pool", "show", "p")["space"])
    before, begin = used(), time.monotonic()
    names = [f"w{number}" for number in range(len(snapshots))]
    for name, snapshot in zip(names, snapshots):
        array.run("database", "clone", "prod", name, "--at", snapshot, "--memory", "256MiB", seconds=300)
    took = time.monotonic() - begin
    time.sleep(20)
    share = max(0, used() - before) / size
    broken = []
    # Frozen pages are those of the first load, which are the same in all.
    for name in names[:checked]:
        at = urllib.parse.urlsplit(url(array, name))
        done = subprocess.run([program("pg_amcheck"), "--install-missing", "--skip", "all-frozen", "-j", "2",
                                  "-h", at.hostname, "-p", str(at.port), "-U", at.username, "postgres"],
                                 env={**os.environ, "PGPASSWORD": at.password}, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            broken.append(f"{name}: {done.stdout[:200]}{done.stderr[:200]}")
    for name in names:
        array.run("database", "delete", name, "--yes", seconds=300)
    if broken:
        raise RuntimeError(f"pg_amcheck: {broken}")
    table.add(part, f"{len(names)} clones{how} at once", "ashlar", {"all_s": took, "space_percent": share * 100})
    table.bound(f"space of {len(names)} idle clones{how}, of which {checked} passed pg_amcheck", share, 0.01,
                f"{share:.2%} of the database", "under 1 %")
