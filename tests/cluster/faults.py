"""What goes wrong: processes, pauses and links. Disks have a file of their own (disk_faults.py).

A fault is a name, bars, and a function that makes it and returns one that ends it. Who leads is looked up when it begins. A node that is
killed is gateway, target and manager at once; where each role is a process of its own, one of them is (roles.py).
"""

import dataclasses
import time

import judge
import network
from hosts import Topology
from network import NODES
from parts import Part

# How often the two leaderships are moved until one node has both.
MOST_MOVES = 20


@dataclasses.dataclass(frozen=True)
class Fault:
    name: str
    bars: judge.Bars
    # Of a Scene; returns a function without arguments that ends the fault, or nothing.
    make: object
    topology: Topology = Topology()
    # Not soon after another one of these: docs/operations/cluster.md says what waits longer then.
    is_apart: bool = False


class NotMade(Exception):
    """A fault that could not be made, and why."""


def one_failure(lease=()):
    return dataclasses.replace(judge.ONE_FAILURE, lease=lease)


def killed(choose, again_at_once=False):
    """Kills nodes; they start when the fault ends, or at once."""

    def make(scene):
        nodes = choose(scene.cluster)
        scene.begin(f"killed: {names(nodes)}")
        scene.cluster.kill(*nodes)
        start = lambda: [scene.cluster.start(node) for node in nodes]
        return start() and None if again_at_once else start

    return make


def paused(choose):
    def make(scene):
        nodes = choose(scene.cluster)
        scene.begin(f"paused: {names(nodes)}")
        scene.cluster.pause(*nodes)
        return lambda: scene.cluster.go_on(*nodes)

    return make


def cut(choose):
    """Cuts links: pairs of who sends and who receives."""

    def make(scene):
        pairs = list(choose(scene.cluster))
        scene.begin("lost: " + ", ".join(f"n{one + 1} to n{other + 1}" for one, other in pairs))
        for pair in pairs:
            network.cut(*pair)
        return network.heal

    return make


def names(nodes):
    return ", ".join(node.name if isinstance(node, Part) else f"n{node + 1}" for node in nodes)


def manager(cluster):
    return cluster.leads("manager_leader")


def cell(cluster):
    return cluster.leads("leader")


def followers(cluster):
    return [node for node in NODES if node != manager(cluster)]


def no_leader(cluster):
    """A node that leads neither."""
    return next(node for node in NODES if node not in (manager(cluster), cell(cluster)))


def leader_of_both(cluster):
    """The node that leads both: one leader after the other is started anew until they meet."""
    for move in range(MOST_MOVES):
        if manager(cluster) == cell(cluster):
            return cell(cluster)
        # In turn: a manager's leader that stops hands over to whom it likes best, which may never be the cell's.
        moved = (manager, cell)[move % 2](cluster)
        cluster.stop(moved)
        time.sleep(2)
        cluster.start(moved)
        cluster.settle()
    raise NotMade("the two leaderships did not meet")


def both(one, other):
    return [(one, other), (other, one)]


def alone(node):
    return [pair for other in NODES if other != node for pair in both(node, other)]


def says_nothing(node):
    return [(node, other) for other in NODES if other != node]


def hears_nothing(node):
    return [(other, node) for other in NODES if other != node]


def other_of_cell(cluster):
    """A node that leads neither, or else a follower: whom the cell's leader loses."""
    return next(node for node in followers(cluster) if node != cell(cluster))


def wires(*words):
    def make(scene):
        scene.begin(" ".join(words))
        wires = network.BadWires(NODES, *words)
        return wires.mend

    return make


