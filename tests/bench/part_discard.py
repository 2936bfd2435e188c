"""What it costs to give back the space of deleted files: at once, as mounts of `attach` do (`discard`), against not
at all and one `fstrim` at the end, as a weekly run would."""
import os
import time

import measure
from array_of_run import MIB, Array
from site_of_run import run

FILES = 40 if measure.QUICK else 160
FILE_MIB = 4
PART = "Files written, flushed and deleted"
CELL = f"{FILES} files of {FILE_MIB} MiB"
CONTENT = os.urandom(FILE_MIB * MIB)


def play(site, table):
    array = Array(site)
    array.start()
    array.pool("p", 2, 6144)
    points = []
    for name in ("discard", "weekly"):
        array.volume(name, "2GiB")
        point = site.directory("mount-" + name)
        array.attach(name, "--format", "ext4", "--mount", point)
        points.append((name, point))
    run("mount", "-o", "remount,nodiscard", points[1][1])
    # The first files take places that were never used.
    for name, point in points:
        churn(array, name, point)
    for _ in range(measure.ROUNDS):
        for name, point in points:
            measure.settle(array.process.pid)
            table.add(PART, CELL, name, churn(array, name, point))
        points.reverse()
    table.goal("files deleted with `discard`, against a weekly `fstrim`", 0.9, PART, CELL, "discard", ("weekly",))
    for name, _ in points:
        array.run("detach", name)
    array.check()
    array.stop()


def churn(array, name, point):
    """Files a second from the first write until all are deleted and their space is given back."""
    cpu, begin = measure.cpu_seconds(array.process.pid), time.monotonic()
    for number in range(FILES):
        with open(os.path.join(point, f"file-{number}"), "wb") as file:
            file.write(CONTENT)
            file.flush()
            os.fsync(file.fileno())
    for number in range(FILES):
        os.remove(os.path.join(point, f"file-{number}"))
    run("sync", "-f", point)
    trimmed = time.monotonic()
    if name == "weekly":
        run("fstrim", point)
    end = time.monotonic()
    measure.settle(array.process.pid)
    cpu = measure.cpu_seconds(array.process.pid) - cpu
    return {"iops": FILES / (end - begin), "trim_ms": (end - trimmed) * 1e3, "cpu_us": cpu * 1e6 / FILES}
