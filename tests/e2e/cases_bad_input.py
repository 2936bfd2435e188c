"""Bad input: each is a clear error, the service goes on, nothing is lost."""
import os
import socket
import struct
import time

import nbd
from cases import MIB, Array, Failed, Refused, case, must, must_refuse, random_file, run, serving
from site_of_run import quietly


class Canary:
    """A volume whose content must outlive whatever a case does to the array."""

    def __init__(self, site, array, name="canary"):
        self.site, self.array, self.name = site, array, name
        self.source = random_file(site, name + ".source", 16 * MIB)
        array.volume(name, "16MiB")
        run("nbdcopy", self.source, array.uri(name))

    def check(self):
        run("nbdcopy", self.array.uri(self.name), self.site.file("canary.back"))
        run("cmp", self.source, self.site.file("canary.back"))
        os.remove(self.site.file("canary.back"))


def raw_connection(array, export=None):
    """A socket behind the NBD greeting, or in transmission when an export is named."""
    if export:
        return nbd.Connection(array.nbd_socket, export, seconds=5).socket
    raw = socket.socket(socket.AF_UNIX)
    raw.settimeout(5)
    raw.connect(array.nbd_socket)
    raw.recv(18)
    return raw


@case
def rubbish_on_the_nbd_socket_harms_nobody(site):
    """Random bytes before and after negotiation, bad magic, wrong options, giant lengths, half requests."""
    array = serving(site)
    canary = Canary(site, array)
    request = struct.Struct(">IHHQQI")
    option = struct.Struct(">QII")
    before = [os.urandom(4096), b"", b"\0" * 64, struct.pack(">I", 3) + os.urandom(64),
              struct.pack(">I", 0xFFFFFFFF), b"GET / HTTP/1.1\r\n\r\n",
              struct.pack(">I", 1) + option.pack(nbd.OPTION_MAGIC, 7, 0xFFFFFFFF),
              struct.pack(">I", 1) + option.pack(nbd.OPTION_MAGIC, 7, 8) + struct.pack(">I", 0xFFFFFFFF) + b"abcd",
              struct.pack(">I", 1) + option.pack(nbd.OPTION_MAGIC, 7, 100) + b"half",
              struct.pack(">I", 1) + option.pack(nbd.OPTION_MAGIC, 99, 0) * 200]
    during = [os.urandom(4096), b"\0" * 28, request.pack(nbd.REQUEST_MAGIC, 0, 1, 1, 0, 0xFFFFFFFF),
              request.pack(nbd.REQUEST_MAGIC, 0, 1, 1, 0, 65536) + b"only a part",
              request.pack(nbd.REQUEST_MAGIC, 0, 0, 1, 0, 4096)[:13],
              request.pack(nbd.REQUEST_MAGIC, 0xFFFF, 0xFFFF, 1, 0, 0),
              request.pack(nbd.REQUEST_MAGIC, 0, 0, 1, (1 << 64) - 4096, 8192)]
    for round_number in range(3):
        for export, messages in ((None, before), ("canary", during)):
            for message in messages:
                raw = raw_connection(array, export)
                try:
                    raw.sendall(message)
                    if round_number == 1:
                        raw.shutdown(socket.SHUT_WR)
                    if round_number == 2:
                        raw.settimeout(0.2)
                        while raw.recv(65536):
                            pass
                except OSError:
                    pass  # The server may hang up at any point: that is its right.
                raw.close()
    # Idle connections that never speak must not keep others out.
    silent = [raw_connection(array) for _ in range(50)]
    canary.check()
    for raw in silent:
        raw.close()
    must(array.process.poll() is None, "the array died of rubbish")
    array.check()


@case
def wrong_requests_are_refused_and_the_connection_goes_on(site):
    """Unaligned, beyond the end, of length zero, unknown: an error each, and the next request works."""
    array = serving(site)
    array.volume("v", "1MiB")
    door = nbd.Connection(array.nbd_socket, "v")
    door.write(0, b"x" * 4096)
    wrong = [("unaligned write", nbd.WRITE, 100, 0, b"y" * 512), ("unaligned offset", nbd.WRITE, 512, 0, b"y" * 4096),
             ("unaligned length", nbd.READ, 0, 100, b""), ("read beyond the end", nbd.READ, MIB, 4096, b""),
             ("write across the end", nbd.WRITE, MIB - 4096, 0, b"y" * 8192),
             ("offset that wraps", nbd.READ, (1 << 64) - 4096, 8192, b""), ("unknown command", 77, 0, 4096, b""),
             ("trim beyond the end", nbd.TRIM, MIB, 4096, b""), ("zero beyond the end", nbd.ZEROES, 0, 2 * MIB, b"")]
    for what, kind, offset, length, data in wrong:
        try:
            door.one(kind, offset, length, data)
        except nbd.ServerError as error:
            must(error.number in (nbd.EINVAL, nbd.ENOSPC, 95), f"{what}: error {error.number}")
        else:
            raise Failed(f"{what}: accepted")
        must(door.read(0, 4096) == b"x" * 4096, f"after {what} the volume changed")
    must(door.read(4096, 4096) == bytes(4096), "a refused write left something")
    door.close()
    done = run("dd", "if=/dev/zero", f"of={array.attach('v')}", "bs=512", "count=1", "oflag=direct", check=False)
    must(done.returncode != 0, "the device took a write below its logical block")
    array.run("detach", "v")
    array.check()


