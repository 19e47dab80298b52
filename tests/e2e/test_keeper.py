"""Mounts that outlive their server: programs go on over kills and stops, each call has one effect, and a person can end a mount without a server."""

import errno
import hashlib
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import SERVER
from nodes import LIMIT_S
from test_files import MIB, FileNode, node, pytestmark  # noqa: F401

# Appends numbered records; reads a long listing, piece by piece; works in a folder of the mount. Ends at SIGTERM.
RECORDS = """
import os, signal, sys
going = True
def end(*_):
    global going
    going = False
signal.signal(signal.SIGTERM, end)
os.chdir(sys.argv[1])
log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
names = {f"entry-{number}" for number in range(3000)}
number, found, stream = 0, set(), os.scandir("../many")
print("begun", flush=True)
while going:
    assert os.write(log, b"%09d\\n" % number) == 10
    os.fsync(log)
    number += 1
    for _ in range(10):
        entry = next(stream, None)
        if entry is None:
            assert found == names, (names - found, found - names)
            found, stream = set(), os.scandir("../many")
            continue
        assert entry.name not in found, entry.name
        found.add(entry.name)
    if number % 50 == 0:
        assert os.getcwd() == sys.argv[1]
print(number)
"""

# Each name is made and removed: what has happened twice fails.
NAMES = """
import os, signal, sys
going = True
def end(*_):
    global going
    going = False
signal.signal(signal.SIGTERM, end)
os.chdir(sys.argv[1])
number = 0
print("begun", flush=True)
while going:
    os.mkdir(f"d{number}")
    with open(f"d{number}/f", "xb") as file:
        file.write(b"x" * 5000)
    os.setxattr(f"d{number}/f", "user.a", b"1", os.XATTR_CREATE)
    os.link(f"d{number}/f", f"g{number}")
    os.rename(f"d{number}/f", f"h{number}")
    assert os.stat(f"h{number}").st_nlink == 2
    os.removexattr(f"h{number}", "user.a")
    os.unlink(f"g{number}")
    os.rmdir(f"d{number}")
    assert os.stat(f"h{number}").st_size == 5000
    os.unlink(f"h{number}")
    number += 1
print(number)
"""


@contextmanager
def program(text, folder):
    """A program that runs in a folder of the mount; `end` has it end in order, and returns the number that it says."""
    process = subprocess.Popen(
        [sys.executable, "-c", text, str(folder)], cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )

    def end():
        process.terminate()
        said, errors = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 0, errors
        return int(said)

    try:
        assert process.stdout.readline() == "begun\n", process.communicate(timeout=LIMIT_S)[1]
        yield end
    finally:
        if process.poll() is None:
            process.kill()


# Holds files open. In a program of its own: one that starts another closes what is open in the copy of itself, and waits for that.
HOLDER = """
import os, sys
for line in sys.stdin:
    try:
        print(repr(eval(line)), flush=True)
    except OSError as error:
        print(repr(error.errno), flush=True)
"""


class Holder:
    """A program that is told what to do, a line at a time."""

    def __init__(self):
        words = [sys.executable, "-c", HOLDER]
        self.process = subprocess.Popen(words, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def do(self, line):
        self.tell(line)
        return eval(self.process.stdout.readline())

    def open(self, path, flags):
        return self.do(f"os.open({str(path)!r}, {flags})")


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


def wait_until(is_so, what):
    until = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < until, what
        time.sleep(0.05)


def is_mounted(node):
    return f" {node.mount} fuse" in Path("/proc/mounts").read_text()


def stop(node):
    node.stop()


def kill(node):
    node.kill()


def begin(node):
    node.run("volume", "create", "home")
    node.mount_volume()


@pytest.mark.parametrize("ending", [kill, stop])
def test_programs_go_on_over_servers_and_each_call_has_one_effect(node, ending):
    begin(node)
    folder, many = node.mount / "folder", node.mount / "many"
    folder.mkdir()
    many.mkdir()
    for number in range(3000):
        (many / f"entry-{number}").touch()
    with program(RECORDS, folder) as end_records, program(NAMES, folder) as end_names:
        for _round in range(4):
            time.sleep(1.5)
            ending(node)
            assert is_mounted(node)
            node.start()
        time.sleep(1.5)
        records, names = end_records(), end_names()
    assert (folder / "log").read_bytes() == b"".join(b"%09d\n" % number for number in range(records))
    assert os.listdir(folder) == ["log"]
    assert names > 20
    node.run("umount", str(node.mount))
    wait_until(lambda: not keepers(node), "the mount keeper stays without mounts")


@pytest.mark.parametrize("ending", [kill, stop])
def test_a_removed_file_that_is_open_outlives_the_server(node, ending):
    begin(node)
    content = os.urandom(32 * MIB)
    for name in ["removed", "later"]:
        (node.mount / name).write_bytes(content)
    with Holder() as holder:
        files = [holder.open(node.mount / name, "os.O_RDWR") for name in ["removed", "later"]]
        os.unlink(node.mount / "removed")
        ending(node)
        node.start()
        # The server that runs now was not told that it is open.
        os.unlink(node.mount / "later")
        for file in files:
            digest = f"__import__('hashlib').sha256(os.pread({file}, {32 * MIB}, 0)).hexdigest()"
            assert holder.do(digest) == hashlib.sha256(content).hexdigest()
            assert holder.do(f"os.fstat({file}).st_nlink") == 0
        assert "64.0 MiB" in node.run("volume", "info", "home")
    wait_until(lambda: node.metric("trilith_file_content_bytes") == 0, "the space of a removed file does not come back")


def test_a_keeper_that_dies_is_replaced(node):
    begin(node)
    with Holder() as holder:
        file = holder.open(node.mount / "f", "os.O_WRONLY | os.O_APPEND | os.O_CREAT")
        assert holder.do(f"os.write({file}, b'one ')") == 4
        (first,) = keepers(node)
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: keepers(node) not in ([], [first]), "no other keeper is started")
        assert holder.do(f"os.write({file}, b'two ')") == 4
        wait_until(lambda: "another one keeps" in (node.folder / "server.log").read_text(), "it keeps nothing")
        node.kill()
        holder.tell(f"os.write({file}, b'three')")
        node.start()
        assert eval(holder.process.stdout.readline()) == 5
    assert (node.mount / "f").read_bytes() == b"one two three"
    # Both at once: the next start mounts anew.
    for keeper in keepers(node):
        os.kill(keeper, signal.SIGKILL)
    node.kill()
    wait_until(lambda: not keepers(node), "it was killed")
    with pytest.raises(OSError):
        os.listdir(node.mount)
    node.start()
    node.wait_for_mount()
    assert (node.mount / "f").read_bytes() == b"one two three"


