"""Programs on the mounts of a file volume, each a process of its own (file_worker.py), and whether what they saw has an explanation."""

import collections
import hashlib
import json
import os
import pathlib
import sys
import threading
import time

import file_contents
import file_names
import talk
from crew import MOST_COMPLAINTS
from file_contents import PIECES, Register
from file_worker import ARENAS, BASES, DOCUMENTS, listing
from ledger import ABSENT, version_of

HERE = pathlib.Path(__file__).parent
# On each mount.
NAMERS = 2
# Calls end, with an answer or an error, within this time of the end of a fault: writes wait for up to 80 s (docs/operations/files.md).
HANG_SECONDS = 90
LOOK_SECONDS = 0.05


class Hung(RuntimeError):
    """A call on a mount does not end."""


def within(work):
    """What `work` returns, if it does so in time."""
    outcome = []

    def run():
        try:
            outcome.append((work(), None))
        except Exception as error:  # Raised again below.
            outcome.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(HANG_SECONDS)
    if not outcome:
        raise Hung(f"a look at a mount did not end within {HANG_SECONDS} s")
    result, error = outcome[0]
    if error:
        raise error
    return result


class Files:
    def __init__(self, mounts, notes):
        """`notes`: a folder for histories without an explanation."""
        self.mounts, self.notes = [pathlib.Path(mount) for mount in mounts], notes
        self.round = 0
        self.registers = collections.defaultdict(Register)
        self.logs = {}
        self.wrong = []
        self.history, self.dead = [], 0
        for name, (size, count) in PIECES.items():
            with open(self.mounts[0] / name, "wb") as file:
                file.write(bytes(size * count))
        script, writers = HERE / "file_worker.py", len(self.mounts)
        self.workers = []
        for number, mount in enumerate(self.mounts):
            kinds = [(number, "contents"), *((number * NAMERS + namer, "names") for namer in range(NAMERS))]
            self.workers += [talk.Helper(sys.executable, script, mount, one, writers, kind) for one, kind in kinds]

    def go(self):
        self.round += 1
        self.history, self.dead = [], 0
        within(self.make_round)
        for worker in self.workers:
            worker.ask("go", round=self.round)

    def make_round(self):
        for arena in ARENAS:
            for base in BASES:
                os.makedirs(self.mounts[0] / f"names-{self.round}-{arena}" / base)
        (self.mounts[0] / f"log-{self.round}").touch()

    def rest(self):
        deadline = time.monotonic() + HANG_SECONDS
        while busy := [said for worker in self.workers if (said := worker.ask("rest"))["busy"]]:
            if time.monotonic() > deadline:
                raise Hung(f"calls did not end within {HANG_SECONDS} s: {[said['now'] for said in busy]}")
            time.sleep(LOOK_SECONDS)
        for number, worker in enumerate(self.workers):
            taken = worker.ask("take")
            self.wrong += taken["wrong"]
            self.history += [one | {"mount": number // (NAMERS + 1)} for one in taken["history"]]

    def tally(self, begins, ends):
        """How long no mount, and each mount, was served; of what ended in a while."""
        self.begins, self.whole = begins, ends
        tally = {}
        for is_write, kind in ((True, "write"), (False, "read")):
            reading = ("read", "read_document", "read_log", "stat", "list")
            some = [one for one in self.history if (one["do"] not in reading) == is_write and begins <= one["ends"] <= ends]
            served = [one for one in some if one.get("is")]
            of = lambda number, served=served: [one for one in served if one["mount"] == number]
            tally[kind] = {
                "any": gap([one["ends"] for one in served], begins, ends),
                "nodes": [gap([one["ends"] for one in of(number)], begins, ends) for number in range(len(self.mounts))],
                "waits": [max((one["ends"] - one["begins"] for one in of(number)), default=0) for number in range(len(self.mounts))],
                "served": len(served),
                "refused": len(some) - len(served),
                "full": 0,
            }
        return tally

    def judge(self, everything):
        """What was seen, and what of it is wrong. No client writes, and the cluster is whole."""
        reads = collections.defaultdict(list)
        for one in sorted(self.history, key=lambda one: one["begins"]):
            if one["do"] == "write":
                self.registers[one["key"]].take(one)
            elif one["do"] == "read" and one.get("is") == "ok" and "version" in one:
                reads[one["key"]].append(one)
            if not one.get("is") and (one["ends"] < self.begins or one["begins"] > self.whole):
                self.wrong.append(f"failed although nothing was broken: {one}")
        for number in range(len(self.mounts)):
            for read in within(lambda number=number: self.read_all(number)):
                reads[read["key"]].append(read)
        self.judge_registers(reads)
        if everything:
            self.look_at_logs()
        else:
            self.judge_log()
            for arena in ARENAS:
                self.judge_names(arena)
        checked = self.counts()
        wrong, self.wrong, self.history = self.wrong[:MOST_COMPLAINTS], [], []
        return checked, wrong

    def judge_registers(self, reads):
        for key, some in reads.items():
            register = self.registers[key]
            self.wrong += register.judge(key, some)
            last = {read["mount"]: read["version"] for read in some if read.get("is_last")}
            if len(set(last.values())) > 1:
                self.wrong.append(f"{key}: mounts say different things: {last}")
            register.floor = max(last.values(), default=register.floor)

    def read_all(self, number):
        """What all registers hold, by a mount."""
        found = []
        for name, (size, count) in PIECES.items():
            begins = time.monotonic()
            whole = (self.mounts[number] / name).read_bytes()
            ends = time.monotonic()
            for piece in range(count):
                found.append((f"{name}/{piece}", begins, ends, whole[piece * size : (piece + 1) * size]))
        for key in [f"document-{writer}-{document}" for writer in range(len(self.mounts)) for document in range(DOCUMENTS)]:
            path, begins = self.mounts[number] / key, time.monotonic()
            whole = path.read_bytes() if path.exists() else b""
            found.append((key, begins, time.monotonic(), whole))
        reads = []
        for key, begins, ends, held in found:
            try:
                version = version_of(key, held) if any(held) else ABSENT
            except ValueError as error:
                self.wrong.append(f"mount {number + 1}: {error}")
                continue
            reads.append({"do": "read", "key": key, "begins": begins, "ends": ends, "version": version, "mount": number, "is_last": True})
        return reads

    def look_at_logs(self):
        """The logs of earlier rounds have not changed since."""
        for number, mount in enumerate(self.mounts):
            for round in self.logs:
                found = within((mount / f"log-{round}").read_bytes)
                if hashlib.sha1(found).hexdigest() != self.logs[round]:
                    self.wrong.append(f"log-{round} at mount {number + 1} is another one than before, of {len(found)} bytes")

    def judge_log(self):
        found = [within((mount / f"log-{self.round}").read_bytes) for mount in self.mounts]
        if len(set(found)) > 1:
            self.wrong.append(f"log-{self.round}: mounts say different things: {[len(one) for one in found]} bytes")
        some = lambda do: [one for one in self.history if one["do"] == do]
        wrong = file_contents.judge_log(found[0], some("append"), [one for one in some("read_log") if one.get("is") == "ok"])
        if wrong:
            (self.notes / f"log-{self.round}").write_bytes(found[0])
            self.keep(f"log-{self.round}", some("append") + some("read_log"))
        self.wrong += wrong
        self.logs[self.round] = hashlib.sha1(found[0]).hexdigest()

    def judge_names(self, arena):
        history = [dict(one, at=tuple(one["at"])) for one in self.history if one.get("arena") == arena]
        for one in history:
            if "to" in one:
                one["to"] = tuple(one["to"])
        # Where the mount was gone, no request was made; what a question would have found is nothing that happened.
        asked = lambda one: one.get("failed") != "ENOTCONN" and one["do"] not in ("stat", "list")
        history = [one for one in history if one.get("is") or asked(one)]
        roots = []
        for number in range(len(self.mounts)):
            roots, looks = within(lambda number=number: self.look_at_names(number, arena))
            history += looks
        wrong = file_names.judge(roots, history)
        if wrong:
            self.keep(f"names-{self.round}-{arena}", {"roots": roots, "history": history})
            self.wrong.append(f"names-{self.round}-{arena}: {wrong[:1500]}")

    def look_at_names(self, number, arena):
        """The directories that are always there, and listings of all that are, as operations of a history. Links are counted."""
        folder = self.mounts[number] / f"names-{self.round}-{arena}"
        bases = [folder / base for base in BASES]
        left, roots, looks = list(bases), [], []
        links, said = collections.Counter(), {}
        for path in left:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                ino, begins = os.fstat(descriptor).st_ino, time.monotonic()
                listed = listing(descriptor)
                looks.append({"do": "list", "at": (ino, ""), "begins": begins, "ends": time.monotonic(), "is": "ok", "listed": listed})
            except FileNotFoundError:
                if path in bases:
                    raise
                # The kernel takes it for removed (file_names.py).
                self.dead += 1
                continue
            finally:
                os.close(descriptor)
            if len(roots) < len(BASES):
                roots.append(ino)
            left += [path / name for name, (_, is_directory) in listed.items() if is_directory]
            for name, (child, is_directory) in listed.items():
                if not is_directory:
                    links[child] += 1
                    said[child] = os.stat(path / name).st_nlink
        if wrong := {child: (said[child], count) for child, count in links.items() if said[child] != count}:
            self.wrong.append(f"mount {number + 1}: links that are said, and that are there: {wrong}")
        return roots, looks

    def keep(self, name, what):
        (self.notes / f"{name}.json").write_text(json.dumps(what))

    def counts(self):
        steps = collections.Counter(one["do"] for one in self.history)
        failures = collections.Counter(one["failed"] for one in self.history if one.get("failed"))
        return {"steps": dict(steps), "failures": dict(failures), "dead": self.dead}

    def end(self):
        for worker in self.workers:
            # It may wait for a mount for ever.
            worker.process.kill()


def gap(moments, begins, ends):
    """The longest time between two of these, or from one to an end."""
    moments = [begins, *sorted(moments), ends]
    return max(later - earlier for earlier, later in zip(moments, moments[1:]))
