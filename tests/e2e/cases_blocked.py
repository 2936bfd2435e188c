"""The control side of an array does not run: hosts do not notice, and it answers again."""
import ctypes
import glob
import mmap
import os
import subprocess
import threading
import time

from cases import case, must, serving
from array_of_run import _LocalConnection

SEIZE, INTERRUPT, DETACH, ALL_CHILDREN = 0x4206, 0x4207, 17, 0x40000000
CONTROL = "control"
BLOCK = 4096


class Held:
    """Threads of a process that do not run while the others do (ptrace(2))."""

    def __init__(self, process, name):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.threads = []
        for path in glob.glob(f"/proc/{process}/task/*/comm"):
            with open(path, encoding="utf-8") as file:
                if file.read().strip() == name:
                    self.threads.append(int(path.split("/")[4]))

    def __enter__(self):
        for thread in self.threads:
            self.ask(SEIZE, thread)
            self.ask(INTERRUPT, thread)
            os.waitpid(thread, ALL_CHILDREN)
        return self

    def __exit__(self, *_):
        for thread in self.threads:
            self.ask(DETACH, thread)

    def ask(self, request, thread):
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        if self.libc.ptrace(request, thread, None, None) != 0:
            raise OSError(ctypes.get_errno(), f"ptrace {request:#x} of thread {thread}")


class Writer(threading.Thread):
    """Writes block after block to a device, reads each back, and keeps when that was done."""

    def __init__(self, device, blocks):
        super().__init__()
        self.device, self.blocks, self.done, self.why, self.is_over = device, blocks, [], None, False

    def run(self):
        page = mmap.mmap(-1, BLOCK)
        file = os.open(self.device, os.O_RDWR | os.O_DIRECT)
        try:
            while not self.is_over:
                number = len(self.done)
                page[:] = number.to_bytes(8, "little") * (BLOCK // 8)
                written, at = bytes(page), number % self.blocks * BLOCK
                os.pwritev(file, [page], at)
                os.preadv(file, [page], at)
                if bytes(page) != written:
                    raise OSError(f"block {number % self.blocks} reads as something else")
                self.done.append(time.monotonic())
        except OSError as error:
            self.why = error
        finally:
            os.close(file)


def answers(array, seconds):
    connection = _LocalConnection(array.state + "/api.sock")
    connection.timeout = seconds
    try:
        connection.request("GET", "/v1/status")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


@case
def hosts_go_on_while_the_control_side_does_not_run(site):
    """With every control thread held up for four seconds the device and NBD answer; then the API does, too."""
    array = serving(site)
    array.volume("v", "256MiB")
    array.volume("w", "256MiB")
    writer = Writer(array.attach("v"), 4096)
    writer.start()
    nbd = site.start(["fio", "--name=w", "--ioengine=nbd", f"--uri={array.uri('w')}", "--rw=randrw", "--bs=4k",
                      "--iodepth=8", "--size=64m", "--time_based", "--runtime=8", "--verify=crc32c",
                      "--verify_fatal=1", "--verify_backlog=64", "--thread"], "nbd.log")
    time.sleep(1.5)
    with Held(array.process.pid, CONTROL) as held:
        must(held.threads, "there is no thread of that name")
        begin = time.monotonic()
        must(not answers(array, 1.0), "the API answers although its threads are held up")
        clients = [subprocess.Popen(array.command("volume", "list"), stdout=subprocess.DEVNULL) for _ in range(8)]
        time.sleep(3.0)
        end = time.monotonic()
    must(answers(array, 5.0), "the API does not answer again")
    for client in clients:
        must(client.wait(20) == 0, "a client that waited got no answer")
    must(nbd.wait(30) == 0, "NBD did not go on")
    writer.is_over = True
    writer.join()
    must(not writer.why, f"the device: {writer.why}")
    within = [at for at in writer.done if begin <= at <= end]
    must(len(within) > 50, f"{len(within)} writes while the control side was held up")
    longest = max(after - before for before, after in zip(within, within[1:]))
    must(longest < 1.0, f"a write waited {longest:.2f} s while the control side was held up")
    array.run("detach", "v")
    array.check()
