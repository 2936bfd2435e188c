"""A small NBD client that keeps many requests in flight and knows which of them were answered.

It is independent of the array's code on purpose. Fixed newstyle negotiation with NBD_OPT_GO, simple
replies (structured ones are not asked for), as in the protocol document of the NBD project.
"""
import socket
import struct

MAGIC, OPTION_MAGIC, OPTION_REPLY = 0x4E42444D41474943, 0x49484156454F5054, 0x3E889045565A9
REQUEST_MAGIC, SIMPLE_MAGIC = 0x25609513, 0x67446698
OPT_ABORT, OPT_LIST, OPT_GO = 2, 3, 7
REP_ACK, REP_INFO = 1, 3
READ, WRITE, DISCONNECT, FLUSH, TRIM, CACHE, ZEROES = range(7)
FUA, NO_HOLE = 1, 2
ENOSPC, EINVAL = 28, 22


class Gone(Exception):
    """The server closed the connection or died."""


class ServerError(Exception):
    """The server refused a request."""

    def __init__(self, number):
        super().__init__(f"NBD error {number}")
        self.number = number


class Connection:
    def __init__(self, path, export, seconds=60):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(seconds)
        self.cookie = 0
        self.size = self.flags = 0
        try:
            self.socket.connect(path)
            self._negotiate(export)
        except (OSError, struct.error) as error:
            self.socket.close()
            raise Gone(f"connect: {error}") from error
        except BaseException:
            self.socket.close()
            raise

    def _negotiate(self, export):
        magic, option, flags = struct.unpack(">QQH", self._receive(18))
        assert magic == MAGIC and option == OPTION_MAGIC and flags & 1, "not a fixed newstyle server"
        self.socket.sendall(struct.pack(">I", flags & 3))
        name = export.encode()
        body = struct.pack(">I", len(name)) + name + struct.pack(">H", 0)
        self.socket.sendall(struct.pack(">QII", OPTION_MAGIC, OPT_GO, len(body)) + body)
        while True:
            magic, _, kind, length = struct.unpack(">QIII", self._receive(20))
            assert magic == OPTION_REPLY, hex(magic)
            data = self._receive(length)
            if kind == REP_ACK:
                return
            if kind & 1 << 31:
                raise ServerError(kind & 0x7FFFFFFF)
            if kind == REP_INFO and struct.unpack(">H", data[:2])[0] == 0:
                self.size, self.flags = struct.unpack(">QH", data[2:12])

    def _receive(self, length):
        parts, left = [], length
        while left:
            try:
                part = self.socket.recv(min(left, 1 << 20))
            except OSError as error:
                raise Gone(f"receive: {error}") from error
            if not part:
                raise Gone("end of stream")
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def send(self, kind, offset=0, length=0, data=b"", flags=0):
        """Sends one request; returns the cookie its answer will carry."""
        self.cookie += 1
        head = struct.pack(">IHHQQI", REQUEST_MAGIC, flags, kind, self.cookie, offset, len(data) or length)
        try:
            self.socket.sendall(head + data if len(data) < 65536 else head)
            if len(data) >= 65536:
                self.socket.sendall(data)
        except OSError as error:
            raise Gone(f"send: {error}") from error
        return self.cookie

    def answer(self, lengths):
        """Receives one answer. `lengths` gives the bytes that follow for each cookie of a read."""
        magic, error, cookie = struct.unpack(">IIQ", self._receive(16))
        assert magic == SIMPLE_MAGIC, hex(magic)
        data = self._receive(lengths.get(cookie, 0)) if not error else b""
        return cookie, error, data

    def batch(self, requests, on_answer):
        """Sends all requests (kind, offset, length, data, flags), then takes the answers in any order.
        `on_answer(index, error, data)` is called for each; when the server dies half way, the requests
        it was not called for are in doubt."""
        waiting, lengths = {}, {}
        failure = None
        try:
            for index, (kind, offset, length, data, flags) in enumerate(requests):
                cookie = self.send(kind, offset, length, data, flags)
                waiting[cookie] = index
                if kind == READ:
                    lengths[cookie] = length
        except Gone as error:
            failure = error  # Answers may still wait in the socket: they were given.
        while waiting:
            cookie, error, data = self.answer(lengths)
            on_answer(waiting.pop(cookie), error, data)
        if failure:
            raise failure

    def one(self, kind, offset=0, length=0, data=b"", flags=0):
        """One request, one answer; an error raises."""
        out = []
        self.batch([(kind, offset, length, data, flags)], lambda _, error, data: out.append((error, data)))
        if out[0][0]:
            raise ServerError(out[0][0])
        return out[0][1]

    def read(self, offset, length):
        return self.one(READ, offset, length)

    def write(self, offset, data, flags=0):
        self.one(WRITE, offset, data=data, flags=flags)

    def flush(self):
        self.one(FLUSH)

    def trim(self, offset, length):
        self.one(TRIM, offset, length)

    def zero(self, offset, length):
        self.one(ZEROES, offset, length)

    def close(self):
        try:
            self.send(DISCONNECT)
        except Gone:
            pass
        self.socket.close()
