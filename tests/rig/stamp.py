"""Blocks that say who they are: place, sequence number, and a body that follows from both.

A block read back is intact when its body is the one its stamp calls for; it is the right one when
the stamp is. Bodies differ in how well they compress, because the array compresses them.
"""
import random
import struct

MAGIC = b"ASHSTAMP"
HEAD = struct.Struct("<8sIIQQ")
POOL_BYTES = 1 << 20
# Any fixed bytes do; the seed makes them the same in every process that verifies.
POOL = random.Random(20261121).randbytes(POOL_BYTES)
ZEROES = bytes(1 << 20)


def make(volume, block, sequence, size):
    """The bytes of one block."""
    head = HEAD.pack(MAGIC, volume, size, block, sequence)
    mixed = (block * 0x9E3779B97F4A7C15 + sequence * 0xC2B2AE3D27D4EB4F + volume) & (1 << 64) - 1
    start = (mixed >> 20) % (POOL_BYTES - size)
    body = size - HEAD.size
    kept = (body, body // 2, body // 8, body)[sequence & 3]  # 0 to 7/8 of the block compresses away
    return head + POOL[start:start + kept] + bytes([mixed & 255]) * (body - kept)


def make_run(volume, block, sequence, count, size):
    return b"".join(make(volume, block + index, sequence, size) for index in range(count))


def read(volume, block, data):
    """The sequence number of an intact block, 0 for zeroes. A damaged one raises."""
    if data == ZEROES[:len(data)]:
        return 0
    magic, volume_found, size, block_found, sequence = HEAD.unpack_from(data)
    if magic != MAGIC:
        raise ValueError(f"block {block} of volume {volume} holds neither a stamp nor zeroes: {data[:32].hex()}")
    if (volume_found, block_found, size) != (volume, block, len(data)):
        raise ValueError(f"block {block} of volume {volume} holds block {block_found} of volume {volume_found}"
                         f" (size {size}, sequence {sequence})")
    if data != make(volume, block, sequence, size):
        raise ValueError(f"block {block} of volume {volume}, sequence {sequence}, is damaged")
    return sequence
