"""What goes wrong with disks: full ones, devices whose bytes change, devices that are gone."""

import dataclasses
import http.client
import time

import disks
import judge
from faults import Fault, names, no_leader
from hosts import Topology
from network import NODES, address
from parts import Part

# Of several hundred that hold something.
BLOCKS = 120
SMALL = Topology(small_folder="600MiB")
TINY = Topology(devices=1, device_size="96MiB", zone_size="4MiB")
FILL_BYTES = 1 << 20
MOST_FILLS = 400
# Until a device that was full, and from which much was deleted, takes writes again.
ROOM_SECONDS = 90
# Other reasons for 503 than the disk end sooner.
SERVICE_SECONDS = 20
# A start that is refused ends by itself within this time.
REFUSAL_SECONDS = 20
# Reads of damaged copies, and a start over them, take longer; so does a new device.
A_DISK = dataclasses.replace(judge.A_HOST, outage=5.0)


def ask(node, method, path, body=b""):
    """The answer; of a node that can't serve just now the one that it gives in the end."""
    deadline = time.monotonic() + SERVICE_SECONDS
    while (answer := ask_once(node, method, path, body))[0] == 503 and time.monotonic() < deadline:
        time.sleep(0.1)
    return answer


def ask_once(node, method, path, body):
    connection = http.client.HTTPConnection(address(node), 9000, timeout=30)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def damaged_while_it_runs(scene):
    node = no_leader(scene.cluster)
    held = [disks.corrupt(device, BLOCKS, seed) for seed, device in enumerate(scene.cluster.devices(node))]
    scene.begin(f"random bytes in {held} blocks of the devices of {names([node])}")


def damaged_while_stopped(scene):
    node = no_leader(scene.cluster)
    scene.begin(f"killed: {names([node])}")
    scene.cluster.kill(node)

    def start():
        held = [disks.corrupt(device, BLOCKS, seed) for seed, device in enumerate(scene.cluster.devices(node))]
        scene.note(f"random bytes in {held} blocks of its devices")
        scene.cluster.start(node)

    return start


def superblocks_lost(scene):
    """A device without superblocks is refused, with a reason; given up by a person, it is a new one."""
    node = no_leader(scene.cluster)
    scene.begin(f"killed: {names([node])}; the head of its first device destroyed")
    scene.cluster.kill(node)
    device = scene.cluster.devices(node)[0]
    disks.destroy_head(device)
    scene.cluster.start(node)
    refused = scene.cluster.let_go(node)
    scene.check(refused.wait(timeout=REFUSAL_SECONDS) != 0, "a device without a superblock was taken")
    said = scene.cluster.log(node).read_text()[-2000:]
    scene.check("no superblock can be believed" in said, f"the refusal does not say why: {said[-300:]}")
    before = ids(scene.cluster, node)

    def start():
        scene.cluster.format(node, device, "--overwrite")
        scene.cluster.start(node)
        scene.cluster.settle()
        scene.note(f"numbers of the devices of {names([node])} were {before}, are {ids(scene.cluster, node)}")

    return start


def devices_lost(which):
    """Files are gone; the node starts with new ones."""

    def make(scene):
        node = no_leader(scene.cluster)
        scene.begin(f"killed: {names([node])}")
        scene.cluster.kill(node)

        def start():
            lost = scene.cluster.devices(node)[which]
            for device in lost:
                device.unlink()
                scene.cluster.format(node, device)
            scene.note(f"lost: {', '.join(device.name for device in lost)} of {names([node])}")
            scene.cluster.start(node)

        return start

    return make


def ids(cluster, node):
    """The numbers of a node's devices, as the cluster has them."""
    other = next(other for other in NODES if other != node)
    return [device["device"] for device in cluster.status(other)["cell"]["devices"] if device["node"] == f"n{node + 1}"]


def file_system_fills(scene):
    """Under the third node's folder: the files of its devices can't grow, nor its logs. The zones that a device keeps for deletes have no
    bytes yet then, so deletes too may be refused until there is space (docs/operations/troubles.md)."""
    small = scene.cluster.small
    scene.begin("no space left under the folder of n3")
    small.fill()
    empty = fill_and_check(scene, (204, 507))

    def free():
        small.free()
        empty()

    return free


def killed_while_full(scene):
    small = scene.cluster.small
    scene.begin("no space left under the folder of n3, which is killed and started")
    small.fill()
    scene.cluster.kill(2)
    time.sleep(1)
    scene.cluster.start(2)

    def free():
        small.free()
        if Part(2) in scene.cluster.ended():
            scene.note("n3 did not start without space: " + scene.cluster.log(2).read_text().strip().splitlines()[-1])
            scene.cluster.let_go(2)
            scene.cluster.start(2)

    return free


def check_reads_and_deletes(scene, deleted):
    """At every node: what was written is read, and can be deleted."""
    for node in NODES:
        for method, path, good in (("GET", "/probe/0-0-0", (200, 404)), ("DELETE", f"/probe/nothing-{node}", deleted)):
            status, body = ask(node, method, path)
            scene.check(status in good, f"{method} at node {node + 1} while full: {status} {body[:200]}")


def devices_fill(scene):
    """Objects are written until there is no room, then deleted."""
    scene.begin("objects are written until there is no room")
    return fill_and_check(scene)


def fill_and_check(scene, deleted=(204,)):
    """Writes objects until there is no room: that is said clearly, and everything else goes on. Returns what deletes them."""
    status, answer, filled = 200, b"", 0
    while status == 200 and filled < MOST_FILLS:
        status, answer = ask(filled % 3, "PUT", f"/probe/fill-{filled}", bytes([filled % 251]) * FILL_BYTES)
        filled += status == 200
    scene.note(f"{filled} objects of 1 MiB, then {status}")
    scene.check(status == 507 and b"XTrilithStorageFull" in answer, f"no room is told by {status} {answer[:300]}")
    check_reads_and_deletes(scene, deleted)

    def delete():
        for number in range(filled):
            path = f"/probe/fill-{number}"
            status, body = ask(number % 3, "GET", path)
            scene.check((status, body) == (200, bytes([number % 251]) * FILL_BYTES), f"GET {path} while full: {status}, {len(body)} bytes")
            status, body = ask(number % 3, "DELETE", path)
            scene.check(status in deleted, f"DELETE {path} while full: {status} {body[:200]}")
        began = time.monotonic()
        while (status := ask(0, "PUT", "/probe/room", b"x" * FILL_BYTES)[0]) != 200 and time.monotonic() < began + ROOM_SECONDS:
            time.sleep(0.2)
        scene.check(status == 200, f"no room {ROOM_SECONDS} s after everything was deleted: {status}")
        scene.note(f"room again after {time.monotonic() - began:.1f} s")

    return delete


def all_of_disks():
    yield Fault("disk: bytes change while the node runs", A_DISK, damaged_while_it_runs)
    yield Fault("disk: bytes change while the node is stopped", A_DISK, damaged_while_stopped)
    yield Fault("disk: a device's head is destroyed", A_DISK, superblocks_lost)
    yield Fault("disk: a device is lost", A_DISK, devices_lost(slice(0, 1)))
    yield Fault("disk: all devices of a node are lost", A_DISK, devices_lost(slice(None)))
    yield Fault("disk: a file system fills", judge.Bars(serving=2, outage=60, back=60), file_system_fills, SMALL)
    yield Fault("disk: a node is killed and started without space", judge.Bars(serving=2, outage=60, back=60), killed_while_full, SMALL)
    yield Fault("disk: devices fill with objects", judge.Bars(serving=0, back=60), devices_fill, TINY)
