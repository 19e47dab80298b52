"""Block images with three copies: nodes of a cluster are killed, and come back."""

import shutil
import tempfile
from pathlib import Path

import pytest

from nodes import Cluster, wait_until
from test_images import qemu_io, same, sparse_file, tool

MIB = 1 << 20
NODES = 3
# The first of as many addresses of this machine as there are nodes; other tests use the first ones of it.
FIRST_ADDRESS = "127.0.77.1"


class ImageCluster(Cluster):
    """With images."""

    def __init__(self, folder):
        super().__init__(folder, FIRST_ADDRESS)

    def serve_image(self, number, name):
        socket = self.folder / f"{name}-{number}.sock"
        self.run(number, "nbd", name, "--socket", str(socket))
        return f"nbd+unix:///{name}?socket={socket}"

    def end_serving(self, number, name):
        self.run(number, "nbd", "--end", "--socket", str(self.folder / f"{name}-{number}.sock"))

    def hosts_with_copies(self, number, name):
        text = self.run(number, "image", "info", name)
        return int(text.split("on at least ", 1)[1].split(" ", 1)[0])


@pytest.fixture
def cluster():
    folder = Path(tempfile.mkdtemp(prefix="trilith-copies-"))
    cluster = ImageCluster(folder)
    yield cluster
    cluster.stop()
    shutil.rmtree(folder)


def test_an_image_outlives_each_of_its_nodes(cluster, tmp_path):
    raw = tmp_path / "disk.raw"
    sparse_file(raw, 64 * MIB, seed=7)
    cluster.run(1, "image", "create", "vm", "--size", "64MiB")
    first = cluster.serve_image(1, "vm")
    tool("nbdcopy", str(raw), first)
    assert cluster.hosts_with_copies(2, "vm") == NODES

    # Without a node with copies, writes go on. It comes back, and gets what it lacks.
    cluster.kill(2)
    qemu_io(first, "write -P 0x51 0 1M", "write -P 0x52 20M 4k")
    assert cluster.hosts_with_copies(1, "vm") == 2
    cluster.start(2)
    wait_until(lambda: cluster.hosts_with_copies(1, "vm") == NODES, "node 2 has all copies again")

    # Without the node that had the image open, another one takes it over.
    qemu_io(first, "write -P 0x53 40M 64k")
    cluster.kill(1)
    second = cluster.serve_image(2, "vm")
    qemu_io(second, "read -P 0x51 0 1M", "read -P 0x52 20M 4k", "read -P 0x53 40M 64k", "write -P 0x54 50M 8k")
    cluster.start(1)
    wait_until(lambda: cluster.hosts_with_copies(3, "vm") == NODES, "node 1 has all copies again")
    # It was told to serve the image, and would take it over as soon as node 2 is away.
    cluster.end_serving(1, "vm")

    # Each node alone has the newest content: the other two take turns to be away.
    expected = tmp_path / "expected.raw"
    tool("nbdcopy", second, str(expected))
    cluster.kill(3)
    again = tmp_path / "again.raw"
    tool("nbdcopy", second, str(again))
    assert same(expected, again)
    cluster.start(3)
    wait_until(lambda: cluster.hosts_with_copies(1, "vm") == NODES, "node 3 has all copies again")
    cluster.run(1, "image", "snapshot", "vm@s1")
    qemu_io(second, "write -P 0x55 0 64k")
    cluster.kill(2)
    third = cluster.serve_image(3, "vm")
    qemu_io(third, "read -P 0x55 0 64k", "read -P 0x51 64k 960k", "read -P 0x54 50M 8k")
    cluster.run(3, "image", "export", "vm@s1", str(tmp_path / "s1.raw"))
    assert same(expected, tmp_path / "s1.raw")
