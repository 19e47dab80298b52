"""Three hosts; on each a `trilith serve` that is all of a node, or one for each role."""

import contextlib
import dataclasses
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import disks
import parts
from network import NODES, inside, sh
from parts import ADMIN, CLUSTER, S3, Part

START_SECONDS = 60
SETTLE_SECONDS = 120
STATUS_SECONDS = 2
LOOK_SECONDS = 0.1
PASSWORDS = {"TRILITH_ROOT_USER": "tester", "TRILITH_ROOT_PASSWORD": "tester-secret"}
# Open to everybody: the histories' and the probe's. The others are boto3's, which signs.
OPEN_BUCKETS = ["linear", "probe"]
BUCKETS = (("linear", "log"), ("probe", "log"), ("objects", "log"))
# Of files; how `trilith volume info` calls copies.
VOLUME = "shared"
IN_SYNC, SERVES = "in sync", "in sync, serves"
INFO_SECONDS = 20


class Stuck(Exception):
    """Something that must happen does not."""


# What a look at a node raises that does not answer, or knows less than it will.
NOT_YET = (OSError, http.client.HTTPException, LookupError, ValueError, TypeError, StopIteration, Stuck)


@dataclasses.dataclass(frozen=True)
class Topology:
    """What the nodes have."""

    devices: int = 2
    device_size: str = "1GiB"
    zone_size: str = "8MiB"
    # The folder of the third node is a file system of this size, if any.
    small_folder: str = ""
    # A process for each role.
    is_apart: bool = False
    # A volume of files, mounted by each node.
    has_files: bool = False
    # Names and engines; the names of boto3's begin with "objects".
    buckets: tuple = BUCKETS

    @property
    def has_groups(self):
        """Whether a bucket is in the placement groups of the volume engine."""
        return any(engine != "log" for _, engine in self.buckets)


