"""File volumes, mounted: trees of files in and out, the tools that people use on them, and the server killed under them."""

import os
import random
import re
import shutil
import sqlite3
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from conftest import ROOT, SERVER
from nodes import LIMIT_S, Node

MIB = 1 << 20

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/dev/fuse"), reason="a mount for all users takes root and /dev/fuse"
)


class FileNode(Node):
    """With a folder to mount on."""

    def __init__(self, folder):
        self.mount = folder / "mount"
        self.mount.mkdir()
        super().__init__(folder)

    def mount_volume(self, name="home"):
        self.run("mount", name, str(self.mount), "--detach")
        self.wait_for_mount()

    def wait_for_mount(self):
        """The server mounts again by itself what was mounted before it died."""
        until = time.monotonic() + LIMIT_S
        while True:
            # A dead mount of the server before answers with an error until it is cleared.
            try:
                if os.path.ismount(self.mount) and os.listdir(self.mount) is not None:
                    return
            except OSError:
                pass
            assert time.monotonic() < until, (self.folder / "server.log").read_text()[-4000:]
            time.sleep(0.1)

    def free_bytes(self):
        """What a new object would find on the device."""
        state = os.statvfs(self.mount)
        return state.f_bavail * state.f_frsize


@pytest.fixture
def node():
    with tempfile.TemporaryDirectory() as folder:
        node = FileNode(Path(folder))
        try:
            yield node
        finally:
            node.kill()
            subprocess.run(["umount", "-l", str(node.mount)], capture_output=True)


def check(*words, **options):
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, **options)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def test_the_readmes_files_in_five_minutes(node, tmp_path):
    section = (ROOT / "README.md").read_text().split("## Files in five minutes", 1)[1].split("\n## ", 1)[0]
    (shell,) = re.findall(r"```sh\n(.*?)```", section, flags=re.DOTALL)
    (tmp_path / "trilith").symlink_to(SERVER)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TRILITH_DATA": str(node.data)}
    text = shell.replace("/mnt/", f"{tmp_path}/")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "file for file the same" in done.stdout


def test_a_tree_goes_in_and_out_byte_for_byte(node):
    node.run("volume", "create", "home")
    node.run("volume", "create", "home", refused="exists already")
    node.run("volume", "create", "../x", refused="can't be the name")
    node.run("mount", "other", str(node.mount), refused="no volume")
    node.mount_volume()
    source = ROOT / "crates" / "chunkstore"
    check("cp", "-a", str(source), str(node.mount))
    check("diff", "-r", "--no-dereference", str(source), str(node.mount / "chunkstore"))
    listed = node.run("volume", "ls")
    assert "home" in listed
    assert str(node.mount) in node.run("mount", "--ls")
    # After a stop in order and a start, the server mounts it by itself, with everything in it.
    node.stop()
    node.start()
    node.wait_for_mount()
    check("diff", "-r", "--no-dereference", str(source), str(node.mount / "chunkstore"))
    node.run("volume", "rm", "home", "--force", refused="is mounted on")
    with open(node.mount / "chunkstore" / "open", "w"):
        node.run("umount", str(node.mount), refused="in use")
    node.run("umount", str(node.mount))
    assert os.listdir(node.mount) == []
    node.run("volume", "rm", "home", "--force")


def test_what_was_fsynced_survives_kills(node):
    node.run("volume", "create", "home")
    node.mount_volume()
    rng, expected = random.Random(7), {}
    for round in range(3):
        until = time.monotonic() + 2
        while time.monotonic() < until:
            name = f"f{rng.randrange(60)}"
            content = rng.randbytes(rng.choice([0, 1, 100, 4096, 5000, 70_000, 300_000]))
            # As a careful program does: a new file, fsynced, then renamed over the old one.
            temporary = node.mount / "new"
            with open(temporary, "wb") as file:
                file.write(content)
                os.fsync(file.fileno())
            os.rename(temporary, node.mount / name)
            folder = os.open(node.mount, os.O_RDONLY)
            os.fsync(folder)
            os.close(folder)
            expected[name] = content
        node.kill()
        node.start()
        node.wait_for_mount()
        found = {name: (node.mount / name).read_bytes() for name in os.listdir(node.mount) if name != "new"}
        assert found == expected, f"round {round}"


