"""A cluster of three hosts on which everything breaks: python3 tests/cluster [--list] [--only WORDS] [--seconds N]

Each node is a `trilith serve` on a host of its own, a network namespace, or one for each role; clients are on a fourth one. One fault after the other is made
under load and ended again. Then nobody writes: the history of every hot key is judged, and all that was written since is read back from every
node and compared byte for byte. A table says how long reads and writes waited. The exit code is 0 only if all that was seen is right and
every bar holds.

Names of faults begin with `volume:` where all buckets are of the volume engine, with `mixed:` where buckets of both engines share the disks,
with `files:` where the clients are programs on the mounts of a file volume, and with `roles:` where each role is a process of its own.

Needs root, `ip`, `nsenter`, `mkfs.ext4` for the disks, `/dev/fuse` for files, cargo, and a Python with boto3 (`./test` makes one:
target/venv/bin/python). Builds the program first. Nothing of the machine's own network is touched.

`--smoke` is the part of it that `./test` runs: four faults in one to two minutes, all that was seen judged, and nothing timed. Where the machine
gives no network namespaces it says so and exits with 77.
"""

import argparse
import contextlib
import fcntl
import itertools
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time

import disk_faults
import engine_faults
import faults
import file_faults
import hosts
import network
import report
import roles
import smoke
from clients import Clients, FileClients
from judge import Verdict

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOCK = "/run/trilith-hosts.lock"
# How long each fault lasts unless told otherwise: longer than a lease and its absence's notice together.
FAULT_SECONDS = 7
# Between faults after which a node that lives is removed: until that is forgotten, and the first wait.
APART_SECONDS = 75
# Errors after which no more faults of a topology are made.
ENDS = ("Stuck", "RuntimeError", "Hung")
# Clients' work before a fault and after it.
CALM_SECONDS = 1.5


class Scene:
    """What a fault acts on."""

    def __init__(self, cluster, verdict):
        self.cluster, self.verdict = cluster, verdict
        self.begins = time.monotonic()

    def begin(self, what):
        """The fault is made now: what was done before was preparation."""
        self.begins = time.monotonic()
        self.note(what)

    def note(self, what):
        self.verdict.notes.append(what)

    def check(self, holds, what):
        if not holds:
            self.verdict.wrong.append(what)


def build():
    """The program, and its tests."""
    words = ["cargo", "test", "-p", "trilith", "--test", "program", "--no-run", "--message-format=json"]
    built = [json.loads(line) for line in network.sh(*words, cwd=ROOT, capture_output=True).stdout.splitlines()]
    tests = [one["executable"] for one in built if one.get("target", {}).get("name") == "program" and one.get("executable")]
    return pathlib.Path(tests[-1]).parents[1] / "trilith", tests[-1]


def one_fault(cluster, clients, fault, seconds):
    """Makes a fault under load, ends it, and judges."""
    verdict = Verdict(fault.name, fault.bars)
    scene = Scene(cluster, verdict)
    cluster.settle()
    clients.go()
    time.sleep(CALM_SECONDS)
    undo = None
    try:
        undo = fault.make(scene)
        time.sleep(seconds)
    except faults.NotMade as reason:
        scene.check(False, f"not made: {reason}")
    finally:
        ends = time.monotonic()
        if undo:
            undo()
    cluster.settle()
    whole = time.monotonic()
    time.sleep(CALM_SECONDS)
    clients.rest()
    cluster.settle()
    verdict.take_in(clients.tally(scene.begins, whole), whole - ends)
    verdict.checked, wrong = clients.judge()
    verdict.wrong += wrong
    verdict.judge()
    return verdict


