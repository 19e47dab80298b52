"""Three nodes, each a `trilith serve` on a host of its own."""

import contextlib
import dataclasses
import http.client
import json
import os
import signal
import subprocess
import time

import disks
import network
from network import NODES, address, inside, sh

START_SECONDS = 60
SETTLE_SECONDS = 120
STATUS_SECONDS = 2
LOOK_SECONDS = 0.1
PASSWORDS = {"TRILITH_ROOT_USER": "tester", "TRILITH_ROOT_PASSWORD": "tester-secret"}
# Open to everybody: the histories' and the probe's. The other is boto3's, which signs.
OPEN_BUCKETS = ["linear", "probe"]
BUCKETS = [*OPEN_BUCKETS, "objects"]


class Stuck(Exception):
    """Something that must happen does not."""


@dataclasses.dataclass(frozen=True)
class Topology:
    """What the nodes have."""

    devices: int = 2
    device_size: str = "1GiB"
    zone_size: str = "8MiB"
    # The folder of the third node is a file system of this size, if any.
    small_folder: str = ""


class Cluster:
    def __init__(self, program, folder, topology, is_plain):
        self.program, self.folder, self.topology, self.is_plain = program, folder, topology, is_plain
        self.processes = {}
        self.small = None

    def data(self, node):
        return self.folder / f"node-{node + 1}"

    def devices(self, node):
        return [self.data(node) / f"device-{number}.trilith" for number in range(self.topology.devices)]

    def log(self, node):
        return self.folder / f"node-{node + 1}.log"

    def run(self, node, *words, **options):
        """A command of the program on a node's host; what it prints."""
        at = {"TRILITH_ENDPOINT": f"http://{address(node)}:9000"}
        environment = os.environ | PASSWORDS | at
        return sh(*inside(node, self.program, *words), env=environment, capture_output=True, **options).stdout

    def form(self):
        """Makes the cluster from nothing, with its buckets."""
        if self.topology.small_folder:
            self.small = disks.SmallFolder(self.folder / "small.ext4", self.data(2), self.topology.small_folder)
        for node in NODES:
            place = ["--cluster-addr", f"{address(node)}:9002", "--name", f"n{node + 1}", "--data", self.data(node), *self.trust()]
            if node == 0:
                self.run(node, "cluster", "init", *place)
                token = self.run(0, "cluster", "token", "--data", self.data(0)).strip()
            else:
                self.run(node, "cluster", "join", token, "--via", f"{address(0)}:9002", *place)
            for device in self.devices(node):
                self.format(node, device)
            self.start(node)
            self.wait(lambda node=node: self.status(node)["ready"], START_SECONDS, f"node {node + 1} to serve")
        for bucket in BUCKETS:
            self.run(0, "bucket", "make", bucket)
        for bucket in OPEN_BUCKETS:
            self.run(0, "bucket", "policy", "set", bucket, "public-read-write")
        self.settle()

    def trust(self):
        """What lets nodes listen beyond their machine, if connections between them are not encrypted, or shall not be."""
        usage = subprocess.run([self.program, "cluster", "init", "--help"], check=True, capture_output=True, text=True).stdout
        return ["--trust-network"] if self.is_plain or "--tls" not in usage else []

    def format(self, node, device, *more):
        self.run(node, "device", "format", "--size", self.topology.device_size, "--zone-size", self.topology.zone_size, *more, device)

    def start(self, node):
        devices = ",".join(str(device) for device in self.devices(node))
        words = [self.program, "serve", "--data", self.data(node), "--devices", devices, "--cores", "1"]
        words += ["--s3-addr", f"{address(node)}:9000", "--admin-addr", f"{address(node)}:9001"]
        with open(self.log(node), "a") as log:
            self.processes[node] = subprocess.Popen(inside(node, *words), stdout=log, stderr=log, env=os.environ | PASSWORDS)

    def kill(self, *nodes):
        for node in nodes:
            self.processes[node].send_signal(signal.SIGKILL)
        for node in nodes:
            self.processes.pop(node).wait()

    def stop(self, node):
        """In order."""
        self.processes[node].send_signal(signal.SIGTERM)
        self.processes.pop(node).wait(timeout=START_SECONDS)

    def pause(self, *nodes):
        for node in nodes:
            self.processes[node].send_signal(signal.SIGSTOP)

    def go_on(self, *nodes):
        for node in nodes:
            self.processes[node].send_signal(signal.SIGCONT)

    def end(self):
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
        self.processes.clear()
        if self.small:
            self.small.remove()

    def ended(self):
        """Nodes whose process has ended by itself."""
        return [node for node, process in self.processes.items() if process.poll() is not None]

    def get(self, node, path, port=9000):
        connection = http.client.HTTPConnection(address(node), port, timeout=STATUS_SECONDS)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def status(self, node):
        return json.loads(self.get(node, "/status", 9001)[1])

    def is_whole(self, node):
        """Whether a node sees everybody serve, its devices written to, nothing undecided, and answers reads."""
        status = self.status(node)
        cell = status["cell"]
        everybody = len(cell["nodes"]) == len(NODES) and all(one["serves"] and one["votes"] for one in cell["nodes"])
        own = {device["device"] for device in status["devices"] if device["state"] != "missing"}
        written = {device["device"] for device in cell["devices"] if device["is_written"]}
        decided = not cell["undecided"] and cell["manager_leader"] and cell["gateways"] == len(NODES)
        return status["ready"] and everybody and decided and own <= written and self.get(node, "/linear/hot/none")[0] == 404

    def settle(self):
        for node in NODES:
            self.wait(lambda node=node: self.is_whole(node), SETTLE_SECONDS, f"node {node + 1} to see a whole cluster")

    def wait(self, look, seconds, what):
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
                if look():
                    return
            if self.ended():
                raise Stuck(f"the process of nodes {[node + 1 for node in self.ended()]} ended while waiting for {what}")
            if time.monotonic() > deadline:
                raise Stuck(f"waited {seconds} s for {what}")
            time.sleep(LOOK_SECONDS)

    def leads(self, what):
        """The node that leads the manager (`manager_leader`) or the cell (`leader`), as any node says."""
        for node in NODES:
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
                return int(self.status(node)["cell"][what][1:]) - 1
        raise Stuck(f"no node knows its {what}")