def test_programs_run_on_it(node):
    node.run("volume", "create", "home")
    node.mount_volume()
    # SQLite: locks, fsync, a journal beside.
    base = sqlite3.connect(node.mount / "base")
    base.execute("create table numbers (number integer primary key, text text)")
    with base:
        base.executemany("insert into numbers values (?, ?)", [(number, "x" * number) for number in range(2000)])
    assert base.execute("pragma integrity_check").fetchone() == ("ok",)
    base.close()
    # git: many small files, renames, hard links, mmap.
    repository = node.mount / "repository"
    check("git", "init", "-q", str(repository))
    shutil.copytree(ROOT / "docs", repository / "docs")
    git = ["git", "-C", str(repository), "-c", "user.name=t", "-c", "user.email=t@t", "-c", "gc.auto=0"]
    check(*git, "add", "-A")
    check(*git, "commit", "-qm", "first")
    check(*git, "fsck", "--strict")
    check(*git, "gc", "-q")
    assert check(*git, "status", "--porcelain") == ""
    check("git", "clone", "-q", str(repository), str(node.mount / "clone"))
    check("diff", "-r", str(repository / "docs"), str(node.mount / "clone" / "docs"))


def test_space_goes_back_and_quotas_hold(node):
    node.run("volume", "create", "home", "--size", "100MiB", "--inodes", "20")
    node.mount_volume()
    big = node.mount / "big"
    with pytest.raises(OSError) as failed:
        # Zeros that were never touched would go to the server page by page.
        big.write_bytes(b"x" * (200 * MIB))
    assert failed.value.errno == 122, "EDQUOT"
    big.unlink()
    with pytest.raises(OSError) as failed:
        for index in range(30):
            (node.mount / f"f{index}").touch()
    assert failed.value.errno == 122, "EDQUOT"
    node.run("volume", "resize", "home", "--size", "1GiB")
    (node.mount / "f29").touch()
    before = node.free_bytes()
    big.write_bytes(random.Random(1).randbytes(64 * MIB))
    big.unlink()
    until = time.monotonic() + LIMIT_S
    while node.free_bytes() < before - MIB:
        assert time.monotonic() < until, "the space of a removed file does not come back"
        time.sleep(0.2)


def test_an_allocation_by_a_user_drops_set_user_id(node):
    node.run("volume", "create", "home")
    node.mount_volume()
    program = node.mount / "program"
    program.write_bytes(b"x" * 5000)
    program.chmod(0o6777)
    assert program.stat().st_mode & 0o7777 == 0o6777
    with open(program, "rb") as file:
        # Its folder is closed to other users.
        command = ["fallocate", "-l", "10000", f"/proc/self/fd/{file.fileno()}"]
        check(*command, pass_fds=[file.fileno()])
        assert program.stat().st_mode & 0o7777 == 0o6777, "root allocates"
        check(*command, pass_fds=[file.fileno()], user=1000, group=1000, extra_groups=[])
        # At once: the kernel does not go by what it has of the file.
        assert program.stat().st_mode & 0o7777 == 0o777


def test_a_tree_that_is_longer_than_its_log_survives_kills(node):
    """More commands than stand behind a snapshot: what is there after a kill comes from rows and from the log."""
    node.run("volume", "create", "home")
    node.mount_volume()
    folder = node.mount / "many"
    folder.mkdir()

    def make(numbers):
        for number in numbers:
            os.mknod(folder / f"name-{number}", 0o600)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(make, [range(start, 6000, 4) for start in range(4)]))
    for number in range(0, 6000, 3):
        (folder / f"name-{number}").unlink()
    expected = {f"name-{number}" for number in range(6000) if number % 3}
    for _ in range(2):
        node.kill()
        node.start()
        node.wait_for_mount()
        assert {entry.name for entry in os.scandir(folder)} == expected
        # One more, so that the next start has something behind its snapshot.
        name = f"after-{len(expected)}"
        os.mknod(folder / name, 0o600)
        expected.add(name)
    # What is listed comes from the tree, not from what the kernel knows.
    node.run("umount", str(node.mount))
    node.mount_volume()
    assert {entry.name for entry in os.scandir(folder)} == expected
    assert os.stat(folder).st_nlink == 2 and all(os.stat(folder / name).st_nlink == 1 for name in list(expected)[:200])


