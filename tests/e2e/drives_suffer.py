#!/usr/bin/env python3
"""Harms the drives of a pool in every way a machine can, under load, and proves that nothing is lost.

usage: drives_suffer.py [--minutes M] [--seed S] [--drives N] [--drive-mib N] [--report FILE]

A pool with dual parity serves fio, which writes and verifies over NBD, and a second volume whose
content is known. Round after round one or two drives are harmed, never more at once: rubbish is
written into a drive's file, it is cut to nothing, it is deleted and the array started again, or the
drive gets stuck: one of the drives is a file served by nbdkit through FUSE, and nbdkit is stopped for
some seconds. Then everything is repaired: what is out is replaced, a scrub sets right what is wrong,
and a second scrub must find nothing. At the end fio verifies what it wrote, the known content is
compared byte by byte, and every harm that the array could see must be in its events.
"""
import argparse
import os
import random
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "rig"))
from array_of_run import MIB, Array, Refused
from site_of_run import Site, run, wait_for

SPAN_MIB, KNOWN_MIB = 96, 64
FIO = ("--bs=8k", f"--size={SPAN_MIB}m", "--iodepth=16", "--verify=crc32c", "--verify_fatal=1",
       "--verify_state_save=0", "--thread", "--refill_buffers=1")
# Drives that the pool may lose, so that many are harmed between two repairs.
HARMED_MAX = 2
STUCK_SECONDS = (1.0, 5.0)
FIO_SECONDS = 180


class Wrong(Exception):
    """The array broke its promise."""


class SlowDrive:
    """A drive's file behind nbdkit and FUSE: who stops nbdkit has a drive that does not answer."""

    def __init__(self, site, drive_mib):
        self.backing, self.path = site.file("slow.backing"), site.file("slow.img")
        for path, size in ((self.backing, drive_mib * MIB), (self.path, 0)):
            with open(path, "wb") as f:
                f.truncate(size)
        socket = site.file("slow.sock")
        self.server = site.start(["nbdkit", "--foreground", "--unix", socket, "file", self.backing], "nbdkit.log")
        wait_for(lambda: os.path.exists(socket), 20, "nbdkit's start")
        self.door = site.start(["nbdfuse", self.path, "--unix", socket], "nbdfuse.log")
        wait_for(lambda: os.path.getsize(self.path) > 0, 20, "nbdfuse's mount")
        # A stopped server would keep whoever waits for it, also the one who cleans up.
        site.at_close(self.go_on)

    def stick(self):
        os.kill(self.server.pid, signal.SIGSTOP)

    def go_on(self):
        if self.server.poll() is None:
            os.kill(self.server.pid, signal.SIGCONT)


