"""The parity kernel beside ISA-L and reed-solomon-simd: memory to memory, on one processor, no array."""
import json
import os

import measure
from array_of_run import ROOT
from site_of_run import run

PROJECT = os.path.join(ROOT, "tests", "bench", "parity")
TARGET = os.path.join(os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target"), "bench-parity")
ISAL_HEADER = "/usr/include/isa-l.h"
PEERS = ("isa-l raid", "isa-l ec", "reed-solomon-simd")
PART = "Parity kernel"
GB = 1000 ** 3


def play(_site, table):
    options = []
    if not os.path.exists(ISAL_HEADER):
        print("  ISA-L is not measured: libisal-dev is not installed (tests/install-tools.sh does)")
        options = ["--no-default-features"]
    done = run("cargo", "run", "--release", "--quiet", "--locked", "--manifest-path", os.path.join(PROJECT, "Cargo.toml"),
               "--target-dir", TARGET, *options, "--", "--rounds", str(measure.ROUNDS),
               "--turn-micros", "500" if measure.QUICK else "2000", seconds=1800)
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            entry = json.loads(line)
            for rate in entry["gb_s"]:
                table.add(PART, entry["cell"], entry["contestant"], {"mib_s": rate * GB / (1 << 20)})
    for shape in ("6+2", "14+2"):
        for operation in ("generate", "rebuild two"):
            for length in ("4 KiB", "64 KiB", "256 KiB"):
                cell = f"{operation} {shape} {length}"
                table.goal(f"parity, {cell}: the better peer", 1.0, PART, cell, "ashlar", PEERS, "mib_s")