def kills():
    lease = one_failure(judge.LEASE_OUTAGE)
    lease_of_manager = one_failure(judge.LEASE_OUTAGE_OF_MANAGER)
    for node in NODES:
        yield Fault(f"kill: node n{node + 1}", lease_of_manager, killed(lambda _, node=node: [node]))
    yield Fault("kill: the cell's leader", lease_of_manager, killed(lambda cluster: [cell(cluster)]))
    yield Fault("kill: the manager's leader", lease_of_manager, killed(lambda cluster: [manager(cluster)]))
    yield Fault("kill: a node that leads neither", lease, killed(lambda cluster: [no_leader(cluster)]))
    yield Fault("kill: one host with both leaderships", lease_of_manager, killed(lambda cluster: [leader_of_both(cluster)]))
    yield Fault("kill: a node, started at once", one_failure(), killed(lambda cluster: [no_leader(cluster)], again_at_once=True))
    leader_again = killed(lambda cluster: [manager(cluster)], again_at_once=True)
    yield Fault("kill: the manager's leader, started at once", one_failure(), leader_again)
    yield Fault("kill: two nodes, both leaders among them", judge.AN_OUTAGE, killed(two_with_the_leaders))
    yield Fault("kill: all at once, started together", judge.AN_OUTAGE, killed(lambda _: NODES))


def two_with_the_leaders(cluster):
    nodes = {manager(cluster), cell(cluster)}
    return sorted(nodes | {no_leader(cluster)})[:2] if len(nodes) == 1 else sorted(nodes)


def pauses():
    lease = one_failure(judge.LEASE_OUTAGE)
    lease_of_manager = one_failure(judge.LEASE_OUTAGE_OF_MANAGER)
    yield Fault("pause: a node that leads neither", lease, paused(lambda cluster: [no_leader(cluster)]))
    yield Fault("pause: the cell's leader", lease_of_manager, paused(lambda cluster: [cell(cluster)]))
    yield Fault("pause: the manager's leader", lease_of_manager, paused(lambda cluster: [manager(cluster)]))
    yield Fault("pause: all three", judge.AN_OUTAGE, paused(lambda _: NODES))


def links():
    one, f = one_failure(), followers

    def suspected(name, choose):
        """A cut after which one of two nodes is removed although it lives, and waits; longer if that was so a moment ago."""
        return Fault(name, one, cut(choose), is_apart=True)

    yield suspected("link: two followers, both ways", lambda c: both(*f(c)))
    yield Fault("link: the manager's leader and a follower, both ways", one, cut(lambda c: both(manager(c), f(c)[0])))
    yield Fault("link: a follower to the manager's leader", one, cut(lambda c: [(f(c)[0], manager(c))]))
    yield suspected("link: the cell's leader and another, both ways", lambda c: both(cell(c), other_of_cell(c)))
    yield Fault("link: the manager's leader to a follower", one, cut(lambda c: [(manager(c), f(c)[1])]))
    yield Fault("link: a node from all, both ways", one, cut(lambda c: alone(no_leader(c))))
    yield suspected("link: one follower to the other", lambda c: [tuple(f(c))])
    yield Fault("link: a node from all, what it says", one, cut(lambda c: says_nothing(no_leader(c))))
    yield Fault("link: a node from all, what it hears", one, cut(lambda c: hears_nothing(no_leader(c))))
    yield suspected("link: the cell's leader to another", lambda c: [(cell(c), other_of_cell(c))])
    yield Fault("link: the manager's leader from all, both ways", one, cut(lambda c: alone(manager(c))))
    yield Fault("link: the manager's leader from all, what it says", one, cut(lambda c: says_nothing(manager(c))))
    yield suspected("link: the other follower to the one", lambda c: [tuple(reversed(f(c)))])
    yield Fault("link: the manager's leader from all, what it hears", one, cut(lambda c: hears_nothing(manager(c))))
    yield Fault("link: everybody from everybody", judge.AN_OUTAGE, cut(lambda _: [p for node in NODES for p in says_nothing(node)]))
    yield suspected("link: another to the cell's leader", lambda c: [(other_of_cell(c), cell(c))])


def bad_wires():
    one = one_failure()
    yield Fault("wire: 5 ms more", one, wires("--delay-ms", "5"))
    yield Fault("wire: 0 to 10 ms more, in any order", one, wires("--jitter-ms", "10"))
    yield Fault("wire: 1 of 100 lost", one, wires("--loss", "1"))
    yield Fault("wire: 5 of 100 twice", one, wires("--repeat", "5"))
    yield Fault("wire: all of that", one, wires("--delay-ms", "2", "--jitter-ms", "5", "--loss", "1", "--repeat", "2"))


def all_of_processes_and_links():
    for group in (kills, pauses, links, bad_wires):
        yield from group()
