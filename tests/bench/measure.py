"""One measured cell: fio against a target, with the CPU its server used; and how cells are compared."""
import json
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "rig"))
from array_of_run import cpu_seconds
from site_of_run import run

QUICK = os.environ.get("QUICK") == "1"
ROUNDS = int(os.environ.get("ROUNDS", "3"))
SECONDS = float(os.environ.get("SECONDS_PER_CELL", "2" if QUICK else "4"))
PATIENCE = 15


def settle(*pids):
    """Waits until the servers have done what the last cell left them to do, so that it is charged to
    that cell and not to the next contestant's."""
    end = time.monotonic() + PATIENCE
    before = cpu_seconds(*pids)
    while time.monotonic() < end:
        time.sleep(0.25)
        now = cpu_seconds(*pids)
        if now - before < 0.02:
            return
        before = now


def fio(target, pattern, block, depth, span_bytes, pids=(), seconds=None, options=()):
    """Runs one cell. Returns operations per second, latencies in microseconds, server CPU per operation."""
    settle(*pids)
    cpu = cpu_seconds(*pids)
    done = run("fio", "--name=cell", "--thread", "--group_reporting", "--output-format=json", "--time_based",
               f"--runtime={seconds or SECONDS}", "--norandommap", "--randrepeat=0", "--refill_buffers=1",
               "--lat_percentiles=1", "--clat_percentiles=0", f"--rw={pattern}", f"--bs={block}", f"--iodepth={depth}",
               f"--size={span_bytes}", *options, *target)
    settle(*pids)
    cpu = cpu_seconds(*pids) - cpu
    job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
    side = job["read"] if "read" in pattern else job["write"]
    return {"iops": side["iops"], "mean_us": side["lat_ns"]["mean"] / 1e3,
            "p99_us": side["lat_ns"]["percentile"]["99.000000"] / 1e3,
            "cpu_us": cpu * 1e6 / max(1, side["total_ios"]), "mib_s": side["bw_bytes"] / (1 << 20)}


def fill(target, span_bytes, block="1m", depth=8):
    """Writes the whole span once with bytes that do not compress."""
    run("fio", "--name=fill", "--thread", "--rw=write", f"--bs={block}", f"--iodepth={depth}", "--refill_buffers=1",
        f"--size={span_bytes}", "--end_fsync=1", *target)


def read_once(target, span_bytes):
    """The first read of a file is ten times slower than the second on a virtual disk."""
    run("fio", "--name=warm", "--thread", "--rw=read", "--bs=1m", "--iodepth=4", f"--size={span_bytes}", *target)


def drop_caches():
    """The kernel's page cache forgets every file, so that all contestants read from the disk."""
    run("sync")
    with open("/proc/sys/vm/drop_caches", "w", encoding="utf-8") as f:
        f.write("3")


def nbd_target(uri):
    return ["--ioengine=nbd", f"--uri={uri}"]


def file_target(path):
    return ["--ioengine=io_uring", "--direct=1", f"--filename={path}"]


class Table:
    """Cells of several rounds. Ratios are taken within a round, so that what the machine does in the
    meantime cancels out, and reported as median with the lowest and highest."""

    def __init__(self, out_directory):
        self.cells, self.goals, self.out = {}, [], out_directory
        self.log = open(os.path.join(out_directory, "cells.jsonl"), "a", encoding="utf-8")

    def add(self, part, cell, contestant, values):
        self.cells.setdefault((part, cell), {}).setdefault(contestant, []).append(values)
        self.log.write(json.dumps({"part": part, "cell": cell, "contestant": contestant, **values}) + "\n")
        self.log.flush()
        shown = " ".join(f"{key} {value:,.1f}" if value < 100 else f"{key} {value:,.0f}" for key, value in values.items())
        print(f"  {part} {cell} {contestant}: {shown}", flush=True)

    def median(self, part, cell, contestant, key):
        return statistics.median(v[key] for v in self.cells[part, cell][contestant])

    def ratios(self, part, cell, ours, peers, key="iops"):
        """Ours over the better of the peers, for each round."""
        there = self.cells.get((part, cell), {})
        peers = [peer for peer in peers if peer in there]
        if ours not in there or not peers:
            return []
        rounds = min(len(there[name]) for name in (ours, *peers))
        return [there[ours][r][key] / max(1e-9, *(there[peer][r][key] for peer in peers)) for r in range(rounds)]

    def goal(self, text, least, part, cell, ours, peers, key="iops"):
        ratios = self.ratios(part, cell, ours, peers, key)
        if ratios:
            middle = statistics.median(ratios)
            self.goals.append((text, f"{middle:.2f}x ({min(ratios):.2f} to {max(ratios):.2f})", f"{least}x", middle >= least))

    def kept(self, text, least, part, cell, ours, peers, key="iops"):
        """A goal that nothing got slower: the rounds do not all lie below."""
        ratios = self.ratios(part, cell, ours, peers, key)
        if ratios:
            shown = f"{statistics.median(ratios):.2f}x ({min(ratios):.2f} to {max(ratios):.2f})"
            self.goals.append((text, shown, f"reaches {least}x", max(ratios) >= least))

    def bound(self, text, value, limit, shown, shown_limit):
        """A goal that is a limit: the value must not be above it."""
        self.goals.append((text, shown, shown_limit, value <= limit))

    def print(self):
        lines = []
        for part in dict.fromkeys(part for part, _ in self.cells):
            lines += self.part_lines(part)
        if self.goals:
            lines += ["", "## Goals", "", "| goal | measured | wanted | |", "|---|---|---|---|"]
            lines += [f"| {text} | {measured} | {wanted} | {'met' if met else 'NOT MET'} |"
                      for text, measured, wanted, met in self.goals]
        text = "\n".join(lines)
        with open(os.path.join(self.out, "table.md"), "w", encoding="utf-8") as f:
            f.write(text + "\n")
        print(text)

    def part_lines(self, part):
        cells = {cell: by for (p, cell), by in self.cells.items() if p == part}
        columns = list(dict.fromkeys(name for by in cells.values() for name in by))
        lines = ["", f"## {part}", "", "| | " + " | ".join(columns) + " |", "|---|" + "---|" * len(columns)]
        for cell, by in cells.items():
            row = []
            for name in columns:
                row.append(self.shown(by[name], by.get(columns[0])) if name in by else "")
            lines.append(f"| {cell} | " + " | ".join(row) + " |")
        return lines

    @staticmethod
    def shown(values, ours):
        is_rate = values[0].keys() & {"iops", "tps", "p99_us"}
        if "added_ms" in values[0] or len(values) == 1 and not is_rate:
            return ", ".join(f"{name.removesuffix('_ms')} {value:.1f}" for name, value in values[0].items())
        key = "iops" if "iops" in values[0] else "tps" if "tps" in values[0] else next(iter(values[0]))
        numbers = [v[key] for v in values]
        middle = statistics.median(numbers)
        spread = (max(numbers) - min(numbers)) / 2 / middle * 100 if middle else 0
        text = f"{middle:,.0f} ±{spread:.0f} %"
        if "p99_us" in values[0] and key != "p99_us":
            text += f" · p99 {statistics.median(v['p99_us'] for v in values):,.0f} µs"
        if "cpu_us" in values[0]:
            text += f" · {statistics.median(v['cpu_us'] for v in values):.1f} µs CPU"
        if ours is not None and ours is not values and key != "p99_us":
            pairs = [o[key] / max(1e-9, v[key]) for o, v in zip(ours, values)]
            text += f" · ours {statistics.median(pairs):.2f}x"
        return text
