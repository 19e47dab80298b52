"""Exclusive mounts: the only one of a volume, whose kernel buffers writes."""

import errno
import fcntl
import mmap
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nodes import LIMIT_S
from test_files import MIB, FileNode, check, pytestmark  # noqa: F401
from test_fstab import call

HELD = "has the volume for itself"
IN_USE = "other mounts use the volume"


@pytest.fixture
def node():
    with tempfile.TemporaryDirectory() as folder:
        node = FileNode(Path(folder))
        node.other = node.folder / "other"
        node.other.mkdir()
        try:
            yield node
        finally:
            node.kill()
            for point in (node.mount, node.other):
                subprocess.run(["umount", "-l", str(point)], capture_output=True)


def begin(node):
    node.run("volume", "create", "home")
    mount(node)


def mount(node):
    node.run("mount", "home", str(node.mount), "--exclusive", "--detach")
    node.wait_for_mount()


def umount(node):
    node.run("umount", str(node.mount))
    wait_for_copies(node.mount)


def wait_for_copies(point):
    """A process that has begun a mount namespace of its own meanwhile has a copy of the mount, which lives on with it."""
    until = time.monotonic() + LIMIT_S
    while any(f" {point} " in text for text in namespaces()):
        assert time.monotonic() < until, f"{point} is still mounted somewhere"
        time.sleep(0.05)


def namespaces():
    for folder in Path("/proc").iterdir():
        try:
            yield (folder / "mountinfo").read_text()
        except OSError:
            pass


def test_such_a_mount_is_the_only_one(node):
    begin(node)
    assert "exclusive" in node.run("mount", "--ls")
    node.run("mount", "home", str(node.other), "--detach", refused=HELD)
    node.run("mount", "home", str(node.other), "--exclusive", "--detach", refused=HELD)
    assert not os.path.ismount(node.other)
    # What is no mount goes on.
    (node.mount / "f").write_bytes(b"x" * 5000)
    assert "home" in node.run("volume", "info", "home")
    node.run("volume", "resize", "home", "--size", "1GiB")
    # A mount is free for the next one when it is ended, in whichever way, and however soon that one comes.
    check("umount", str(node.mount))
    wait_for_copies(node.mount)
    node.run("mount", "home", str(node.other), "--detach")
    node.run("mount", "home", str(node.mount), "--exclusive", "--detach", refused=IN_USE)
    assert (node.other / "f").read_bytes() == b"x" * 5000
    node.run("umount", str(node.other))
    wait_for_copies(node.other)
    mount(node)
    umount(node)
    # As mount(8) has it.
    call(node, f"exclusive,data={node.data}")
    node.run("mount", "home", str(node.other), "--detach", refused=HELD)
    check("umount", str(node.mount))
    wait_for_copies(node.mount)
    node.run("mount", "home", str(node.other), "--detach")


def test_it_comes_back_at_once_where_nothing_kept_it(node):
    begin(node)
    (node.mount / "f").write_bytes(b"x" * 5000)
    for keeper in keepers(node):
        os.kill(keeper, signal.SIGKILL)
    # Both are gone, as after a power cut: the session of the mount is still at the tree.
    node.kill()
    node.start()
    node.wait_for_mount()
    assert (node.mount / "f").read_bytes() == b"x" * 5000
    # So it is when that has happened twice.
    for keeper in keepers(node):
        os.kill(keeper, signal.SIGKILL)
    node.kill()
    node.start()
    node.wait_for_mount()
    node.run("mount", "home", str(node.other), "--detach", refused=HELD)


def keepers(node):
    found = []
    for folder in Path("/proc").iterdir():
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"keep-mounts" in words and str(node.data).encode() in words:
            found.append(int(folder.name))
    return found


def test_small_appends_arrive_merged(node):
    begin(node)
    before = node.metric("trilith_file_requests_total")
    with open(node.mount / "log", "ab", buffering=0) as log:
        for number in range(2048):
            log.write(number.to_bytes(4, "big") * 1024)
        os.fsync(log.fileno())
    requests = node.metric("trilith_file_requests_total") - before
    assert requests < 200, f"{requests} requests for 2,048 appends"
    umount(node)
    mount(node)
    assert (node.mount / "log").read_bytes() == b"".join(number.to_bytes(4, "big") * 1024 for number in range(2048))


