"""Block images with the clients that people use: qemu's tools and libnbd's, also while the server is killed."""

import hashlib
import mmap
import os
import random
import re
import shutil
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from conftest import ROOT, SERVER
from nodes import LIMIT_S, Node

MIB = 1 << 20


class ImageNode(Node):
    def fsck(self, *words, wrong=None):
        """`trilith fsck`; what it says. With `wrong`, a part of what it must find."""
        command = [SERVER, "fsck", "--data", str(self.data), *self.named_devices(), *words]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
        said = done.stdout + done.stderr
        if wrong is None:
            assert done.returncode == 0 and "All is well." in said, said
        else:
            found = [line for line in said.splitlines() if line.startswith("WRONG") and wrong in line]
            assert done.returncode == 1 and found, said
        return said

    def serve_image(self, name):
        socket = self.folder / f"{name}.sock"
        self.run("nbd", name, "--socket", str(socket))
        return f"nbd+unix:///{name}?socket={socket}"


@pytest.fixture
def node():
    folder = Path(tempfile.mkdtemp(prefix="trilith-images-"))
    node = ImageNode(folder)
    yield node
    if node.process.poll() is None:
        node.kill()
    shutil.rmtree(folder)


@pytest.fixture
def two_devices():
    folder = Path(tempfile.mkdtemp(prefix="trilith-images-"))
    node = ImageNode(folder, "1GiB", ["one", "two"])
    yield node
    if node.process.poll() is None:
        node.kill()
    shutil.rmtree(folder)


def tool(*words):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def qemu_io(uri, *commands):
    words = [word for command in commands for word in ("-c", command)]
    return tool("qemu-io", "-f", "raw", *words, uri)


def sparse_file(path, size, seed):
    """A raw disk with some content, and holes."""
    rng = random.Random(seed)
    with open(path, "wb") as file:
        file.truncate(size)
        for _ in range(40):
            file.seek(rng.randrange(0, size - MIB) // 512 * 512)
            file.write(rng.randbytes(rng.choice([512, 4096, 65536, 300_000, MIB])))


def same(one, other):
    with open(one, "rb") as first, open(other, "rb") as second:
        while True:
            parts = first.read(MIB), second.read(MIB)
            if parts[0] != parts[1]:
                return False
            if not parts[0]:
                return True


def test_the_readmes_disk_in_five_minutes(node, tmp_path):
    section = (ROOT / "README.md").read_text().split("## A disk in five minutes", 1)[1].split("\n## ", 1)[0]
    (shell,) = re.findall(r"```sh\n(.*?)```", section, flags=re.DOTALL)
    (tmp_path / "trilith").symlink_to(SERVER)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TRILITH_DATA": str(node.data)}
    text = shell.replace("/tmp/", f"{tmp_path}/")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text], env=environment, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "byte for byte the same" in done.stdout


def test_files_come_back_as_they_went(node, tmp_path):
    disk = tmp_path / "disk.raw"
    sparse_file(disk, 64 * MIB, 1)
    node.run("image", "create", "a", "--size", "64MiB")
    uri = node.serve_image("a")
    tool("qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", str(disk), uri)
    assert "identical" in tool("qemu-img", "compare", "-f", "raw", "-F", "raw", str(disk), uri)
    tool("nbdcopy", uri, str(tmp_path / "copied.raw"))
    assert same(disk, tmp_path / "copied.raw")
    node.run("image", "export", "a", str(tmp_path / "exported.raw"))
    assert same(disk, tmp_path / "exported.raw")
    node.run("image", "import", str(disk), "b")
    node.run("image", "export", "b", str(tmp_path / "again.raw"))
    assert same(disk, tmp_path / "again.raw")
    assert "export-size: 67108864" in tool("nbdinfo", uri)
    assert "hole" in tool("nbdinfo", "--map", uri)


def test_qemu_io_reads_what_it_wrote(node):
    node.run("image", "create", "io", "--size", "32MiB")
    uri = node.serve_image("io")
    said = qemu_io(
        uri,
        "write -P 0x11 0 1M",
        "write -P 0x22 5000k 512",
        "write -f -P 0x33 4M 8k",
        "read -P 0x11 0 1M",
        "read -P 0x22 5000k 512",
        "read -P 0 5000k 0",
        "read -P 0x33 4M 8k",
        "write -z 64k 128k",
        "read -P 0 64k 128k",
        "discard 0 1M",
        "read -P 0 0 1M",
        "flush",
        "read -P 0 31M 1M",
    )
    assert "failed" not in said, said


def test_a_steady_overwrite_is_one_write_of_its_own_size(node):
    node.run("image", "create", "steady", "--size", "8MiB")
    uri = node.serve_image("steady")
    qemu_io(uri, "write -P 1 0 4M")
    names = ("trilith_image_writes_total", "trilith_image_written_bytes_total", "trilith_image_header_writes_total")
    before = [node.metric(name) for name in names]
    qemu_io(uri, *[f"write -P {2 + number} {8192 * number} 4k" for number in range(100)])
    after = [node.metric(name) for name in names]
    assert [new - old for new, old in zip(after, before)] == [100, 409_600, 0]


