"""File volumes of class `ordered`: what was answered outlives a killed server, and what is in force is told."""

import os
import subprocess
import sys
import time

from conftest import SERVER
from nodes import LIMIT_S, Cluster
from test_files import FileNode, node, pytestmark  # noqa: F401

# Makes, renames, links and removes names without one fsync, and notes each step that was answered. The note is in the kernel's memory: a killed server does not take it.
STEPS = """
import os, sys
folder, note = sys.argv[1], os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.makedirs(folder)
os.chdir(folder)
for number in range(10**6):
    os.close(os.open(f"a{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    os.write(note, b"made\\n")
    os.rename(f"a{number}", f"b{number}")
    os.write(note, b"renamed\\n")
    if number >= 20:
        os.unlink(f"b{number - 20}")
        os.write(note, b"removed\\n")
"""


def begin(node):
    node.run("volume", "create", "home", "--class", "ordered")
    node.mount_volume()
    until = time.monotonic() + 10
    while "ordered\n" not in node.run("volume", "info", "home"):
        assert time.monotonic() < until, node.run("volume", "info", "home")
        time.sleep(0.1)


def expected(steps):
    """The names after so many steps."""
    names, number = set(), 0
    for step in range(steps):
        kind = step % 2 if step < 40 else (step - 40) % 3
        number = step // 2 if step < 40 else 20 + (step - 40) // 3
        if kind == 0:
            names.add(f"a{number}")
        elif kind == 1:
            names.remove(f"a{number}")
            names.add(f"b{number}")
        else:
            names.remove(f"b{number - 20}")
    return names


def answered(note):
    return note.read_text().count("\n")


def test_what_was_answered_outlives_killed_servers(node, tmp_path):
    begin(node)
    for life in range(6):
        notes = [tmp_path / f"note-{life}-{number}" for number in range(2)]
        folders = [node.mount / f"life-{life}" / f"program-{number}" for number in range(2)]
        programs = [
            subprocess.Popen([sys.executable, "-c", STEPS, str(folder), str(note)], stdin=subprocess.DEVNULL)
            for folder, note in zip(folders, notes)
        ]
        until = time.monotonic() + 60
        while not all(note.exists() and answered(note) > 200 for note in notes):
            assert time.monotonic() < until, "the programs get on"
            time.sleep(0.01)
        node.kill()
        for program in programs:
            program.kill()
        # A program that waits for the kernel's answer ends when there is a server.
        node.start()
        for program in programs:
            program.wait(timeout=60)
        node.wait_for_mount()
        for folder, note in zip(folders, notes):
            steps, found = answered(note), set(os.listdir(folder))
            # The call under way was carried out, or not, and each answered one was.
            assert found in [expected(steps), expected(steps + 1)], (steps, sorted(found)[:5], sorted(found)[-5:])
    # A stop in order leaves the same.
    names = {str(folder): sorted(os.listdir(folder)) for folder in node.mount.glob("life-*/*")}
    node.stop()
    node.start()
    node.wait_for_mount()
    assert names == {str(folder): sorted(os.listdir(folder)) for folder in node.mount.glob("life-*/*")}


# Writes files and renames them, removes some, and syncs its folder now and then. What has happened twice, or not at all, fails.
FILES = """
import os, sys
os.makedirs(sys.argv[1])
os.chdir(sys.argv[1])
for step in range(120):
    with open(f"{step}.part", "xb") as file:
        file.write(b"x" * (step * 2000))
    os.rename(f"{step}.part", f"{step}")
    if step % 3 == 2:
        os.unlink(f"{step - 2}")
        folder = os.open(".", os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
"""


def test_programs_go_on_over_killed_servers_and_contents_stay(node):
    begin(node)
    folders = [node.mount / f"program-{number}" for number in range(3)]
    programs = [subprocess.Popen([sys.executable, "-c", FILES, str(folder)], stdin=subprocess.DEVNULL) for folder in folders]
    for _ in range(3):
        time.sleep(0.5)
        node.kill()
        node.start()
    for program in programs:
        assert program.wait(timeout=LIMIT_S) == 0
    node.kill()
    node.start()
    node.wait_for_mount()
    for folder in folders:
        assert sorted(map(int, os.listdir(folder))) == [step for step in range(120) if step % 3 != 0]
        assert all((folder / f"{step}").stat().st_size == step * 2000 for step in [1, 59, 119])
        assert (folder / "119").read_bytes() == b"x" * 238_000


def test_the_default_class_and_what_is_refused(node):
    node.run("volume", "create", "plain")
    assert "class      synchronous\n" in node.run("volume", "info", "plain")
    node.run("volume", "create", "odd", "--class", "asynchronous", refused="possible values: synchronous, ordered")
    node.run("volume", "create", "odd", "--class", "ordered", "--copies", "3", refused="unexpected argument '--copies'")


def test_a_cluster_refuses_the_class(tmp_path):
    cluster = Cluster(tmp_path, "127.0.93.1", nodes=3)
    try:
        # The cluster serves when this is answered.
        cluster.run(1, "volume", "create", "home")
        words = [SERVER, "volume", "create", "other", "--class", "ordered", "--data", str(cluster.data(1))]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
        assert done.returncode != 0 and "class ordered is for a server of its own" in done.stderr, done.stderr
    finally:
        cluster.stop()
