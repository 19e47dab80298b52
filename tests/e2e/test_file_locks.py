"""One volume on two mounts, of one server and of two nodes of a cluster: locks, what one mount sees of the other, appends of both."""

import ctypes
import fcntl
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from nodes import LIMIT_S, Cluster, Node

# For how long a mount may use attributes without asking.
VALID_S = 1
# The first of as many addresses of this machine as there are nodes; other tests use the first ones of it.
FIRST_ADDRESS = "127.0.78.1"
# On each mount.
PROCESSES, ROUNDS = 2, 60
RECORDS = 150

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/dev/fuse"), reason="a mount for all users takes root and /dev/fuse"
)


class Lone:
    """A server with the volume on two folders."""

    def __init__(self, folder):
        self.node = Node(folder)
        self.node.run("volume", "create", "home")
        for at in ("one", "two"):
            (folder / at).mkdir()
            self.node.run("mount", "home", str(folder / at), "--detach")
        self.mounts = [folder / "one", folder / "two"]

    def stop(self):
        self.node.stop()


class OfCluster(Cluster):
    """Three nodes, with the volume on folders of two of them."""

    def __init__(self, folder):
        super().__init__(folder, FIRST_ADDRESS)
        self.run(1, "volume", "create", "home")
        self.mounts = [folder / "one", folder / "two"]
        for number, mount in zip((1, 2), self.mounts, strict=True):
            mount.mkdir()
            self.run(number, "mount", "home", str(mount), "--detach")


@pytest.fixture(scope="module", params=[Lone, OfCluster], ids=["one-server", "two-nodes"])
def mounts(request):
    folder = Path(tempfile.mkdtemp(prefix="trilith-locks-"))
    try:
        volume = request.param(folder)
        yield volume.mounts
        volume.stop()
    finally:
        for at in ("one", "two"):
            subprocess.run(["umount", "-l", str(folder / at)], capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


def until(holds, what, limit_s=LIMIT_S):
    end = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < end, f"{what}: not within {limit_s} s"
        time.sleep(0.02)


class Program:
    """A process that runs a script of Python, with the open file `f`, and says what it does."""

    def __init__(self, path, script, *words):
        begin = "import fcntl, os, sys, time\ndef say(what): print(what, flush=True)\nf = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n"
        command = [sys.executable, "-c", begin + script, str(path), *map(str, words)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def says(self):
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=LIMIT_S) == 0
        self.process.stdout.close()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=LIMIT_S)
        self.process.stdin.close()
        self.process.stdout.close()


COUNT = """
how = sys.argv[2]
for _ in range(int(sys.argv[3])):
    fcntl.flock(f, fcntl.LOCK_EX) if how == "flock" else fcntl.lockf(f, fcntl.LOCK_EX)
    number = int(os.pread(f, 20, 0) or b"0")
    os.pwrite(f, b"%d" % (number + 1), 0)
    fcntl.flock(f, fcntl.LOCK_UN) if how == "flock" else fcntl.lockf(f, fcntl.LOCK_UN)
"""


@pytest.mark.parametrize("how", ["flock", "fcntl"])
def test_a_counter_under_a_lock_loses_nothing(mounts, how):
    programs = [Program(mount / how, COUNT, how, ROUNDS) for mount in mounts for _ in range(PROCESSES)]
    for program in programs:
        program.end()
    for mount in mounts:
        assert int((mount / how).read_text()) == len(programs) * ROUNDS


def is_free(path, how):
    with open(path, "r+b") as file:
        try:
            lock = fcntl.flock if how == "flock" else fcntl.lockf
            lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@pytest.mark.parametrize("how", ["flock", "fcntl"])
