"""The list of end-to-end cases, and what they share."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "rig"))
from array_of_run import GIB, MIB, Array, Refused  # noqa: E402
from site_of_run import run  # noqa: E402

ALL = []


def case(function):
    """Registers a case: a function of a fresh site whose first line of documentation says what is proved."""
    ALL.append(function)
    return function


class Failed(Exception):
    """A case found what must not be."""


def must(condition, text):
    if not condition:
        raise Failed(text)


def must_refuse(done, *words, status=1):
    """A command must fail with this status and one clear line that names what it is about."""
    text = done.stderr.strip()
    must(done.returncode == status, f"expected exit status {status}, got {done.returncode}: {text or done.stdout}")
    must(text and "panicked" not in text, f"no clear message: {text!r}")
    if status == 1:
        must(len(text.splitlines()) == 1, f"more than one line on stderr: {text!r}")
    for word in words:
        must(word.lower() in text.lower(), f"the message does not mention {word!r}: {text}")


def serving(site, drives=2, drive_mib=1024, settings=None, name="array"):
    """An array with one pool `p`."""
    array = Array(site, name, settings)
    array.start()
    array.pool("p", drives, drive_mib)
    return array


def random_file(site, name, size):
    """A file of incompressible bytes."""
    path = site.file(name)
    with open(path, "wb") as f:
        left = size
        while left:
            f.write(os.urandom(min(left, MIB)))
            left -= min(left, MIB)
    return path


__all__ = ["ALL", "case", "Failed", "must", "must_refuse", "serving", "random_file", "run", "Array", "Refused", "MIB",
           "GIB"]
