"""One `ashlar serve` process with a state directory of its own, driven through the command line."""
import http.client
import json
import os
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from site_of_run import run, wait_for

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MIB, GIB, TIB = 1 << 20, 1 << 30, 1 << 40


def binary():
    """The program under test: ASHLAR_BIN, or the newest of the two builds."""
    if os.environ.get("ASHLAR_BIN"):
        return os.path.abspath(os.environ["ASHLAR_BIN"])
    target = os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target")
    builds = [os.path.join(target, kind, "ashlar") for kind in ("release", "debug")]
    builds = [path for path in builds if os.path.isfile(path)]
    if not builds:
        raise SystemExit("no ashlar program: run `cargo build --release --package ashlar-cli` or set ASHLAR_BIN")
    return max(builds, key=os.path.getmtime)


def measure_release():
    """Whoever measures calls this first: a debug build newer than the release must not be taken for it."""
    if os.environ.get("ASHLAR_BIN"):
        return
    target = os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target")
    path = os.path.join(target, "release", "ashlar")
    if not os.path.isfile(path):
        raise SystemExit("no release build: run `cargo build --release --package ashlar-cli` or set ASHLAR_BIN")
    os.environ["ASHLAR_BIN"] = path


class Refused(Exception):
    """A command that did not end with 0."""

    def __init__(self, command, status, text):
        super().__init__(f"`ashlar {' '.join(command)}` ended with {status}: {text}")
        self.status, self.text = status, text


class _LocalConnection(http.client.HTTPConnection):
    """HTTP over the socket in the state directory."""

    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Array:
    def __init__(self, site, name="array", settings=None, state=None):
        self.site = site
        self.binary = binary()
        self.state = state or site.directory(name)
        self.log = name + ".log"
        self.process = None
        self.config = site.file(name + ".toml")
        with open(self.config, "w", encoding="utf-8") as f:
            # A start waits for no drive of a pool that can do without: cases look at such pools at once.
            for key, value in {"missing_drive_wait_seconds": 0, "no_space_wait_seconds": 1, **(settings or {})}.items():
                if value is not None:
                    f.write(f"{key} = {json.dumps(value)}\n")

    def start(self, seconds=120, is_waiting=True, **options):
        """Starts the process and waits until every pool has settled. Returns the seconds it took."""
        begin = time.monotonic()
        command = [self.binary, "serve", "--state", self.state, "--config", self.config]
        self.process = self.site.start(command, self.log, **options)
        if is_waiting:
            wait_for(self.is_settled, seconds, "the array's start")
        return time.monotonic() - begin

    def is_settled(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"ashlar serve ended with {self.process.returncode}: {self.last_words()}")
        probe = socket.socket(socket.AF_UNIX)
        try:
            probe.connect(self.state + "/api.sock")
        except OSError:
            return False
        finally:
            probe.close()
        try:
            return all(pool["state"] != "opening" for pool in self.json("status")["pools"])
        except Refused:
            return False

    def last_words(self, lines=5):
        with open(self.site.file(self.log), errors="replace", encoding="utf-8") as f:
            return "\n".join(f.read().splitlines()[-lines:])

    def kill(self):
        """What a crash does."""
        self.process.kill()
        self.process.wait()
        self.site.processes.remove(self.process)

    def stop(self, patience=60):
        """What an operator does. Returns the exit status."""
        self.site.stop(self.process, patience)
        return self.process.returncode

    def command(self, *arguments):
        return [self.binary, "--state", self.state, *map(str, arguments)]

    def try_run(self, *arguments, seconds=120):
        return subprocess.run(self.command(*arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=seconds, errors="replace")

    def run(self, *arguments, seconds=120):
        done = self.try_run(*arguments, seconds=seconds)
        if done.returncode != 0:
            raise Refused(list(map(str, arguments)), done.returncode, done.stderr.strip() or done.stdout.strip())
        return done.stdout

    def json(self, *arguments, seconds=120):
        return json.loads(self.run(*arguments, "--json", seconds=seconds))

    def api(self, method, path, body=None):
        """One call of the REST interface over the local socket, without a program start."""
        connection = _LocalConnection(self.state + "/api.sock")
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        if response.status >= 300:
            raise Refused([method, path], response.status, text)
        return json.loads(text) if text else None

    def api_many(self, method, paths, connections=16):
        """One call for each path, over a few connections that stay open. Returns when all are answered."""
        def work(share):
            connection = _LocalConnection(self.state + "/api.sock")
            try:
                for path in share:
                    connection.request(method, path)
                    response = connection.getresponse()
                    text = response.read().decode()
                    if response.status >= 300:
                        raise Refused([method, path], response.status, text)
            finally:
                connection.close()

        with ThreadPoolExecutor(connections) as pool:
            list(pool.map(work, [paths[first::connections] for first in range(connections)]))

    def pool(self, name="p", drives=2, drive_mib=1024):
        paths = [self.site.file(f"{name}-{index}.img") for index in range(drives)]
        arguments = ["pool", "create", name]
        for path in paths:
            arguments += ["--drive", f"{path},size={drive_mib}MiB"]
        self.run(*arguments)
        return paths

    def volume(self, name, size="1GiB", *options):
        self.run("volume", "create", name, "--size", size, *options)

    def attach(self, volume, *options):
        """Returns the block device."""
        return self.json("attach", volume, *options)["device"]

    def check(self, pool="p"):
        """Walks every root and verifies every checksum; damage is an error."""
        report = self.json("pool", "check", pool, seconds=600)
        if report["errors"]:
            raise RuntimeError(f"pool check: {report['errors'][:5]}")
        return report

    def deduped(self, pool="p", seconds=120):
        """Waits until all that was written is compared with what was there. Returns what came of it."""
        end = time.monotonic() + seconds
        while (found := self.json("pool", "dedupe", "show", pool))["queued_block_count"] and time.monotonic() < end:
            time.sleep(0.2)
        return found

    @property
    def nbd_socket(self):
        return self.state + "/nbd.sock"

    def uri(self, volume):
        return f"nbd+unix:///{volume}?socket={self.nbd_socket}"

    def cpu_seconds(self):
        return cpu_seconds(self.process.pid)

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as f:
            for line in f:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        return 0


def cpu_seconds(*pids):
    """CPU time used so far by processes with all their threads."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
                fields = f.read().rpartition(") ")[2].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


__all__ = ["Array", "Refused", "binary", "cpu_seconds", "measure_release", "run", "MIB", "GIB", "TIB"]
