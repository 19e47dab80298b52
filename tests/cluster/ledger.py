"""What keys may hold, by what their writers were told. Each key has one writer, which numbers its contents upwards.

A write that was acknowledged counts from then on. One that was answered with 503 or 507, or not at all, may count at any moment: a recovery that
finds a copy of it counts it, unless something newer stands. When the cluster is whole and nobody writes everybody must say the same. One that
was refused never counts.
"""

import hashlib
import threading

ABSENT = 0


def content(key, version, length):
    """Bytes that no other key and no other version has."""
    head = f"{key} {version} {length}\n".encode()
    return head + hashlib.shake_128(head).digest(max(0, length - len(head)))


def version_of(key, body):
    """The version whose content this is."""
    head = body[:300].split(b"\n", 1)[0].decode(errors="replace").split(" ")
    if len(head) != 3 or head[0] != key or not head[1].isdigit() or not head[2].isdigit():
        raise ValueError(f"bytes that nobody wrote to {key}: {body[:60]!r}")
    if content(key, int(head[1]), int(head[2])) != body:
        raise ValueError(f"damaged bytes of version {head[1]} of {key}, {len(body)} of {head[2]}")
    return int(head[1])


class Known:
    def __init__(self):
        self.last = ABSENT  # Numbered last.
        self.deletes = set()  # Versions that are deletes.
        self.acked = ABSENT
        self.open = set()  # Asked, and answered neither with yes nor no.
        self.refused = set()  # Answered with no: these never count.


class Ledger:
    def __init__(self):
        self.lock = threading.Lock()
        self.keys = {}
        self.touched = set()

    def ask(self, key, is_delete=False):
        """The next version of a key, which is about to be sent."""
        with self.lock:
            known = self.keys.setdefault(key, Known())
            known.last += 1
            known.open.add(known.last)
            if is_delete:
                known.deletes.add(known.last)
            self.touched.add(key)
            return known.last

    def acknowledge(self, key, version):
        with self.lock:
            known = self.keys[key]
            known.open.discard(version)
            known.acked = version

    def refuse(self, key, version):
        with self.lock:
            self.keys[key].open.discard(version)
            self.keys[key].refused.add(version)

    def floor(self, key):
        """To be taken before a read, and given to `check` after it."""
        with self.lock:
            known = self.keys.get(key)
            return (known.acked, set(known.open)) if known else (ABSENT, set())

    def check(self, key, floor, found):
        """What is wrong with a read, if something is: `found` is a version, or ABSENT."""
        acked, was_open = floor
        with self.lock:
            known = self.keys[key]
            allowed = {*range(acked, known.last + 1)} - known.refused | was_open
            if found != ABSENT and found in allowed and found not in known.deletes:
                return None
            if found == ABSENT and (acked == ABSENT or any(version in known.deletes for version in allowed)):
                return None
            return f"{key}: found version {found}; {acked} was acknowledged before, {sorted(was_open)} open, {known.last} the last"

    def is_sure(self, key):
        """What the key holds if that is certain: (True, version or ABSENT)."""
        with self.lock:
            known = self.keys.get(key)
            if known is None:
                return True, ABSENT
            return not known.open, ABSENT if known.acked in known.deletes else known.acked

    def settle(self, key, found):
        """All nodes have said the same of a key that nobody writes. What is older than that never comes any more; what is newer may."""
        with self.lock:
            known = self.keys[key]
            if found != ABSENT:
                known.acked = found
            elif known.acked not in known.deletes:
                known.acked = max(known.deletes, default=ABSENT)
            known.open = {version for version in known.open if version > known.acked}

    def take_touched(self):
        with self.lock:
            touched, self.touched = self.touched, set()
            return sorted(touched)


def verify(ledger, keys, nodes, read):
    """Reads keys at all nodes, while nobody writes: what is wrong. `read(node, key)` returns a version or ABSENT, or raises."""
    wrong = []
    for key in keys:
        said = {}
        for node in nodes:
            floor = ledger.floor(key)
            try:
                said[node] = read(node, key)
            except Exception as error:  # Whatever it is, it stands in the report.
                wrong.append(f"{key} at node {node + 1}: {error}")
                continue
            complaint = ledger.check(key, floor, said[node])
            if complaint:
                wrong.append(f"at node {node + 1}: {complaint}")
        if len(set(said.values())) > 1:
            wrong.append(f"{key}: nodes say different things: {said}")
        elif len(said) == len(nodes):
            ledger.settle(key, said[nodes[0]])
    return wrong