def test_a_lock_goes_with_its_process(mounts, how):
    one, two = (mount / f"held-{how}" for mount in mounts)
    lock = "flock" if how == "flock" else "lockf"
    holder = Program(one, f"fcntl.{lock}(f, fcntl.LOCK_EX)\nsay('has it')\nsys.stdin.read()\n")
    assert holder.says() == "has it"
    assert not is_free(two, how) and not is_free(one, how)
    assert is_free(two, "fcntl" if how == "flock" else "flock"), "the other kind does not see it"
    waiter = Program(two, f"say('begins')\nfcntl.{lock}(f, fcntl.LOCK_EX)\nsay('has it')\n")
    assert waiter.says() == "begins"
    holder.kill()
    assert waiter.says() == "has it"
    waiter.end()
    until(lambda: is_free(one, how), "it is free", 5)


def test_a_call_that_waits_can_be_killed(mounts):
    one, two = (mount / "waits" for mount in mounts)
    with open(one, "wb") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        waiter = Program(two, "say('begins')\nfcntl.flock(f, fcntl.LOCK_EX)\nsay('has it')\n")
        assert waiter.says() == "begins"
        time.sleep(0.2)
        waiter.kill()
    until(lambda: is_free(two, "flock"), "it is free", 5)


def test_ranges_are_locked_apart(mounts):
    one, two = (mount / "ranges" for mount in mounts)
    one.touch()
    until(two.exists, "the other sees it")
    with open(one, "r+b") as first, open(two, "r+b") as second:
        fcntl.lockf(first, fcntl.LOCK_EX, 10, 0)
        fcntl.lockf(second, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 10)
        with pytest.raises(BlockingIOError):
            fcntl.lockf(second, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, 9)
        fcntl.lockf(first, fcntl.LOCK_UN, 5, 5)
        fcntl.lockf(second, fcntl.LOCK_SH | fcntl.LOCK_NB, 5, 5)
        with pytest.raises(BlockingIOError):
            fcntl.lockf(first, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 0)


def test_what_one_closed_the_other_opens(mounts):
    one, two = (mount / "shown" for mount in mounts)
    for round in range(20):
        writer, reader = (one, two) if round % 2 else (two, one)
        text = f"{round} " * (3000 - 100 * round)
        writer.write_text(text)
        assert reader.read_text() == text, round
        # In place, with the size and the pages that the other has: also what is not written anew.
        with open(writer, "r+b", buffering=0) as file:
            file.seek(5)
            file.write(b"in place")
            os.fsync(file.fileno())
            assert reader.read_bytes()[5:13] == b"in place", round


def test_a_file_that_stays_open_shows_what_the_other_appends(mounts):
    one, two = (mount / "followed" for mount in mounts)
    one.write_bytes(b"first\n")
    with open(two, "rb", buffering=0) as follower:
        assert follower.read(100) == b"first\n"
        with open(one, "ab") as file:
            file.write(b"second\n")
        time.sleep(VALID_S + 0.2)
        assert follower.seek(0) == 0
        # Of one page, whose end the kernel had as zeros.
        until(lambda: os.fstat(follower.fileno()).st_size == 13, "the size is seen")
        assert follower.read(100) == b"first\nsecond\n"


def test_a_lock_shows_what_was_written_under_it(mounts):
    one, two = (mount / "locked" for mount in mounts)
    one.write_bytes(b"0" * 5000)
    with open(one, "r+b", buffering=0) as first, open(two, "r+b", buffering=0) as second:
        for round in range(10):
            writer, reader = (first, second) if round % 2 else (second, first)
            content = (b"%d" % round) * (5000 + round)
            fcntl.lockf(writer, fcntl.LOCK_EX)
            os.pwrite(writer.fileno(), content, 0)
            fcntl.lockf(writer, fcntl.LOCK_UN)
            fcntl.lockf(reader, fcntl.LOCK_SH)
            assert os.fstat(reader.fileno()).st_size == len(content)
            assert os.pread(reader.fileno(), 6000, 0) == content
            fcntl.lockf(reader, fcntl.LOCK_UN)


APPEND = """
f = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
for number in range(int(sys.argv[3])):
    record = b"%s %d %s\\n" % (sys.argv[2].encode(), number, b"x" * (number * 37 % 900))
    assert os.write(f, record) == len(record)
"""


