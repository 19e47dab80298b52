"""A volume of a server of its own that fills its device, and goes on with another one."""

import errno
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from nodes import Node, wait_until

MIB = 1 << 20
# Small enough to be filled in seconds.
DEVICE_SIZE = "512MiB"
# Files of a MiB that a device of this size may take at most.
MOST_FILES = 600

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/dev/fuse"), reason="a mount for all users takes root and /dev/fuse"
)


class Server:
    """With a volume on a folder, and what is known to be in it."""

    def __init__(self, folder, devices):
        self.node = Node(folder, device_size=DEVICE_SIZE, devices=devices)
        self.mount = folder / "mount"
        self.mount.mkdir()
        self.known = {}
        self.node.run("volume", "create", "home")
        self.node.run("mount", "home", str(self.mount), "--detach")

    def write(self, name, content, mode="wb"):
        with open(self.mount / name, mode) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        before = self.known.get(name, b"") if mode == "ab" else b""
        self.known[name] = before + content

    def check(self):
        for name, content in self.known.items():
            done = subprocess.run(["dd", f"if={self.mount / name}", "bs=256K", "iflag=direct", "status=none"], capture_output=True)
            assert done.returncode == 0 and done.stdout == content, name

    def partitions(self):
        return self.node.run("volume", "info", "home").count("serves")

    def of_device(self, device, name):
        """A metric of one device."""
        return self.node.metric_of(f'trilith_file_{name}{{device="{device}"}}')

    def free_bytes(self):
        state = os.statvfs(self.mount)
        return state.f_bavail * state.f_frsize

    def grow(self, device):
        """Starts the server again with a device more."""
        self.node.stop()
        self.node.devices.append(self.node.folder / device)
        self.node.start()
        wait_until(lambda: self.partitions() == 2, "the new device has a partition")


@pytest.fixture
def server(request):
    folder = Path(tempfile.mkdtemp(prefix="trilith-file-growth-"))
    server = Server(folder, request.param)
    try:
        yield server
        server.node.run("umount", str(server.mount))
        server.node.stop()
    finally:
        subprocess.run(["umount", "-l", str(server.mount)], capture_output=True)
        server.node.process.kill()
        shutil.rmtree(folder, ignore_errors=True)


def content_of(number, size=MIB):
    return number.to_bytes(4, "little") * (size // 4)


@pytest.mark.parametrize("server", [("one", "two")], indirect=True)
def test_a_server_of_its_own_spreads_files_over_its_devices(server):
    wait_until(lambda: server.partitions() == 2, "each device has a partition")
    for number in range(30):
        server.write(f"f{number}", content_of(number))
    server.check()
    used = [server.of_device(device, "content_bytes") for device in (0, 1)]
    assert sum(used) == 30 * MIB and min(used) > 0, used
    # Freed ranges go to the device that had them.
    for number in range(30):
        os.unlink(server.mount / f"f{number}")
    server.known.clear()
    wait_until(lambda: [server.of_device(device, "content_bytes") for device in (0, 1)] == [0, 0], "the space is freed")


@pytest.mark.parametrize("server", [("one",)], indirect=True)
def test_a_full_volume_goes_on_with_a_device_that_comes(server):
    def fill():
        for number in range(MOST_FILES):
            server.write(f"f{number}", content_of(number))

    server.write("grows", content_of(1))
    with pytest.raises(OSError) as full:
        fill()
    assert full.value.errno == errno.ENOSPC
    assert len(server.known) > 50 and server.free_bytes() < 64 * MIB
    # The file at which it was met is not whole.
    os.unlink(server.mount / f"f{len(server.known) - 1}")
    before = server.of_device(0, "content_bytes")
    server.grow("two")
    assert server.free_bytes() > 200 * MIB, "the room of both"
    moved = [server.of_device(0, "read_bytes_total"), server.of_device(0, "written_bytes_total"), server.of_device(1, "content_bytes")]
    assert moved == [0, 0, 0], "nothing was moved"
    for number in range(50):
        server.write(f"new-{number}", content_of(number))
    server.write("grows", content_of(2), "ab")
    server.check()
    assert server.of_device(0, "content_bytes") <= before
    assert server.of_device(1, "content_bytes") >= 50 * MIB