class Load:
    """fio that writes a volume and verifies it, round after round, in a process that can be asked."""

    def __init__(self, array, first_round):
        self.array, self.round, self.process = array, first_round, None
        self.rounds = 0
        self.begin()

    def begin(self):
        command = ["fio", "--name=load", "--ioengine=nbd", f"--uri={self.array.uri('v')}", "--rw=randwrite", "--do_verify=1",
                   f"--randseed={self.round}", *FIO]
        self.process = self.array.site.start(command, "fio.log")

    def look(self):
        """Begins the next round when one is over."""
        if self.process and self.process.poll() is not None:
            self.close_round()
            self.round += 1
            self.begin()

    def sleep(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.look()
            time.sleep(0.05)

    def end(self):
        """Lets the round come to its end: what it wrote is verified. Returns its number."""
        try:
            self.process.wait(FIO_SECONDS)
        except subprocess.TimeoutExpired:
            raise Wrong(f"fio hangs in round {self.round}") from None
        self.close_round()
        return self.round

    def close_round(self):
        status = self.process.returncode
        self.array.site.processes.remove(self.process)
        self.process = None
        if status != 0:
            with open(self.array.site.file("fio.log"), errors="replace", encoding="utf-8") as f:
                raise Wrong(f"fio in round {self.round} ended with {status}: {f.read()[-600:]}")
        self.rounds += 1


class Suffering:
    def __init__(self, site, options):
        self.site, self.options, self.random = site, options, random.Random(options.seed)
        self.array = Array(site)
        self.counts = dict.fromkeys(("rubbish", "cut", "deleted", "stuck", "replaced", "set right", "mended"), 0)
        self.spares = self.fio_rounds = self.rounds = 0
        self.fio_seed = 1
        self.expected = []    # words that the events must contain, all in one line
        self.events = []      # of arrays that were stopped meanwhile
        self.stall_seconds = []

    def prepare(self):
        self.slow = SlowDrive(self.site, self.options.drive_mib)
        self.paths = [self.slow.path]
        self.array.start()
        drives = ["--drive", self.slow.path]
        for number in range(1, self.options.drives):
            self.paths.append(self.site.file(f"{number}.img"))
            drives += ["--drive", f"{self.paths[-1]},size={self.options.drive_mib}MiB"]
        self.array.run("pool", "create", "p", "--protection", "dual", *drives)
        self.array.volume("v", f"{SPAN_MIB}MiB")
        self.array.volume("known", f"{KNOWN_MIB}MiB")
        self.known = self.site.file("known")
        with open(self.known, "wb") as f:
            for _ in range(KNOWN_MIB):
                f.write(self.random.randbytes(MIB // 2) + bytes(MIB // 2))
        run("nbdcopy", self.known, self.array.uri("known"))

    def play(self):
        end = time.monotonic() + self.options.minutes * 60
        self.prepare()
        self.load = Load(self.array, self.fio_seed)
        self.load.sleep(2)
        while time.monotonic() < end:
            self.round()
        last = self.rest()
        self.repair()
        run("fio", "--name=load", "--ioengine=nbd", f"--uri={self.array.uri('v')}", "--rw=randwrite", "--verify_only",
            f"--randseed={last}", *FIO)
        self.compare()
        self.array.check()
        self.check_events()
        if self.array.stop() != 0:
            raise Wrong(f"the orderly stop failed: {self.array.last_words()}")

    def rest(self):
        last = self.load.end()
        self.fio_rounds += self.load.rounds
        self.fio_seed = last + 1
        return last

    def round(self):
        """One or two drives are harmed at random moments; then all is made well again."""
        self.rounds += 1
        is_stuck = self.random.random() < 0.4
        victims = self.random.sample(range(1, self.options.drives), self.random.randint(1, HARMED_MAX))
        if is_stuck:
            victims[0] = 0
        deleted = []
        for number in victims:
            if number == 0:
                self.stick()
            else:
                harm = self.random.choice((self.rubbish, self.rubbish, self.cut, self.delete))
                if harm(number):
                    deleted.append(number)
            self.load.sleep(self.random.uniform(0.2, 2))
        if deleted:
            self.start_again(deleted)
        self.repair()

    def rubbish(self, number):
        self.counts["rubbish"] += 1
        blocks = self.options.drive_mib * MIB // 4096
        first = self.random.randrange(blocks)
        count = min(self.random.randint(1, blocks), blocks - first)
        # Past the page cache, as the array writes: the kernel refuses a mixture of both.
        run("dd", "if=/dev/urandom", f"of={self.paths[number]}", "bs=1M", "conv=notrunc", "status=none",
            "oflag=direct,seek_bytes", "iflag=count_bytes,fullblock", f"seek={first * 4096}", f"count={count * 4096}")

    def cut(self, number):
        self.counts["cut"] += 1
        os.truncate(self.paths[number], self.random.choice((0, 0, self.random.randrange(self.options.drive_mib) * MIB)))

    def delete(self, number):
        """Nothing happens before the array is started again: an open file lives on."""
        self.counts["deleted"] += 1
        os.remove(self.paths[number])
        return True

    def stick(self):
        """The pool waits for a drive that does not answer; hosts see a pause and no error."""
        self.counts["stuck"] += 1
        began = time.monotonic()
        self.slow.stick()
        self.load.sleep(self.random.uniform(*STUCK_SECONDS))
        self.slow.go_on()
        self.stall_seconds.append(time.monotonic() - began)

    def start_again(self, deleted):
        self.rest()
        self.events += self.array.json("events")
        if self.random.random() < 0.5:
            self.array.kill()
        else:
            self.array.stop()
        self.array.start()
        states = self.states()
        for number in deleted:
            if states[number] != "out":
                raise Wrong(f"drive {number} was deleted and is {states[number]}")
            self.expected.append((f"drive {number} ", "out of service"))
        self.load = Load(self.array, self.fio_seed)

    def pool(self):
        return self.array.json("pool", "show", "p")

    def states(self):
        return [drive["state"] for drive in self.pool()["drives"]]

    def repair(self):
        """Replaces what is out, and scrubs until nothing is wrong: the second time nothing may be."""
        self.replace()
        first = self.scrub()
        self.counts["set right"] += first["data_block_count"] + first["parity_block_count"]
        self.counts["mended"] = max(self.counts["mended"], first["mended_block_count"])
        # What the scrub met may have cost another drive its place.
        if self.replace():
            self.scrub()
        second = self.scrub()
        wrong = second["data_block_count"] + second["parity_block_count"] + second["unproven_stripe_count"]
        if wrong or self.states() != ["online"] * self.options.drives:
            raise Wrong(f"not repaired: second scrub {second}, drives {self.pool()['drives']}")

    def replace(self):
        is_any = False
        for number, drive in enumerate(self.pool()["drives"]):
            if drive["state"] != "out":
                continue
            is_any = True
            self.expected.append((f"drive {number} ", "out of service"))
            if number == 0:
                # It has only been slow, so whatever took it out was wrong.
                raise Wrong(f"the stuck drive is out: {drive}")
            old, self.spares = self.paths[number], self.spares + 1
            self.paths[number] = self.site.file(f"{number}-{self.spares}.img")
            spare = f"{self.paths[number]},size={self.options.drive_mib}MiB"
            self.array.run("pool", "replace-drive", "p", number, "--with", spare, "--wait", seconds=300)
            self.counts["replaced"] += 1
            self.expected.append((f"drive {number} ", "back in service"))
            if os.path.exists(old):
                os.remove(old)
        self.load.look()
        return is_any

    def scrub(self):
        report = self.array.json("pool", "scrub", "p", seconds=300)
        if report["check"]["errors"]:
            raise Wrong(f"scrub: {report['check']['errors'][:5]}")
        self.load.look()
        return report

    def compare(self):
        copy = self.site.file("copy")
        run("nbdcopy", self.array.uri("known"), copy)
        if run("cmp", self.known, copy, check=False).returncode != 0:
            raise Wrong("the known content has changed")

    def check_events(self):
        """Every drive that left and came back is told of, and that drives held what is wrong."""
        lines = [event["message"] for event in self.events + self.array.json("events")]
        for words in self.expected:
            if not any(all(word in line for word in words) for line in lines):
                raise Wrong(f"no event says {words}")
        if self.counts["rubbish"] + self.counts["cut"] and not any("written anew" in l or "set right" in l for l in lines):
            raise Wrong("no event tells of rubbish that was set right")

    def report(self):
        counts = self.counts
        return (f"{self.rounds} rounds: {counts['rubbish']} times rubbish, {counts['cut']} cut, {counts['deleted']} deleted"
                f" with a restart, {counts['stuck']} stuck (longest {max(self.stall_seconds, default=0):.1f} s);"
                f" {counts['replaced']} drives replaced and rebuilt, {counts['set right']} blocks set right by scrubs and"
                f" {counts['mended']} mended by reads; {self.fio_rounds} rounds of fio, {self.fio_rounds * SPAN_MIB} MiB"
                f" written and verified")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.5)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--drives", type=int, default=7)
    parser.add_argument("--drive-mib", type=int, default=192)
    parser.add_argument("--report", help="append the closing line to this file")
    options = parser.parse_args()
    print(f"drives_suffer: {options.minutes} minutes, seed {options.seed}", flush=True)
    with Site("ashlar-suffer-") as site:
        suffering = Suffering(site, options)
        try:
            suffering.play()
            line, status = "drives_suffer: nothing lost, all repaired; " + suffering.report(), 0
        except (Wrong, Refused, TimeoutError, RuntimeError) as error:
            line = f"drives_suffer: FAILED (seed {options.seed}): {error}\n  {suffering.report()}"
            words = suffering.array.last_words(200).splitlines()
            # A panic's own words stand before its long trace.
            panic = next((at for at, text in enumerate(words) if "panicked" in text), len(words) - 12)
            print("  last words of the array:\n" + "\n".join(words[max(0, panic - 12):panic + 40]))
            status = 1
        print(line, flush=True)
        if options.report:
            with open(options.report, "a", encoding="utf-8") as f:
                f.write(line + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
