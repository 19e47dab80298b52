"""Block images with the clients that people use: qemu's tools and libnbd's, also while the server is killed."""

import os
import random
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from conftest import ROOT, SERVER
from nodes import LIMIT_S, Node

MIB = 1 << 20


class ImageNode(Node):
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
