"""Volumes of several trees: names over two mounts against a folder of this machine, while servers and leaders are killed; and volumes that get trees."""

import errno
import itertools
import multiprocessing
import os
import random
import re
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from nodes import LIMIT_S, Cluster, Node, wait_until

# The first of as many addresses of this machine as there are nodes; other tests use the first ones of it.
FIRST_ADDRESS = "127.0.91.1"
NAMES = [f"n{number}" for number in range(6)]
# Directories below each other.
DEPTH = 4
STEPS = 1500

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/dev/fuse"), reason="a mount for all users takes root and /dev/fuse"
)


class Names:
    """Random changes of names, made through mounts in turn and in a folder that is no mount. Each has the same outcome."""

    def __init__(self, mounts, reference, seed):
        self.mounts, self.reference, self.random = mounts, reference, random.Random(seed)
        self.outcomes = {}

    def path(self, root, depth):
        """A path that there may be: mostly one that goes on where there is a directory."""
        path = Path()
        for _ in range(self.random.randint(0, depth)):
            there = [entry for entry in NAMES if (root / path / entry).is_dir()]
            if not there:
                break
            path /= self.random.choice(there)
        return path / self.random.choice(NAMES)

    def step(self):
        one, two = self.path(self.reference, DEPTH), self.path(self.reference, DEPTH)
        what = self.random.choice(["mkdir", "mkdir", "write", "link", "unlink", "rmdir", "rename", "rename", "rename"])
        mount = self.random.choice(self.mounts)
        outcomes = [self.carry_out(root, what, one, two) for root in (self.reference, mount)]
        if outcomes[1] == errno.ESTALE and what == "rename":
            # Within a rename, the kernel of a mount does not take in that another mount has moved a directory. It does so when it is asked for it.
            for path in (one, two):
                os.path.lexists(mount / path)
            outcomes[1] = self.carry_out(mount, what, one, two)
        assert outcomes[0] == outcomes[1], (what, one, two, outcomes)
        self.outcomes[what, outcomes[0]] = self.outcomes.get((what, outcomes[0]), 0) + 1

    @staticmethod
    def carry_out(root, what, one, two):
        try:
            match what:
                case "mkdir":
                    os.mkdir(root / one)
                case "write":
                    with open(root / one, "ab") as file:
                        file.write(str(one).encode())
                case "link":
                    os.link(root / one, root / two)
                case "unlink":
                    os.unlink(root / one)
                case "rmdir":
                    os.rmdir(root / one)
                case "rename":
                    os.rename(root / one, root / two)
        except OSError as error:
            return error.errno
        return "done"

    def run(self, steps, meanwhile=lambda: None):
        """In a process of its own: what starts a server must have nothing open on its mounts."""
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
            done = pool.submit(steps_of, self, steps)
            meanwhile()
            vars(self).update(done.result())

    def check(self):
        expected = whole(self.reference)
        for mount in self.mounts:
            assert whole(mount) == expected
            check_links(mount)
        done = {what for what, outcome in self.outcomes if outcome == "done"}
        assert done == {"mkdir", "write", "link", "unlink", "rmdir", "rename"}, self.outcomes
        assert len(expected) > 20, expected


def steps_of(names, steps):
    for _ in range(steps):
        names.step()
    return vars(names)


def whole(root):
    """All that is below a folder: names, kinds, links and contents, and which names are one file. A directory has a link for each one in it, and two."""
    found, inodes = {}, {}
    for folder, folders, files in os.walk(root):
        at = Path(folder).relative_to(root)
        found[at] = len(folders) + 2
        folders.sort()
        for name in sorted(files):
            path = Path(folder) / name
            state = path.stat()
            first = inodes.setdefault(state.st_ino, at / name)
            found[at / name] = (state.st_nlink, first, path.read_bytes())
    return found


def check_links(mount):
    """What `stat` says of directories."""
    for path, links in whole(mount).items():
        if (mount / path).is_dir():
            assert os.stat(mount / path).st_nlink == links, path


def trees(info):
    """The inodes of each tree, and the node that leads it, as `volume info` says."""
    return [(int(inodes), leader) for inodes, leader in re.findall(r"^ +tree \d+: (\d+) files, led by (\S+)$", info, re.MULTILINE)]


def left(info):
    """All inodes. What was removed is there as long as a mount may have it open."""
    return sum(inodes for inodes, _ in trees(info))


def inodes_of(mount):
    """What `df -i` says is used."""
    state = os.statvfs(mount)
    return state.f_files - state.f_ffree


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


def check_programs(mount, reference):
    """What walks over all trees."""
    found = [sorted(run("find", root, "-printf", "%P %y\n").split("\n")) for root in (mount, reference)]
    assert found[0] == found[1]
    assert int(run("du", "-s", "--apparent-size", "-B1", mount).split()[0]) > 0


