#!/usr/bin/env python3
"""The journal of a pool with dual parity, 6+2: three copies of each group that are copied into stripes later, or the
group in whole stripes at once. Settings: ROUNDS=5, SECONDS_EACH=2, TMPDIR."""
import os
import statistics
import subprocess
import tempfile

ROUNDS, SECONDS = int(os.environ.get("ROUNDS", "5")), os.environ.get("SECONDS_EACH", "2")
DATA, PARITY, BLOCK = 6, 2, 4096
HERE = os.path.dirname(os.path.abspath(__file__))


def mirror(blocks):
    """Files, bytes of each write, bytes to the drives in all: three copies now, stripes later."""
    return PARITY + 1, blocks * BLOCK, (PARITY + 1) * blocks + blocks * (DATA + PARITY) / DATA


def stripes(blocks):
    """The same for whole stripes: what does not fill the last one is padding."""
    rows = -(-blocks // DATA)
    return DATA + PARITY, rows * BLOCK, rows * (DATA + PARITY)


def main():
    with tempfile.TemporaryDirectory(prefix="ashlar-journal-") as directory:
        program = os.path.join(directory, "commits")
        subprocess.run(["cc", "-O2", "-o", program, os.path.join(HERE, "commits.c"), "-luring"], check=True)
        print(f"{'blocks in a group':18} {'way':8} {'commits/s (lowest, highest)':>30} {'p99 µs':>8} {'bytes per host byte':>20}")
        for blocks in (1, 2, 6, 12, 32, 96):
            ways = {"mirror": mirror(blocks), "stripes": stripes(blocks)}
            seen = {name: [] for name in ways}
            for _ in range(ROUNDS):
                for name, (files, length, _) in ways.items():
                    line = subprocess.run([program, directory, str(files), str(length), SECONDS], check=True,
                                          capture_output=True, text=True).stdout
                    seen[name].append([float(value) for value in line.split()])
            for name, (_, _, written) in ways.items():
                rates = [rate for rate, _, _ in seen[name]]
                p99 = statistics.median(p99 for _, _, p99 in seen[name])
                rate = f"{statistics.median(rates):,.0f} ({min(rates):,.0f}, {max(rates):,.0f})"
                print(f"{blocks:<18} {name:8} {rate:>30} {p99:8,.0f} {written / blocks:20.2f}")
            ratio = statistics.median(s[0] / m[0] for s, m in zip(seen["stripes"], seen["mirror"]))
            print(f"{'':18} stripes commit {ratio:.2f}x as often", flush=True)


if __name__ == "__main__":
    main()
