"""Small writes and reads at every node, over bare HTTP, one after the other: how long each node serves nobody, and what it answers.

The bucket `probe` is open to everybody. Each writer has keys of its own; readers check what they find against what was acknowledged
before they asked, so a stale answer is found here already. Commands: see `main`.
"""

import http.client
import random
import sys
import time

import network
import talk
from crew import Crew
from ledger import ABSENT, content, version_of

WRITERS_OF_A_NODE = 2
KEYS_OF_A_WRITER = 30
PACE_SECONDS = 0.04
# After a connection broke, or a node answered that it can't serve.
PAUSE_SECONDS = 0.05
PATIENCE_SECONDS = 30


class Node:
    """A keep-alive connection."""

    def __init__(self, node):
        self.node = node
        self.connection = None

    def ask(self, method, path, body=None):
        """The status and the body; OSError or HTTPException if there is no answer."""
        if self.connection is None:
            self.connection = http.client.HTTPConnection(network.address(self.node), 9000, timeout=PATIENCE_SECONDS)
        try:
            self.connection.request(method, path, body)
            answer = self.connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            self.connection.close()
            self.connection = None
            raise


class Probe(Crew):
    def __init__(self):
        super().__init__()
        self.samples = []  # (is_write, node, began, ended, status)
        for node in network.NODES:
            for number in range(WRITERS_OF_A_NODE):
                self.start(self.write, Node(node), random.Random(f"{node} {number}"), number)
            self.start(self.read, Node(node), random.Random(f"{node}"))

    def request(self, at, is_write, *words):
        began, status, body = time.monotonic(), None, b""
        try:
            status, body = at.ask(*words)
        except (OSError, http.client.HTTPException):
            pass
        with self.lock:
            self.samples.append((is_write, at.node, began, time.monotonic(), status))
        return status, body

    def write(self, at, chance, number):
        key = f"{at.node}-{number}-{chance.randrange(KEYS_OF_A_WRITER)}"
        version = self.ledger.ask(key)
        status, body = self.request(at, True, "PUT", f"/probe/{key}", content(key, version, chance.randrange(6000)))
        if status == 200:
            self.ledger.acknowledge(key, version)
            return PACE_SECONDS
        # Without room, too, nobody can tell: some copies may stand (docs/semantics.md).
        if status not in (503, 507, None):
            self.complain(f"PUT at node {at.node + 1}: {status} {body[:300]}")
        return PAUSE_SECONDS

    def read(self, at, chance):
        keys = list(self.ledger.keys)
        if not keys:
            return PACE_SECONDS
        key = chance.choice(keys)
        floor = self.ledger.floor(key)
        status, body = self.request(at, False, "GET", f"/probe/{key}")
        if status in (503, None):
            return PAUSE_SECONDS
        complaint = self.ledger.check(key, floor, found(key, status, body))
        if complaint:
            self.complain(f"stale at node {at.node + 1}: {complaint}")
        return PACE_SECONDS

    def go(self):
        self.samples.clear()
        return super().go()

    def tally(self, begins, ends):
        """How long nobody, and each node, served nothing in a while; and how often what was answered."""
        tally = {}
        for is_write, kind in ((True, "write"), (False, "read")):
            with self.lock:
                samples = [one for one in self.samples if one[0] == is_write and begins <= one[3] <= ends]
            served = [one for one in samples if one[4] in (200, 404)]
            tally[kind] = {
                "any": gap([one[3] for one in served], begins, ends),
                "nodes": [gap([one[3] for one in served if one[1] == node], begins, ends) for node in network.NODES],
                "waits": [max((one[3] - one[2] for one in served if one[1] == node), default=0) for node in network.NODES],
                "served": len(served),
                "refused": sum(one[4] in (503, None) for one in samples),
                "full": sum(one[4] == 507 for one in samples),
            }
        return tally

    def verify(self, everything):
        nodes = {node: Node(node) for node in network.NODES}
        keys, wrong = self.read_back(everything, lambda node, key: found(key, *nodes[node].ask("GET", f"/probe/{key}")))
        return {"checked": len(keys), "wrong": wrong}


def found(key, status, body):
    if status == 404:
        return ABSENT
    if status != 200:
        raise ValueError(f"{status} {body[:300]}")
    return version_of(key, body)


def gap(moments, begins, ends):
    """The longest time between two of these, or from one to an end."""
    moments = [begins, *sorted(moments), ends]
    return max(later - earlier for earlier, later in zip(moments, moments[1:]))


def main():
    probe = Probe()
    talk.answer({"go": probe.go, "rest": probe.rest, "tally": probe.tally, "verify": probe.verify})


if __name__ == "__main__":
    sys.exit(main())