def test_snapshots_clones_and_rollback(node, tmp_path):
    node.run("image", "create", "base", "--size", "16MiB")
    uri = node.serve_image("base")
    qemu_io(uri, "write -P 1 0 6M")
    node.run("image", "snapshot", "base@one")
    qemu_io(uri, "write -P 2 1M 1M", "discard 4M 1M")
    node.run("image", "clone", "base@one", "copy")
    copy = node.serve_image("copy")
    qemu_io(copy, "read -P 1 0 6M", "read -P 0 6M 10M", "write -P 3 0 4k", "read -P 3 0 4k", "read -P 1 4k 1M")
    qemu_io(uri, "read -P 1 0 1M", "read -P 2 1M 1M", "read -P 0 4M 1M")
    node.run("image", "rm", "base@one", refused="clone")
    node.run("image", "rollback", "base@one", refused="served")
    node.run("nbd", "--end", "--socket", str(node.folder / "base.sock"))
    node.run("image", "rollback", "base@one")
    uri = node.serve_image("base")
    qemu_io(uri, "read -P 1 0 6M")
    node.run("nbd", "--end", "--socket", str(node.folder / "copy.sock"))
    node.run("image", "rm", "copy")
    node.run("image", "purge", "--all")
    node.run("image", "rm", "base@one")
    qemu_io(uri, "read -P 1 0 6M")


def test_what_can_not_be_is_refused_with_a_reason(node):
    node.run("image", "create", "x", "--size", "10MiB")
    node.run("image", "create", "x", "--size", "10MiB", refused="choose another name")
    node.run("image", "create", "bad@name", "--size", "10MiB", refused="name")
    node.run("image", "create", "small", "--size", "1000", refused="choose another size")
    node.run("image", "info", "nothing", refused="there is no image nothing")
    node.run("image", "resize", "x", "--size", "5MiB", refused="shrink")
    node.run("image", "resize", "x", "--size", "5MiB", "--shrink")
    node.run("image", "resize", "x", "--size", "20MiB")
    uri = node.serve_image("x")
    assert "export-size: 20971520" in tool("nbdinfo", uri)
    node.run("nbd", "x", "--socket", str(node.folder / "x.sock"), refused="served already")
    node.run("image", "rm", "x", refused="trilith nbd --end")
    node.run("nbd", "nothing", "--socket", str(node.folder / "n.sock"), refused="there is no image")
    done = subprocess.run(["qemu-io", "-f", "raw", "-c", "read 30M 4k", uri], capture_output=True, text=True)
    assert "End of image" in done.stdout + done.stderr or "failed" in done.stdout + done.stderr


def test_trash_and_space(node):
    node.run("image", "create", "t", "--size", "64MiB", "--preallocate")
    assert "space      64.0 MiB," in node.run("image", "info", "t")
    node.run("image", "rm", "t")
    assert "t" not in node.run("image", "ls").split()
    listed = node.run("image", "ls", "--trash")
    number = listed.splitlines()[1].split()[0]
    node.run("image", "restore", number, "back")
    assert "space      64.0 MiB," in node.run("image", "info", "back")
    node.run("image", "rm", "back")
    node.run("image", "purge", number)
    assert len(node.run("image", "ls", "--trash").splitlines()) == 1


