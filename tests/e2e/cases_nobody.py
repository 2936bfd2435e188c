"""A stranger on this machine: user nobody tries every route and every door. And the unit's fences round the array."""
import encodings.idna  # noqa: F401  The stranger may not be able to read Python's own files.
import http.client
import json
import os
import re
import socket
import subprocess
import traceback

from cases import MIB, Array, case, must, random_file, run

NOBODY = 65534
# What needs no token: the way to the console's page, taking a ticket and logging in, for which "{}" lacks everything.
OPEN = {("GET", "/"): 307, ("POST", "/v1/console-sessions"): 400, ("POST", "/v1/sessions"): 400}
HERE = os.path.dirname(os.path.abspath(__file__))


def as_nobody(tries):
    """Runs a function in a process of user nobody, without any group of ours. Returns what it returned."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            with os.fdopen(writing, "w") as out:
                try:
                    json.dump(tries(), out)
                    status = 0
                except Exception:
                    out.write(traceback.format_exc())
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as result:
        text = result.read()
    _, status = os.waitpid(child, 0)
    must(status == 0 and text, f"the stranger's process ended with {status}: {text}")
    return json.loads(text)


def ask(port, method, path, headers):
    """Status and text of one request over TCP."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path, "{}", {"Content-Type": "application/json", **headers})
        response = connection.getresponse()
        return response.status, response.read().decode(errors="replace")
    finally:
        connection.close()


def routes(array):
    """Every operation of the API with names of things that exist, and paths that are no operation."""
    names = {"pool": "p", "volume": "v", "snapshot": "s", "name": "v", "number": "0", "client": "1", "job": "1", "mark": "1", "objective": "v", "database": "d", "schedule": "d", "result": "r", "host": "h", "user": "u", "token": "t"}
    found = [("GET", "/metrics"), ("GET", "/openapi.json"), ("GET", "/"), ("GET", "/v1/nothing"), ("TRACE", "/v1/status")]
    for path, methods in array.api("GET", "/openapi.json")["paths"].items():
        path = re.sub(r"\{(\w+)\}", lambda word: names[word[1]], path)
        found += [(method.upper(), path) for method in methods if method in ("get", "put", "post", "patch", "delete")]
    return found


def listening_ports(pid):
    """The TCP ports at which a process listens, wherever."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    ports = set()
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}", encoding="utf-8") as f:
            for line in f.read().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and fields[9] in inodes:
                    ports.add(int(fields[1].rpartition(":")[2], 16))
    return ports


def knock(path):
    """Whether a UNIX socket lets us in."""
    door = socket.socket(socket.AF_UNIX)
    door.settimeout(5)
    try:
        door.connect(path)
        return True
    except OSError:
        return False
    finally:
        door.close()


def opens(path, flags):
    try:
        os.close(os.open(path, flags))
        return True
    except OSError:
        return False


def everything_of(array, site, device):
    """Every file that holds something of the array: state, drives, volumes, the attached device."""
    files = [device]
    for top in (array.state, site.path):
        for directory, _, names in os.walk(top):
            files += [os.path.join(directory, name) for name in names]
    return [path for path in files if not path.endswith((".sock", ".source", ".log", ".toml"))
            or path.startswith(array.state + "/")]


@case
def nobody_reads_and_changes_nothing_by_any_door(site):
    """As user nobody: every route over every address with no token and wrong ones, both sockets, every file of the
    state directory, the drives, the volumes' files and devices. Nothing can be read or changed."""
    array = Array(site, settings={"api": "127.0.0.1:0", "metrics": "127.0.0.1:0"})
    array.start()
    array.pool("p", 1, 256)
    array.volume("v", "64MiB")
    source = random_file(site, "v.source", 4 * MIB)
    run("nbdcopy", source, array.uri("v"))
    array.run("snapshot", "create", "s", "v")
    array.volume("m", "64MiB")
    mount = site.file("mnt")
    device = array.attach("m", "--format", "ext4", "--mount", mount)
    array.run("database", "create", "d", "--size", "512MiB")
    # The worst that an administrator may have done: everybody may look into the directories.
    for path in (site.path, array.state):
        os.chmod(path, 0o755)
    ports = {}
    for name in ("api", "metrics"):
        with open(f"{array.state}/{name}.port", encoding="utf-8") as f:
            ports[name] = int(f.read())
    must(listening_ports(array.process.pid) == set(ports.values()), "the array listens where nobody asked it to")
    files, paths = everything_of(array, site, device), routes(array)
    must(len(paths) > 40 and len(files) > 8, f"too little to try: {len(paths)} routes, {files}")
    before = [array.json(*what) for what in (["volume", "list"], ["snapshot", "list"], ["pool", "show", "p"])]

    def tries():
        got = []
        tokens = [{}, {"Authorization": ""}, {"Authorization": "Bearer"}, {"Authorization": "Bearer " + "0" * 64},
                  {"Authorization": "Basic cm9vdDpyb290"}, {"X-Forwarded-For": "127.0.0.1"}]
        for name, port in ports.items():
            for method, path in paths:
                for headers in tokens:
                    status, text = ask(port, method, path, headers)
                    if name == "api" and status == OPEN.get((method, path)):
                        continue
                    if status != 401 or "token" not in text and "Bearer" not in text:
                        got.append(f"{name}: {method} {path} {headers}: {status} {text[:200]}")
        for name in ("api.sock", "nbd.sock"):
            if knock(f"{array.state}/{name}"):
                got.append(f"{name} lets in")
        for path in files:
            for word, flags in (("read", os.O_RDONLY), ("written", os.O_WRONLY)):
                if opens(path, flags):
                    got.append(f"{path} can be {word}")
        for path in (array.state, array.state + "/volumes", mount):
            if opens(path + "/new", os.O_WRONLY | os.O_CREAT):
                got.append(f"{path} takes a file")
        return got

    got = as_nobody(tries)
    must(not got, "a stranger got in:\n" + "\n".join(got[:20]))
    after = [array.json(*what) for what in (["volume", "list"], ["snapshot", "list"], ["pool", "show", "p"])]
    must([entry["name"] for entry in after[0]] == [entry["name"] for entry in before[0]], "volumes changed")
    must(after[1] == before[1], "snapshots changed")
    must(after[2]["state"] == before[2]["state"] == "online", "the pool changed")
    run("nbdcopy", array.uri("v"), site.file("back.source"))
    run("cmp", "-n", str(4 * MIB), source, site.file("back.source"))
    array.run("database", "delete", "d", "--yes")
    array.run("detach", "m")
    array.check()