@pytest.fixture
def folder():
    folder = Path(tempfile.mkdtemp(prefix="trilith-file-trees-"))
    yield folder
    for mount in folder.glob("mount-*"):
        subprocess.run(["umount", "-l", str(mount)], capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)


def made(folder, *names):
    paths = [folder / name for name in names]
    for path in paths:
        path.mkdir()
    return paths


@pytest.fixture
def node(folder):
    node = Node(folder)
    yield node
    node.process.kill()


def test_names_of_three_trees_through_two_mounts_of_a_server_that_is_killed(folder, node):
    one, two, reference = made(folder, "mount-1", "mount-2", "reference")
    node.run("volume", "create", "home", "--trees", "3")
    for mount in (one, two):
        node.run("mount", "home", str(mount), "--detach")
    assert len(trees(node.run("volume", "info", "home"))) == 3
    names = Names([one, two], reference, 1)
    names.run(STEPS)
    for kill in range(3):

        def killed(kill=kill):
            """In the middle of calls, which the next server answers."""
            time.sleep(0.2 + 0.3 * kill)
            node.kill()
            node.start()

        names.run(STEPS // 3, killed)
    names.check()
    counts = [inodes for inodes, _ in trees(node.run("volume", "info", "home"))]
    assert min(counts) > 0 and sum(counts) == inodes_of(one), counts
    check_programs(one, reference)
    run("rm", "-r", *(one / name for name in os.listdir(one)))
    assert os.listdir(two) == []
    for mount in (one, two):
        node.run("umount", str(mount))
    wait_until(lambda: left(node.run("volume", "info", "home")) == 1, "the root alone is left")
    node.stop()


def test_names_of_three_trees_in_a_cluster_whose_leaders_are_killed(folder):
    one, two, reference = made(folder, "mount-1", "mount-2", "reference")
    cluster = Cluster(folder, FIRST_ADDRESS)
    try:
        cluster.run(1, "volume", "create", "home", "--trees", "3")
        for number, mount in ((1, one), (2, two)):
            cluster.run(number, "mount", "home", str(mount), "--detach")
        names = Names([one, two], reference, 2)
        names.run(STEPS // 2)
        for number in (3, 1, 2):
            leaders = [leader for _, leader in trees(cluster.run(number, "volume", "info", "home"))]
            assert len(leaders) == 3, leaders

            def killed(number=number):
                time.sleep(0.2)
                cluster.kill(number)
                time.sleep(1)
                cluster.start(number)

            names.run(STEPS // 5, killed)
            wait_until(lambda: len(trees(cluster.run(1, "volume", "info", "home"))) == 3, "all trees are led")
        names.check()
        check_programs(two, reference)
        run("rm", "-r", *(two / name for name in os.listdir(two)))
        assert os.listdir(one) == []
        for number, mount in ((1, one), (2, two)):
            cluster.run(number, "umount", str(mount))
        wait_until(lambda: left(cluster.run(3, "volume", "info", "home")) == 1, "the root alone is left")
    finally:
        cluster.stop()


def test_a_volume_gets_trees_as_it_grows(folder, monkeypatch):
    monkeypatch.setenv("TRILITH_TREE_INODES", "40")
    node = Node(folder)
    try:
        (mount,) = made(folder, "mount-1")
        node.run("volume", "create", "home", "--inodes", "1000")
        node.run("mount", "home", str(mount), "--detach")
        count = lambda: len(trees(node.run("volume", "info", "home")))  # noqa: E731
        assert count() == 1
        numbers = itertools.count()

        def is_grown(wanted):
            folder = mount / f"d{next(numbers)}"
            folder.mkdir()
            (folder / "f").write_text(folder.name)
            return count() >= wanted

        for wanted in (2, 3):
            wait_until(lambda wanted=wanted: is_grown(wanted), f"the volume has {wanted} trees")
        # A new directory goes to the newest tree, since the others are full.
        newest = lambda: trees(node.run("volume", "info", "home"))[-1][0]  # noqa: E731
        before = newest()

        def is_used():
            (mount / f"more-{len(os.listdir(mount))}").mkdir()
            return newest() > before

        wait_until(is_used, "the newest tree gets directories")
        for number in range(next(numbers)):
            assert (mount / f"d{number}" / "f").read_text() == f"d{number}"
        # The quota is of all trees together.
        with pytest.raises(OSError, match="quota"):
            for number in range(2000):
                (mount / "d0" / f"q{number}").touch()
        assert 950 <= inodes_of(mount) <= 1000 + count() * 200
        node.kill()
        node.start()
        run("rm", "-r", *(mount / name for name in os.listdir(mount)))
        wait_until(lambda: inodes_of(mount) == 1, "the root alone is left")
        node.run("umount", str(mount))
        node.run("volume", "rm", "home", "--force")
        wait_until(lambda: "home" not in node.run("volume", "ls"), "it is removed")
        node.stop()
    finally:
        node.process.kill()
