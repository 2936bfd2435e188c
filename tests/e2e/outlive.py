#!/usr/bin/env python3
"""Ends and starts the array again under what uses its attached volumes, and proves that nobody but the clock
notices.

usage: outlive.py [--load postgres|fio] [--fs ext4|xfs] [--times N] [--how kill,term,upgrade,keeper]
                  [--other PROGRAM] [--seed S] [--report FILE]

`postgres`: a server with page checksums on a mounted volume under pgbench and a client that counts what was
acknowledged to it. `fio`: the device itself, 4 to 256 KiB at depth 32 with fsync, each block verified, beside
discards. At random moments the array is killed, stopped in order, goes on as another program, or loses its
keeper. At the end: no error at the client, in the server's or the kernel's log, the same server process, the
ledger complete, relations and checksums clean, the file system clean. `--other` names a second program; starts
and upgrades then take turns between the two.
"""
import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "rig"))
from array_of_run import MIB, Array, binary
from site_of_run import Site, run, wait_for

# Moments between two ends of the array.
PAUSE_SECONDS = (0.2, 1.5)
SCALE = 10
KERNEL_TROUBLE = re.compile(r"I/O error|EXT4-fs error|XFS .*(error|corrupt|shutdown)|Buffer I/O|lost .*write", re.I)
REPAIR = {"ext4": ("e2fsck", "-fn"), "xfs": ("xfs_repair", "-n")}


class Wrong(Exception):
    """Somebody noticed."""


def must(condition, what):
    if not condition:
        raise Wrong(what)


def kernel_lines():
    done = subprocess.run(["dmesg"], capture_output=True, text=True, errors="replace")
    return done.stdout.splitlines() if done.returncode == 0 else []


