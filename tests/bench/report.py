#!/usr/bin/env python3
"""Writes docs/benchmarks.md from the results that bench.py keeps in tests/bench/results.

usage: report.py [--check]   --check only says whether the page is that of the results
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(HERE, "results")
PAGE = os.path.join(HERE, "..", "..", "docs", "benchmarks.md")
ORDER = ["postgres", "databases", "clones", "hour", "nbd", "iscsi", "device", "attached", "snapshot", "space", "discard", "steady", "dedupe", "parity", "rebuild", "limits", "before"]

HEAD = """# Benchmarks

Written by `tests/bench/report.py` from the results of `make bench`; do not edit it.

Each figure is the median of the rounds, with the lowest and highest in brackets. `1.5x` means one and a half times the peer, measured in the same round. The machine is a shared virtual one with 2 CPUs and one virtio disk, so expect noise. It has neither the kernel modules of ZFS nor the device mapper of LVM-thin: they are not among the peers. `KEEP=1 tests/bench/run.sh PART` measures a part again and writes this page anew.
"""


def results():
    found = {}
    for name in sorted(os.listdir(RESULTS)):
        if name.endswith(".json"):
            with open(os.path.join(RESULTS, name), encoding="utf-8") as file:
                found[name.removesuffix(".json")] = json.load(file)
    last = len(ORDER)
    return sorted(found.values(), key=lambda one: (ORDER.index(one["part"]) if one["part"] in ORDER else last, one["part"]))


def page():
    lines = [HEAD]
    for one in results():
        lines += [f"## {one['title']}", ""]
        lines += [f"{one['date']}, commit {one['commit']}, {one['rounds']} rounds, {one['machine']}.", ""]
        lines += ["| against | measured | wanted | |", "| --- | --- | --- | --- |"]
        for goal in one["goals"]:
            met = "met" if goal["is_met"] else "**not met**"
            lines.append(f"| {goal['goal']} | {goal['measured']} | {goal['wanted']} | {met} |")
        lines.append("")
        for remark in one["remarks"]:
            lines.append(f"- {remark}")
        if one["remarks"]:
            lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def keep(part, goals, rounds, commit, date, machine):
    """Keeps what a part measured: the goals are new, title and remarks stay."""
    path = os.path.join(RESULTS, f"{part}.json")
    one = {"part": part, "title": part, "remarks": []}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            one = json.load(file)
    names = ("goal", "measured", "wanted", "is_met")
    one.update(date=date, commit=commit, machine=machine, rounds=rounds, goals=[dict(zip(names, goal)) for goal in goals])
    with open(path, "w", encoding="utf-8") as file:
        json.dump(one, file, indent=1, ensure_ascii=False)
        file.write("\n")


def write():
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(page())


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    if not sys.argv[1:]:
        write()
        return 0
    with open(PAGE, encoding="utf-8") as file:
        if file.read() == page():
            return 0
    print("docs/benchmarks.md is not that of tests/bench/results: run tests/bench/report.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
