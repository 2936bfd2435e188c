"""iSCSI over loopback: our target beside tgtd over the same disk, by the same client. Needs Debian's packages `tgt`
and `libiscsi-dev`."""
import json
import os
import subprocess

import measure
from array_of_run import GIB, MIB, Array, cpu_seconds
from site_of_run import run, wait_for

SPAN = (1 if measure.QUICK else 2) * GIB
BLOCKS = {"4k": 4096, "8k": 8192}
DEPTHS = (1, 64)
# How tgtd reaches its file: the last three words of each are options of `tgtadm`.
PEERS = {"tgtd aio": ["--bstype", "aio"], "tgtd direct": ["--bstype", "rdwr", "--bsoflags", "direct"]}
CHANNEL = "31"
TARGET = "iqn.2026-11.io.ashlar:peer"


def build_load(site):
    program = site.file("iscsi_load")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "iscsi_load.c")
    run("cc", "-O2", "-o", program, source, "-liscsi")
    return program


def start_peers(site):
    """One tgtd with a target over the disk for each way to reach it. Returns their addresses and its process."""
    files = {name: site.file(name.replace(" ", "-") + ".raw") for name in PEERS}
    for path in files.values():
        measure.fill(measure.file_target(path), SPAN)
    os.makedirs("/var/run/tgtd", exist_ok=True)
    port = 13260
    process = site.start(["tgtd", "-f", "-C", CHANNEL, "--iscsi", f"portal=127.0.0.1:{port}"], "tgtd.log")

    def administer(*words):
        return subprocess.run(["tgtadm", "-C", CHANNEL, "--lld", "iscsi", *words], capture_output=True, text=True, check=False)

    wait_for(lambda: administer("--mode", "sys", "--op", "show").returncode == 0, 20, "tgtd")
    addresses = {}
    for number, (name, options) in enumerate(PEERS.items(), 1):
        steps = [["--mode", "target", "--op", "new", "--tid", str(number), "--targetname", f"{TARGET}-{number}"],
                 ["--mode", "logicalunit", "--op", "new", "--tid", str(number), "--lun", "1", "--backing-store", files[name], *options],
                 ["--mode", "target", "--op", "bind", "--tid", str(number), "-I", "ALL"]]
        for step in steps:
            done = administer(*step)
            if done.returncode:
                raise RuntimeError(f"tgtadm {' '.join(step)}: {done.stderr or done.stdout}")
        addresses[name] = f"iscsi://127.0.0.1:{port}/{TARGET}-{number}/1"
    return addresses, process.pid


def cell(load, address, pid, kind, block_bytes, depth):
    """What one contestant does, its work after the cell included."""
    measure.settle(pid)
    before = cpu_seconds(pid)
    done = json.loads(run(load, address, kind, str(block_bytes), str(depth), str(measure.SECONDS)).stdout)
    measure.settle(pid)
    used = max(cpu_seconds(pid) - before, 0.001)
    return {"iops": done["requests"] / measure.SECONDS, "mean_us": done["mean_us"], "p99_us": done["p99_us"],
            "cpu_us": used * 1e6 / done["requests"], "per_cpu_second": done["requests"] / used}


def play(site, table):
    array = Array(site, settings={"iscsi_listen": ["127.0.0.1:0"]})
    array.start()
    array.pool("p", 2, 12 * 1024 * SPAN // (2 * GIB))
    array.volume("v", f"{SPAN // MIB}MiB")
    export = array.json("export", "create", "v")
    door = next(door for door in array.json("status")["doors"] if door["name"] == "iscsi")
    ours = f"iscsi://{door['address']}/{export['target']}/{export['lun']}"
    load = build_load(site)
    peers, tgtd = start_peers(site)
    contestants = {"ashlar": (ours, array.process.pid), **{name: (address, tgtd) for name, address in peers.items()}}
    for _ in range(measure.ROUNDS):
        measure.fill(measure.nbd_target(array.uri("v")), SPAN)
        for block, block_bytes in BLOCKS.items():
            for kind in ("read", "write"):
                for depth in DEPTHS:
                    for name, (address, pid) in contestants.items():
                        measure.drop_caches()
                        values = cell(load, address, pid, kind, block_bytes, depth)
                        table.add("iSCSI", f"{block} rand{kind} depth {depth}", name, values)
    for block in BLOCKS:
        for kind in ("read", "write"):
            name = f"{block} rand{kind} depth 64"
            table.goal(f"iSCSI {name}: requests a CPU second, better of tgtd", 2.0, "iSCSI", name, "ashlar", tuple(PEERS), "per_cpu_second")
    array.check()
    array.stop()