def run_topology(options, program, test, topology, chosen):
    """All chosen faults of one topology, on one cluster."""
    if options.folder:
        pathlib.Path(options.folder).mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="trilith-hosts-", dir=options.folder))
    last_apart = -APART_SECONDS
    cluster, clients, verdicts = hosts.Cluster(program, folder, topology, options.plain), None, []
    try:
        cluster.form()
        clients = FileClients(cluster) if topology.has_files else Clients(test, topology)
        for fault in chosen:
            verdict = Verdict(fault.name, fault.bars)
            if fault.is_apart:
                time.sleep(max(0, last_apart + APART_SECONDS - time.monotonic()))
                last_apart = time.monotonic()
            try:
                verdict = one_fault(cluster, clients, fault, options.seconds)
            except (hosts.Stuck, RuntimeError, OSError) as error:
                verdict.wrong.append(f"{type(error).__name__}: {error}")
                network.heal()
            verdicts.append(verdict)
            report.print_fault(verdict)
            if any(word in wrong for wrong in verdict.wrong for word in ENDS):
                break
        else:
            everything = Verdict("everything, read once more at every node", faults.one_failure())
            everything.checked, everything.wrong = clients.judge(everything=True)
            verdicts.append(everything)
            report.print_fault(everything)
    finally:
        if clients:
            with contextlib.suppress(OSError):
                clients.end()
        cluster.end()
        if verdicts and not any(verdict.wrong for verdict in verdicts) and not options.keep:
            shutil.rmtree(folder)
        else:
            print(f"logs are in {folder}")
    return verdicts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="say what there is, and do nothing")
    parser.add_argument("--only", action="append", default=[], help="faults whose names contain this; may be said several times")
    parser.add_argument("--seconds", type=float, default=FAULT_SECONDS, help="how long each fault lasts")
    parser.add_argument("--rounds", type=int, default=1, help="how often all faults are made")
    parser.add_argument("--plain", action="store_true", help="connections between nodes without TLS")
    parser.add_argument("--smoke", action="store_true", help="the few faults that ./test makes")
    parser.add_argument("--program", help="a built program, instead of the debug build")
    parser.add_argument("--histories", help="the program's built tests, whose clients are judged; with --program nothing is built then")
    parser.add_argument("--folder", help="where the nodes' folders are made")
    parser.add_argument("--keep", action="store_true", help="keep the folders and logs")
    options = parser.parse_args()
    chosen = [fault for fault in all_faults() if is_chosen(fault, options.only)]
    if options.smoke:
        chosen = smoke.some_of(chosen)
    if options.list:
        print("\n".join(fault.name for fault in chosen))
        return 0
    if reason := smoke.reason_against():
        return refuse(options, reason)
    if not chosen:
        sys.exit("no fault has such a name; --list says what there is")
    import boto3  # noqa: F401  Better told now than by a client.

    with open(LOCK, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return refuse(options, "another run has the network namespaces")
        return run(options, chosen)


def run(options, chosen):
    program, test = (options.program, options.histories) if options.program and options.histories else build()
    verdicts, begun = [], time.monotonic()
    try:
        if error := smoke.error_of(network.make):
            return refuse(options, f"this machine makes no network namespaces: {error}")
        network.enter_clients()
        report.print_head()
        for _ in range(options.rounds):
            for topology, some in itertools.groupby(chosen, key=lambda fault: fault.topology):
                verdicts += run_topology(options, options.program or program, test, topology, list(some))
    finally:
        network.remove()
    report.print_summary(verdicts)
    if options.smoke:
        report.print_counts(verdicts, time.monotonic() - begun)
    return 1 if not verdicts or any(verdict.wrong for verdict in verdicts) else 0


def all_faults():
    yield from faults.all_of_processes_and_links()
    yield from disk_faults.all_of_disks()
    yield from roles.all_of_roles()
    yield from engine_faults.all_of_engines()
    yield from file_faults.all_of_files()


def refuse(options, reason):
    """Nothing can be run here."""
    if not options.smoke:
        sys.exit(reason)
    print(f"left out: {reason}", flush=True)
    return smoke.LEFT_OUT


def is_chosen(fault, only):
    return not only or any(words in fault.name for words in only)


if __name__ == "__main__":
    sys.exit(main())
