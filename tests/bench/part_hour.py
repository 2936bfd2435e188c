"""An hour of one-second snapshots of a database under load, played faster: what they cost commits, metadata and space;
clones of any of them; their deletes."""
import os
import random
import statistics
import subprocess
import threading
import time

import measure
from part_databases import SCALE, Load, between, p99, program, query, url, with_database, written

SECONDS_OF_HOUR = int(os.environ.get("DB_SNAPSHOTS", "60" if measure.QUICK else "3600"))
# An hour of one-second snapshots is played so much faster.
PER_SECOND = 8
CHECKED = 5 if measure.QUICK else int(os.environ.get("DB_CHECKED", "100"))
PART = f"An hour of one-second snapshots, PostgreSQL under pgbench, scale {SCALE}"


def play(site, table):
    with_database(site, table, PART, measured)


class Ledger:
    """Commits a number every twentieth of a second, and keeps when each was begun and acknowledged."""

    def __init__(self, address):
        self.process = subprocess.Popen([program("psql"), "-qAt", address], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)
        self.begun, self.done, self.is_over = [], [], False
        self.ask("create table ledger (n bigint primary key, at timestamptz default clock_timestamp()); select 0")
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def ask(self, text):
        self.process.stdin.write(text + ";\n")
        return self.process.stdout.readline()

    def work(self):
        while not self.is_over:
            self.begun.append(time.time())
            self.ask(f"insert into ledger values ({len(self.begun)}) returning n")
            self.done.append(time.time())
            time.sleep(0.05)

    def stop(self):
        self.is_over = True
        self.thread.join()
        self.process.stdin.close()
        self.process.wait()

    def permitted(self, begin, end):
        """The last number in a copy that was taken between two moments."""
        return sum(at < begin for at in self.done), sum(at < end for at in self.begun)


def measured(site, table, array, address, rate, _size):
    """As many snapshots as an hour has seconds, faster; each of some is cloned and held against the ledger."""
    seconds = SECONDS_OF_HOUR / PER_SECOND
    ledger = Ledger(address)
    without = [ms for _, ms in Load(site, address, int(min(60, seconds)), rate, "without").wait()]
    pool = array.json("pool", "show", "p")["space"]
    load, taken, begin = Load(site, address, 36_000, rate, "hour"), [], time.time()
    for number in range(SECONDS_OF_HOUR):
        time.sleep(max(0.0, begin + number / PER_SECOND - time.time()))
        before = time.time()
        array.api("POST", "/v1/database-snapshots", {"name": f"h{number}", "databases": ["prod"]})
        taken.append((before, time.time()))
    lasted = time.time() - begin
    after = array.json("pool", "show", "p")["space"]
    lines = load.stop()
    ledger.stop()
    during = between(lines, begin + 5, begin + lasted)
    ratio = p99(during) / p99(without)
    grown = {"written_mb": (written(after) - written(pool)) / 1e6,
             "metadata_mb": (after["metadata_bytes"] - pool["metadata_bytes"]) / 1e6}
    table.add(PART, f"{SECONDS_OF_HOUR} snapshots in {lasted:.0f} s (ms, MB)", "ashlar",
              {"with_ms": p99(during), "without_ms": p99(without),
               "call_ms": statistics.median(end - begin for begin, end in taken) * 1e3, **grown})
    table.bound(f"p99 of commits while {SECONDS_OF_HOUR} snapshots are taken, {SECONDS_OF_HOUR / lasted:.1f} a second",
                ratio, 1.5, f"{ratio:.2f}x ({p99(during):.1f} ms, {p99(without):.1f} without)", "at most 1.5x")
    for number in random.Random(1).sample(range(SECONDS_OF_HOUR), CHECKED):
        array.run("database", "clone", "prod", "then", "--at", f"h{number}", seconds=300)
        last = int(query(url(array, "then"), "select coalesce(max(n), 0) from ledger"))
        least, most = ledger.permitted(*taken[number])
        if not least <= last <= most:
            raise RuntimeError(f"h{number}: the clone ends with commit {last}, permitted are {least} to {most}")
        array.run("database", "delete", "then", "--yes", seconds=300)
    longest = 0.0
    for number in range(SECONDS_OF_HOUR):
        begin = time.time()
        array.api("DELETE", f"/v1/snapshots/h{number}")
        longest = max(longest, time.time() - begin)
    table.add(PART, "delete of each of them, the longest (ms)", "ashlar", {"ms": longest * 1e3})
    table.bound(f"{CHECKED} of them cloned, each holds what was acknowledged before it; delete of any", longest, 0.1,
                f"{longest * 1e3:.1f} ms", "under 100 ms")
