#!/usr/bin/env python3
"""The papers' data-reduction story with PostgreSQL, in parts that sum: see README.md beside this file.

usage: run.py        as root; needs PostgreSQL 15 or newer, fio, ext4

Environment: QUICK=1 (three minutes), RESULTS (directory; default target/experiments/data-reduction-TIME),
ASHLAR_BIN, TMPDIR (some 8 GiB free, QUICK 4).
"""
import glob
import hashlib
import json
import os
import shutil
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "tests", "rig"), os.path.join(HERE, "..", "..", "tests", "bench")]
import codecs_of_units
import measure
import nbd
from array_of_run import MIB, ROOT, Array, Refused
from part_postgres import Postgres
from site_of_run import Site, run, wait_for

QUICK = os.environ.get("QUICK") == "1"
SCALE = 50 if QUICK else 100            # pgbench: 15 MB each
FACTS_ROWS = 1_000_000 if QUICK else 3_000_000   # some 130 bytes each
LOAD_SECONDS = 4 if QUICK else 15       # between two snapshots
CLIENTS = 8
SNAPSHOTS = 7                           # as in EMC's figure 18
CLONED = (2, 5)                         # snapshots that get clones with a load of their own
DRIVE_MIB = 2048 if QUICK else 4096     # each of two
DATA_GIB, WAL_GIB = 16, 4               # thin
COLD_SECONDS = 40 if QUICK else 90      # at most, until the cleaner has moved what is cold
FREEING_SECONDS = 3                     # after a mark: a checkpoint, then whole segments are free
SETTINGS = """
listen_addresses = ''
shared_buffers = 256MB
max_wal_size = 1GB
checkpoint_timeout = 30s
autovacuum = off
"""
WORDS = ("invoice order shipped customer returned warehouse standard express partial delivery note checked pallet "
         "colour green black large small metal wooden gift urgent north south depot carrier signed paid pending "
         "credit refund batch label damaged replaced counted weighed sealed spare").split()


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def mib(size):
    return f"{size / MIB:,.1f}"


class Database:
    """A PostgreSQL whose data and WAL lie on a volume each."""

    def __init__(self, site, array, name, volumes):
        self.site, self.array, self.name, self.volumes = site, array, name, volumes
        self.program = Postgres(site)
        self.program.socket = self.program.owned(site.directory("run-" + name))
        self.points = [site.directory(f"m-{volume}") for volume in volumes]
        self.data = self.points[0] + "/pg"
        site.at_close(self.stop)

    def attach(self, *options):
        for volume, point in zip(self.volumes, self.points):
            self.array.attach(volume, *options, "--mount", point)

    def make(self):
        self.attach("--format", "ext4")
        for point in self.points:
            os.mkdir(point + "/pg")
            self.program.owned(point + "/pg", 0o700)
        wal = ["-X", self.points[1] + "/pg"] if len(self.points) > 1 else []
        self.program.run("initdb", "-D", self.data, *wal, "-U", "postgres", "-A", "trust", "--no-locale", "-E", "UTF8",
                         "--data-checksums")
        with open(self.data + "/postgresql.conf", "a", encoding="utf-8") as f:
            f.write(SETTINGS)

    def adopt(self):
        """The files are those of a snapshot of a running database: its WAL is elsewhere now, its process is not ours."""
        self.attach()
        os.remove(self.data + "/postmaster.pid")
        os.remove(self.data + "/pg_wal")
        os.symlink(self.points[1] + "/pg", self.data + "/pg_wal")

    def start(self):
        self.program.start(self.data)

    def stop(self):
        if os.path.exists(self.data + "/postmaster.pid"):
            self.program.stop(self.data)

    def detach(self):
        self.stop()
        for volume in self.volumes:
            self.array.run("detach", volume)

    def ask(self, statement):
        done = self.program.run("psql", "-h", self.program.socket, "-U", "postgres", "-XqAtc", statement, "postgres")
        return done.stdout.strip()

    def load(self, seconds):
        out = self.program.bench("-c", str(CLIENTS), "-j", "2", "-T", str(seconds))
        return float(next(line.split()[2] for line in out.splitlines() if line.startswith("tps")))