class Cluster:
    """Where a method takes a node, that is a host, and means its gateway, or a part of one. What ends or pauses a host does so to all that
    runs there."""

    def __init__(self, program, folder, topology, is_plain):
        self.program, self.folder, self.topology, self.is_plain = program, folder, topology, is_plain
        self.processes = {}
        self.small = None

    def all_on(self, node):
        return [node] if isinstance(node, Part) else parts.of_host(node, self.topology.is_apart)

    def part(self, node):
        return self.all_on(node)[-1]

    def everything(self):
        """All parts, in the order in which they come to be: each role's first."""
        return sorted((part for node in NODES for part in self.all_on(node)), key=lambda part: parts.FURTHER[part.role] or 300)

    def data(self, node):
        return self.folder / self.part(node).name

    def devices(self, node):
        return [self.data(node) / f"device-{number}.trilith" for number in range(self.topology.devices)]

    def log(self, node):
        return self.folder / f"{self.part(node).name}.log"

    def run(self, node, *words, **options):
        """A command of the program on a node's host; what it prints."""
        part = self.part(node)
        environment = os.environ | PASSWORDS | {"TRILITH_ENDPOINT": f"http://{part.at(S3)}"}
        return sh(*inside(part.host, self.program, *words), env=environment, capture_output=True, **options).stdout

    def form(self):
        """Makes the cluster from nothing, with its buckets."""
        if self.topology.small_folder:
            self.small = disks.SmallFolder(self.folder / "small.ext4", self.data(2), self.topology.small_folder)
        first, *others = self.everything()
        for part in (first, *others):
            place = ["--cluster-addr", part.at(CLUSTER), "--name", part.name, "--host", f"n{part.host + 1}", *self.trust()]
            place += ["--data", self.data(part), "--roles", part.roles]
            if part == first:
                self.run(part, "cluster", "init", *place)
                token = self.run(part, "cluster", "token", "--data", self.data(part)).strip()
            else:
                self.run(part, "cluster", "join", token, "--via", first.at(CLUSTER), *place)
            if part.has("target"):
                for device in self.devices(part):
                    self.format(part, device)
            self.start(part)
            self.wait(lambda part=part: self.status(part)["ready"], START_SECONDS, f"{part.name} to serve")
        for bucket, engine in self.topology.buckets:
            self.run(0, "bucket", "make", bucket, "--engine", engine)
        for bucket in OPEN_BUCKETS:
            self.run(0, "bucket", "policy", "set", bucket, "public-read-write")
        if self.topology.has_files:
            self.run(0, "volume", "create", VOLUME, "--data", self.data(0))
            for node in NODES:
                self.mount(node).mkdir()
                self.run(node, "mount", VOLUME, self.mount(node), "--detach", "--data", self.data(node))
        self.settle()

    def mount(self, node):
        """The folder where a node has mounted the volume of files."""
        return self.folder / f"mount-{node + 1}"

    def file_copies(self):
        """What each node's copy of the contents of files is, as the first node says that knows: words of `trilith volume info`."""
        for node in NODES:
            with contextlib.suppress(subprocess.SubprocessError):
                info = self.run(node, "volume", "info", VOLUME, "--data", self.data(node), timeout=INFO_SECONDS)
                return {int(number) - 1: state for number, state in re.findall(r"device \d+ of n(\d): (.*)", info)}
        raise Stuck("no node knows of the copies of files")

    def files_are_whole(self):
        """Whether all copies are in sync, one serves, and all mounts answer."""
        states = list(self.file_copies().values())
        if len(states) < len(NODES) or states.count(SERVES) != 1 or not all(state.startswith(IN_SYNC) for state in states):
            return False
        looks = [subprocess.Popen(["mountpoint", "--quiet", self.mount(node)]) for node in NODES]
        try:
            return all(look.wait(timeout=INFO_SECONDS) == 0 for look in looks)
        except subprocess.TimeoutExpired:
            return False
        finally:
            for look in looks:
                look.kill()

    def keepers(self, node):
        """The processes that keep a node's mounts."""
        words, found = {b"keep-mounts", str(self.data(node)).encode()}, []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if words <= set((process / "cmdline").read_bytes().split(b"\0")):
                    found.append(int(process.name))
        return found

    def trust(self):
        """What lets nodes listen beyond their machine, if connections between them are not encrypted, or shall not be."""
        usage = subprocess.run([self.program, "cluster", "init", "--help"], check=True, capture_output=True, text=True).stdout
        return ["--trust-network"] if self.is_plain or "--tls" not in usage else []

    def format(self, node, device, *more):
        self.run(node, "device", "format", "--size", self.topology.device_size, "--zone-size", self.topology.zone_size, *more, device)

    def start(self, node):
        for part in self.all_on(node):
            self.start_part(part)

    def start_part(self, part):
        words = [self.program, "serve", "--data", self.data(part), "--cores", "1"]
        words += ["--s3-addr", part.at(S3), "--admin-addr", part.at(ADMIN)]
        if part.has("target"):
            words += ["--devices", ",".join(str(device) for device in self.devices(part))]
        with open(self.log(part), "a") as log:
            command = inside(part.host, *words)
            self.processes[part] = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | PASSWORDS)

    def signal(self, what, nodes):
        """Sends a signal to all that runs there; says to what."""
        chosen = [part for node in nodes for part in self.all_on(node)]
        for part in chosen:
            self.processes[part].send_signal(what)
        return chosen

    def kill(self, *nodes):
        for part in self.signal(signal.SIGKILL, nodes):
            self.let_go(part).wait()

    def stop(self, node):
        """In order."""
        for part in self.signal(signal.SIGTERM, [node]):
            self.let_go(part).wait(timeout=START_SECONDS)

    def let_go(self, node):
        """The process, which is nobody's concern any more."""
        return self.processes.pop(self.part(node))

    def pause(self, *nodes):
        self.signal(signal.SIGSTOP, nodes)

    def go_on(self, *nodes):
        self.signal(signal.SIGCONT, nodes)

    def end(self):
        for process in self.processes.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
        self.processes.clear()
        for node in NODES if self.topology.has_files else ():
            # Calls that still wait fail.
            for how in ("--force", "--lazy"):
                subprocess.run(["umount", how, self.mount(node)], stderr=subprocess.DEVNULL, check=False)
        if self.small:
            self.small.remove()

    def ended(self):
        """Parts whose process has ended by itself."""
        return [part for part, process in self.processes.items() if process.poll() is not None]

    def get(self, node, path, port=S3):
        connection = http.client.HTTPConnection(self.part(node).at(port), timeout=STATUS_SECONDS)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def metric(self, node, name):
        """A figure of a node; none of one that does not answer."""
        with contextlib.suppress(*NOT_YET):
            lines = self.get(node, "/metrics", ADMIN)[1].decode().splitlines()
            return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0].split(" ")[0] == name)
        return None

    def status(self, node):
        return json.loads(self.get(node, "/status", ADMIN)[1])

    def is_whole(self, node):
        """Whether a node sees everybody serve, its devices written to, nothing undecided, and answers reads."""
        status = self.status(node)
        cell = status["cell"]
        found = {one["name"]: (one["serves"], one["votes"], one["is_silent"]) for one in cell["nodes"]}
        everybody = found == {part.name: (part.has("gateway"), part.has("manager"), False) for part in self.everything()}
        own = {device["device"] for device in status["devices"] if device["state"] != "missing"}
        if self.topology.is_apart:
            own = {device["device"] for device in cell["devices"]}
        written = {device["device"] for device in cell["devices"] if device["is_written"]}
        decided = not cell["undecided"] and cell["manager_leader"] and cell["gateways"] == len(NODES)
        all_there = everybody and decided and own <= written and (not self.topology.has_groups or groups_are_whole(status))
        return status["ready"] and all_there and self.get(node, "/linear/hot/none")[0] == 404

    def settle(self):
        for node in NODES:
            self.wait(lambda node=node: self.is_whole(node), SETTLE_SECONDS, f"node {node + 1} to see a whole cluster")
        if self.topology.has_files:
            self.wait(self.files_are_whole, SETTLE_SECONDS, "all copies of files to be in sync, and mounts to answer")

    def wait(self, look, seconds, what):
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(*NOT_YET):
                if look():
                    return
            if self.ended():
                raise Stuck(f"the process of {[part.name for part in self.ended()]} ended while waiting for {what}")
            if time.monotonic() > deadline:
                raise Stuck(f"waited {seconds} s for {what}")
            time.sleep(LOOK_SECONDS)

    def leads(self, what):
        """Who leads the manager (`manager_leader`) or the cell (`leader`), as any node says: a host, or the part that does."""
        for node in NODES:
            with contextlib.suppress(*NOT_YET):
                part = parts.named(self.status(node)["cell"][what])
                return part if part.role else part.host
        raise Stuck(f"no node knows its {what}")


def groups_are_whole(status):
    """Whether all placement groups of the volume engine have all copies, as a node's status says: "16 placement groups of 16 have …"."""
    words = next(line["text"] for line in status["subsystems"] if line["label"] == "volumes").split()
    return words[1:3] == ["placement", "groups"] and words[0] == words[4]
