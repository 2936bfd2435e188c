#!/usr/bin/env python3
"""A real Prometheus scrapes an array under load, and each alert of deploy/prometheus fires once, by a real cause.

usage: run.py [ALERT...]   only these. By hand or nightly: needs Debian's package `prometheus`. About four minutes.

The rules are those of deploy/, but for their waiting times, which are set to nothing, and for the interval of the
scrapes, which is a second.
"""
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "rig"))
import nbd
from array_of_run import MIB, ROOT, Array
from site_of_run import Site, wait_for

RULES = os.path.join(ROOT, "deploy", "prometheus", "ashlar-alerts.yml")
PATIENCE = 90


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Prometheus:
    """Debian's program with the rules of deploy/."""

    def __init__(self, site, metrics, token):
        with open(RULES, encoding="utf-8") as file:
            rules = re.sub(r"^( +)for: .*$", r"\1for: 0s", file.read(), flags=re.MULTILINE)
        with open(site.file("rules.yml"), "w", encoding="utf-8") as file:
            file.write(rules)
        settings = {"global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                    "rule_files": [site.file("rules.yml")],
                    "scrape_configs": [{"job_name": "ashlar", "authorization": {"credentials_file": token},
                                        "static_configs": [{"targets": [metrics]}]}]}
        with open(site.file("prometheus.yml"), "w", encoding="utf-8") as file:
            json.dump(settings, file)  # JSON is YAML.
        subprocess.run(["promtool", "check", "config", site.file("prometheus.yml")], check=True, stdout=subprocess.DEVNULL)
        self.address = f"127.0.0.1:{free_port()}"
        site.start(["prometheus", f"--config.file={site.file('prometheus.yml')}", f"--web.listen-address={self.address}",
                    f"--storage.tsdb.path={site.directory('tsdb')}"], "prometheus.log")
        wait_for(self.is_up, 30, "the first scrape")

    def ask(self, path):
        with urllib.request.urlopen(f"http://{self.address}{path}", timeout=10) as answer:
            return json.load(answer)["data"]

    def is_up(self):
        try:
            found = self.ask("/api/v1/query?query=up")["result"]
        except OSError:
            return False
        return bool(found) and found[0]["value"][1] == "1"

    def firing(self):
        return {alert["labels"]["alertname"]: alert for alert in self.ask("/api/v1/alerts")["alerts"]
                if alert["state"] == "firing"}

    def rules(self):
        groups = self.ask("/api/v1/rules")["groups"]
        return [rule for group in groups for rule in group["rules"] if rule["type"] == "alerting"]

    def value(self, query):
        """Of the one series that it asks for; None where there is none yet."""
        found = self.ask("/api/v1/query?" + urllib.parse.urlencode({"query": query}))["result"]
        return float(found[0]["value"][1]) if found else None


def fill(array, volume, mib, **options):
    """Bytes that do not compress; False where the pool would not take them."""
    command = ["fio", "--name=fill", "--ioengine=nbd", f"--uri={array.uri(volume)}", "--rw=write", "--bs=1m",
               f"--size={mib}m", "--refill_buffers"]
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, **options).returncode == 0


def objective(_site, array):
    """Requests that are all slower than is wanted of them."""
    array.volume("wanted", "64MiB", "--pool", "safe")
    array.run("objective", "set", "wanted", "--p99", "1us", "--for", "100%", "--over", "1h")
    fill(array, "wanted", 64)


def drive_out(_site, array):
    array.run("pool", "offline-drive", "safe", "3", "--yes")


def drive_errors(site, array):
    """Rubbish in a drive's file is met by a scrub and mended."""
    fill(array, "kept", 64)
    with open(site.file("safe-0.img"), "r+b") as file:
        for at in range(8 * MIB, 200 * MIB, MIB):
            file.seek(at)
            file.write(os.urandom(4096))
    array.run("pool", "scrub", "safe", seconds=300)


def drive_worn(_site, array):
    array.run("pool", "set-drive", "safe", "1", "--endurance", "64MiB")
    array.volume("worn", "256MiB", "--pool", "safe")
    fill(array, "worn", 200)


def pool_filling(_site, array):
    array.volume("filling", "4GiB", "--pool", "small")
    for _ in range(40):
        if array.json("pool", "show", "small")["full_percent"] >= 82:
            return
        name = f"f{time.monotonic_ns()}"
        array.volume(name, "32MiB", "--pool", "small")
        fill(array, name, 24)


def pool_full(_site, array):
    for number in range(40):
        if array.json("pool", "show", "small")["full_percent"] >= 92:
            return
        array.volume(f"full{number}", "32MiB", "--pool", "small")
        fill(array, f"full{number}", 24)