def test_kill_9_again_and_again_loses_nothing_that_was_acknowledged(node):
    """A writer over one connection after the other; whatever was answered is there after each kill."""
    node.run("image", "create", "k", "--size", "64MiB")
    uri = node.serve_image("k")
    rng = random.Random(7)
    known = {}
    for turn in range(5):
        blocks = [rng.randrange(0, 64 * MIB // 4096) for _ in range(60)]
        for block in blocks:
            value = rng.randrange(1, 256)
            qemu = subprocess.run(
                ["qemu-io", "-f", "raw", "-c", f"write -P {value} {4096 * block} 4k", uri], capture_output=True, text=True
            )
            if qemu.returncode == 0 and "wrote" in qemu.stdout:
                known[block] = value
        node.kill()
        node.start()
        wait_for_socket(node.folder / "k.sock")
        said = qemu_io(uri, *[f"read -P {value} {4096 * block} 4k" for block, value in known.items()])
        assert "failed" not in said, f"turn {turn}: {said}"
    node.stop()
    node.start()
    wait_for_socket(node.folder / "k.sock")
    said = qemu_io(uri, *[f"read -P {value} {4096 * block} 4k" for block, value in known.items()])
    assert "failed" not in said, said


def wait_for_socket(path):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        done = subprocess.run(["nbdinfo", "--list", f"nbd+unix:///?socket={path}"], capture_output=True, text=True)
        if done.returncode == 0:
            return
        time.sleep(0.05)
    raise AssertionError(f"nothing is served at {path}")


# The header of a blob (docs/format.md): two slots of 4 KiB in front of the content.
SLOT = 4096
# Where a device keeps the copies of the manager's state.
COPIES_START, COPIES_END = 1 << 20, 5 << 20


def copies_on(device):
    with open(device, "rb") as file:
        file.seek(COPIES_START)
        return file.read(COPIES_END - COPIES_START)


def header_slots(device, image, index, layer):
    """Where headers of a blob stand, by the number of the slot."""
    found = {}
    with open(device, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        at = content.find(b"TbHd")
        while at >= 0:
            serial, *blob = struct.unpack_from("<QQII", content, at - 4 + 32)
            if at % SLOT == 4 and blob == [image, index, layer]:
                found[serial % 2] = at - 4
            at = content.find(b"TbHd", at + 1)
    assert found, f"no header of part {index}"
    return found


class flipped:
    """Bytes of a file that say something else for a while."""

    def __init__(self, path, at):
        self.path, self.at = path, at

    def __enter__(self):
        with open(self.path, "r+b") as file:
            file.seek(self.at)
            self.former = file.read(16)
            file.seek(self.at)
            file.write(bytes(255 - byte for byte in self.former))

    def __exit__(self, *_):
        with open(self.path, "r+b") as file:
            file.seek(self.at)
            file.write(self.former)


def sum_of(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def test_fsck_checks_images_and_rebuild_keeps_them(two_devices):
    node = two_devices
    node.run("image", "create", "a", "--size", "32MiB", "--copies", "2")
    a = node.serve_image("a")
    qemu_io(a, "write -P 0x11 0 1M", "write -P 0x12 9M 64k")
    node.run("image", "snapshot", "a@s")
    qemu_io(a, "write -P 0x21 0 64k")
    node.run("image", "clone", "a@s", "b")
    b = node.serve_image("b")
    qemu_io(b, "write -P 0x31 9M 64k")

    def check_content():
        said = qemu_io(a, "read -P 0x21 0 64k", "read -P 0x11 64k 960k", "read -P 0x12 9M 64k", "read -P 0 1M 8M")
        said += qemu_io(b, "read -P 0x11 0 1M", "read -P 0x31 9M 64k", "read -P 0 10M 22M")
        assert "failed" not in said, said

    check_content()
    node.stop()
    before = [sum_of(device) for device in node.devices]
    said = node.fsck()
    assert re.search(r"image 1 +a: 6 blobs, 36 pieces with content, 2.2 MiB", said), said
    assert re.search(r"image 2 +b: 2 blobs, 2 pieces with content, 128.0 KiB", said), said
    assert "compared  2.4 MiB" in said, said
    for device in node.devices:
        # It was written once: the other slot is empty. Its one piece is at 1 MiB.
        ((slot, header),) = header_slots(device, 1, 2, 0).items()
        with flipped(device, header):
            node.fsck(wrong="no header can be believed")
        with flipped(device, header + (2 - slot) * SLOT + MIB):
            said = node.fsck(wrong="part 2 of image 1 in layer 0: the copies on devices")
            assert f"in 1 blocks of 4 KiB, the first at byte {9 * MIB} of the image" in said, said
    node.fsck()
    assert [sum_of(device) for device in node.devices] == before

    shutil.rmtree(node.data / "consensus")
    node.fsck("--rebuild")
    for _ in range(2):
        node.start()
        for name in "ab":
            wait_for_socket(node.folder / f"{name}.sock")
        check_content()
        node.stop()
        node.fsck()


def test_fsck_rebuild_keeps_images_that_are_younger_than_the_copy(node, tmp_path):
    """The copies of the manager's state are set back to a moment before the images were made."""
    device = node.data / "device-0.trilith"
    disk = tmp_path / "disk.raw"
    disk.write_bytes(random.Random(5).randbytes(8 * MIB))
    node.run("image", "create", "early", "--size", "8MiB")
    deadline = time.monotonic() + LIMIT_S
    while b"early" not in copies_on(device):
        assert time.monotonic() < deadline, "no copy names the image"
        time.sleep(0.1)
    copies = copies_on(device)
    # Its record has no device yet.
    early = node.serve_image("early")
    qemu_io(early, "write -P 0x41 0 8M")
    node.run("nbd", "--end", "--socket", str(node.folder / "early.sock"))
    node.run("image", "import", str(disk), "late")
    node.run("image", "snapshot", "late@s")
    node.run("image", "clone", "late@s", "clone")
    clone = node.serve_image("clone")
    qemu_io(clone, "write -P 0x42 4M 64k")
    node.run("nbd", "--end", "--socket", str(node.folder / "clone.sock"))
    node.run("image", "export", "clone", str(tmp_path / "clone.raw"))
    node.stop()
    with open(device, "r+b") as file:
        file.seek(COPIES_START)
        file.write(copies)
    shutil.rmtree(node.data / "consensus")
    said = node.fsck("--rebuild")
    assert "image 2 was made after the copy: it is recovered-2 now, with 8.0 MiB" in said, said
    node.fsck()
    node.start()
    assert "failed" not in qemu_io(node.serve_image("early"), "read -P 0x41 0 8M")
    for name, raw in [("recovered-2", disk), ("recovered-3", tmp_path / "clone.raw")]:
        node.run("image", "export", name, str(tmp_path / f"{name}.raw"))
        assert same(tmp_path / f"{name}.raw", raw)
    node.stop()
    node.fsck()
