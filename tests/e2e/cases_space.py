"""The accounts of the real program: parts that sum, and predictions that come true."""
import os
import random
import threading

import nbd
from cases import MIB, case, must, serving


def fill(array, volume, pieces, seed, size=MIB):
    """Writes incompressible pieces at random places."""
    chance = random.Random(seed)
    connection = nbd.Connection(array.nbd_socket, volume)
    for _ in range(pieces):
        connection.write(chance.randrange(256) * size, os.urandom(size))
    connection.close()


def accounts(array):
    """The accounts of pool `p`, whose parts must sum to physical."""
    space = array.json("space")[0]
    must(space["basis"] == "walk", f"no walk: {space.get('reason')}")
    parts = dict(space["parts"])
    physical = parts.pop("physical_bytes")
    must(sum(parts.values()) == physical, f"the parts do not sum to {physical}: {parts}")
    saved = space["sharing_saved_bytes"] + space["compression_saved_bytes"]
    must(space["written_bytes"] - saved == parts["data_alive_bytes"], f"the savings do not add up: {space}")
    return space


def chunk_bytes(space):
    """What all chunks take of which anything is referred to."""
    return space["parts"]["data_alive_bytes"] + space["parts"]["stranded_bytes"]


@case
def space_predicts_what_a_delete_gives(site):
    """`space reclaim` of volumes, snapshots and clones together is what deleting them gives, to the byte."""
    array = serving(site)
    array.volume("db", "256MiB")
    for number in range(4):
        fill(array, "db", 40, number)
        array.run("snapshot", "create", f"s{number}", "db")
    array.run("clone", "create", "copy", "--from", "s1")
    fill(array, "copy", 40, 9)
    for names in (["s0"], ["s1", "copy"], ["db", "s2"]):
        before = accounts(array)
        predicted = array.json("space", "reclaim", *names)
        for name in names:
            array.run(*(("snapshot", "delete") if name.startswith("s") else ("volume", "delete", "--now")), name, "--yes")
        after = accounts(array)
        given = chunk_bytes(before) - chunk_bytes(after)
        must(given == predicted["chunk_bytes"] > 0, f"{names}: {predicted} predicted, {given} given back")
        given = before["map_page_bytes"] - after["map_page_bytes"]
        must(given == predicted["map_page_bytes"], f"{names}: {predicted} predicted, {given} of pages given back")
    left = array.json("space", "holders", "s3")
    must(left["only_bytes"] == chunk_bytes(accounts(array)), f"only s3 is left: {left}")
    array.check()


@case
def space_adds_up_while_hosts_write(site):
    """Every answer under load sums to physical, estimates included, and writers are not stopped by it."""
    array = serving(site)
    array.volume("db", "256MiB")
    fill(array, "db", 200, 1)
    end, rounds = threading.Event(), []

    def write():
        while not end.is_set():
            fill(array, "db", 8, len(rounds))
            rounds.append(1)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(8):
            accounts(array)
            quick = array.json("space", "--quick")[0]["parts"]
            physical = quick.pop("physical_bytes")
            must(sum(quick.values()) == physical, f"the estimate does not sum to {physical}: {quick}")
            if number % 3 == 0:
                array.run("snapshot", "create", f"s{number}", "db")
    finally:
        end.set()
        writer.join()
    must(len(rounds) > 3, f"only {len(rounds)} rounds of writes beside 16 counts")
    array.check()