@case
def wrong_usage_is_told(site):
    """Typos, missing and unknown names, bad sizes: status 2 or 1 and a line that names the object."""
    array = serving(site)
    array.volume("v", "1GiB")
    array.run("snapshot", "create", "s", "v")
    for wrong in (["volum", "list"], ["volume", "create"], ["volume", "create", "x", "--size", "ten"],
                  ["volume", "create", "x", "--sice", "1GiB"], ["attach"], [],
                  ["volume", "create", "x", "--size", "1GiB", "--logical-block", "1000"]):
        done = array.try_run(*wrong)
        must_refuse(done, status=2)
    refused = [(["volume", "show", "nosuch"], "nosuch"), (["volume", "delete", "nosuch", "--yes"], "nosuch"),
               (["volume", "create", "v", "--size", "1GiB"], "v"), (["snapshot", "create", "s", "v"], "s"),
               (["snapshot", "create", "t", "nosuch"], "nosuch"), (["snapshot", "delete", "nosuch", "--yes"], "nosuch"),
               (["clone", "create", "c", "--from", "nosuch"], "nosuch"), (["attach", "nosuch"], "nosuch"),
               (["detach", "v"], "v"), (["pool", "show", "nosuch"], "nosuch"),
               (["pool", "create", "p", "--drive", site.file("new.img") + ",size=1GiB"], "p"),
               (["volume", "create", "bad/name", "--size", "1GiB"], "bad/name"),
               (["volume", "create", "x", "--size", "512TiB"], "256")]
    for command, word in refused:
        done = array.try_run(*command)
        must(done.returncode in (1, 2), f"{command}: status {done.returncode}")
        must_refuse(done, word, status=done.returncode)
    must(not os.path.exists(site.file("new.img")), "a refused pool left its drive file")
    names = [volume["name"] for volume in array.json("volume", "list")]
    must(names == ["v"], f"refused commands left volumes: {names}")
    stranger = Array(site, "nobody-serves-here")
    must_refuse(stranger.try_run("status"), "nobody-serves-here")


@case
def two_daemons_on_one_state_or_one_pool(site):
    """A second array on the same state directory, or on the same drives, is refused; the first goes on."""
    array = serving(site)
    canary = Canary(site, array)
    second = Array(site, "second", state=array.state)
    second.start(is_waiting=False)
    must(second.process.wait(30) != 0, "two arrays run on one state directory")
    must(second.last_words().strip(), "the second array ended without a word")
    canary.check()
    other = Array(site, "other")
    other.start()
    drives = [drive["path"] for drive in array.json("pool", "show", "p")["drives"]]
    for verb in (["pool", "create", "q"], ["pool", "import", "p"]):
        options = [part for drive in drives for part in ("--drive", drive)]
        done = other.try_run(*verb, *options)
        must(done.returncode in (1, 2) and done.stderr.strip(), f"{verb} on drives in use: {done}")
    canary.check()
    array.check()


