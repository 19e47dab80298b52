"""File volumes mounted by machines that are no nodes: with a key, through any node."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from conftest import SERVER, free_port
from nodes import LIMIT_S, Cluster, Node, wait_until
from test_exclusive import wait_for_copies

# The first of the addresses of this machine that the nodes of the cluster have; other tests use others.
FIRST_ADDRESS = "127.0.86.1"
CLUSTER_PORT = 9002
KIB = 1 << 10

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/dev/fuse"), reason="a mount for all users takes root and /dev/fuse"
)


@pytest.fixture
def folder():
    folder = Path(tempfile.mkdtemp(prefix="trilith-guests-"))
    try:
        yield folder
    finally:
        for point in ("guest", "node"):
            subprocess.run(["umount", "-l", str(folder / point)], capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


def trilith(*words, refused=None, key=None):
    """`trilith WORDS` on a machine without a server; what it says."""
    env = {**os.environ, "TRILITH_DATA": "/nonexistent"}
    if key is not None:
        env["TRILITH_VOLUME_KEY"] = key
    done = subprocess.run([SERVER, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, env=env)
    if refused is None:
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    else:
        assert done.returncode != 0 and refused in done.stderr, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def write(path, content):
    """A file that is durable when this returns."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def read(path):
    """A file's content, past the kernel's cache."""
    done = subprocess.run(["dd", f"if={path}", "bs=256K", "iflag=direct", "status=none"], capture_output=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_guest_of_a_cluster_goes_on_when_its_node_dies(folder):
    cluster = Cluster(folder, FIRST_ADDRESS)
    addresses = [f"{FIRST_ADDRESS.rsplit('.', 1)[0]}.{number}:{CLUSTER_PORT}" for number in (1, 2, 3)]
    guest, node = folder / "guest", folder / "node"
    guest.mkdir()
    node.mkdir()
    try:
        cluster.run(1, "volume", "create", "home", "--trees", "3")
        cluster.run(1, "volume", "create", "other")
        (folder / "key").write_text(cluster.run(2, "volume", "key", "home"))
        assert (folder / "key").read_text() == cluster.run(3, "volume", "key", "home"), "all nodes know the same key"
        # Only the first node is named: the others are learned from it.
        trilith("mount", "home", str(guest), "--cluster", addresses[0], "--key-file", str(folder / "key"), "--detach")
        cluster.run(3, "mount", "home", str(node), "--detach")

        content = os.urandom(700 * KIB + 13)
        write(guest / "from-guest", content)
        assert read(node / "from-guest") == content
        write(node / "from-node", content[::-1])
        assert read(guest / "from-node") == content[::-1]
        os.rename(guest / "from-node", guest / "renamed")
        assert sorted(os.listdir(node)) == ["from-guest", "renamed"]
        # Directories of all trees.
        for number in range(12):
            os.makedirs(guest / "folders" / str(number))
            write(guest / "folders" / str(number) / "file", content[:number])
        os.rename(guest / "folders" / "0" / "file", guest / "folders" / "11" / "moved")
        os.rmdir(guest / "folders" / "0")
        for number in range(1, 12):
            assert read(node / "folders" / str(number) / "file") == content[:number]
        assert read(node / "folders" / "11" / "moved") == b""

        cluster.kill(1)
        written = []

        def goes_on():
            name = f"after-{len(written)}"
            try:
                write(guest / name, name.encode())
            except OSError:
                return False
            written.append(name)
            return len(written) == 5

        wait_until(goes_on, "a guest finds another node")
        for name in written:
            assert read(node / name) == name.encode()
        assert read(guest / "from-guest") == content
        trilith("umount", str(guest))
        assert os.listdir(guest) == []
    finally:
        cluster.start(1)
        cluster.stop()


def test_a_key_opens_its_volume_and_nothing_else_over_tls(folder):
    guest = folder / "guest"
    guest.mkdir()
    address = f"127.0.0.1:{free_port()}"
    trilith("cluster", "init", "--tls", "--cluster-addr", address, "--data", str(folder / "data"))
    node = Node(folder, "1GiB")
    try:
        for name in ("home", "other"):
            node.run("volume", "create", name)
        keys = {name: node.run("volume", "key", name).strip() for name in ("home", "other")}
        mount = ("mount", "home", str(guest), "--cluster", address, "--detach")

        trilith(*mount, key=keys["other"], refused="the key is that of volume other")
        trilith(*mount, key=keys["home"][:-2] + ("00" if keys["home"][-2:] != "00" else "01"), refused="was not reached")
        trilith(*mount, key="trilith2.1.2", refused="the key of a volume looks like")
        trilith(*mount, refused="TRILITH_VOLUME_KEY")
        token = node.run("cluster", "token").strip()
        trilith(*mount, key=token, refused="the key of a volume looks like")
        # A key is no token: nothing joins with it.
        joining = ("cluster", "join", keys["home"], "--via", address, "--cluster-addr", f"127.0.0.1:{free_port()}")
        trilith(*joining, "--data", str(folder / "joins"), refused="token")
        assert os.listdir(guest) == [], "nothing was mounted"

        trilith(*mount, key=keys["home"])
        content = os.urandom(300 * KIB + 7)
        write(guest / "file", content)
        assert read(guest / "file") == content
        node.run("volume", "rm", "home", "--force")
        with pytest.raises(OSError):
            write(guest / "another", content)
    finally:
        node.stop()


def test_an_exclusive_mount_keeps_guests_out_and_guests_keep_nodes_out(folder):
    guest, node_point = folder / "guest", folder / "node"
    guest.mkdir()
    node_point.mkdir()
    address = f"127.0.0.1:{free_port()}"
    trilith("cluster", "init", "--cluster-addr", address, "--data", str(folder / "data"))
    node = Node(folder, "1GiB")
    try:
        # Each of the trees has to agree.
        node.run("volume", "create", "home", "--trees", "3")
        key = node.run("volume", "key", "home").strip()
        of_guest = ("mount", "home", str(guest), "--cluster", address, "--detach")
        of_node = ("mount", "home", str(node_point), "--detach")

        node.run(*of_node, "--exclusive")
        trilith(*of_guest, key=key, refused="has the volume for itself")
        trilith(*of_guest, "--exclusive", key=key, refused="has the volume for itself")
        node.run("umount", str(node_point))
        wait_for_copies(node_point)

        trilith(*of_guest, "--exclusive", key=key)
        for number in range(6):
            os.makedirs(guest / str(number))
            (guest / str(number) / "file").write_bytes(b"x" * number)
        node.run(*of_node, refused="has the volume for itself")
        trilith("umount", str(guest))
        wait_for_copies(guest)

        node.run(*of_node)
        trilith(*of_guest, "--exclusive", key=key, refused="other mounts use the volume")
        assert all((node_point / str(number) / "file").read_bytes() == b"x" * number for number in range(6))
        trilith(*of_guest, key=key)
        assert (guest / "5" / "file").read_bytes() == b"xxxxx"
    finally:
        node.kill()
