#!/usr/bin/env python3
"""The console against a real array under load: a pool of four drives, a database, volumes with snapshots."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "rig"))
from array_of_run import Array
from site_of_run import Site

CONSOLE = os.path.join(HERE, "..", "..", "console")
DRIVE_MIB = 768
SETTINGS = {"database_port_first": 22_400, "fuse_transport": "classic", "attach_wait_seconds": 60}


def fill(array, uri, number):
    """Content that is another each time."""
    command = ["fio", "--name=fill", "--ioengine=nbd", f"--uri={uri}", "--rw=write", "--bs=64k", "--size=16m",
               f"--randseed={number}", "--refill_buffers"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    array.run("snapshot", "create", f"docs.{number}", "docs")


def load(site, array):
    """What moves the figures until the end."""
    array.volume("busy", "256MiB")
    site.start(["fio", "--name=busy", "--ioengine=nbd", f"--uri={array.uri('busy')}", "--rw=randrw", "--bs=8k",
                "--size=64m", "--time_based", "--runtime=1200", "--rate_iops=150,150"], "fio.log")


def main():
    with Site("ashlar-console-") as site:
        os.chmod(site.path, 0o711)
        array = Array(site, settings=SETTINGS)
        array.start()
        drives = [word for number in range(4) for word in ("--drive", f"{site.file(f'd{number}.img')},size={DRIVE_MIB}MiB")]
        array.run("pool", "create", "main", "--protection", "dual", *drives)
        array.volume("docs", "1GiB")
        for number in (1, 2):
            fill(array, array.uri("docs"), number)
        array.run("database", "create", "prod", "--size", "1GiB")
        load(site, array)
        address = array.json("console")["address"]
        settings = {"ASHLAR_CONSOLE_URL": address, "ASHLAR_NEW_DRIVE": site.file("new.img"),
                    "ASHLAR_NEW_DRIVE_SIZE": f"{DRIVE_MIB} MiB"}
        try:
            command = ["npx", "playwright", "test", "--project", "real", *sys.argv[1:]]
            return subprocess.run(command, cwd=CONSOLE, env={**os.environ, **settings}, check=False).returncode
        finally:
            for one in array.json("database", "list"):
                array.try_run("database", "delete", one["name"], "--yes")
            array.try_run("stop", "--detach", "--force", "--yes")


if __name__ == "__main__":
    sys.exit(main())