class Story:
    """The pool's accounts at each step."""

    def __init__(self, array):
        self.array, self.steps = array, []

    def accounts(self, pool="p"):
        return next(one for one in self.array.json("space") if one["pool"] == pool)

    def note(self, name, **more):
        found = self.accounts()
        images = found["volumes"] + found["snapshots"]
        parts = found["parts"]
        step = {"step": name, "provisioned": sum(one["provisioned_bytes"] for one in images),
                "zero": sum(one["zero_bytes"] for one in images), "written": found["written_bytes"],
                "sharing_saved": found["sharing_saved_bytes"], "compression_saved": found["compression_saved_bytes"],
                **{key.removesuffix("_bytes"): value for key, value in parts.items()}, "basis": found["basis"], **more}
        step["content_saved"] = found.get("content_saved_bytes") or 0
        assert sum(value for key, value in parts.items() if key != "physical_bytes") == parts["physical_bytes"], parts
        self.steps.append(step)
        say(f"  {name}: written {mib(step['written'])} MiB, data alive {mib(step['data_alive'])}, metadata "
            f"{mib(step['metadata_alive'])}, dead {mib(step['dead'])}, free {mib(step['free'])}")
        return step


def facts_statement(rows):
    words = "array[" + ",".join(f"'{word}'" for word in WORDS) + "]"
    pick = f"({words})[1 + (random() * {len(WORDS) - 1})::int]"
    return (f"select setseed(0.5); create table facts as select i as id, (random() * 100000)::int as customer, "
            f"(random() * 2000)::int as item, (1 + random() * 9)::int as quantity, "
            f"round((random() * 500)::numeric, 2) as price, timestamp '2024-01-01' + i * interval '17 s' as sold, "
            f"{' || chr(32) || '.join([pick] * 4)} as remark from generate_series(1, {rows}) i")


def snapshots_and_clones(site, array, story):
    """A database, seven snapshots with load between them, clones of two with loads of their own."""
    say(f"database: pgbench scale {SCALE}, facts {FACTS_ROWS:,} rows")
    for name, size in (("data", DATA_GIB), ("wal", WAL_GIB)):
        array.volume(name, f"{size}GiB", "--profile", "oltp")
    base = Database(site, array, "base", ("data", "wal"))
    base.make()
    story.note("ext4 and initdb")
    base.start()
    base.program.bench("-i", "-q", "-s", str(SCALE))
    base.ask(facts_statement(FACTS_ROWS))
    # Otherwise the first reader of each page writes it, on every clone anew.
    base.ask("vacuum (freeze)")
    base.ask("checkpoint")
    size = int(base.ask("select pg_database_size('postgres')"))
    story.note("loaded", database=size)
    for number in range(1, SNAPSHOTS + 1):
        tps = base.load(LOAD_SECONDS)
        begin = time.monotonic()
        array.api("POST", "/v1/snapshots", {"name": f"s{number}", "volumes": ["data", "wal"]})
        story.note(f"load, snapshot {number}", tps=tps, snapshot_ms=(time.monotonic() - begin) * 1e3)
    for number in CLONED:
        array.run("clone", "create", f"c{number}", "--from", f"s{number}")
        clone = Database(site, array, f"clone{number}", (f"c{number}-data", f"c{number}-wal"))
        clone.adopt()
        story.note(f"clone of snapshot {number}, mounted")
        clone.start()
        rows = clone.ask("select count(*) from facts")
        assert rows == str(FACTS_ROWS), f"the clone has {rows} rows"
        tps = clone.load(LOAD_SECONDS)
        clone.detach()
        story.note(f"clone of snapshot {number}, with load", tps=tps)
    return base


def take_facts(site, base):
    """The table's own pages, and a dump of it."""
    base.ask("checkpoint")
    path, heap = base.ask("select pg_relation_filepath('facts')"), site.file("facts.heap")
    with open(heap, "wb") as out:
        for part in sorted(glob.glob(f"{base.data}/{path}") + glob.glob(f"{base.data}/{path}.[0-9]*")):
            with open(part, "rb") as f:
                shutil.copyfileobj(f, out, MIB)
    dump = base.program.socket + "/facts.dump"
    base.program.run("pg_dump", "-h", base.program.socket, "-U", "postgres", "-Fc", "-Z1", "-t", "facts", "-f", dump,
                     "postgres")
    return heap, dump


