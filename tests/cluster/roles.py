"""What goes wrong where each role is a process of its own: one of a role, two of one host, a host, all of a role."""

import judge
from faults import Fault, cell, killed, manager, one_failure, paused, wires
from hosts import Topology
from network import NODES
from parts import Part

APART = Topology(is_apart=True)


def leader(cluster):
    return [manager(cluster)]


def follower(cluster):
    return [Part(node, "manager") for node in NODES if node != manager(cluster).host][:1]


def first(cluster):
    """The gateway that leads the cell."""
    return [cell(cluster)]


def other(cluster):
    return [Part(node, "gateway") for node in NODES if node != cell(cluster).host][:1]


def target(cluster):
    """Beside a gateway that does not lead."""
    return [Part(node, "target") for node in NODES if node != cell(cluster).host][:1]


def all_of(role):
    return lambda _: [Part(node, role) for node in NODES]


def beside(choose, role):
    """Who is chosen, and another role of the same host."""

    def both(cluster):
        chosen = choose(cluster)
        return [*chosen, Part(chosen[0].host, role)]

    return both


def all_of_roles():
    lease = one_failure(judge.LEASE_OUTAGE)
    nothing = one_failure()

    def fault(name, bars, make):
        return Fault(f"roles: {name}", bars, make, topology=APART)

    yield fault("a gateway killed", lease, killed(other))
    yield fault("the cell's leader killed", lease, killed(first))
    yield fault("a target killed", nothing, killed(target))
    yield fault("the manager's leader killed", nothing, killed(leader))
    yield fault("a manager that follows killed", nothing, killed(follower))
    yield fault("gateway and target of a host killed", lease, killed(beside(other, "target")))
    yield fault("the cell's leader and the manager of its host killed", judge.ONE_FAILURE, killed(beside(first, "manager")))
    yield fault("the manager's leader and the target of its host killed", nothing, killed(beside(leader, "target")))
    yield fault("the host of the manager's leader killed", judge.A_HOST, killed(lambda cluster: [manager(cluster).host]))
    yield fault("a gateway paused", lease, paused(other))
    yield fault("a target paused", nothing, paused(target))
    yield fault("the manager's leader paused", nothing, paused(leader))
    yield fault("all managers killed", judge.AN_OUTAGE, killed(all_of("manager")))
    yield fault("all targets killed", judge.AN_OUTAGE, killed(all_of("target")))
    yield fault("all gateways killed", judge.AN_OUTAGE, killed(all_of("gateway")))
    yield fault("everything killed at once", judge.AN_OUTAGE, killed(lambda _: NODES))
    yield fault("5 ms more on every wire", nothing, wires("--delay-ms", "5"))