# Calls at random, the same on the mount and on a local folder.
CALLS = """
import mmap, os, random, sys
folder, seed = sys.argv[1], int(sys.argv[2])
rng = random.Random(seed)
names = [os.path.join(folder, f"f{number}") for number in range(6)]
said = []

def told(work):
    try:
        said.append(work())
    except OSError as error:
        said.append(-error.errno)

def change(name):
    flags = rng.choice([os.O_RDWR, os.O_RDWR | os.O_APPEND, os.O_WRONLY, os.O_RDWR | os.O_TRUNC, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_SYNC])
    file = os.open(name, flags | os.O_CREAT, 0o644)
    for _ in range(rng.randrange(1, 8)):
        offset, length = rng.randrange(200_000), rng.choice([1, 10, 4096, 5000, 100_000])
        content = bytes([rng.randrange(1, 256)]) * length
        kind = rng.randrange(9)
        if kind == 0:
            os.ftruncate(file, offset)
        elif kind == 1:
            os.fsync(file)
        elif kind == 2:
            os.posix_fallocate(file, offset, length)
        elif kind == 3 and flags & 3 == os.O_RDWR and os.fstat(file).st_size > 0:
            size = os.fstat(file).st_size
            with mmap.mmap(file, size) as area:
                at = offset % size
                area[at:at + length] = content[:size - at]
        elif kind == 4 and flags & 3 == os.O_RDWR:
            said.append(hash(os.pread(file, length, offset)))
        elif flags & os.O_APPEND:
            os.write(file, content)
        else:
            os.pwrite(file, content, offset)
    said.append(os.fstat(file).st_size)
    os.close(file)

for _ in range(400):
    one, other = rng.choice(names), rng.choice(names)
    kind = rng.randrange(10)
    if kind < 6:
        told(lambda: change(one))
    elif kind == 6:
        told(lambda: os.rename(one, other))
    elif kind == 7:
        told(lambda: os.unlink(one))
    elif kind == 8:
        told(lambda: os.link(one, other))
    else:
        told(lambda: os.truncate(one, rng.randrange(150_000)))
print(said)
"""


def contents(folder):
    return {entry.name: (Path(entry.path).read_bytes(), entry.stat().st_nlink, entry.stat().st_mtime_ns) for entry in os.scandir(folder)}


@pytest.mark.parametrize("seed", range(3))
def test_random_calls_have_the_same_effects_as_on_a_local_folder(node, seed):
    begin(node)
    local = node.folder / "local"
    local.mkdir()
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    said = [
        check(sys.executable, "-c", CALLS, str(folder), str(seed), env=environment, cwd="/") for folder in (local, node.mount)
    ]
    assert said[0] == said[1]
    expected, seen = contents(local), contents(node.mount)
    assert {name: found[:2] for name, found in seen.items()} == {name: found[:2] for name, found in expected.items()}
    # All of it is there on a new mount: times too.
    umount(node)
    mount(node)
    assert contents(node.mount) == seen


def test_mapped_files_and_appends_of_many_processes(node):
    begin(node)
    with open(node.mount / "mapped", "w+b") as file:
        file.truncate(3 * MIB)
        with mmap.mmap(file.fileno(), 3 * MIB) as area:
            for at in range(0, 3 * MIB, 4096):
                area[at : at + 8] = at.to_bytes(8, "big")
            area.flush()
    program = "import os, sys\nlog = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)\n"
    program += "for number in range(2000): os.write(log, b'%s %06d\\n' % (sys.argv[2].encode(), number))"
    words = [sys.executable, "-c", program, str(node.mount / "log")]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda writer: check(*words, writer, cwd="/"), "abcd"))
    umount(node)
    mount(node)
    mapped = (node.mount / "mapped").read_bytes()
    assert all(mapped[at : at + 8] == at.to_bytes(8, "big") for at in range(0, 3 * MIB, 4096))
    lines = (node.mount / "log").read_text().splitlines()
    assert len(lines) == 8000
    for writer in "abcd":
        assert [line[2:] for line in lines if line[0] == writer] == ["%06d" % number for number in range(2000)]


