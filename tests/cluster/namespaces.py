#!/usr/bin/env python3
"""A cluster of three nodes on a network that breaks: python3 tests/cluster/namespaces.py [--rounds N] [--keep]

Each node is a `trilith serve` in a network namespace of its own, behind a bridge; clients are in a fourth one. Links are cut, both ways
and one way, nodes are cut off, paused and killed, while clients write and read at all nodes. In the end the history of every key is
judged (linearizability), and a table says how long reads and writes waited, or were refused, in each phase.

A cut is a neighbour entry with an address that nobody has: packets leave and are lost, and nobody is told, as with a broken switch.

Needs root, `ip`, and cargo; builds the program and its tests first. Nothing of the machine's own network is touched.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEST = "cluster::endpoints::clients_of_a_cluster_that_runs"
BRIDGE = "trilith-br"
NAMES = ["trilith-n1", "trilith-n2", "trilith-n3", "trilith-client"]
NODES = [0, 1, 2]
NOBODY = "02:00:00:00:00:99"
ENV = {"TRILITH_ROOT_USER": "tester", "TRILITH_ROOT_PASSWORD": "tester-secret"}
# A node that was cut off waits before it is taken in again, and longer each time.
SETTLE_SECONDS = 200
START_SECONDS = 60
# How long each fault lasts: longer than a lease and its absence's notice together.
FAULT_SECONDS = 7


def address(index):
    return f"10.231.17.{index + 1}"


def sh(*words, **options):
    return subprocess.run(words, check=True, text=True, **options)


def inside(index, *words):
    return ["ip", "netns", "exec", NAMES[index], *words]


def make_network():
    remove_network()
    sh("ip", "link", "add", BRIDGE, "type", "bridge")
    sh("ip", "link", "set", BRIDGE, "up")
    for index, name in enumerate(NAMES):
        sh("ip", "netns", "add", name)
        sh("ip", "link", "add", f"trilith-v{index}", "type", "veth", "peer", "name", "eth0", "netns", name)
        sh("ip", "link", "set", f"trilith-v{index}", "master", BRIDGE, "up")
        sh("ip", "-n", name, "addr", "add", f"{address(index)}/24", "dev", "eth0")
        sh("ip", "-n", name, "link", "set", "eth0", "up")
        sh("ip", "-n", name, "link", "set", "lo", "up")


def remove_network():
    for name in NAMES:
        subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)
    subprocess.run(["ip", "link", "del", BRIDGE], stderr=subprocess.DEVNULL)


def cut(sender, receiver):
    """What sender sends to receiver is lost."""
    sh("ip", "-n", NAMES[sender], "neigh", "replace", address(receiver), "lladdr", NOBODY, "nud", "permanent", "dev", "eth0")


def heal():
    for sender in range(len(NAMES)):
        sh("ip", "-n", NAMES[sender], "neigh", "flush", "nud", "permanent", "dev", "eth0")


class Cluster:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.processes = {}

    def data(self, node):
        return self.folder / f"node-{node + 1}"

    def start(self, node):
        log = open(self.folder / f"node-{node + 1}.log", "a")
        words = [self.program, "serve", "--data", self.data(node), "--s3-addr", f"{address(node)}:9000"]
        words += ["--admin-addr", f"{address(node)}:9001", "--cores", "1", "--device-size", "2GiB"]
        self.processes[node] = subprocess.Popen(inside(node, *words), stdout=log, stderr=log, env=os.environ | ENV)

    def command(self, node, *words):
        return inside(node, self.program, *words)

    def form(self):
        place = lambda node: ["--cluster-addr", f"{address(node)}:9002", "--name", f"n{node + 1}", "--data", self.data(node)]
        sh(*self.command(0, "cluster", "init", *place(0)), stdout=subprocess.DEVNULL)
        token = sh(*self.command(0, "cluster", "token", "--data", self.data(0)), capture_output=True).stdout.strip()
        for node in NODES:
            if node > 0:
                sh(*self.command(node, "cluster", "join", token, "--via", f"{address(0)}:9002", *place(node)), stdout=subprocess.DEVNULL)
            size = ["--size", "2GiB", "--zone-size", "8MiB"]
            sh(*self.command(node, "device", "format", *size, self.data(node) / "device-0.trilith"), stdout=subprocess.DEVNULL)
            self.start(node)
            self.wait(lambda: self.status(node)["ready"], START_SECONDS, f"node {node + 1} to serve")
        for words in (["bucket", "make", "linear"], ["bucket", "policy", "set", "linear", "public-read-write"]):
            at = {"TRILITH_ENDPOINT": f"http://{address(0)}:9000"}
            sh(*self.command(0, *words), env=os.environ | ENV | at, stdout=subprocess.DEVNULL)

    def status(self, node):
        words = inside(node, self.program, "status", "--json", "--admin", f"{address(node)}:9001")
        return json.loads(subprocess.run(words, capture_output=True, text=True, timeout=10).stdout)

    def is_whole(self, node):
        cell = self.status(node)["cell"]
        nodes_are = all(one["serves"] for one in cell["nodes"]) and len(cell["nodes"]) == 3
        return nodes_are and not cell["undecided"] and all(device["is_written"] for device in cell["devices"])

    def settle(self):
        for node in NODES:
            self.wait(lambda: self.is_whole(node), SETTLE_SECONDS, f"node {node + 1} to see a whole cluster")

    def wait(self, look, seconds, what):
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(ValueError, KeyError, TypeError, subprocess.TimeoutExpired):
                if look():
                    return
            if time.monotonic() > deadline:
                sys.exit(f"waited {seconds} s for {what}; logs in {self.folder}")
            time.sleep(0.1)

    def index_of(self, what):
        """The node that leads the manager (`manager_leader`) or the cell's view (`leader`)."""
        for node in NODES:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                name = self.status(node)["cell"][what]
                if name:
                    return int(name[1:]) - 1
        return 0

    def pid(self, node):
        return int((self.data(node) / "trilith.pid").read_text())

    def stop(self):
        for node, process in self.processes.items():
            with contextlib.suppress(OSError, ValueError):
                os.kill(self.pid(node), signal.SIGCONT)
            process.kill()
            process.wait()


