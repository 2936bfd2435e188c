#!/usr/bin/env python3
"""Kills the array at random moments under load and proves that nothing acknowledged was lost.

usage: sigkill.py [--minutes M] [--seed S] [--workers N] [--span-mib N] [--drive-gib N] [--report FILE]

Workers write stamped blocks over NBD, many requests in flight, and keep their own record of what was
acknowledged; the record lives in their memory, outside the array. The parent kills the array
(SIGKILL mostly, an orderly stop sometimes), starts it again, and every worker reads its whole share:
each block must be intact and hold the last acknowledged write, or one that was in flight when the
array died. Snapshots of both volumes at one instant are taken under load; clones of them are read
back, also after later crashes, and must show one instant: nothing acknowledged before the snapshot
missing, nothing sent after it present, no later write without the earlier ones.
"""
import argparse
import multiprocessing
import os
import random
import sys
import threading
import time
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "rig"))
import nbd
import stamp
from array_of_run import Array, Refused
from site_of_run import Site

VOLUMES = ("a", "b")
# The volumes differ: one is written in blocks of the map, the other in sectors.
UNIT_BYTES = (4096, 512)
DEPTH = 12
IMAGES_MAX = 3


class Wrong(Exception):
    """The array broke its promise."""


class Share:
    """One worker's part of one volume and what it may hold. Blocks count from the volume's start."""

    def __init__(self, volume, first, count):
        self.volume, self.first, self.count, self.unit = volume, first, count, UNIT_BYTES[volume]
        self.value = {}       # block -> sequence last acknowledged or, after a crash, found; absent: never written
        self.doubt = {}       # block -> sequences that were in flight when the array died
        self.issued = None    # while a snapshot is taken: block -> [(sequence, batch)]

    def allowed(self, block):
        return {self.value.get(block, 0), *self.doubt.get(block, ())}


class Image:
    """What a snapshot taken between two moments may show of one share."""

    def __init__(self, share):
        self.before = dict(share.value)
        self.issued = {}
        self.found = None     # after the first look: exactly this, for ever

    def allowed(self, block):
        if self.found is not None:
            return {self.found.get(block, 0)}
        return {self.before.get(block, 0), *(sequence for sequence, _ in self.issued.get(block, ()))}


