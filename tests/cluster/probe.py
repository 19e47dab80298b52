"""Small writes and reads at every node, over bare HTTP, one after the other: how long each node serves nobody, and what it answers.

The bucket `probe` is open to everybody. Each writer has keys of its own; readers check what they find against what was acknowledged
before they asked, so a stale answer is found here already. Commands: see `main`.
"""

import http.client
import random
import sys
import threading
import time

import network
import talk
from ledger import ABSENT, Ledger, content, verify, version_of

WRITERS_OF_A_NODE = 2
KEYS_OF_A_WRITER = 30
PACE_SECONDS = 0.04
# After a connection broke, or a node answered that it can't serve.
PAUSE_SECONDS = 0.05
PATIENCE_SECONDS = 30
MOST_COMPLAINTS = 20


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


class Probe:
    def __init__(self):
        self.ledger = Ledger()
        self.runs = threading.Event()
        self.ends = False
        self.busy = 0
        self.lock = threading.Lock()
        self.samples = []  # (is_write, node, began, ended, status)
        self.wrong = []
        for node in network.NODES:
            for number in range(WRITERS_OF_A_NODE):
                self.thread(self.write, node, number)
            self.thread(self.read, node)

    def thread(self, step, node, *more):
        threading.Thread(target=self.live, args=(step, Node(node), *more), daemon=True).start()

    def live(self, step, at, *more):
        chance = random.Random(f"{at.node} {more}")
        while not self.ends:
            if not self.runs.wait(timeout=1):
                continue
            with self.lock:
                self.busy += 1
            try:
                if self.runs.is_set():
                    pause = step(at, chance, *more)
            except Exception as error:  # A reader's complaint, or a mistake of this script: both end in the report.
                self.complain(f"{type(error).__name__} {error}")
                pause = PAUSE_SECONDS
            finally:
                with self.lock:
                    self.busy -= 1
            time.sleep(pause)

    def complain(self, what):
        with self.lock:
            if len(self.wrong) < MOST_COMPLAINTS:
                self.wrong.append(what)

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
        if status == 507:
            self.ledger.refuse(key, version)
        elif status not in (503, None):
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

    def rest(self):
        """Ends when no request is under way."""
        self.runs.clear()
        while self.busy:
            time.sleep(0.02)
        return {}

    def go(self):
        self.samples.clear()
        self.runs.set()
        return {}

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
        keys = self.ledger.take_touched()
        if everything:
            keys = sorted(self.ledger.keys)
        nodes = {node: Node(node) for node in network.NODES}
        wrong = verify(self.ledger, keys, network.NODES, lambda node, key: found(key, *nodes[node].ask("GET", f"/probe/{key}")))
        with self.lock:
            wrong, self.wrong = self.wrong + wrong, []
        return {"checked": len(keys), "wrong": wrong[:MOST_COMPLAINTS]}


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
    probe.ends = True


if __name__ == "__main__":
    sys.exit(main())