@case
def a_set_uid_program_on_a_mounted_volume_makes_nobody_root(site):
    """An image with a program of root that everybody may run as root, copied to a volume and mounted: run by user
    nobody it stays nobody's."""
    array = Array(site)
    array.start()
    array.pool("p", 1, 256)
    array.volume("v", "64MiB")
    mount = site.file("mnt")
    array.attach("v", "--format", "ext4", "--mount", mount)
    for path in (site.path, mount):
        os.chmod(path, 0o755)
    program = f"{mount}/id"
    run("cp", "/usr/bin/id", program)
    os.chmod(program, 0o4755)
    os.mknod(f"{mount}/zero", 0o666 | 0o020000, os.makedev(1, 5))
    os.chmod(f"{mount}/zero", 0o666)

    def tries():
        user = subprocess.run([program, "-u"], capture_output=True, text=True, check=False).stdout.strip()
        return [user, opens(f"{mount}/zero", os.O_RDONLY)]

    must(as_nobody(tries) == [str(NOBODY), False], f"it makes root: {as_nobody(tries)}")
    array.run("detach", "v")
    # The volume would do it, were it trusted: so the case proves something.
    array.attach("v", "--mount", mount, "--allow-suid", "--allow-devices")
    must(as_nobody(tries) == ["0", True], f"asked for, it does not: {as_nobody(tries)}")
    array.run("detach", "v")


@case
def the_rights_that_the_unit_leaves_are_enough(site):
    """The array with no more capabilities than deploy/ashlar.service keeps, and no new privileges: it makes a pool,
    attaches, formats, mounts, and its mount is seen by everybody."""
    with open(os.path.join(HERE, "..", "..", "deploy", "ashlar.service"), encoding="utf-8") as f:
        kept = re.search(r"^CapabilityBoundingSet=(.*)$", f.read(), re.MULTILINE)[1]
    here = run("setpriv", "--dump").stdout
    here = re.search(r"Capability bounding set: (.*)", here)[1].split(",")
    names = [name.removeprefix("CAP_").lower() for name in kept.split()]
    bounding = ",".join(["-all"] + [f"+{name}" for name in names if name in here])
    array = Array(site)
    array.binary, real = site.file("fenced"), array.binary
    with open(array.binary, "w", encoding="utf-8") as f:
        f.write(f"#!/bin/sh\nexec setpriv --bounding-set={bounding} --inh-caps=-all --no-new-privs {real} \"$@\"\n")
    os.chmod(array.binary, 0o755)
    array.start()
    array.binary = real
    with open(f"/proc/{array.process.pid}/status", encoding="utf-8") as f:
        effective = int(re.search(r"^CapEff:\s*(\w+)$", f.read(), re.MULTILINE)[1], 16)
    must(effective.bit_count() <= len(names), f"the array has {effective.bit_count()} capabilities")
    array.pool("p", 1, 512)
    for kind, size in (("ext4", "64MiB"), ("xfs", "320MiB")):
        array.volume(kind, size)
        mount = site.file(f"mnt-{kind}")
        array.attach(kind, "--format", kind, "--mount", mount)
        must(os.path.ismount(mount), f"{kind}: the mount is not seen outside")
        with open(f"{mount}/file", "w", encoding="utf-8") as f:
            f.write("kept")
        array.run("detach", kind)
    array.check()