class Postgres:
    """A server on a mounted volume, pgbench, and a client with a ledger of its own."""

    def __init__(self, site, array, kind):
        self.site, self.kind = site, kind
        self.point = site.directory("pg")
        array.volume("pg", "4GiB", "--profile", "oltp")
        array.attach("pg", "--format", kind, "--mount", self.point)
        self.bin = sorted(d for d in glob_postgres())[-1]
        self.data, self.socket = self.point + "/data", site.directory("socket", 0o777)
        os.makedirs(self.data, mode=0o700)
        shutil.chown(self.data, "postgres", "postgres")
        self.log = site.file("socket/server.log")
        self.tool("initdb", "-D", self.data, "-k", "-A", "trust", "-U", "postgres")
        with open(self.data + "/postgresql.conf", "a", encoding="utf-8") as f:
            f.write(f"listen_addresses=''\nunix_socket_directories='{self.socket}'\nshared_buffers=64MB\n"
                    "max_wal_size=256MB\ncheckpoint_timeout=30s\ndynamic_shared_memory_type=mmap\n")
        self.tool("pg_ctl", "-D", self.data, "-l", self.log, "-w", "start")
        site.at_close(lambda: self.tool("pg_ctl", "-D", self.data, "-m", "immediate", "stop", check=False))
        self.client("pgbench", "-i", "-q", "-s", str(SCALE), "postgres")
        self.query("create table ledger (n bigint primary key)")
        self.postmaster = self.pid()
        self.acknowledged, self.trouble, self.is_over = 0, None, False

    def tool(self, program, *arguments, check=True):
        return plain("runuser", "-u", "postgres", "--", f"{self.bin}/{program}", *arguments, check=check)

    def client(self, program, *arguments):
        return run(f"{self.bin}/{program}", "-h", self.socket, "-U", "postgres", *arguments, seconds=3600)

    def query(self, text):
        return self.client("psql", "-qAt", "-c", text, "postgres").stdout.strip()

    def pid(self):
        with open(self.data + "/postmaster.pid", encoding="utf-8") as f:
            return int(f.readline())

    def begin(self):
        log = open(self.site.file("pgbench.log"), "w", encoding="utf-8")
        self.bench = subprocess.Popen(
            [f"{self.bin}/pgbench", "-h", self.socket, "-U", "postgres", "-n", "-c", "8", "-j", "2", "-T", "86400",
             "-P", "1", "postgres"], stdout=log, stderr=subprocess.STDOUT)
        self.site.processes.append(self.bench)
        self.thread = threading.Thread(target=self.count)
        self.thread.start()

    def count(self):
        """Inserts numbers over one connection; what psql echoes is acknowledged."""
        client = subprocess.Popen([f"{self.bin}/psql", "-h", self.socket, "-U", "postgres", "-qAt", "postgres"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            while not self.is_over:
                number = self.acknowledged + 1
                client.stdin.write(f"insert into ledger values ({number}) returning n;\n")
                client.stdin.flush()
                answer = client.stdout.readline().strip()
                if answer != str(number):
                    self.trouble = f"insert {number} was answered with {answer!r}"
                    return
                self.acknowledged = number
        finally:
            client.stdin.close()
            client.wait(60)

    def look(self):
        must(self.trouble is None, self.trouble)
        must(self.bench.poll() is None, "pgbench ended: " + self.words())
        must(self.pid() == self.postmaster, "the server was started anew")

    def words(self):
        with open(self.site.file("pgbench.log"), encoding="utf-8") as f:
            return f.read()[-600:]

    def end(self, array):
        self.look()
        # Before pgbench is ended: what the server says of its end is not meant.
        with open(self.log, encoding="utf-8", errors="replace") as f:
            bad = [line for line in f if re.search(r"\b(ERROR|FATAL|PANIC)\b", line)]
        must(not bad, f"the server's log: {bad[:3]}")
        self.is_over = True
        self.thread.join(120)
        self.bench.terminate()
        self.bench.wait(60)
        self.site.processes.remove(self.bench)
        said = self.words()
        must("error" not in said.lower() and "aborted" not in said.lower(), said)
        counted = int(self.query("select count(*) from ledger"))
        must(counted >= self.acknowledged, f"{self.acknowledged} inserts were acknowledged, {counted} are there")
        sums = self.query("select (select sum(abalance) from pgbench_accounts), (select sum(bbalance) from "
                          "pgbench_branches), (select sum(delta) from pgbench_history)").split("|")
        must(len(set(sums)) == 1, f"balances differ: {sums}")
        self.client("pg_amcheck", "--install-missing", "--heapallindexed", "postgres")
        transactions = self.query("select count(*) from pgbench_history")
        self.tool("pg_ctl", "-D", self.data, "-m", "fast", "-w", "stop")
        self.tool("pg_checksums", "--check", "-D", self.data)
        array.run("detach", "pg")
        run(*REPAIR[self.kind], array.attach("pg"))
        array.run("detach", "pg")
        return {"acknowledged": self.acknowledged, "transactions": int(transactions)}


class Fio:
    """The bare device: verified writes of all sizes, and discards beside them."""

    def __init__(self, site, array, _kind):
        self.site = site
        array.volume("raw", "2GiB", "--logical-block", "4096")
        self.device = array.attach("raw")

    def begin(self):
        common = ["fio", "--direct=1", "--ioengine=io_uring", f"--filename={self.device}", "--verify_fatal=1",
                  "--output-format=json", "--thread", "--refill_buffers=1"]
        verified = ["--name=verified", "--rw=randwrite", "--bsrange=4k-256k", "--iodepth=32", "--size=512m",
                    "--fsync=64", "--verify=crc32c", "--verify_backlog=1024", "--time_based", "--runtime=86400"]
        discards = ["--name=discards", "--rw=randtrimwrite", "--bs=64k", "--iodepth=8", "--offset=1g", "--size=512m",
                    "--time_based", "--runtime=86400", "--verify=0"]
        self.jobs = []
        for number, job in enumerate((verified, discards)):
            out = open(self.site.file(f"fio-{number}.json"), "w", encoding="utf-8")
            process = subprocess.Popen([*common, *job], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
            self.site.processes.append(process)
            self.jobs.append(process)

    def look(self):
        for number, job in enumerate(self.jobs):
            must(job.poll() is None, f"fio ended: {self.words(number)[-600:]}")

    def words(self, number):
        with open(self.site.file(f"fio-{number}.json"), encoding="utf-8") as f:
            return f.read()

    def end(self, array):
        self.look()
        done = {}
        for number, job in enumerate(self.jobs):
            job.send_signal(2)
            job.wait(180)
            self.site.processes.remove(job)
            text = self.words(number)
            report = json.loads(text[text.index("{"):])["jobs"][0]
            must(report["error"] == 0, f"fio: {report['error']}: {text[:300]}")
            done[report["jobname"]] = sum(report[kind]["total_ios"] for kind in ("read", "write", "trim"))
        array.run("detach", "raw")
        return done


def plain(*command, check=True):
    """As `run`, for programs that leave children with their output open."""
    with open(os.devnull, "r+b") as nowhere:
        done = subprocess.run(command, stdin=nowhere, stdout=nowhere, stderr=subprocess.DEVNULL, cwd="/")
    if check and done.returncode != 0:
        raise RuntimeError(f"`{' '.join(command)}` ended with {done.returncode}")
    return done


def glob_postgres():
    base = "/usr/lib/postgresql"
    return [f"{base}/{major}/bin" for major in os.listdir(base)] if os.path.isdir(base) else []


def end_once(array, how, programs, draw):
    """Ends the array in one way and has the next one there. Returns the pause in milliseconds."""
    if how == "keeper":
        # The array itself goes on: nothing is handed over.
        subprocess.run(["pkill", "--signal", "KILL", "--full", f"keep --state {array.state}"])
        wait_for(lambda: subprocess.run(["pgrep", "--full", f"keep --state {array.state}"],
                                        stdout=subprocess.DEVNULL).returncode == 0, 30, "another keeper")
        return None
    program = draw.choice(programs)
    if how == "upgrade":
        return json.loads(array.run("upgrade", program, "--json"))["pause_millis"]
    if how == "kill":
        array.kill()
    else:
        array.process.terminate()
        must(array.process.wait(60) == 0, "an orderly stop failed: " + array.last_words())
        array.site.processes.remove(array.process)
    array.binary = program
    array.start()
    return array.json("status")["handover_pause_millis"]


def outlive(site, load, kind, times, ways, programs, seed):
    """Returns what was seen; raises where somebody noticed."""
    draw, lines = random.Random(seed), len(kernel_lines())
    array = Array(site, settings={"attach_wait_seconds": 60})
    array.start()
    array.pool(drives=4, drive_mib=2048)
    user = (Postgres if load == "postgres" else Fio)(site, array, kind)
    user.begin()
    pauses, counts = [], {}
    for number in range(times):
        time.sleep(draw.uniform(*PAUSE_SECONDS))
        user.look()
        how = draw.choice(ways)
        counts[how] = counts.get(how, 0) + 1
        pause = end_once(array, how, programs, draw)
        if pause is not None:
            pauses.append(pause)
        if (number + 1) % 10 == 0:
            print(f"outlive: {load}: {number + 1} of {times}", flush=True)
    time.sleep(2)
    done = user.end(array)
    trouble = [line for line in kernel_lines()[lines:] if KERNEL_TROUBLE.search(line)]
    must(not trouble, f"the kernel's log: {trouble[:5]}")
    array.check()
    array.stop()
    seen = {"load": load, "file_system": kind if load == "postgres" else None, "ends": counts, **done}
    if pauses:
        seen |= {"pause_millis_median": statistics.median(pauses), "pause_millis_max": max(pauses)}
    return seen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--load", choices=("postgres", "fio"), default="postgres")
    parser.add_argument("--fs", choices=("ext4", "xfs"), default="ext4")
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--how", default="kill")
    parser.add_argument("--other")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--report")
    options = parser.parse_args()
    programs = [binary()] + ([os.path.abspath(options.other)] if options.other else [])
    with Site("ashlar-outlive-") as site:
        seen = outlive(site, options.load, options.fs, options.times, options.how.split(","), programs,
                       options.seed)
    print("outlive:", json.dumps(seen))
    if options.report:
        with open(options.report, "w", encoding="utf-8") as f:
            json.dump(seen, f, indent=1)


if __name__ == "__main__":
    sys.exit(main())
