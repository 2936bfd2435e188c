"""Clients that others wrote, over NBD: fio with verify, nbdinfo, nbdcopy, qemu-img, qemu-io."""
import json
import subprocess
import threading
import time

from cases import MIB, Array, case, must, random_file, run, serving

FIO = ("--verify_state_save=0", "--output-format=json", "--thread", "--randrepeat=0", "--group_reporting")


def fio_errors(text):
    job = json.loads(text[text.index("{"):])["jobs"][0]
    return job["error"], job["read"]["io_bytes"], job["write"]["io_bytes"]


@case
def fio_verifies_what_it_wrote(site):
    """fio's nbd engine writes random blocks of mixed sizes at depth 64 and finds every checksum again."""
    array = serving(site)
    for unit in ("512", "4096"):
        name = f"v{unit}"
        array.volume(name, "1GiB", "--logical-block", unit)
        # Compressible to half, as real data are: every codec path is taken.
        done = run("fio", "--name=verify", "--ioengine=nbd", f"--uri={array.uri(name)}", "--rw=randwrite",
                   f"--bsrange={unit}-256k", f"--blockalign={unit}", "--size=256m", "--iodepth=64", "--verify=crc32c",
                   "--verify_fatal=1", "--do_verify=1", "--buffer_compress_percentage=50",
                   "--refill_buffers=1", *FIO, check=False, seconds=120)
        must(done.returncode == 0, f"fio: {done.stderr[-500:]} {done.stdout[-300:]}")
        error, read_bytes, written_bytes = fio_errors(done.stdout)
        must(error == 0 and read_bytes > 100 * MIB and written_bytes > 100 * MIB, f"fio checked little: {done.stdout}")
    array.check()
    # The same checksums after a restart: what was verified was not a cache.
    array.stop()
    array.start()
    array.check()


@case
def fio_verifies_over_a_restart(site):
    """What fio wrote before an orderly stop and before a SIGKILL is found afterwards."""
    array = serving(site)
    array.volume("v", "512MiB")
    job = ["fio", "--name=keep", "--ioengine=nbd", f"--uri={array.uri('v')}", "--rw=randwrite", "--bs=8k",
           "--size=128m", "--iodepth=32", "--verify=sha256", "--verify_fatal=1", "--randseed=7", *FIO]
    run(*job, "--do_verify=0", seconds=60)
    array.stop()
    array.start()
    run(*job, "--verify_only=1", seconds=60)
    array.kill()
    array.start()
    run(*job, "--verify_only=1", seconds=60)


@case
def nbdinfo_lists_volumes_and_their_holes(site):
    """nbdinfo sees each volume with its size and block sizes; the map shows what was written."""
    array = serving(site)
    array.volume("one", "1GiB")
    array.volume("two", "3GiB", "--logical-block", "512")
    uri = f"nbd+unix:///?socket={array.nbd_socket}"
    exports = json.loads(run("nbdinfo", "--list", "--json", uri).stdout)["exports"]
    sizes = {export["export-name"]: export["export-size"] for export in exports}
    must(sizes == {"one": 1024 * MIB, "two": 3072 * MIB}, f"nbdinfo --list: {sizes}")
    two = json.loads(run("nbdinfo", "--json", array.uri("two")).stdout)["exports"][0]
    must(two["can_multi_conn"] and two["can_fua"] and two["can_trim"] and two["can_zero"], f"flags: {two}")
    must(two["block_size_minimum"] == 512, f"block sizes: {two}")
    run("qemu-io", "-f", "raw", "-c", "write -P 7 64M 1M", array.uri("two"))
    extents = json.loads(run("nbdinfo", "--map", "--json", array.uri("two")).stdout)
    data = [(e["offset"], e["length"]) for e in extents if e["type"] == 0]
    must(data == [(64 * MIB, MIB)], f"nbdinfo --map: {extents}")
    must(sum(e["length"] for e in extents) == 3072 * MIB, "the map does not cover the volume")
    done = run("nbdinfo", array.uri("three"), check=False)
    must(done.returncode != 0, "a volume that does not exist was found")