@pytest.mark.parametrize("way", ["trilith umount --force", "trilith umount", "umount -l", "fusermount3 -uz"])
def test_a_person_ends_a_mount_that_no_server_serves(node, way):
    begin(node)
    (node.mount / "f").write_bytes(b"x")
    node.kill()
    command = way.split()
    with Holder() as holder:
        if "--force" in command:
            # It waits for a server, until the mount is ended.
            holder.tell(f"os.listdir({str(node.mount)!r})")
            time.sleep(1)
        if command[0] == "trilith":
            node.run(*command[1:], str(node.mount))
        else:
            subprocess.run([*command, str(node.mount)], check=True, timeout=LIMIT_S)
        assert not is_mounted(node)
        if "--force" in command:
            assert eval(holder.process.stdout.readline()) in [errno.ECONNABORTED, errno.ENOTCONN]
    wait_until(lambda: not keepers(node), "the mount keeper stays without mounts")
    node.start()
    node.wait_for_mount()
    assert (node.mount / "f").read_bytes() == b"x"


def test_a_mount_in_the_foreground_outlives_the_server_too(node):
    node.run("volume", "create", "home")
    words = [SERVER, "mount", "home", str(node.mount), "--data", str(node.data)]
    command = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert "is mounted" in command.stdout.readline()
        with Holder() as holder:
            file = holder.open(node.mount / "f", "os.O_WRONLY | os.O_APPEND | os.O_CREAT")
            node.kill()
            time.sleep(2)
            node.start()
            assert holder.do(f"os.write({file}, b'one')") == 3
        assert (node.mount / "f").read_bytes() == b"one"
        assert command.poll() is None
        command.send_signal(signal.SIGINT)
        assert command.wait(timeout=LIMIT_S) == 0
        assert not is_mounted(node)
        wait_until(lambda: not keepers(node), "the mount keeper stays without mounts")
    finally:
        command.kill()


def test_a_mount_that_was_detached_in_use_stays_usable(node):
    begin(node)
    with Holder() as holder:
        file = holder.open(node.mount / "f", "os.O_WRONLY | os.O_APPEND | os.O_CREAT")
        assert holder.do(f"os.write({file}, b'one ')") == 4
        node.run("umount", str(node.mount), "--lazy")
        node.kill()
        node.start()
        assert holder.do(f"os.write({file}, b'two')") == 3
        assert not is_mounted(node)
    wait_until(lambda: not keepers(node), "the mount keeper stays without mounts")
    node.mount_volume()
    assert (node.mount / "f").read_bytes() == b"one two"


def test_a_folder_is_free_when_it_is_unmounted_though_a_container_has_a_copy_of_the_mount(node):
    begin(node)
    (node.mount / "kept").write_text("here")
    # As a container that is started later: it has all mounts of that moment until it ends.
    words = ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", "print(1, flush=True); input()"]
    container = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert container.stdout.readline() == b"1\n"
        subprocess.run(["umount", str(node.mount)], check=True, timeout=LIMIT_S)
        node.mount_volume()
        assert (node.mount / "kept").read_text() == "here"
        subprocess.run(["umount", str(node.mount)], check=True, timeout=LIMIT_S)
        wait_until(lambda: str(node.mount) not in node.run("mount", "--ls"), "the server notices that the folder is free")
    finally:
        container.communicate(b"\n", timeout=LIMIT_S)


def test_locks_outlive_the_server(node):
    begin(node)
    (node.mount / "f").write_bytes(b"x")
    with Holder() as holder, Holder() as waiter:
        held, wanted = (one.open(node.mount / "f", "os.O_RDWR") for one in [holder, waiter])
        assert holder.do(f"__import__('fcntl').flock({held}, 2)") is None
        assert holder.do(f"__import__('fcntl').lockf({held}, 2)") is None
        waiter.tell(f"[__import__('fcntl').flock({wanted}, 2), __import__('fcntl').lockf({wanted}, 2)]")
        time.sleep(1)
        node.kill()
        node.start()
        assert subprocess.run(["flock", "-n", str(node.mount / "f"), "true"], timeout=LIMIT_S).returncode == 1
        assert holder.do(f"os.close({held})") is None
        assert eval(waiter.process.stdout.readline()) == [None, None]
