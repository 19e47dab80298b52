"""All clients of a run: histories (Rust), the probe (bare HTTP), objects (boto3). Each is a process of its own."""

import collections
import os
import pathlib
import subprocess
import sys

import talk
from files import Files
from network import NODES, address

HERE = pathlib.Path(__file__).parent
TEST = "cluster::endpoints::clients_of_a_cluster_that_runs"


class Histories:
    """Six clients on a few hot keys, whose histories are judged after every fault: crates/trilith/tests/program/cluster/endpoints.rs."""

    def __init__(self, program):
        endpoints = ",".join(f"{address(node)}:9000" for node in NODES)
        words = [program, "--ignored", "--exact", "--nocapture", TEST]
        environment = os.environ | {"TRILITH_ENDPOINTS": endpoints}
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def tell(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def judged(self):
        """Waits for the verdict: what was heard; none if it has no explanation, or the clients failed."""
        for line in self.process.stdout:
            if line.startswith("explained "):
                return line.removeprefix("explained ").strip()
        return None

    def end(self):
        self.process.stdin.close()
        self.process.wait()


class Clients:
    def __init__(self, test, topology):
        self.histories = Histories(test)
        self.probe = talk.Helper(sys.executable, HERE / "probe.py")
        buckets = [bucket for bucket, _ in topology.buckets if bucket.startswith("objects")]
        self.objects = [talk.Helper(sys.executable, HERE / "objects.py", bucket) for bucket in buckets]

    def go(self):
        self.histories.tell("go")
        for helper in (self.probe, *self.objects):
            helper.ask("go")

    def rest(self):
        self.histories.tell("rest")
        for helper in (self.probe, *self.objects):
            helper.ask("rest")

    def judge(self, everything=False):
        """What was seen, and what of it is wrong. Nobody writes, and the cluster is whole."""
        self.histories.tell("judge")
        explained = self.histories.judged()
        wrong = [] if explained else ["histories: no explanation, or a client failed; see above"]
        probe = self.probe.ask("verify", everything=everything)
        objects = [helper.ask("verify", everything=everything) for helper in self.objects]
        wrong += [f"probe: {one}" for one in probe["wrong"]] + [f"objects: {one}" for many in objects for one in many["wrong"]]
        steps = sum((collections.Counter(one["done"]) for one in objects), collections.Counter())
        checked = {"history": explained, "keys": probe["checked"], "objects": sum(one["checked"] for one in objects), "steps": dict(steps)}
        return checked, wrong

    def tally(self, begins, ends):
        return self.probe.ask("tally", begins=begins, ends=ends)

    def end(self):
        for helper in (self.histories, self.probe, *self.objects):
            helper.end()


class FileClients:
    """Of a file volume that each node has mounted."""

    def __init__(self, cluster):
        self.files = Files([cluster.mount(node) for node in NODES], cluster.folder)
        self.go, self.rest, self.tally, self.end = self.files.go, self.files.rest, self.files.tally, self.files.end

    def judge(self, everything=False):
        return self.files.judge(everything)
