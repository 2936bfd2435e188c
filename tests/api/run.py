#!/usr/bin/env python3
"""schemathesis asks a real array whatever its description allows and whatever it does not, and holds each answer
against the description: no server error, no undocumented answer, no schema looser than the program.

usage: run.py [--seconds N] [--seed S] [--phases P,...] [-- ARGUMENTS OF SCHEMATHESIS...]
30 seconds of examples, coverage and fuzzing by default; `--phases` may name `stateful`, too.

Exit status 77 says that schemathesis cannot be had here: it is a wheel, installed below target/.
"""
import argparse
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "rig"))
from array_of_run import ROOT, Array
from site_of_run import Site

PACKAGE = "schemathesis==4.32.5"
SKIPPED = 77
# What ends the array, and a stream that has no end.
LEFT_OUT = ("/v1/stop", "/v1/upgrade", "/v1/live")


def program():
    """Where it is installed once; None where it cannot be."""
    target = os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target")
    home = os.path.join(target, PACKAGE.replace("==", "-"))
    found = os.path.join(home, "bin", "schemathesis")
    if not os.path.exists(found):
        pip = os.path.join(home, "bin", "pip")
        for command in ([sys.executable, "-m", "venv", home], [pip, "install", "--quiet", PACKAGE]):
            if subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode != 0:
                return None
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--phases", default="examples,coverage,fuzzing")
    parser.add_argument("more", nargs="*")
    asked = parser.parse_args()
    tool = program()
    if tool is None:
        print("api: schemathesis cannot be had here: skipped", file=sys.stderr)
        return SKIPPED
    with Site("ashlar-api-") as site:
        array = Array(site, settings={"api": "127.0.0.1:0"})
        array.start()
        array.pool("p", 2, 256)
        array.volume("v", "64MiB")
        array.run("snapshot", "create", "s", "v")
        door = next(door for door in array.json("status")["doors"] if door["name"] == "api" and door["transport"] == "tcp")
        with open(array.state + "/api.token", encoding="utf-8") as file:
            token = file.readline().strip()
        command = [tool, "run", f"{door['address']}/openapi.json", "--header", f"Authorization: Bearer {token}",
                   "--phases", asked.phases, "--exclude-checks", "positive_data_acceptance", "--max-time", str(asked.seconds), "--seed", str(asked.seed),
                   "--continue-on-failure", "--suppress-health-check", "all", "--no-color"]
        for path in LEFT_OUT:
            command += ["--exclude-path", path]
        environment = dict(os.environ, SCHEMATHESIS_HOOKS="checks", PYTHONPATH=HERE, PYTHONDONTWRITEBYTECODE="1")
        done = subprocess.run(command + asked.more, cwd=site.path, env=environment, check=False)
        if array.process.poll() is not None:
            print(f"api: the array ended: {array.last_words()}")
            return 1
        print(f"api: {'all answers are as described' if done.returncode == 0 else 'an answer is not as described'}")
        return done.returncode


if __name__ == "__main__":
    sys.exit(main())
