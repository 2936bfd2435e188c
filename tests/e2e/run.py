#!/usr/bin/env python3
"""Runs the end-to-end cases: real clients, real file systems, bad input, against the real program.

usage: run.py [--list] [WORD...]     only the cases whose name contains one of the words
"""
import signal
import sys
import time
import traceback

import cases
import cases_attach  # noqa: F401
import cases_bad_input  # noqa: F401
import cases_blocked  # noqa: F401
import cases_cleaning  # noqa: F401
import cases_clients  # noqa: F401
import cases_dedupe  # noqa: F401
import cases_drives  # noqa: F401
import cases_nobody  # noqa: F401
import cases_space  # noqa: F401
from array_of_run import Refused, binary
from site_of_run import Site, loops_below, mounts_below

SECONDS_MAX = 240


class TooLong(Exception):
    """A case that hangs."""


def on_alarm(*_):
    raise TooLong(f"not done after {SECONDS_MAX} s")


def one(function):
    """Runs a case on a site of its own. Returns why it failed, or nothing."""
    site, why = Site("ashlar-e2e-"), None
    signal.signal(signal.SIGALRM, on_alarm)
    signal.alarm(SECONDS_MAX)
    try:
        function(site)
    except (cases.Failed, Refused, RuntimeError, TimeoutError, TooLong) as error:
        why = f"{type(error).__name__}: {error}"
    except Exception:
        why = traceback.format_exc()
    finally:
        signal.alarm(0)
        if why:
            why += last_words(site)
        site.close()
    left = mounts_below(site.path) + loops_below(site.path)
    return why or (f"left behind: {left}" if left else None)


def last_words(site):
    try:
        with open(site.file("array.log"), errors="replace", encoding="utf-8") as f:
            return "".join("\n    array: " + line for line in f.read().splitlines()[-8:])
    except OSError:
        return ""


def main():
    words = sys.argv[1:]
    chosen = [f for f in cases.ALL if not words or words[0] == "--list" or any(word in f.__name__ for word in words)]
    if words[:1] == ["--list"]:
        for function in chosen:
            print(f"{function.__name__}\n    {' '.join(function.__doc__.split())}")
        return 0
    print(f"e2e: {len(chosen)} cases against {binary()}", flush=True)
    begin, failed = time.monotonic(), []
    for function in chosen:
        started = time.monotonic()
        why = one(function)
        verdict = "FAILED" if why else "ok"
        print(f"e2e: {function.__name__} ... {verdict}, {time.monotonic() - started:.1f} s", flush=True)
        if why:
            failed.append(function.__name__)
            print("    " + why.replace("\n", "\n    "), flush=True)
    print(f"e2e: {len(chosen) - len(failed)} passed, {len(failed)} failed in {time.monotonic() - begin:.0f} s"
          + (": " + ", ".join(failed) if failed else ""))
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