@case
def a_drive_that_is_truncated_gone_or_of_another_pool(site):
    """The pool says which drive is wrong and stays closed; put right, it comes back whole."""
    array = serving(site)
    canary = Canary(site, array)
    array.run("pool", "create", "q", "--drive", site.file("q-0.img") + ",size=1GiB")
    array.stop()
    first = site.file("p-0.img")
    size = os.path.getsize(first)

    def closed(what, *words):
        array.start()
        pool = array.json("pool", "show", "p")
        must(pool["state"] in ("failed", "waiting") and pool.get("reason"), f"{what}: pool p is {pool['state']}, {pool.get('reason')}")
        for word in words or ("p-0.img",):
            must(word in pool["reason"], f"{what}: the reason does not name {word}: {pool['reason']}")
        must(array.json("pool", "show", "q")["state"] == "online", f"{what}: pool q suffers too")
        array.stop()

    run("cp", "--sparse=always", first, site.file("kept.img"))
    os.truncate(first, size // 2)
    closed("truncated drive")
    os.truncate(first, 0)
    closed("empty drive")
    os.remove(first)
    closed("missing drive")
    run("cp", "--sparse=always", site.file("q-0.img"), first)
    closed("a drive of another pool", "pool p", "pool q")
    os.replace(site.file("kept.img"), first)
    array.start()
    canary.check()
    array.check()


@case
def drives_that_swap_their_places_are_known(site):
    """Two drives of one pool change their paths: each is known by its identity, nothing is lost."""
    array = serving(site)
    canary = Canary(site, array)
    array.stop()
    a, b = site.file("p-0.img"), site.file("p-1.img")
    os.rename(a, a + ".x")
    os.rename(b, a)
    os.rename(a + ".x", b)
    array.start()
    pool = array.json("pool", "show", "p")
    if pool["state"] == "online":
        canary.check()
        array.check()
    else:
        must(pool.get("reason"), "the pool is closed without a reason")
        array.stop()
        os.rename(a, a + ".x")
        os.rename(b, a)
        os.rename(a + ".x", b)
        array.start()
        canary.check()


@case
def a_full_pool_says_so_and_recovers(site):
    """Writes end in ENOSPC, reads go on, deletes give room back, and writes work again by themselves."""
    array = serving(site, drives=1, drive_mib=1024)
    canary = Canary(site, array)
    array.volume("big", "8GiB", "--compression", "off")
    door = nbd.Connection(array.nbd_socket, "big")
    piece, written, errors = os.urandom(MIB), 0, []
    for index in range(4096):
        try:
            door.write(index * MIB, piece[index % MIB:] + piece[:index % MIB])
            written += 1
        except nbd.ServerError as error:
            errors.append(error.number)
            if len(errors) >= 8:
                break
    must(errors, "a pool of 1 GiB took 4 GiB")
    must(set(errors) == {nbd.ENOSPC}, f"errors {set(errors)}, expected ENOSPC (28)")
    must(written > 500, f"full after {written} MiB of 1024")
    must(door.read(0, MIB) == piece, "reads fail on the full pool")
    canary.check()
    must_refuse_nothing(array)
    array.kill()
    array.start()
    canary.check()
    door = nbd.Connection(array.nbd_socket, "big")
    for index in (0, written // 2, written - 2):
        must(door.read(index * MIB, MIB) == piece[index % MIB:] + piece[:index % MIB], f"MiB {index} changed")
    for part in range(4):
        door.trim(part * 2048 * MIB, 2048 * MIB)
    door.flush()
    deadline = time.monotonic() + 30
    while True:
        try:
            door.write(0, piece)
            break
        except nbd.ServerError as error:
            must(time.monotonic() < deadline, f"no room 30 s after everything was unmapped: error {error.number}")
            time.sleep(0.2)
    for index in range(300):
        door.write(index * MIB, piece)
    door.close()
    array.run("volume", "delete", "big", "--now", "--yes")
    canary.check()
    array.check()


def must_refuse_nothing(array):
    """Management works on a full pool."""
    array.run("snapshot", "create", "full", "big")
    array.run("snapshot", "delete", "full", "--yes")
    array.json("pool", "show", "p")


@case
def a_full_state_directory_is_survived(site):
    """The state directory's file system is full: commands that need it fail clearly, volumes serve on."""
    state = site.directory("small")
    run("mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "ashlar-test", state)
    array = Array(site, "array", state=state)
    array.start()
    array.pool("p", 2, 1024)
    canary = Canary(site, array)
    quietly("dd", "if=/dev/zero", f"of={state}/fill", "bs=4k")
    done = array.try_run("pool", "create", "q", "--drive", site.file("q.img") + ",size=1GiB")
    must(done.returncode in (0, 1), f"pool create: {done}")
    if done.returncode == 1:
        must_refuse(done, "space")
    array.try_run("volume", "create", "w", "--size", "1GiB")
    canary.check()
    array.kill()
    try:
        array.start()
    except RuntimeError as error:
        # It may refuse to start, but must say why, and nothing may be lost.
        must("space" in str(error).lower(), f"no clear word: {error}")
        os.remove(state + "/fill")
        array.start()
    canary.check()
    if os.path.exists(state + "/fill"):
        os.remove(state + "/fill")
    array.check()


@case
def a_wrong_settings_file_stops_the_start_with_its_line(site):
    """An unknown field or a bad value: the start is refused, the message names it."""
    for settings, word in (({"cashe_bytes": 5}, "cashe_bytes"), ({"cache_bytes": "much"}, "much"),
                           ({"api": "0.0.0.0:9410"}, "0.0.0.0")):
        array = Array(site, "array", settings)
        array.start(is_waiting=False)
        must(array.process.wait(20) != 0, f"{settings}: started")
        must(word in array.last_words(), f"{settings}: {array.last_words()}")


@case
def a_json_answer_has_exact_numbers(site):
    """The parts of a pool's space sum to its physical bytes; sizes are plain numbers."""
    array = serving(site)
    array.volume("v", "1GiB")
    run("qemu-io", "-f", "raw", "-c", "write -P 3 0 32M", array.uri("v"))
    space = array.json("pool", "show", "p")["space"]
    parts = sum(value for key, value in space.items() if key != "physical_bytes")
    must(parts == space["physical_bytes"] == 2048 * MIB, f"space does not add up: {space}")
    volume = array.json("volume", "show", "v")
    must(volume["size_bytes"] == 1024 * MIB and volume["written_bytes"] == 32 * MIB, f"volume: {volume}")
    try:
        array.json("volume", "show", "w")
    except Refused as error:
        must(error.status == 1, "status")
    else:
        raise Failed("an unknown volume was shown")