def test_a_removed_volume_leaves_nothing_behind(node):
    node.run("volume", "create", "home")
    node.mount_volume()
    for index in range(600):
        (node.mount / f"f{index}").write_bytes(b"x" * 5000)
    assert node.metric("trilith_file_content_bytes") > 0
    # The tree has more to give back than it does at once, and files besides.
    for index in range(500):
        (node.mount / f"f{index}").unlink()
    node.run("umount", str(node.mount))
    node.run("volume", "rm", "home", "--force")
    until = time.monotonic() + LIMIT_S
    while "home" in node.run("volume", "ls") or node.metric("trilith_file_content_bytes") > 0:
        assert time.monotonic() < until, node.metric("trilith_file_content_bytes")
        time.sleep(0.2)
    # So do its tree, and the record of its copies.
    while (node.folder / "server.log").read_text().count("a placed group that is no more is forgotten here") < 2:
        assert time.monotonic() < until, (node.folder / "server.log").read_text()[-4000:]
        time.sleep(0.2)


def io_bytes(node, kind):
    """What the kernel counts of the server: bytes that went to (`write_bytes`) or came from (`read_bytes`) the disk."""
    text = Path(f"/proc/{node.process.pid}/io").read_text()
    return int(re.search(rf"^{kind}: (\d+)$", text, re.MULTILINE)[1])


def test_counters_show_what_reaches_the_disk(node):
    node.run("volume", "create", "home")
    node.mount_volume()
    device = node.data / "device-0.trilith"
    many = node.mount / "many"
    many.mkdir()
    for number in range(300):
        (many / f"{number}").write_bytes(b"x" * 5000)
    # Content is written once: to its place, and to no log.
    content, written = 64 * MIB, io_bytes(node, "write_bytes")
    counted = node.metric("trilith_file_written_bytes_total")
    with open(node.mount / "large", "wb", buffering=0) as file:
        for _ in range(content // MIB):
            file.write(os.urandom(MIB))
    assert node.metric("trilith_file_written_bytes_total") - counted == content
    assert io_bytes(node, "write_bytes") - written < content + content // 8
    # What is read in sequence is asked for by the MiB: the kernel reads that far ahead.
    Path("/proc/sys/vm/drop_caches").write_text("1")
    asked = node.metric("trilith_file_requests_total")
    check("dd", f"if={node.mount / 'large'}", "of=/dev/null", "bs=128K", "status=none")
    assert node.metric("trilith_file_requests_total") - asked < 2 * content // MIB
    # Names and attributes come from memory, also where the kernel has none of them.
    subprocess.run(["sync"], check=True)
    Path("/proc/sys/vm/drop_caches").write_text("2")
    asked, read = node.metric("trilith_file_requests_total"), io_bytes(node, "read_bytes")
    listed = check("find", str(node.mount), "-type", "f", "-printf", "%s %T@ %m\n").splitlines()
    assert len(listed) == 301
    assert node.metric("trilith_file_requests_total") == asked
    assert io_bytes(node, "read_bytes") == read
    # What is removed leaves the disk.
    full = device.stat().st_blocks * 512
    shutil.rmtree(many)
    (node.mount / "large").unlink()
    until = time.monotonic() + LIMIT_S
    while node.metric("trilith_file_content_bytes") > 0 or device.stat().st_blocks * 512 > full - content // 2:
        sizes = (node.metric("trilith_file_content_bytes"), device.stat().st_blocks * 512, full)
        assert time.monotonic() < until, f"content, blocks of the device now and before: {sizes}"
        time.sleep(0.2)
