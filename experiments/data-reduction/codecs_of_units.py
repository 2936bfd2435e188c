"""What LZ4 and Zstandard make of data by themselves, in units of one size: the measure for what an array stores."""
import ctypes

UNIT_BYTES = 16 << 10  # The largest chunk of the profile `oltp`.
ZSTD_LEVEL = 1


def _load(*names):
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise SystemExit(f"data-reduction: none of {', '.join(names)} is installed")


def _lz4():
    library = _load("liblz4.so.1", "liblz4.so")
    def compress(source, room):
        return library.LZ4_compress_default(source, room, len(source), len(room))
    return compress


def _zstd():
    library = _load("libzstd.so.1", "libzstd.so")
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    library.ZSTD_createCCtx.restype = pointer
    library.ZSTD_compressCCtx.restype = size
    library.ZSTD_compressCCtx.argtypes = [pointer, pointer, size, pointer, size, ctypes.c_int]
    context = library.ZSTD_createCCtx()
    def compress(source, room):
        return library.ZSTD_compressCCtx(context, room, len(room), source, len(source), ZSTD_LEVEL)
    return compress


CODECS = {"lz4": _lz4, "zstd": _zstd}


def stored_bytes(path, codec):
    """Sum over the file's units; a unit that does not get smaller counts in full, one of zeroes not at all."""
    compress, room, total = CODECS[codec](), ctypes.create_string_buffer(2 * UNIT_BYTES), 0
    with open(path, "rb") as f:
        while unit := f.read(UNIT_BYTES):
            if unit.count(0) != len(unit):
                length = compress(unit, room)
                total += length if 0 < length < len(unit) else len(unit)
    return total