def request_errors(_site, array):
    """Writes to a pool that has no room."""
    array.volume("refused", "1GiB", "--pool", "small")
    if fill(array, "refused", 600):
        raise RuntimeError("the pool took more than it has")


def clients_refused(_site, array):
    held = []
    for _ in range(8):
        try:
            held.append(nbd.Connection(array.nbd_socket, "kept"))
        except (nbd.Gone, nbd.ServerError):
            break
    time.sleep(3)
    for one in held:
        one.close()


def slow(site, array):
    array.volume("slow", "1GiB", "--pool", "safe")
    jobs = [site.start(["fio", "--name=slow", "--ioengine=nbd", f"--uri={array.uri('slow')}", "--rw=randwrite", "--bs=256k",
                        "--iodepth=256", "--size=512m", "--time_based", "--runtime=25"]) for _ in range(2)]
    for job in jobs:
        job.wait()


def pool_not_online(site, array):
    """The only drive of a pool is gone when the array starts again."""
    array.stop()
    os.remove(site.file("bare-0.img"))
    array.start()


def down(_site, array):
    array.kill()


# In this order: later ones spoil what earlier ones need.
CAUSES = {"AshlarDriveErrors": drive_errors, "AshlarDriveWorn": drive_worn, "AshlarSlow": slow,
          "AshlarObjectiveUsedUp": objective, "AshlarClientsRefused": clients_refused, "AshlarDriveOut": drive_out, "AshlarPoolDegraded": lambda *_: None,
          "AshlarPoolFilling": pool_filling, "AshlarPoolFull": pool_full, "AshlarRequestErrors": request_errors,
          "AshlarPoolNotOnline": pool_not_online, "AshlarDown": down}


def pools(site, array):
    for name, drives, mib, protection in (("safe", 4, 512, "dual"), ("small", 1, 320, "none"), ("bare", 1, 512, "none")):
        words = [f"{site.file(f'{name}-{number}.img')},size={mib}MiB" for number in range(drives)]
        array.run("pool", "create", name, "--protection", protection, *[part for word in words for part in ("--drive", word)])
    array.volume("kept", "64MiB", "--pool", "safe")


def main():
    with Site("ashlar-monitoring-") as site:
        metrics = f"127.0.0.1:{free_port()}"
        array = Array(site, settings={"metrics": metrics, "nbd_clients_max": 4})
        array.start()
        pools(site, array)
        prometheus = Prometheus(site, metrics, array.state + "/metrics.token")
        scraped = urllib.request.Request(f"http://{metrics}/metrics")
        with open(array.state + "/metrics.token", encoding="utf-8") as file:
            scraped.add_header("Authorization", f"Bearer {file.readline().strip()}")
        # Histograms are there once there were requests.
        load = site.start(["fio", "--name=load", "--ioengine=nbd", f"--uri={array.uri('kept')}", "--rw=randrw", "--bs=8k",
                           "--iodepth=4", "--size=64m", "--time_based", "--runtime=10", "--rate_iops=500"])
        wait_for(lambda: (prometheus.value('sum(rate(ashlar_request_duration_seconds_count[5s]))') or 0) > 100, 30,
                 "requests in what is scraped")
        with urllib.request.urlopen(scraped, timeout=10) as answer:
            checked = subprocess.run(["promtool", "check", "metrics"], input=answer.read(), capture_output=True, check=False)
        if checked.returncode != 0 or checked.stderr:
            raise SystemExit(f"monitoring: promtool check metrics: {checked.stderr.decode()}")
        load.wait()
        print("monitoring: scraped under load, and promtool finds nothing wrong", flush=True)
        wait_for(lambda: all(rule["health"] == "ok" for rule in prometheus.rules()), 30, "a look at every rule")
        unknown = {rule["name"] for rule in prometheus.rules()} ^ set(CAUSES)
        if unknown:
            raise SystemExit(f"monitoring: an alert without a cause here, or the other way round: {sorted(unknown)}")
        if prometheus.firing():
            raise SystemExit(f"monitoring: of an array without trouble: {prometheus.firing()}")
        wanted = sys.argv[1:] or list(CAUSES)
        for name in wanted:
            begin = time.monotonic()
            CAUSES[name](site, array)
            wait_for(lambda name=name: name in prometheus.firing(), PATIENCE, f"alert {name}")
            alert = prometheus.firing()[name]["annotations"]
            print(f"monitoring: {name} after {time.monotonic() - begin:.0f} s: {alert['summary']} {alert['action']}", flush=True)
        print(f"monitoring: {len(wanted)} alerts fired")


if __name__ == "__main__":
    main()
