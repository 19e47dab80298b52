"""A quota of a volume is about all of its trees together."""

import errno
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from nodes import Node

TREES = 3
INODES = 60
# So many are made before each tree has asked the others what they have.
AT_ONCE = 10
# Longer than from one such question to the next, and until its answer is noted.
ASKED_S = 2.5

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/dev/fuse"), reason="a mount for all users takes root and /dev/fuse"
)


@pytest.fixture
def node():
    folder = Path(tempfile.mkdtemp(prefix="trilith-file-tree-quotas-"))
    node = Node(folder)
    yield node
    subprocess.run(["umount", "-l", str(folder / "mount")], capture_output=True)
    node.process.kill()
    shutil.rmtree(folder, ignore_errors=True)


def make(mount, numbers):
    """Directories, which are spread over the trees, with a file in each; how many inodes were made until the quota refused one, and whether it did."""
    made = 0
    for number in numbers:
        for call in ((mount / f"d{number}").mkdir, (mount / f"d{number}" / "f").touch):
            try:
                call()
            except OSError as error:
                assert error.errno == errno.EDQUOT, error
                return made, True
            made += 1
    return made, False


def test_a_quota_of_inodes_counts_all_trees(node):
    mount = node.folder / "mount"
    mount.mkdir()
    node.run("volume", "create", "home", "--trees", str(TREES), "--inodes", str(INODES))
    node.run("mount", "home", str(mount), "--detach")
    made, is_refused, first = 1, False, 0
    while not is_refused:
        assert made < INODES + AT_ONCE, "no tree alone has so many"
        more, is_refused = make(mount, range(first, first + AT_ONCE // 2))
        made, first = made + more, first + AT_ONCE // 2
        time.sleep(ASKED_S)
    assert INODES <= made <= INODES + AT_ONCE
    state = os.statvfs(mount)
    assert state.f_files - state.f_ffree == made
    # What goes in one tree makes room in all.
    for number in range(AT_ONCE):
        shutil.rmtree(mount / f"d{number}")
    time.sleep(ASKED_S)
    assert make(mount, range(AT_ONCE // 2)) == (AT_ONCE, False)
