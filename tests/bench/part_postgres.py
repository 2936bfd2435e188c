"""PostgreSQL, pgbench TPC-B-like: our attached volume beside other places on the same disk."""
import glob
import os
import pwd
import shutil
import time

import measure
from array_of_run import GIB, Array, cpu_seconds
from site_of_run import quietly, run, wait_for

SCALE = int(os.environ.get("PG_SCALE", "40" if measure.QUICK else "150"))
PG_SECONDS = int(os.environ.get("PG_SECONDS", "15" if measure.QUICK else "40"))
CLIENTS = 16
IMAGE_GIB = max(6, SCALE * 15 * 4 // 1024 + 4)
SETTINGS = """
listen_addresses = ''
shared_buffers = 512MB
max_wal_size = 4GB
checkpoint_timeout = 5min
"""
PEERS = ("ashlar dual", "ext4 on disk", "ext4 on loop", "btrfs zstd:1", "qcow2 FUSE loop")
PART = f"PostgreSQL, pgbench TPC-B-like, scale {SCALE}, {CLIENTS} sessions"


class Postgres:
    def __init__(self, site):
        homes = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda p: int(p.split("/")[4]))
        self.home, self.site = homes[-1], site
        self.account = pwd.getpwnam("postgres")
        self.socket = self.owned(site.directory("pgrun"))
        self.seed = self.owned(site.directory("pgseed"), 0o700)

    def owned(self, path, mode=0o755):
        os.chown(path, self.account.pw_uid, self.account.pw_gid)
        os.chmod(path, mode)
        return path

    def run(self, program, *arguments, **options):
        return run(os.path.join(self.home, program), *arguments, user=self.account.pw_uid, group=self.account.pw_gid,
                   extra_groups=[], cwd=self.site.path, env={"LC_ALL": "C", "PATH": os.environ["PATH"]}, **options)

    def start(self, data):
        self.run("pg_ctl", "-D", data, "-w", "-s", "-t", "120", "-l", self.socket + "/log", "-o",
                 f"-k {self.socket} -p 5432", "start")

    def stop(self, data, mode="fast"):
        self.run("pg_ctl", "-D", data, "-w", "-s", "-m", mode, "-t", "300", "stop", check=False)

    def bench(self, *arguments):
        return self.run("pgbench", "-h", self.socket, "-U", "postgres", "-n", *arguments, "postgres").stdout

    def sql(self, statement):
        self.run("psql", "-h", self.socket, "-U", "postgres", "-qc", statement, "postgres")

    def make_seed(self):
        self.run("initdb", "-D", self.seed, "-U", "postgres", "-A", "trust", "--no-locale", "-E", "UTF8",
                 "--data-checksums", "--no-sync")
        with open(self.seed + "/postgresql.conf", "a", encoding="utf-8") as f:
            f.write(SETTINGS)
        self.start(self.seed)
        self.bench("-i", "-q", "-s", str(SCALE))
        self.sql("checkpoint")
        self.stop(self.seed)

    def copy_to(self, place):
        run("cp", "-a", self.seed, place + "/pg")
        run("sync", "-f", place)
        return place + "/pg"

    def measure(self, data, pids):
        """One round: warm up, checkpoint, load. CPU of the storage servers is charged per transaction."""
        measure.drop_caches()
        self.start(data)
        try:
            self.bench("-c", str(CLIENTS), "-j", "2", "-T", "5", "-S")
            self.sql("checkpoint")
            prefix = self.socket + "/bench"
            cpu = cpu_seconds(*pids)
            out = self.bench("-c", str(CLIENTS), "-j", "2", "-T", str(PG_SECONDS), "-l", "--log-prefix", prefix)
            measure.settle(*pids)
            cpu = cpu_seconds(*pids) - cpu
        finally:
            self.stop(data)
        latencies = []
        for path in glob.glob(prefix + ".*"):
            with open(path, encoding="utf-8") as f:
                latencies += [int(line.split()[2]) for line in f]
            os.remove(path)
        latencies.sort()
        tps = float(next(line.split()[2] for line in out.splitlines() if line.startswith("tps")))
        return {"tps": tps, "p99_us": latencies[len(latencies) * 99 // 100], "cpu_us": cpu * 1e6 / len(latencies)}


def loop_image(site, name):
    path = site.file(name + ".img")
    run("fallocate", "-l", f"{IMAGE_GIB}G", path)
    device = run("losetup", "-f", "--show", "--direct-io=on", path).stdout.strip()
    site.at_close(lambda: quietly("losetup", "-d", device))
    return device


def mounted(site, name, device, kind, *options):
    point = site.directory(name)
    make = {"ext4": ["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0"], "btrfs": ["mkfs.btrfs", "-q", "-f"]}
    run(*make[kind], device)
    run("mount", *options, device, point)
    site.at_close(lambda: quietly("umount", point))
    return point


def qcow2_place(site):
    """qcow2 through a local door of the same kind: qemu-nbd, nbdfuse, loop with direct I/O."""
    image, door, folder = site.file("pg.qcow2"), site.file("pgqcow.sock"), site.directory("nbdfuse")
    run("qemu-img", "create", "-q", "-f", "qcow2", image, f"{IMAGE_GIB}G")
    server = site.start(["qemu-nbd", "-k", door, "-t", "-e", "4", "-f", "qcow2", "--cache=none", "--aio=io_uring",
                         "--discard=unmap", image])
    wait_for(lambda: os.path.exists(door), 20, "qemu-nbd's socket")
    fuse = site.start(["nbdfuse", folder, f"nbd+unix:///?socket={door}"])
    site.at_close(lambda: quietly("fusermount3", "-u", folder))
    wait_for(lambda: os.path.exists(folder + "/nbd"), 20, "nbdfuse")
    device = run("losetup", "-f", "--show", "--direct-io=on", folder + "/nbd").stdout.strip()
    site.at_close(lambda: quietly("losetup", "-d", device))
    return mounted(site, "m-qcow2", device, "ext4"), (server.pid, fuse.pid)


def dual_place(site, array):
    """A pool with dual parity over eight drives, six of data."""
    words = [word for number in range(8) for word in
             ("--drive", f"{site.file(f'dual-{number}.img')},size={IMAGE_GIB * 1024 * 2 // 6}MiB")]
    array.run("pool", "create", "dual", "--protection", "dual", *words)
    array.run("volume", "create", "d", "--pool", "dual", "--size", f"{IMAGE_GIB}GiB", "--profile", "oltp")
    point = site.directory("m-dual")
    array.attach("d", "--format", "ext4", "--mount", point)
    site.at_close(lambda: array.try_run("detach", "d"))
    return point


def play(site, table):
    postgres = Postgres(site)
    postgres.make_seed()
    array = Array(site)
    array.start()
    array.pool("p", 2, IMAGE_GIB * 1024)
    array.volume("v", f"{IMAGE_GIB}GiB", "--profile", "oltp")
    point = site.directory("m-ashlar")
    array.attach("v", "--format", "ext4", "--mount", point)
    site.at_close(lambda: array.try_run("detach", "v"))
    wanted = os.environ.get("PG_PEERS", ",".join(PEERS)).split(",")
    places = {"ashlar": (postgres.copy_to(point), (array.process.pid,))}
    if "ashlar dual" in wanted:
        places["ashlar dual"] = (postgres.copy_to(dual_place(site, array)), (array.process.pid,))
    if "ext4 on disk" in wanted:
        places["ext4 on disk"] = (postgres.copy_to(site.directory("m-disk")), ())
    if "ext4 on loop" in wanted:
        places["ext4 on loop"] = (postgres.copy_to(mounted(site, "m-loop", loop_image(site, "ext4"), "ext4")), ())
    if "btrfs zstd:1" in wanted:
        device = loop_image(site, "btrfs")
        places["btrfs zstd:1"] = (postgres.copy_to(mounted(site, "m-btrfs", device, "btrfs", "-o",
                                                          "noatime,compress=zstd:1")), ())
    if "qcow2 FUSE loop" in wanted:
        place, pids = qcow2_place(site)
        places["qcow2 FUSE loop"] = (postgres.copy_to(place), pids)
    shutil.rmtree(postgres.seed)
    for _ in range(measure.ROUNDS):
        for name, (data, pids) in places.items():
            time.sleep(1)
            table.add(PART, "TPC-B-like tps", name, postgres.measure(data, pids))
    space = array.json("pool", "show", "p")["space"]
    print(f"  ashlar: {(space['physical_bytes'] - space['free_bytes']) / GIB:.1f} GiB of the pool in use")
    table.goal("PostgreSQL tps: ext4 on the same disk", 0.8, PART, "TPC-B-like tps", "ashlar", ("ext4 on disk",), "tps")
    table.goal("PostgreSQL tps: btrfs with zstd", 1.0, PART, "TPC-B-like tps", "ashlar", ("btrfs zstd:1",), "tps")
    table.goal("PostgreSQL tps on dual parity: the same without protection", 0.7, PART, "TPC-B-like tps", "ashlar dual",
               ("ashlar",), "tps")
    if "ashlar dual" in wanted:
        array.run("detach", "d")
        array.check("dual")
    array.run("detach", "v")
    array.check()
    array.stop()
