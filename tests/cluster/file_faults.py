"""The same faults on a volume of files that each node has mounted; and what is the node's part in it: it serves the contents, has a copy of
them, leads the tree, or has calls of programs under way."""

import dataclasses
import os
import signal

import disk_faults
import faults
import judge
from engine_faults import NOT_YET, generous
from faults import Fault, NotMade, alone, both, cut, hears_nothing, killed, names, paused, says_nothing
from hosts import IN_SYNC, SERVES, Topology
from network import NODES

FILES = Topology(has_files=True)
# Calls may wait for the end of the fault, and then for a start.
AN_OUTAGE = generous(judge.AN_OUTAGE)
ONE = generous(judge.ONE_FAILURE)


def serving(cluster):
    """The node whose copy serves the contents."""
    return one_of([node for node, state in cluster.file_copies().items() if state == SERVES], "serves contents")


def backups(cluster):
    return [node for node, state in cluster.file_copies().items() if state == IN_SYNC]


def tree(cluster):
    """The node that leads the volume's tree."""
    return one_of([node for node in NODES if cluster.metric(node, "trilith_file_led_trees")], "leads the tree")


def one_of(nodes, what):
    if not nodes:
        raise NotMade(f"no node {what}")
    return nodes[0]


def with_keeper(choose):
    """Kills nodes together with what keeps their mounts: calls under way fail, as do all others until the node mounts anew."""

    def make(scene):
        nodes = choose(scene.cluster)
        scene.begin(f"killed with their mount keepers: {names(nodes)}")
        keepers = [keeper for node in nodes for keeper in scene.cluster.keepers(node)]
        scene.check(len(keepers) == len(nodes), f"{len(keepers)} mount keepers")
        scene.cluster.kill(*nodes)
        for keeper in keepers:
            os.kill(keeper, signal.SIGKILL)
        return lambda: [scene.cluster.start(node) for node in nodes]

    return make


def own_faults():
    yield Fault("kill: the node that serves contents", ONE, killed(lambda c: [serving(c)]))
    yield Fault("kill: a backup of contents", ONE, killed(lambda c: backups(c)[:1]))
    yield Fault("kill: the tree's leader", ONE, killed(lambda c: [tree(c)]))
    yield Fault("kill: the node that serves contents, started at once", ONE, killed(lambda c: [serving(c)], again_at_once=True))
    yield Fault("kill: both backups of contents", AN_OUTAGE, killed(backups))
    yield Fault("kill: the node that serves contents and a backup", AN_OUTAGE, killed(lambda c: [serving(c), backups(c)[0]]))
    yield Fault("kill: a backup and its mount keeper", ONE, with_keeper(lambda c: backups(c)[:1]))
    yield Fault("kill: all nodes and mount keepers", AN_OUTAGE, with_keeper(lambda _: NODES))
    yield Fault("pause: the node that serves contents", ONE, paused(lambda c: [serving(c)]))
    yield Fault("pause: a backup of contents", ONE, paused(lambda c: backups(c)[:1]))
    yield Fault("pause: the tree's leader", ONE, paused(lambda c: [tree(c)]))
    yield Fault("link: the node that serves contents from all, both ways", ONE, cut(lambda c: alone(serving(c))))
    yield Fault("link: the node that serves contents from all, what it says", ONE, cut(lambda c: says_nothing(serving(c))))
    yield Fault("link: the node that serves contents from all, what it hears", ONE, cut(lambda c: hears_nothing(serving(c))))
    yield Fault("link: the node that serves contents and a backup", ONE, cut(lambda c: both(serving(c), backups(c)[0])))
    yield Fault("link: the node that serves contents to a backup", ONE, cut(lambda c: [(serving(c), backups(c)[0])]))
    yield Fault("link: a backup to the node that serves contents", ONE, cut(lambda c: [(backups(c)[0], serving(c))]))
    yield Fault("link: the tree's leader from all, both ways", ONE, cut(lambda c: alone(tree(c))))


def all_of_files():
    every = [*own_faults(), *faults.all_of_processes_and_links(), *disk_faults.all_of_disks()]
    for fault in every:
        if fault.topology == Topology() and NOT_YET not in fault.name:
            yield dataclasses.replace(fault, name=f"files: {fault.name}", bars=generous(fault.bars), topology=FILES)
