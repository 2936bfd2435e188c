"""A temporary directory for one run, and the promise to leave nothing behind.

Processes started through `start` are known by their ids; mounts and loop devices are found by their
path below the directory. `close` takes all of it down, whatever the run forgot.
"""
import os
import shutil
import signal
import subprocess
import tempfile
import time

os.environ["PATH"] += ":/usr/sbin:/sbin"


class Site:
    def __init__(self, name="ashlar-test-", parent=None):
        parent = parent or os.environ.get("TMPDIR") or "/var/tmp"
        self.path = tempfile.mkdtemp(prefix=name, dir=parent)
        os.chmod(self.path, 0o755)
        self.processes = []
        self.last_steps = []
        signal.signal(signal.SIGTERM, _stop)
        signal.signal(signal.SIGHUP, _stop)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def file(self, name):
        return os.path.join(self.path, name)

    def directory(self, name, mode=0o755):
        path = self.file(name)
        os.makedirs(path, exist_ok=True)
        os.chmod(path, mode)
        return path

    def start(self, command, log=None, **options):
        """Starts a program in the background. Its own process group keeps Ctrl-C from it; it stays in our
        session, because the scheduler shares the processors between sessions."""
        out = open(self.file(log), "ab") if log else subprocess.DEVNULL
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                   process_group=0, **options)
        if log:
            out.close()
        self.processes.append(process)
        return process

    def stop(self, process, patience=20):
        end_process(process, patience)
        if process in self.processes:
            self.processes.remove(process)

    def at_close(self, step):
        """Something to undo at the end; the last one added goes first."""
        self.last_steps.append(step)

    def close(self):
        for step in reversed(self.last_steps):
            try:
                step()
            except Exception as error:  # The remaining steps matter more than this one.
                print(f"clean up: {error}")
        self.last_steps.clear()
        if all(process.poll() is not None for process in self.processes):
            end_keepers(self.path)  # Nobody serves what is mounted: whoever asks it would wait.
        for point, kind in reversed(mounts_below(self.path)):
            if not kind.startswith("fuse"):
                unmount(point)
        for device in loops_below(self.path):
            quietly("losetup", "-d", device)
        for process in reversed(self.processes):
            end_process(process)
        self.processes.clear()
        end_keepers(self.path)
        for point, _ in reversed(mounts_below(self.path)):
            unmount(point)
        for device in loops_below(self.path):
            quietly("losetup", "-d", device)
        shutil.rmtree(self.path, ignore_errors=True)


def _stop(number, _frame):
    raise SystemExit(128 + number)


def end_process(process, patience=20):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


def end_keepers(path):
    """Ends what keeps the attachments of arrays below a directory: requests to them fail then."""
    quietly("pkill", "--signal", "KILL", "--full", f"keep --state {path}")
    time.sleep(0.05)


def quietly(*command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0


def unmount(point):
    return quietly("umount", point) or quietly("umount", "-l", point)


def mounts_below(path):
    """Mount points below a directory with their kinds, outermost first."""
    found = []
    with open("/proc/self/mounts", encoding="utf-8") as table:
        for line in table:
            _, point, kind = line.split(" ")[:3]
            point = point.replace("\\040", " ")
            if point == path or point.startswith(path + "/"):
                found.append((point, kind))
    return found


def loops_below(path):
    """Loop devices over files below a directory."""
    found = []
    for name in os.listdir("/sys/block"):
        try:
            with open(f"/sys/block/{name}/loop/backing_file", encoding="utf-8") as f:
                backing = f.read().strip()
        except OSError:
            continue
        if backing.startswith(path + "/"):
            found.append("/dev/" + name)
    return found


def wait_for(condition, seconds, what):
    """Polls until the condition holds; a run that waits in vain says for what."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not happen within {seconds} s")
        time.sleep(0.005)


def run(*command, check=True, seconds=600, **options):
    """Runs a program to its end; what it printed is in stdout and stderr."""
    options.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, errors="replace", **options)
    if check and done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip())[-1500:]
        raise RuntimeError(f"`{' '.join(map(str, command))[:300]}` ended with {done.returncode}: {said}")
    return done