@case
def nbdcopy_brings_back_the_same_bytes(site):
    """nbdcopy in with several connections, out again, and from volume to volume: equal files."""
    array = serving(site)
    source = random_file(site, "source", 192 * MIB)
    with open(source, "r+b") as f:  # a hole and zeroes inside
        f.seek(50 * MIB)
        f.write(bytes(20 * MIB))
    array.volume("in", "192MiB")
    array.volume("out", "192MiB")
    run("nbdcopy", "--connections=4", source, array.uri("in"))
    run("nbdcopy", "--flush", "--connections=4", array.uri("in"), array.uri("out"))
    run("nbdcopy", array.uri("out"), site.file("back"))
    run("cmp", source, site.file("back"))
    written = array.json("volume", "show", "out")["written_bytes"]
    must(written <= 172 * MIB, f"zeroes take space: {written} bytes written")


@case
def qemu_img_converts_and_compares(site):
    """qemu-img convert to a volume, compare, map, and convert back to qcow2."""
    array = serving(site)
    source = random_file(site, "source", 96 * MIB)
    array.volume("q", "96MiB")
    run("qemu-img", "convert", "-n", "-W", "-m", "8", "-f", "raw", "-O", "raw", source, array.uri("q"))
    run("qemu-img", "compare", "-f", "raw", "-F", "raw", source, array.uri("q"))
    run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", array.uri("q"), site.file("back.qcow2"))
    run("qemu-img", "compare", "-f", "raw", "-F", "qcow2", source, site.file("back.qcow2"))
    size = json.loads(run("qemu-img", "info", "--output=json", array.uri("q")).stdout)["virtual-size"]
    must(size == 96 * MIB, f"qemu-img info: {size}")


@case
def qemu_io_patterns_hold(site):
    """qemu-io: patterns, zeroes, discard, unaligned pieces, and the edges of the volume."""
    array = serving(site)
    array.volume("q", "64MiB", "--logical-block", "512")
    commands = ["write -P 1 0 64k", "write -P 2 4096 512", "write -f -P 3 65024 1024", "write -z 1M 1M",
                "write -P 4 1536k 512", "discard 2M 1M", "write -P 5 67108352 512", "flush",
                "read -P 1 0 4096", "read -P 2 4096 512", "read -P 1 4608 60416", "read -P 3 65024 1024",
                "read -P 0 1M 512k", "read -P 4 1536k 512", "read -P 0 1573376 523776", "read -P 0 2M 1M",
                "read -P 5 67108352 512", "read -P 0 66M 1"]
    arguments = [part for command in commands[:-1] for part in ("-c", command)]
    done = run("qemu-io", "-f", "raw", *arguments, array.uri("q"))
    must("verification failed" not in done.stdout and "failed" not in done.stdout, done.stdout)
    done = run("qemu-io", "-f", "raw", "-c", commands[-1], array.uri("q"), check=False)
    must(done.returncode != 0 or "failed" in done.stdout, "a read beyond the end succeeded")


@case
def a_snapshot_stays_while_its_volume_changes(site):
    """fio writes on; the snapshot read by nbdcopy stays what it was; restore brings the volume back."""
    array = serving(site)
    array.volume("v", "96MiB")
    source = random_file(site, "source", 96 * MIB)
    run("nbdcopy", source, array.uri("v"))
    array.run("snapshot", "create", "s", "v")
    run("fio", "--name=over", "--ioengine=nbd", f"--uri={array.uri('v')}", "--rw=randwrite", "--bs=16k", "--size=96m",
        "--iodepth=32", *FIO)
    array.run("clone", "create", "c", "--from", "s")
    run("nbdcopy", array.uri("c"), site.file("clone"))
    run("cmp", source, site.file("clone"))
    run("nbdcopy", array.uri("v"), site.file("changed"))
    must(run("cmp", source, site.file("changed"), check=False).returncode == 1, "fio changed nothing")
    run("qemu-io", "-f", "raw", "-c", "write -P 9 0 1M", array.uri("c"))
    array.run("snapshot", "restore", "s", "--no-backup", "--yes")
    run("nbdcopy", array.uri("v"), site.file("restored"))
    run("cmp", source, site.file("restored"))
    # Deleted in an order that leaves the clone last.
    array.run("snapshot", "delete", "s", "--yes")
    array.run("volume", "delete", "v", "--now", "--yes")
    run("qemu-io", "-f", "raw", "-c", "read -P 9 0 1M", array.uri("c"))
    array.check()


