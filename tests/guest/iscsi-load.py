#!/usr/bin/env python3
"""Writes to a file system, and keeps a record elsewhere of every write that was acknowledged.

usage: iscsi-load.py run DIR RECORD      until RECORD.stop is there; ends at the first error
       iscsi-load.py check DIR RECORD    whether DIR holds what RECORD says

A line of the record is written when the write has returned:
    block NUMBER WRITE SHA256      a block of the file `blocks`, written past the page cache (O_DIRECT)
    file NAME SHA256               a file that was written, synchronised and renamed
    gone NAME                      a file that was removed; its directory was synchronised
"""
import hashlib
import mmap
import os
import random
import struct
import sys
import threading
import time

WRITERS = 4
BLOCKS_EACH = 512
BLOCK_BYTES = 16 * 1024
HEADER = struct.Struct("<QQ")


def content(number, write, length=BLOCK_BYTES):
    """What a write puts into a block: its number and which write it is, then bytes that follow from both."""
    rest = random.Random(number << 32 | write).randbytes(length - HEADER.size)
    return HEADER.pack(number, write) + rest


def digest(data):
    return hashlib.sha256(data).hexdigest()


class Load:
    def __init__(self, directory, record):
        self.directory, self.stop = directory, record + ".stop"
        self.record = os.open(record, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self.errors, self.longest, self.lock = [], 0.0, threading.Lock()

    def note(self, line, began):
        with self.lock:
            self.longest = max(self.longest, time.monotonic() - began)
            os.write(self.record, (line + "\n").encode())

    def until_stopped(self, step):
        try:
            count = 0
            while not self.errors and not os.path.exists(self.stop):
                count += 1
                step(count)
        except Exception as error:  # Whatever it is: the check has failed.
            self.errors.append(f"{threading.current_thread().name}: {error!r}")

    def write_blocks(self, writer):
        file = os.open(os.path.join(self.directory, "blocks"), os.O_RDWR | os.O_DIRECT)
        buffer, chance = mmap.mmap(-1, BLOCK_BYTES), random.Random(writer)
        written = {}

        def step(write):
            number = writer * BLOCKS_EACH + chance.randrange(BLOCKS_EACH)
            buffer[:] = content(number, write)
            began = time.monotonic()
            if os.pwrite(file, buffer, number * BLOCK_BYTES) != BLOCK_BYTES:
                raise OSError(f"block {number}: a short write")
            written[number] = write
            self.note(f"block {number} {write} {digest(buffer)}", began)
            number = chance.choice(list(written))
            os.preadv(file, [buffer], number * BLOCK_BYTES)
            if buffer[:] != content(number, written[number]):
                raise ValueError(f"block {number}: not what was written by write {written[number]}")

        self.until_stopped(step)

    def write_files(self):
        place = os.path.join(self.directory, "files")
        os.makedirs(place, exist_ok=True)
        directory, chance, there = os.open(place, os.O_RDONLY), random.Random(), []

        def step(count):
            began, name = time.monotonic(), f"{os.getpid()}-{count}"
            data = chance.randbytes(chance.randrange(1, 200_000))
            with open(os.path.join(place, "new"), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.rename(os.path.join(place, "new"), os.path.join(place, name))
            os.fsync(directory)
            self.note(f"file {name} {digest(data)}", began)
            there.append(name)
            if len(there) > 100:
                name = there.pop(chance.randrange(len(there)))
                os.unlink(os.path.join(place, name))
                os.fsync(directory)
                self.note(f"gone {name}", began)

        self.until_stopped(step)

    def run(self):
        path = os.path.join(self.directory, "blocks")
        if not os.path.exists(path):
            with open(path, "wb") as file:
                os.posix_fallocate(file.fileno(), 0, WRITERS * BLOCKS_EACH * BLOCK_BYTES)
                os.fsync(file.fileno())
        threads = [threading.Thread(target=self.write_blocks, args=(n,), name=f"writer {n}") for n in range(WRITERS)]
        threads.append(threading.Thread(target=self.write_files, name="files"))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(f"longest wait {self.longest:.1f} s", *self.errors, sep="\n")
        return 1 if self.errors else 0


def check(directory, record):
    blocks, files = {}, {}
    for line in open(record, encoding="ascii"):
        kind, name, *rest = line.split()
        if kind == "block":
            blocks[int(name)] = (int(rest[0]), rest[1])
        else:
            files[name] = rest[0] if kind == "file" else None
    wrong = []
    with open(os.path.join(directory, "blocks"), "rb") as file:
        for number, (write, wanted) in sorted(blocks.items()):
            file.seek(number * BLOCK_BYTES)
            data = file.read(BLOCK_BYTES)
            if digest(data) != wanted:
                found = HEADER.unpack_from(data)
                wrong.append(f"block {number}: write {write} was acknowledged; it says (block, write) {found}")
    for name, wanted in files.items():
        path = os.path.join(directory, "files", name)
        found = digest(open(path, "rb").read()) if os.path.exists(path) else None
        if found != wanted:
            wrong.append(f"file {name}: {found} and not {wanted}")
    there = sum(1 for wanted in files.values() if wanted)
    print(f"{len(blocks)} blocks, {there} files, {len(files) - there} removed ones")
    print(*wrong[:20], sep="\n", end="\n" if wrong else "")
    return 1 if wrong or not blocks or not there else 0


def main():
    verb, directory, record = sys.argv[1:]
    sys.exit({"run": lambda: Load(directory, record).run(), "check": lambda: check(directory, record)}[verb]())


main()