def test_each_record_that_is_appended_is_there_once(mounts):
    one, two = (mount / "records" for mount in mounts)
    one.touch()
    programs = [Program(path, APPEND, name, RECORDS) for path, name in ((one, "a"), (two, "b"), (one, "c"))]
    for program in programs:
        program.end()
    expected = [f"{name} {number} {'x' * (number * 37 % 900)}" for name in "abc" for number in range(RECORDS)]
    for path in (one, two):
        lines = path.read_text().splitlines()
        assert sorted(lines) == sorted(expected)
        for name in "abc":
            numbers = [int(line.split()[1]) for line in lines if line.startswith(name)]
            assert numbers == list(range(RECORDS)), "in the order of each"


def test_two_that_write_one_block_keep_what_the_other_wrote(mounts):
    one, two = (mount / "block" for mount in mounts)
    one.touch()
    write = """
at, step, end = map(int, sys.argv[2:5])
for offset in range(at, end, step):
    os.pwrite(f, bytes([offset % 251]) * 100, offset)
"""
    # A file without content: both give its holes contents.
    os.truncate(one, 64_000)
    programs = [Program(path, write, at, 200, 64_000) for path, at in ((one, 0), (two, 100))]
    for program in programs:
        program.end()
    expected = b"".join(bytes([offset % 251]) * 100 for offset in range(0, 64_000, 100))
    assert one.read_bytes() == expected
    assert two.read_bytes() == expected


def test_names_are_seen_at_once(mounts):
    one, two = mounts
    (one / "made").write_text("made")
    assert (two / "made").read_text() == "made", "a name that was not there is not remembered"
    (one / "made").rename(one / "moved")
    assert not (two / "made").exists() and (two / "moved").read_text() == "made"
    (two / "moved").unlink()
    assert not (one / "moved").exists()
    # A database would take a removed journal for one that is to be rolled back.
    for round in range(20):
        (one / "journal").write_text("hot")
        assert (two / "journal").exists(), round
        (one / "journal").unlink()
        assert not (two / "journal").exists(), round


TRANSACTIONS = """
import sqlite3
base = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
for number in range(int(sys.argv[3])):
    base.execute("begin immediate")
    (last,) = base.execute("select coalesce(max(number), 0) from numbers").fetchone()
    base.execute("insert into numbers values (?, ?)", (last + 1, sys.argv[2]))
    base.execute("commit")
"""


def test_sqlite_on_two_mounts(mounts):
    one, two = (mount / "base" for mount in mounts)
    base = sqlite3.connect(one)
    base.execute("create table numbers (number integer primary key, writer text)")
    base.commit()
    base.close()
    rounds = 15
    programs = [Program(path, TRANSACTIONS, name, rounds) for path, name in ((one, "a"), (two, "b"))]
    for program in programs:
        program.end()
    for path in (one, two):
        base = sqlite3.connect(path, timeout=60)
        assert base.execute("pragma integrity_check").fetchone() == ("ok",)
        assert base.execute("select count(*), max(number) from numbers").fetchone() == (2 * rounds, 2 * rounds)
        base.close()


# struct flock of x86-64 and arm64.
class Flock(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_short),
        ("whence", ctypes.c_short),
        ("start", ctypes.c_longlong),
        ("len", ctypes.c_longlong),
        ("pid", ctypes.c_int),
    ]


F_OFD_SETLK = 37


def test_locks_of_open_files_go_with_them(mounts):
    one, two = (mount / "ofd" for mount in mounts)
    one.touch()
    until(two.exists, "the other sees it")
    file = os.open(one, os.O_RDWR)
    fcntl.fcntl(file, F_OFD_SETLK, bytes(Flock(fcntl.F_WRLCK, 0, 0, 0, 0)))
    assert not is_free(two, "fcntl")
    os.close(file)
    until(lambda: is_free(two, "fcntl"), "it is free", 5)
