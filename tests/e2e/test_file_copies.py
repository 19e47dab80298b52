"""Files with three copies: nodes of a cluster are killed, and lose their devices."""

import os
import random
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nodes import LIMIT_S, Cluster, wait_until

# The first of as many addresses of this machine as there are nodes; other tests use the first ones of it.
FIRST_ADDRESS = "127.0.84.1"
NODES = 3
KIB = 1 << 10
# Until files can be read and written again without the node that served them. An election takes some three seconds on an idle machine.
GAP_S = 30
# Of kills until each copy has served.
ROUNDS = 12

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/dev/fuse"), reason="a mount for all users takes root and /dev/fuse"
)


class FileCluster(Cluster):
    """With a volume on a folder, and what is known to be in it."""

    def __init__(self, folder, nodes):
        super().__init__(folder, FIRST_ADDRESS, nodes)
        self.mount = folder / "mount"
        self.mount.mkdir()
        self.mounted_at = None
        self.known = {}
        self.random = random.Random(1)
        self.run(1, "volume", "create", "home")

    def partitions(self, number):
        """What each node's copy of each data partition is, as a node says."""
        info = self.run(number, "volume", "info", "home")
        _, *parts = re.split(r"^ +partition (?=\d+:)", info, flags=re.MULTILINE)
        copies = re.compile(r"device \d+ of node-(\d): (.*)")
        return [{int(node): state for node, state in copies.findall(part)} for part in parts]

    def copies(self, number, at=0):
        """The same of one data partition; of three nodes there is one."""
        partitions = self.partitions(number)
        return partitions[at] if len(partitions) > at else {}

    def primary(self, number=None, at=0):
        """The node that serves a data partition."""
        found = []

        def is_found():
            copies = self.copies(number or self.mounted_at or 1, at)
            found[:] = [node for node, state in copies.items() if state == "in sync, serves"]
            return found

        wait_until(is_found, "a copy serves")
        return found[0]

    def wait_until_in_sync(self, number, nodes=NODES, partitions=1, or_more=False):
        """`or_more`: there may be more partitions. A cluster of two nodes puts one on the second node, if the third is slow to join."""

        def is_whole():
            found = self.partitions(number)
            in_sync = [sum(state.startswith("in sync") for state in copies.values()) for copies in found]
            count = max(partitions, len(in_sync)) if or_more else partitions
            return in_sync == [nodes] * count

        wait_until(is_whole, f"{nodes} copies are in sync")

    def wait_until_tree_is_on_all(self):
        """Until the names are on all nodes, too: until then the loss of one of the others takes the majority."""
        nodes = range(1, NODES + 1)
        voters = "trilith_file_led_tree_voters "
        wait_until(lambda: sum(self.metric(node, voters) for node in nodes) == NODES, "the tree has three voters")

    def mount_at(self, number):
        """Moves the mount to a node."""
        if self.mounted_at:
            self.run(self.mounted_at, "umount", str(self.mount))
        self.run(number, "mount", "home", str(self.mount), "--detach")
        self.mounted_at = number

    def write(self, name, size):
        """A file that is durable when this returns."""
        content = self.random.randbytes(size)
        with open(self.mount / name, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        self.known[name] = content

    def overwrite(self, name, offset, size):
        """Bytes in the middle of a file, durable when this returns."""
        content = self.random.randbytes(size)
        with open(self.mount / name, "r+b") as file:
            file.seek(offset)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        known = bytearray(self.known[name])
        known[offset : offset + size] = content
        self.known[name] = bytes(known)

    def read(self, name):
        """A file's content, past the kernel's cache."""
        done = subprocess.run(
            ["dd", f"if={self.mount / name}", "bs=256K", "iflag=direct", "status=none"], capture_output=True, timeout=LIMIT_S
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def metric(self, number, series):
        """Of a node: the sum of all series that begin so."""
        address = FIRST_ADDRESS.rsplit(".", 1)[0] + f".{number}"
        text = urllib.request.urlopen(f"http://{address}:9001/metrics").read().decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(series))

    def content_bytes(self, number):
        """What a node's devices have of files."""
        return self.metric(number, "trilith_file_content_bytes{")

    def check(self):
        for name, content in self.known.items():
            assert self.read(name) == content, name

    def try_for(self, work):
        """Does something that may fail for a while; how long that took."""
        begin = time.monotonic()
        while True:
            try:
                work()
                return time.monotonic() - begin
            except OSError:
                assert time.monotonic() - begin < GAP_S
                time.sleep(0.1)


@pytest.fixture
def cluster(request):
    """Of three nodes, or of as many as the test says."""
    folder = Path(tempfile.mkdtemp(prefix="trilith-file-copies-"))
    cluster = FileCluster(folder, getattr(request, "param", NODES))
    try:
        yield cluster
        cluster.stop()
    finally:
        subprocess.run(["umount", "-l", str(cluster.mount)], capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


def away_from(*nodes):
    return next(node for node in range(1, NODES + 1) if node not in nodes)


def test_files_outlive_each_of_their_nodes(cluster):
    cluster.wait_until_in_sync(1)
    primary = cluster.primary()
    cluster.mount_at(away_from(primary))
    for number in range(20):
        cluster.write(f"f{number}", cluster.random.randrange(1, 300 * KIB))
    cluster.overwrite("f0", 0, 1)
    cluster.write("big", 3000 * KIB)
    cluster.overwrite("big", 1000 * KIB + 17, 70 * KIB)
    assert os.statvfs(cluster.mount).f_bavail > 0, "the room is that of the node that serves"

    # The node that serves dies: another one goes on, with all that was synced.
    cluster.kill(primary)
    gap = cluster.try_for(lambda: cluster.write("after", 100 * KIB))
    cluster.overwrite("big", 5, 40 * KIB)
    cluster.check()
    next_one = cluster.primary()
    assert next_one != primary and gap < GAP_S
    print(f"without node {primary}, node {next_one} serves; a write took {gap:.1f} s")
    cluster.wait_until_in_sync(cluster.mounted_at, NODES - 1)

    # It comes back, and gets what it lacks. Then a node that does not serve dies.
    cluster.start(primary)
    cluster.wait_until_in_sync(cluster.mounted_at)
    backup = away_from(cluster.primary(), cluster.mounted_at)
    cluster.kill(backup)
    cluster.try_for(lambda: cluster.write("without-backup", 500 * KIB))
    cluster.overwrite("big", 2000 * KIB + 1, 9 * KIB)
    os.unlink(cluster.mount / "f1")
    del cluster.known["f1"]
    cluster.wait_until_in_sync(cluster.mounted_at, NODES - 1)
    cluster.start(backup)
    cluster.wait_until_in_sync(cluster.mounted_at)
    cluster.check()

    # What was rebuilt is whole: each copy serves in its turn. Who stands for election first is a matter of chance, anew with each start.
    served = set()
    for number in range(ROUNDS):
        serving = cluster.primary()
        cluster.check()
        served.add(serving)
        if len(served) == NODES:
            break
        wanted = away_from(*served)
        cluster.mount_at(away_from(serving, wanted))
        cluster.kill(wanted)
        cluster.start(wanted)
        cluster.wait_until_in_sync(cluster.mounted_at)
        cluster.kill(serving)
        cluster.try_for(lambda: cluster.write(f"round-{number}", 10 * KIB))
        cluster.start(serving)
        cluster.wait_until_in_sync(cluster.mounted_at)
    assert len(served) == NODES, "each of two copies takes over now and then"


def test_a_lost_device_is_made_good(cluster):
    cluster.wait_until_in_sync(1)
    primary = cluster.primary()
    cluster.mount_at(away_from(primary))
    for number in range(10):
        cluster.write(f"f{number}", cluster.random.randrange(1, 300 * KIB))
    cluster.kill(primary)
    (cluster.data(primary) / "device-0.trilith").unlink()
    cluster.try_for(lambda: cluster.write("after", 100 * KIB))
    cluster.check()
    cluster.start(primary)
    cluster.wait_until_in_sync(cluster.mounted_at)
    cluster.check()


@pytest.mark.parametrize("cluster", [1], indirect=True)
def test_a_volume_grows_with_its_cluster(cluster):
    cluster.mount_at(1)
    for number in range(10):
        cluster.write(f"f{number}", cluster.random.randrange(1, 300 * KIB))
    assert "one copy" in cluster.run(1, "volume", "info", "home")
    cluster.run(1, "umount", str(cluster.mount))
    cluster.stop()
    cluster.begin(NODES)
    cluster.wait_until_in_sync(2, or_more=True)
    cluster.wait_until_tree_is_on_all()
    cluster.mounted_at = None
    cluster.mount_at(2)
    cluster.kill(1)
    cluster.try_for(lambda: cluster.write("after", 100 * KIB))
    cluster.check()


@pytest.mark.parametrize("cluster", [1], indirect=True)
def test_a_tree_that_is_longer_than_its_log_goes_to_new_members(cluster):
    """More commands than the log keeps: new members get the tree as rows."""
    cluster.mount_at(1)
    count, threads = 24_000, 4

    def make(numbers):
        for number in numbers:
            os.mknod(cluster.mount / f"name-{number}", 0o600)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(make, [range(start, count, threads) for start in range(threads)]))
    cluster.run(1, "umount", str(cluster.mount))
    cluster.stop()
    cluster.begin(NODES)
    cluster.wait_until_in_sync(2, or_more=True)
    cluster.wait_until_tree_is_on_all()
    cluster.mounted_at = None
    cluster.mount_at(2)
    cluster.kill(1)
    cluster.try_for(lambda: (cluster.mount / "after").touch())
    assert {entry.name for entry in os.scandir(cluster.mount)} == {f"name-{number}" for number in range(count)} | {"after"}


def test_a_volume_uses_nodes_that_come_and_moves_nothing(cluster):
    cluster.wait_until_in_sync(1)
    cluster.mount_at(1)
    for number in range(10):
        cluster.write(f"f{number}", cluster.random.randrange(1, 300 * KIB))
    cluster.run(1, "umount", str(cluster.mount))
    before = {number: cluster.content_bytes(number) for number in (1, 2, 3)}
    cluster.stop()
    cluster.begin(NODES + 1)
    cluster.wait_until_in_sync(1, partitions=2)
    # The fourth node has a partition, with copies on two of the others. Nothing was moved to it, nor read for that.
    assert set(cluster.copies(1, at=0)) == {1, 2, 3} and 4 in cluster.copies(1, at=1)
    assert {number: cluster.content_bytes(number) for number in (1, 2, 3, 4)} == before | {4: 0}
    for number in (1, 2, 3, 4):
        assert cluster.metric(number, "trilith_file_written_bytes_total{") == 0
        assert cluster.metric(number, "trilith_file_read_bytes_total{") == 0
    cluster.mounted_at = None
    cluster.mount_at(1)
    for number in range(10, 40):
        cluster.write(f"f{number}", cluster.random.randrange(1, 300 * KIB))
    cluster.overwrite("f0", 0, 10)
    cluster.check()
    assert cluster.content_bytes(4) > 0, "new files are spread"
    grown = sum(cluster.content_bytes(number) - before[number] for number in (1, 2, 3))
    assert grown > 2 * cluster.content_bytes(4), "also over the first partition"

    # The node that serves the second partition dies: all is there, and both take new files.
    lost = cluster.primary(at=1)
    cluster.mount_at(next(number for number in (1, 2, 3) if number != lost))
    cluster.kill(lost)
    cluster.try_for(lambda: cluster.write("after", 100 * KIB))
    cluster.try_for(cluster.check)
    for number in range(40, 60):
        cluster.try_for(lambda number=number: cluster.write(f"f{number}", 10 * KIB))
    cluster.check()


@pytest.mark.parametrize("cluster", [NODES + 1], indirect=True)
def test_another_node_takes_the_place_of_one_that_is_removed(cluster):
    cluster.wait_until_in_sync(1, partitions=2)
    primary = cluster.primary()
    (fourth,) = {1, 2, 3, 4} - set(cluster.copies(1))
    # Also a node without a copy of a partition finds the one that serves.
    cluster.mount_at(fourth)
    for number in range(10):
        cluster.write(f"f{number}", cluster.random.randrange(1, 300 * KIB))
    cluster.kill(primary)
    cluster.try_for(lambda: cluster.write("after", 100 * KIB))
    cluster.run(fourth, "cluster", "remove", f"node-{primary}")
    left = {1, 2, 3, 4} - {primary}
    wait_until(lambda: all(set(copies) == left for copies in cluster.partitions(fourth)), "the copies are made elsewhere")
    cluster.wait_until_in_sync(fourth, partitions=2)
    cluster.check()
    # A volume that is removed leaves nothing behind on any of them.
    assert all(cluster.content_bytes(number) > 0 for number in left)
    cluster.run(fourth, "umount", str(cluster.mount))
    cluster.run(fourth, "volume", "rm", "home", "--force")
    wait_until(lambda: all(cluster.content_bytes(number) == 0 for number in left), "its space is freed")