class Worker:
    def __init__(self, number, pipe, path, seed, span_bytes, workers):
        self.pipe, self.path, self.random = pipe, path, random.Random(f"{seed}/{number}")
        self.sequence = self.batch = 0
        self.zeroes = set()   # sequences of operations that left zeroes
        self.stats = {"operations": 0, "bytes": 0}
        self.shares, self.images, self.clone = [], {}, None
        for volume, unit in enumerate(UNIT_BYTES):
            count = span_bytes // unit // workers
            self.shares.append(Share(volume, number * count, count))

    # The worker's life: load until told otherwise, or until the array dies.
    def run(self):
        while True:
            command = self.pipe.recv()
            if command[0] == "end":
                return
            try:
                answer = getattr(self, command[0])(*command[1:])
            except Wrong as wrong:
                answer = ("wrong", str(wrong))
            except (nbd.Gone, nbd.ServerError) as error:
                answer = ("error", f"{command[0]}: {error}")
            except Exception:
                answer = ("wrong", "the test itself failed: " + traceback.format_exc())
            self.pipe.send(answer or ("done", None))

    def load(self):
        """Writes until the array goes away; obeys marks of snapshots in between."""
        try:
            doors = [nbd.Connection(self.path, name) for name in VOLUMES]
        except nbd.Gone:
            return ("gone", self.stats)
        while True:
            while self.pipe.poll():
                command = self.pipe.recv()
                if command[0] == "mark":
                    self.images[command[1]] = [Image(share) for share in self.shares]
                    for share, image in zip(self.shares, self.images[command[1]]):
                        share.issued = image.issued
                elif command[0] == "unmark":
                    for share in self.shares:
                        share.issued = None
                elif command[0] == "rest":
                    for door in doors:
                        door.close()
                    return ("rested", self.stats)
                self.pipe.send(("done", None))
            try:
                self.one_batch(doors)
            except nbd.Gone:
                for share in self.shares:
                    share.issued = None
                return ("gone", self.stats)

    def one_batch(self, doors):
        """Operations on disjoint runs of both volumes, all in flight at once on two connections."""
        self.batch += 1
        plans = [self.plan(share) for share in self.shares]
        gone = None
        # Sent to both before either is listened to.
        pending = []
        for door, plan in zip(doors, plans):
            pending.append(threading.Thread(target=self.exchange, args=(door, plan)))
            pending[-1].start()
        for thread in pending:
            thread.join()
        for plan in plans:
            self.settle(plan)
            gone = gone or plan["gone"]
        if gone:
            raise gone

    def plan(self, share):
        operations, taken = [], set()
        for _ in range(self.random.randint(1, DEPTH)):
            kind, blocks = self.choose(share)
            first = share.first + self.random.randrange(share.count - blocks + 1)
            run = range(first, first + blocks)
            if not taken.isdisjoint(run):
                continue
            taken.update(run)
            self.sequence += 1
            operations.append((kind, first, blocks, self.sequence))
        return {"share": share, "operations": operations, "answers": {}, "gone": None}

    def choose(self, share):
        dice = self.random.random()
        most = share.count // 4
        if dice < 0.55:
            return nbd.WRITE, self.random.randint(1, 16)
        if dice < 0.63:
            return nbd.WRITE, min(self.random.randint(64 << 10, 1 << 20) // share.unit, most)
        if dice < 0.71:
            return nbd.TRIM, min(self.random.choice((1, 8, 100, 600)), most)
        if dice < 0.75:
            return nbd.ZEROES, min(self.random.choice((1, 8, 100, 600)), most)
        if dice < 0.79:
            return nbd.FLUSH, 1
        return nbd.READ, min(self.random.randint(1, 64), most)

    def exchange(self, door, plan):
        share, requests = plan["share"], []
        for kind, first, blocks, sequence in plan["operations"]:
            data, flags = b"", 0
            if kind == nbd.WRITE:
                data = stamp.make_run(share.volume, first, sequence, blocks, share.unit)
                flags = nbd.FUA if sequence % 5 == 0 else 0
            if kind == nbd.FLUSH:
                requests.append((kind, 0, 0, b"", 0))
            else:
                requests.append((kind, first * share.unit, blocks * share.unit, data, flags))
        try:
            door.batch(requests, lambda index, error, data: plan["answers"].__setitem__(index, (error, data)))
        except nbd.Gone as error:
            plan["gone"] = error

    def settle(self, plan):
        """Books what was acknowledged, and what is in doubt."""
        share = plan["share"]
        for index, (kind, first, blocks, sequence) in enumerate(plan["operations"]):
            answer = plan["answers"].get(index)
            if answer and answer[0]:
                raise Wrong(f"request {kind} at block {first} of volume {VOLUMES[share.volume]} failed: {answer[0]}")
            if kind == nbd.FLUSH:
                continue
            if kind == nbd.READ:
                if answer:
                    self.verify(share, first, answer[1], share.allowed, None, "read under load")
                continue
            if kind != nbd.WRITE:
                self.zeroes.add(sequence)
            for block in range(first, first + blocks):
                if answer:
                    share.value[block] = sequence
                    share.doubt.pop(block, None)
                else:
                    share.doubt.setdefault(block, set()).add(sequence)
                if share.issued is not None:
                    share.issued.setdefault(block, []).append((sequence, self.batch))
            if answer:
                self.stats["operations"] += 1
                self.stats["bytes"] += blocks * share.unit

    def verify(self, share, first, data, allowed, found, when):
        unit = share.unit
        for index in range(len(data) // unit):
            block, part = first + index, data[index * unit:(index + 1) * unit]
            try:
                sequence = stamp.read(share.volume, block, part)
            except ValueError as error:
                raise Wrong(f"{when}: {error}; allowed {sorted(allowed(block))}") from error
            may = allowed(block)
            if sequence == 0:
                zero = [s for s in may if s == 0 or s in self.zeroes]
                if not zero:
                    raise Wrong(f"{when}: block {block} of volume {VOLUMES[share.volume]} reads as zeroes,"
                                f" allowed {sorted(may)}")
                sequence = max(zero)
            elif sequence not in may:
                raise Wrong(f"{when}: block {block} of volume {VOLUMES[share.volume]} holds write {sequence},"
                            f" allowed {sorted(may)}")
            if found is not None and sequence:
                found[block] = sequence

    def look(self, exports, allowed_of, when):
        """Reads all shares; returns what was found."""
        out = []
        for share, export in zip(self.shares, exports):
            door, found = nbd.Connection(self.path, export), {}
            step = (1 << 20) // share.unit
            for first in range(share.first, share.first + share.count, step):
                blocks = min(step, share.first + share.count - first)
                data = door.read(first * share.unit, blocks * share.unit)
                self.verify(share, first, data, allowed_of(share), found, when)
            door.close()
            out.append(found)
        return out

    def audit(self, when):
        """After a start: every block must be one that was promised."""
        for share, found in zip(self.shares, self.look(VOLUMES, lambda share: share.allowed, when)):
            share.value, share.doubt = found, {}

    def audit_image(self, name, exports, when):
        images = self.images[name]
        by_share = dict(zip(map(id, self.shares), images))
        found = self.look(exports, lambda share: by_share[id(share)].allowed, f"{when}, image {name}")
        if images[0].found is None:
            self.check_instant(images, found, f"{when}, image {name}")
        for image, seen in zip(images, found):
            image.found = seen

    def check_instant(self, images, found, when):
        """A batch begins after the one before it was acknowledged: an image that shows any of a batch
        must show all of the batches before it, on both volumes."""
        newest = 0
        for image, seen in zip(images, found):
            for block, issued in image.issued.items():
                shown = seen.get(block, 0)
                if shown == 0 or shown in self.zeroes:
                    # Which of several zeroes is shown cannot be told: take the oldest.
                    shown = min(s for s in image.allowed(block) if s == 0 or s in self.zeroes)
                newest = max([newest] + [batch for sequence, batch in issued if sequence == shown])
        for image, seen in zip(images, found):
            for block, issued in image.issued.items():
                due = max([image.before.get(block, 0)] + [s for s, batch in issued if batch < newest])
                if seen.get(block, 0) < due:
                    raise Wrong(f"{when}: not one instant: block {block} holds {seen.get(block, 0)} though {due} was"
                                f" acknowledged before batch {newest}, of which the image shows a part")

    def write_clone(self, name, exports):
        """Writes into a clone of an image; its origin must not see it, and the clone must keep it."""
        self.clone = [dict(image.found) for image in self.images[name]]
        for share, kept, export in zip(self.shares, self.clone, exports):
            door = nbd.Connection(self.path, export)
            for _ in range(20):
                block = share.first + self.random.randrange(share.count)
                self.sequence += 1
                door.write(block * share.unit, stamp.make(share.volume, block, self.sequence, share.unit))
                kept[block] = self.sequence
            door.close()

    def audit_clone(self, exports, when):
        by_share = dict(zip(map(id, self.shares), self.clone))
        self.look(exports, lambda share: lambda block: {by_share[id(share)].get(block, 0)}, f"{when}, clone")

    def forget(self, name):
        self.images.pop(name, None)


def worker_main(*arguments):
    Worker(*arguments).run()


class Torture:
    def __init__(self, site, options):
        self.site, self.options, self.random = site, options, random.Random(options.seed)
        self.array = Array(site)
        self.images = []      # names of the snapshots that were acknowledged
        self.has_clone = False
        self.counts = dict.fromkeys(("kills", "stops", "snapshots", "image checks", "kills inside a command"), 0)
        self.start_seconds, self.load_seconds = [], 0.0
        self.stats = {}

    def prepare(self):
        self.array.start()
        self.array.pool("p", drives=3, drive_mib=self.options.drive_gib * 1024)
        for name, unit in zip(VOLUMES, UNIT_BYTES):
            self.array.volume(name, "1TiB", "--logical-block", unit)
        self.pipes, self.processes = [], []
        for number in range(self.options.workers):
            ours, theirs = multiprocessing.Pipe()
            arguments = (number, theirs, self.array.nbd_socket, self.options.seed, self.options.span_mib << 20,
                         self.options.workers)
            process = multiprocessing.Process(target=worker_main, args=arguments, daemon=True)
            process.start()
            self.pipes.append(ours)
            self.processes.append(process)

    def tell(self, *command):
        for pipe in self.pipes:
            pipe.send(command)

    def hear(self, seconds=600):
        """One answer of each worker; anything wrong ends the run."""
        answers = []
        for number, pipe in enumerate(self.pipes):
            if not pipe.poll(seconds):
                raise Wrong(f"worker {number} does not answer: a request hangs")
            kind, what = pipe.recv()
            if kind in ("wrong", "error"):
                raise Wrong(f"worker {number}: {what}")
            answers.append((kind, what))
        return answers

    def ask(self, *command):
        self.tell(*command)
        return self.hear()

    def play(self):
        end = time.monotonic() + self.options.minutes * 60
        self.prepare()
        while time.monotonic() < end:
            self.round()
        self.array.check()
        while self.images:
            self.drop_image()
        self.array.check()
        self.tell("end")
        self.array.stop()

    def round(self):
        self.tell("load")
        began, length = time.monotonic(), self.random.uniform(0.3, 6)
        snapshot_at = self.random.uniform(0, length)
        is_dead = False
        if self.random.random() < 0.5:
            time.sleep(snapshot_at)
            is_dead = self.take_image()
        if not is_dead:
            time.sleep(max(0, began + length - time.monotonic()))
            if self.random.random() < 0.1:
                # An orderly stop may refuse what is in flight; the workers rest first.
                self.tell("rest")
                self.note(self.hear())
                self.load_seconds += time.monotonic() - began
                status = self.array.stop()
                if status != 0:
                    raise Wrong(f"the orderly stop ended with {status}: {self.array.last_words()}")
                self.counts["stops"] += 1
                return self.come_back()
            self.array.kill()
        self.counts["kills"] += 1
        self.note(self.hear())
        self.load_seconds += time.monotonic() - began
        self.come_back()

    def note(self, answers):
        self.stats = {key: sum(stats[key] for _, stats in answers) for key in answers[0][1]}

    def come_back(self):
        when = f"after {self.counts['kills']} kills"
        self.start_seconds.append(self.array.start())
        pool = self.array.json("pool", "show", "p")
        if pool["state"] != "online":
            raise Wrong(f"{when}: the pool is {pool['state']}: {pool.get('reason')}")
        self.drop_strangers()
        self.ask("audit", when)
        if self.images and self.random.random() < 0.5:
            self.look_at(self.random.choice(self.images), when)
        if self.random.random() < 0.15:
            self.array.check()
        while len(self.images) > IMAGES_MAX:
            self.drop_image()

    def take_image(self):
        """A snapshot of both volumes under load. Sometimes the array is killed while it is taken;
        returns whether it was. A snapshot that was acknowledged must be there afterwards."""
        self.counts["snapshots"] += 1
        name = f"s{self.counts['snapshots']}"
        self.ask("mark", name)
        if self.random.random() < 0.3:
            self.counts["kills inside a command"] += 1
            killer = threading.Timer(self.random.uniform(0, 0.03), self.array.kill)
            killer.start()
            done = self.array.try_run("snapshot", "create", name, *VOLUMES)
            killer.join()
            if done.returncode == 0:
                self.images.append(name)
            return True
        self.array.run("snapshot", "create", name, *VOLUMES)
        self.ask("unmark")
        self.images.append(name)
        return False

    def names_of(self, kind):
        answer = self.array.json(kind, "list")
        return {entry["name"] for entry in answer}

    def drop_strangers(self):
        """Snapshots whose command was cut off may exist or not; those acknowledged must."""
        there = self.names_of("snapshot")
        missing = set(self.images) - there
        if missing:
            raise Wrong(f"acknowledged snapshots are gone: {sorted(missing)}")
        for name in there - set(self.images):
            if name.startswith("s"):
                self.array.run("snapshot", "delete", name, "--yes")

    def look_at(self, name, when):
        """Reads a snapshot through fresh clones and writes into them; what the last clones were given
        must still be there."""
        self.counts["image checks"] += 1
        exports = [f"c-{volume}" for volume in VOLUMES]
        if self.has_clone:
            self.ask("audit_clone", exports, when)
            for volume in exports:
                self.array.run("volume", "delete", volume, "--now", "--yes")
        self.array.run("clone", "create", "c", "--from", name)
        self.has_clone = True
        self.ask("audit_image", name, exports, when)
        self.ask("write_clone", name, exports)

    def drop_image(self):
        name = self.images.pop(self.random.randrange(len(self.images)))
        self.array.run("snapshot", "delete", name, "--yes")
        self.ask("forget", name)

    def report(self):
        starts = sorted(self.start_seconds) or [0]
        return (f"{self.counts['kills']} kills ({self.counts['kills inside a command']} inside a command), "
                f"{self.counts['stops']} orderly stops, {self.counts['snapshots']} snapshots, "
                f"{self.counts['image checks']} image checks; {self.stats.get('operations', 0):,} acknowledged writes, "
                f"{self.stats.get('bytes', 0) / (1 << 30):.1f} GiB in {self.load_seconds:.0f} s of load; start after a"
                f" kill: median {starts[len(starts) // 2]:.2f} s, longest {starts[-1]:.2f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--span-mib", type=int, default=96, help="MiB written of each volume")
    parser.add_argument("--drive-gib", type=int, default=3, help="size of each of the three drives")
    parser.add_argument("--report", help="append the closing line to this file")
    options = parser.parse_args()
    print(f"sigkill: {options.minutes} minutes, seed {options.seed}", flush=True)
    with Site("ashlar-sigkill-") as site:
        torture = Torture(site, options)
        try:
            torture.play()
            line, status = "sigkill: nothing lost; " + torture.report(), 0
        except (Wrong, Refused, TimeoutError, RuntimeError) as error:
            line = f"sigkill: FAILED (seed {options.seed}): {error}\n  {torture.report()}"
            print("  last words of the array:\n" + torture.array.last_words(12))
            status = 1
        print(line, flush=True)
        if options.report:
            with open(options.report, "a", encoding="utf-8") as f:
                f.write(line + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