def delete_in_turn(array, story):
    """What `space reclaim` says against what deleting gives: the snapshots first, then the clones."""
    snapshots = [f"s{number}" for number in range(1, SNAPSHOTS + 1)]
    clones = [f"c{number}-{volume}" for number in CLONED for volume in ("data", "wal")]
    sets, results = (("seven snapshots", "snapshot", snapshots), ("then the clones", "volume", clones)), []
    for title, kind, names in sets:
        before = story.accounts()
        alone = sum(one["only_bytes"] for one in before[kind + "s"] if one["name"].split("@")[-1] in names)
        said = array.json("space", "reclaim", *names)
        begin, marked_before = time.monotonic(), marks(array)
        array.api_many("DELETE", [f"/v1/{kind}s/{name}" + ("?now=true" if kind == "volume" else "") for name in names], 4)
        calls = time.monotonic() - begin
        after = story.note(f"deleted: {title.removeprefix('then the ')}")
        before_bytes = before["parts"]["data_alive_bytes"] + before["parts"]["stranded_bytes"]
        given = before_bytes - after["data_alive"] - after["stranded"]
        pages = before["map_page_bytes"] - story.accounts()["map_page_bytes"]
        marked = seconds_until_marked(array, marked_before, begin)
        free = story.accounts()["parts"]["free_bytes"] - before["parts"]["free_bytes"]
        results.append({"set": title, "each_alone": alone, "said": said["chunk_bytes"], "given": given,
                        "said_pages": said["map_page_bytes"], "given_pages": pages, "call_ms": calls * 1e3,
                        "marked_seconds": marked, "free_at_once": free})
        say(f"  {title}: said {mib(said['chunk_bytes'])} MiB, given {mib(given)} MiB")
    return results


def marks(array):
    return array.api("GET", "/v1/pools/p")["counters"]["marks"]


def seconds_until_marked(array, before, begin):
    """When the cleaner's own mark, not only our count, knows what is dead: from then on it is room for whoever writes.
    What lies in segments of its own is free at once, the rest when it is needed."""
    wait_for(lambda: marks(array) > before, 60, "a mark")
    took = time.monotonic() - begin
    time.sleep(FREEING_SECONDS)
    return took


def twin_volume(array, name):
    """A volume with dedupe where the program knows it. Returns whether it does."""
    try:
        array.volume(name, "8GiB", "--profile", "oltp", "--dedupe", "on")
        return True
    except Refused:
        array.volume(name, "8GiB", "--profile", "oltp")
        return False


def blocks_of(files):
    """Fingerprints of all 4 KiB blocks of these files."""
    found = []
    for path in glob.glob(files):
        with open(path, "rb") as f:
            while block := f.read(4096):
                if block.count(0) != len(block):
                    found.append(hashlib.blake2b(block, digest_size=16).digest())
    return found


TWINS = (("twin-a", "dump restored"), ("twin-b", "the same dump restored again"), ("twin-c", "file copy of the first"),
         ("twin-d", "the same dump, after other work"))


def twins(site, array, story, dump):
    """One dump restored more than once, and a file copy: what each adds, and how many equal blocks there are."""
    say("twins: one dump restored three times, one file copy")
    rows, known, first, last = [], {"table": ("base/*/*", set()), "wal": ("pg_wal/0*", set())}, None, story.note("before the twins")
    for name, title in TWINS:
        is_on = twin_volume(array, name)
        twin = Database(site, array, name, (name,))
        if name == "twin-c":
            twin.attach("--format", "ext4")
            run("cp", "-a", first.data, twin.points[0])
        else:
            twin.make()
            twin.start()
            if name == "twin-d":
                twin.ask("create table other as select 1")  # Positions in the WAL and transaction numbers now differ.
            twin.program.run("pg_restore", "-h", twin.program.socket, "-U", "postgres", "-d", "postgres", dump)
            twin.ask("checkpoint")
            twin.stop()
        run("sync", "-f", twin.points[0])
        found = array.deduped() if is_on else {}  # Behind the acknowledgement.
        after = story.note(title)
        equal = {}
        for what, (files, before) in known.items():
            blocks = blocks_of(f"{twin.data}/{files}")
            equal |= {f"{what}_blocks": len(blocks), f"{what}_equal": sum(one in before for one in blocks) / len(blocks)}
            before.update(blocks)
        rows.append({"what": title, "dedupe": "on" if is_on else "off", "added": after["data_alive"] - last["data_alive"],
                     "content_saved": after["content_saved"] - last["content_saved"],
                     **equal, "blocks_found": found.get("blocks")})
        first, last = first or twin, after
        if first is not twin:
            twin.detach()
    first.detach()
    return rows