class Clients:
    def __init__(self, test):
        endpoints = ",".join(f"{address(node)}:9000" for node in NODES)
        words = inside(3, test, "--ignored", "--exact", "--nocapture", TEST)
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, text=True, env=os.environ | {"TRILITH_ENDPOINTS": endpoints})

    def phase(self, name):
        print(f"  {time.strftime('%H:%M:%S')} {name}", flush=True)
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()

    def end(self):
        self.phase("settled")
        self.process.stdin.close()
        return self.process.wait()


def faults(cluster):
    """Each fault: its name, what makes it, what ends it. Leaders are looked up when it begins."""
    def link(one, other, both=True):
        cut(one, other)
        if both:
            cut(other, one)

    def lonely(node):
        for other in NODES:
            if other != node:
                link(node, other)

    def leader():
        return cluster.index_of("manager_leader")

    def two_followers():
        return [node for node in NODES if node != leader()]

    def pause(node):
        paused = cluster.pid(node)
        os.kill(paused, signal.SIGSTOP)
        return lambda: os.kill(paused, signal.SIGCONT)

    def kill(node):
        os.kill(cluster.pid(node), signal.SIGKILL)
        cluster.processes[node].wait()
        return lambda: cluster.start(node)

    yield "link between two followers cut", lambda: link(*two_followers())
    yield "one way between two followers", lambda: link(*two_followers(), both=False)
    yield "one way back between two followers", lambda: link(*reversed(two_followers()), both=False)
    yield "link to the manager's leader cut", lambda: link(two_followers()[0], leader())
    yield "one way to the manager's leader", lambda: link(two_followers()[0], leader(), both=False)
    yield "one way from the manager's leader", lambda: link(leader(), two_followers()[1], both=False)
    yield "a follower cut from both", lambda: lonely(two_followers()[1])
    yield "the manager's leader cut from both", lambda: lonely(leader())
    yield "a follower paused", lambda: pause(two_followers()[0])
    yield "the manager's leader paused", lambda: pause(leader())
    yield "the cell's leader killed", lambda: kill(cluster.index_of("leader"))


def build():
    words = ["cargo", "test", "-p", "trilith", "--test", "program", "--no-run", "--message-format=json"]
    lines = sh(*words, cwd=ROOT, capture_output=True).stdout.splitlines()
    built = [json.loads(line) for line in lines]
    tests = [one["executable"] for one in built if one.get("target", {}).get("name") == "program" and one.get("executable")]
    target = pathlib.Path(tests[-1]).parents[1]
    return target / "trilith", tests[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1, help="how often all faults are made")
    parser.add_argument("--keep", action="store_true", help="keep the folders and logs")
    parser.add_argument("--only", default="", help="faults whose names contain this")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("namespaces need root")
    program, test = build()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="trilith-namespaces-"))
    cluster, code = Cluster(program, folder), 1
    try:
        make_network()
        cluster.form()
        cluster.settle()
        clients = Clients(test)
        time.sleep(3)
        for _ in range(options.rounds):
            for name, make in faults(cluster):
                if options.only not in name:
                    continue
                cluster.settle()
                clients.phase(name)
                undo = make()
                time.sleep(FAULT_SECONDS)
                clients.phase("  healed")
                heal()
                if undo:
                    undo()
                cluster.settle()
                clients.phase("  whole")
                time.sleep(2)
        cluster.settle()
        code = clients.end()
    finally:
        cluster.stop()
        remove_network()
        if code == 0 and not options.keep:
            shutil.rmtree(folder)
        else:
            print(f"logs are in {folder}")
    sys.exit(code)


if __name__ == "__main__":
    main()
