"""Dedupe of the real program: a dump written twice takes the space of one, and nobody loses a byte."""
import os
import time

import nbd
from cases import MIB, case, must, serving

DUMP_MIB = 48


def write(array, volume, dump, at):
    connection = nbd.Connection(array.nbd_socket, volume)
    for piece in range(0, len(dump), MIB):
        connection.write(at + piece, dump[piece:piece + MIB])
    connection.close()


def verify(array, volume, dump, at):
    connection = nbd.Connection(array.nbd_socket, volume)
    for piece in range(0, len(dump), MIB):
        must(connection.read(at + piece, MIB) == dump[piece:piece + MIB], f"{volume} differs at {piece}")
    connection.close()


def settled(array):
    """Waits until everything written was looked at."""
    before, end = None, time.monotonic() + 120
    while time.monotonic() < end:
        now = array.json("pool", "dedupe", "show", "p")
        if now == before and now["queued_block_count"] == 0 and "rebuild_percent" not in now:
            return now
        before = now
        time.sleep(0.3)
    raise TimeoutError(f"dedupe does not come to an end: {before}")


def space(array):
    space = array.json("space")[0]
    must(space["basis"] == "walk", f"no walk: {space.get('reason')}")
    parts = dict(space["parts"])
    physical = parts.pop("physical_bytes")
    must(sum(parts.values()) == physical, f"the parts do not sum to {physical}: {parts}")
    return space


@case
def dedupe_stores_the_same_dump_once(site):
    """One dump in two volumes at different addresses takes the space of one; also after kill -9, and when
    the switch comes later; deleting one of them loses nothing."""
    array = serving(site)
    # Half of each block shrinks away.
    dump = b"".join(os.urandom(2048) + bytes(2048) for _ in range(DUMP_MIB * MIB // 4096))
    array.volume("one", "1GiB", "--dedupe", "on")
    array.volume("two", "1GiB", "--dedupe", "on")
    array.volume("late", "1GiB")
    write(array, "one", dump, 0)
    settled(array)
    single = space(array)["parts"]["data_alive_bytes"]
    write(array, "two", dump, 5 * MIB + 4096)
    found = settled(array)
    must(found["blocks"]["shared_bytes"] > len(dump) * 95 // 100, f"little was shared: {found}")
    both = space(array)
    must(both["parts"]["data_alive_bytes"] < single * 105 // 100, f"{single} bytes became {both['parts']}")
    must(both["content_saved_bytes"] > len(dump) * 95 // 100, f"not told as shared by content: {both}")
    array.kill()
    array.start()
    verify(array, "one", dump, 0)
    verify(array, "two", dump, 5 * MIB + 4096)
    write(array, "late", dump, 64 * MIB)
    settled(array)
    must(space(array)["parts"]["data_alive_bytes"] > single * 19 // 10, "shared though nobody asked for it")
    must(array.json("volume", "set", "late", "--dedupe", "on")["dedupe"], "the switch stays off")
    array.run("pool", "dedupe", "rebuild", "p")
    settled(array)
    must(space(array)["parts"]["data_alive_bytes"] < single * 105 // 100, "the rebuild found little")
    array.run("volume", "delete", "one", "--now", "--yes")
    array.run("pool", "dedupe", "drop", "p")
    verify(array, "two", dump, 5 * MIB + 4096)
    verify(array, "late", dump, 64 * MIB)
    array.check()