def twin_blocks(row):
    """How many blocks there are that are not zero, and how many of them were in an earlier twin."""
    return [cell for what in ("table", "wal") for cell in (row[f"{what}_blocks"], f"{row[f'{what}_equal'] * 100:.1f} %")]


def write_source(array, volume, heap, noise=None):
    """The file onto a volume, in requests of 1 MiB; where there is noise, as much of three times as many bytes between."""
    door = nbd.Connection(array.nbd_socket, volume)
    other = nbd.Connection(array.nbd_socket, noise) if noise else None
    with open(heap, "rb") as f:
        index = 0
        while piece := f.read(MIB):
            door.write(index * MIB, piece + bytes(-len(piece) % 4096))
            for place in range(3) if other else ():
                other.write((3 * index + place) * MIB, os.urandom(MIB))
            index += 1
    for one in filter(None, (door, other)):
        one.flush()
        one.close()


def hot_and_cold(site, array, heap):
    """Our bytes for the table's pages against the codecs' own, as written and after the cleaner moved them."""
    say("codecs: LZ4 and zstd -1 by themselves, in units of 16 KiB")
    size = os.path.getsize(heap)
    own = {codec: codecs_of_units.stored_bytes(heap, codec) for codec in codecs_of_units.CODECS}
    said = {one["codec"]: one["stored_bytes"]["value"] for one in array.json("space", "estimate", heap)["compression"]
            if one["profile"] == "oltp"}
    rows = []
    def add(title, codec, stored):
        rows.append({"what": title, "source": size, "codec": codec, "own": own[codec], "estimate": said[codec],
                     "stored": stored, "over": stored / own[codec] - 1})
        say(f"  {title}: {mib(stored)} MiB against {mib(own[codec])}: {rows[-1]['over'] * 100:+.1f} %")
    volume_mib = size // MIB + 2
    for codec in own:
        name = "hot-" + codec
        array.volume(name, f"{volume_mib}MiB", "--profile", "oltp", "--compression", codec)
        write_source(array, name, heap)
        add(f"as written, volume of {codec}", codec, array.json("space", "reclaim", name)["chunk_bytes"])
        array.run("volume", "delete", name, "--now", "--yes")
    cold = move_cold(site, array, heap, volume_mib)
    add("cold: LZ4, moved by the cleaner", "zstd", cold["stored"])
    rows[-1].update(cold)
    return rows