@case
def many_clients_at_once_see_their_own_writes(site):
    """Four fio processes with verify on four volumes, while snapshots and clones come and go."""
    array = serving(site, drive_mib=1536)
    failures = []

    def client(name):
        done = run("fio", "--name=v", "--ioengine=nbd", f"--uri={array.uri(name)}", "--rw=randwrite", "--bs=8k",
                   "--size=48m", "--iodepth=16", "--verify=crc32c", "--verify_fatal=1", "--do_verify=1", "--loops=2",
                   *FIO, check=False, seconds=120)
        if done.returncode != 0:
            failures.append(f"{name}: {done.stderr[-300:]}")

    names = [f"v{index}" for index in range(4)]
    for name in names:
        array.volume(name, "256MiB")
    threads = [threading.Thread(target=client, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    turn = 0
    while any(thread.is_alive() for thread in threads):
        array.run("snapshot", "create", f"s{turn}", *names)
        array.run("clone", "create", f"c{turn}", "--from", f"s{turn}")
        array.run("snapshot", "delete", f"s{turn}", "--yes")
        for name in names:
            array.run("volume", "delete", f"c{turn}-{name}", "--now", "--yes")
        turn += 1
        time.sleep(0.05)
    must(not failures, "; ".join(failures))
    must(turn > 3, f"only {turn} turns of snapshots")
    array.check()


@case
def idle_costs_nothing(site):
    """`ashlar serve` with default settings, a pool and volumes: under 200 MiB, next to no CPU."""
    # The settings file holds only the ports, so memory is what a user gets.
    array = Array(site)
    array.start()
    array.pool("p", 2, 2048)
    for index in range(5):
        array.volume(f"v{index}", "1TiB")
    warm = ["fio", "--name=warm", "--ioengine=nbd", f"--uri={array.uri('v0')}", "--rw=randrw", "--bs=8k",
            "--iodepth=32", "--norandommap", "--buffer_compress_percentage=60", *FIO]
    run(*warm, "--size=64m", "--rw=randwrite")
    time.sleep(3)  # What the load left to do may still run.
    before = array.cpu_seconds()
    time.sleep(8)
    used = (array.cpu_seconds() - before) / 8
    resident = array.resident_bytes()
    print(f"    idle: {resident / MIB:.0f} MiB resident, {used * 100:.2f} % of a core")
    must(used < 0.01, f"idle uses {used * 100:.2f} % of a core")
    must(resident < 200 * MIB, f"idle takes {resident / MIB:.0f} MiB")
    # After work the caches are full, up to their caps: nothing else may have grown, and idle is idle again.
    run(*warm, "--size=1g", "--time_based", "--runtime=5")
    time.sleep(3)
    before = array.cpu_seconds()
    time.sleep(4)
    used = (array.cpu_seconds() - before) / 4
    counters = array.json("pool", "show", "p")["counters"]
    cached = counters["cache_bytes_used"] + counters["map_bytes_used"]
    resident = array.resident_bytes()
    print(f"    after work: {resident / MIB:.0f} MiB resident, {cached / MIB:.0f} MiB of it cached data and map")
    must(used < 0.01, f"idle after work uses {used * 100:.2f} % of a core")
    must(resident - cached < 200 * MIB, f"{(resident - cached) / MIB:.0f} MiB beside the caches")


@case
def qemu_with_a_reconnect_delay_outlives_the_array(site):
    """A guest's disk by `reconnect-delay`: its requests wait for the next array, and nothing is lost."""
    array = serving(site)
    array.volume("v", "64MiB")
    image = f"driver=nbd,server.type=unix,server.path={array.nbd_socket},export=v,reconnect-delay=60"
    guest = subprocess.Popen(["qemu-io", "--image-opts", image], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
    site.processes.append(guest)
    for number in (1, 2, 3):
        guest.stdin.write(f"write -P {number} {number}M 1M\n")
        guest.stdin.flush()
        time.sleep(0.5)
        array.kill()
        guest.stdin.write(f"write -P {number + 10} {number + 10}M 1M\n")
        guest.stdin.flush()
        time.sleep(0.3)
        array.start()
    for number in (1, 2, 3, 11, 12, 13):
        guest.stdin.write(f"read -P {number} {number}M 1M\n")
    said = guest.communicate("quit\n", timeout=90)[0]
    must(said.count("wrote 1048576/1048576") == 6 and said.count("read 1048576/1048576") == 6, said)
    must("failed" not in said, said)