def test_errors_of_writing_back_are_told_by_fsync(node):
    node.run("volume", "create", "home", "--size", "20MiB")
    mount(node)
    with open(node.mount / "big", "wb", buffering=0) as file:
        with pytest.raises(OSError) as failed:
            for _ in range(40):
                file.write(b"x" * MIB)
            os.fsync(file.fileno())
        assert failed.value.errno == errno.EDQUOT
        # Once.
        os.fsync(file.fileno())
    os.unlink(node.mount / "big")
    until = time.monotonic() + LIMIT_S
    while node.free_bytes() < 15 * MIB:
        assert time.monotonic() < until, "the space of a removed file does not come back"
        time.sleep(0.05)
    (node.mount / "small").write_bytes(b"x" * 5000)
    file = os.open(node.mount / "closed", os.O_WRONLY | os.O_CREAT)
    with pytest.raises(OSError) as failed:
        os.write(file, b"x" * (30 * MIB))
        os.close(file)
    assert failed.value.errno == errno.EIO


# Appends records, with fsync after some, and notes how many were durable.
WRITER = """
import os, signal, sys
going = True
def end(*_):
    global going
    going = False
signal.signal(signal.SIGTERM, end)
log = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
number = 0
print("begun", flush=True)
while going:
    os.write(log, b"%09d\\n" % number * 50)
    number += 1
    if number % 20 == 0:
        os.fsync(log)
print(number)
"""


def test_nothing_is_lost_when_the_server_ends(node):
    begin(node)
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(node.mount / f"log-{writer}")], cwd="/", stdout=subprocess.PIPE, text=True)
        for writer in range(3)
    ]
    try:
        for writer in writers:
            assert writer.stdout.readline() == "begun\n"
        for number in range(6):
            time.sleep(1.2)
            node.stop() if number % 2 else node.kill()
            time.sleep(0.3)
            node.start()
        for writer in writers:
            writer.terminate()
        records = [int(writer.communicate(timeout=LIMIT_S)[0]) for writer in writers]
    finally:
        for writer in writers:
            writer.kill()
    assert min(records) > 100
    # What no fsync has answered is in the kernel, and comes with the end of the mount at last.
    node.run("mount", "home", str(node.other), "--detach", refused=HELD)
    umount(node)
    mount(node)
    for writer, count in enumerate(records):
        expected = b"".join(b"%09d\n" % number * 50 for number in range(count))
        assert (node.mount / f"log-{writer}").read_bytes() == expected


def test_what_was_fsynced_is_there_when_kernel_and_server_lose_the_mount(node):
    begin(node)
    rng, expected = random.Random(3), {}
    for _ in range(2):
        until = time.monotonic() + 2
        while time.monotonic() < until:
            name, content = f"f{rng.randrange(40)}", rng.randbytes(rng.choice([1, 4096, 5000, 300_000]))
            with open(node.mount / "new", "wb") as file:
                file.write(content)
                file.flush()
                os.fdatasync(file.fileno())
            os.rename(node.mount / "new", node.mount / name)
            expected[name] = content
        for keeper in keepers(node):
            os.kill(keeper, signal.SIGKILL)
        node.kill()
        subprocess.run(["umount", "-l", str(node.mount)], capture_output=True)
        node.start()
        node.wait_for_mount()
        found = {name: (node.mount / name).read_bytes() for name in os.listdir(node.mount) if name != "new"}
        assert found == expected


def test_programs_run_on_it(node):
    begin(node)
    base = sqlite3.connect(node.mount / "base")
    base.execute("create table numbers (number integer primary key, text text)")
    for start in range(0, 2000, 100):
        with base:
            base.executemany("insert into numbers values (?, ?)", [(number, "x" * number) for number in range(start, start + 100)])
    # The kernel has the locks, and they hold between processes.
    with open(node.mount / "locked", "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert subprocess.run(["flock", "-n", str(node.mount / "locked"), "true"]).returncode == 1
    base.close()
    repository = node.mount / "repository"
    source = Path(__file__).parent
    check("git", "init", "-q", str(repository))
    check("cp", "-a", str(source), str(repository / "e2e"))
    git = ["git", "-C", str(repository), "-c", "user.name=t", "-c", "user.email=t@t", "-c", "gc.auto=0"]
    check(*git, "add", "-A")
    check(*git, "commit", "-qm", "first")
    check(*git, "gc", "-q")
    umount(node)
    mount(node)
    base = sqlite3.connect(node.mount / "base")
    assert base.execute("pragma integrity_check").fetchone() == ("ok",)
    assert base.execute("select count(*), sum(length(text)) from numbers").fetchone() == (2000, 1999 * 1000)
    base.close()
    check(*git, "fsck", "--strict")
    assert check(*git, "status", "--porcelain") == ""