def move_cold(site, array, heap, volume_mib):
    """A small pool in which cold and hot data lie side by side; the hot ones are overwritten until the cold have moved."""
    array.pool("cold", 2, volume_mib * 5 // 2)
    array.volume("cold", f"{volume_mib}MiB", "--pool", "cold", "--profile", "oltp")
    array.volume("noise", f"{3 * volume_mib}MiB", "--pool", "cold", "--compression", "off")
    write_source(array, "cold", heap, "noise")
    before = array.json("space", "reclaim", "volume:cold")["chunk_bytes"]
    begin, last = time.monotonic(), None
    while time.monotonic() - begin < COLD_SECONDS:
        run("fio", "--name=hot", "--thread", "--rw=randwrite", "--bs=64k", "--iodepth=8", "--refill_buffers=1", "--randrepeat=0",
            f"--size={3 * volume_mib}m", "--time_based", "--runtime=4", "--norandommap", *measure.nbd_target(array.uri("noise")))
        saved = array.json("pool", "show", "cold")["counters"]["recompressed_saved_bytes"]
        if saved and last and saved - last < before / 200:
            break
        last = saved
    return {"stored": array.json("space", "reclaim", "volume:cold")["chunk_bytes"], "before": before,
            "recompressed_saved": saved, "overwrite_seconds": time.monotonic() - begin}


def lines_of(title, head, rows):
    widths = [max(len(str(row[index])) for row in [head, *rows]) for index in range(len(head))]
    def line(row):
        return "  ".join(str(cell).ljust(width) if index == 0 else str(cell).rjust(width)
                         for index, (cell, width) in enumerate(zip(row, widths))).rstrip()
    return ["", title, line(head), *map(line, rows)]


def report(result):
    keys = ("provisioned", "zero", "written", "sharing_saved", "compression_saved", "data_alive", "stranded", "metadata_alive",
            "dead", "free")
    steps = [[s["step"], *(mib(s[key]) for key in keys)] for s in result["steps"]]
    text = lines_of("Steps (MiB; provisioned, zero and written with all snapshots and clones)",
                    ["step", "provisioned", "zero", "written", "-sharing", "-compression", "=data alive", "stranded", "metadata",
                     "dead", "free"], steps)
    peak = next(s for s in reversed(result["steps"]) if s["step"].startswith("clone"))
    unique = peak["written"] - peak["sharing_saved"]
    ratios = [("thin: provisioned / written", peak["provisioned"] / peak["written"]),
              ("snapshots and clones: written / unique", peak["written"] / unique),
              ("compression: unique / data alive", unique / peak["data_alive"]),
              ("metadata: data alive / with metadata", peak["data_alive"] / (peak["data_alive"] + peak["metadata_alive"])),
              ("all of it, as the papers count", peak["provisioned"] / (peak["data_alive"] + peak["metadata_alive"]))]
    text += lines_of(f"Factors at `{peak['step']}`", ["factor", "x"], [(name, f"{value:.2f}") for name, value in ratios])
    text += lines_of("What deleting gives back (MiB of chunks)",
                     ["set", "sum of each alone", "reclaim said", "given", "pages said KiB", "given KiB", "call ms",
                      "marked s", "free at once MiB"],
                     [[r["set"], mib(r["each_alone"]), mib(r["said"]), mib(r["given"]), r["said_pages"] // 1024,
                       r["given_pages"] // 1024, f"{r['call_ms']:.0f}",
                       f"{r['marked_seconds']:.1f}", mib(r["free_at_once"])]
                      for r in result["deletes"]])
    text += lines_of("Twins", ["what", "dedupe", "added MiB", "saved by content MiB", "table blocks", "equal", "WAL blocks", "equal "],
                     [[r["what"], r["dedupe"], mib(r["added"]), mib(r["content_saved"]), *twin_blocks(r)]
                      for r in result["twins"]])
    text += lines_of("Compression of table pages against the codec itself, 16 KiB units",
                     ["what", "source MiB", "codec", "codec's own MiB", "ratio", "estimate said", "stored MiB", "ratio", "over",
                      "wanted"],
                     [[r["what"], mib(r["source"]), r["codec"], mib(r["own"]), f"{r['source'] / r['own']:.2f}",
                       mib(r["estimate"]), mib(r["stored"]), f"{r['source'] / r['stored']:.2f}", f"{r['over'] * 100:+.1f} %",
                       "5 %: " + ("met" if r["over"] <= 0.05 else "NOT MET")]
                      for r in result["compression"]])
    return "\n".join(text).lstrip("\n")


def main():
    if os.geteuid() != 0:
        raise SystemExit("data-reduction: needs root (loop devices, mounts)")
    begin = time.monotonic()
    default = os.path.join(ROOT, "target", "experiments", time.strftime("data-reduction-%Y%m%d-%H%M%S"))
    out = os.environ.get("RESULTS") or default
    os.makedirs(out, exist_ok=True)
    with Site("ashlar-reduction-") as site:
        array = Array(site)
        array.start()
        array.pool("p", 2, DRIVE_MIB)
        story = Story(array)
        base = snapshots_and_clones(site, array, story)
        heap, dump = take_facts(site, base)
        base.detach()
        story.note("database stopped")
        result = {"program": run(array.binary, "--version").stdout.strip(), "quick": QUICK, "scale": SCALE}
        result["deletes"] = delete_in_turn(array, story)
        result["twins"] = twins(site, array, story, dump)
        result["compression"] = hot_and_cold(site, array, heap)
        result["steps"] = story.steps
        for pool in ("p", "cold"):
            array.check(pool)
        array.stop()
    result["seconds"] = time.monotonic() - begin
    text = report(result)
    for name, content in (("result.json", json.dumps(result, indent=1)), ("table.txt", text)):
        with open(os.path.join(out, name), "w", encoding="utf-8") as f:
            f.write(content + "\n")
    print(f"\n{text}\n\ndata-reduction: {result['seconds']:.0f} s; result.json and table.txt are in {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
