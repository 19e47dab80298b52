"""Volumes mounted as mount(8) and /etc/fstab do it: the program by the name that mount(8) calls."""

import errno
import os
import subprocess
import time
from pathlib import Path

import pytest

from conftest import SERVER
from nodes import LIMIT_S
from test_files import FileNode, check, node, pytestmark  # noqa: F401


def call(node, options, *words, refused=None):
    """As mount(8) calls it: `mount.fuse.trilith SPEC DIR -o OPTIONS`. What it says on its output."""
    helper = node.folder / "mount.fuse.trilith"
    if not helper.exists():
        helper.symlink_to(SERVER)
    command = [str(helper), "home", str(node.mount), "-o", options, *words]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
    if refused is None:
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    else:
        assert done.returncode != 0 and refused in done.stderr, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def is_read_only(node):
    return bool(os.statvfs(node.mount).f_flag & os.ST_RDONLY)


def test_options_of_mount8(node):
    node.run("volume", "create", "home")
    data = f"data={node.data}"
    call(node, f"rw,noexec,{data}", refused="`noexec` is no option")
    call(node, f"rw,{data}", "-f")
    assert not os.path.ismount(node.mount)
    # A mount that went well says nothing: what mount(8) prints is the caller's.
    assert call(node, f"rw,nosuid,nodev,_netdev,x-systemd.automount,{data}") == ""
    node.wait_for_mount()
    (node.mount / "file").write_text("written")
    call(node, f"rw,{data}", refused="is a mount already")
    # It is changed where it is, and refused while a file is open for writing.
    with open(node.mount / "file", "a"):
        call(node, f"remount,ro,{data}", refused="busy")
    call(node, f"remount,ro,{data}")
    assert is_read_only(node)
    with pytest.raises(OSError) as failed:
        (node.mount / "other").touch()
    assert failed.value.errno == errno.EROFS
    call(node, f"remount,rw,{data}")
    (node.mount / "other").touch()
    check("umount", str(node.mount))
    assert "home is mounted" in call(node, f"ro,{data}", "-v")
    assert is_read_only(node)
    assert (node.mount / "file").read_text() == "written"


def test_a_mount_waits_for_its_server(node):
    node.run("volume", "create", "home")
    options = f"data={node.data},wait=1m,nofail"
    node.stop()
    started = time.monotonic()
    call(node, f"data={node.data},wait=1s", refused="is it running?")
    assert time.monotonic() - started >= 1
    helper = subprocess.Popen([str(node.folder / "mount.fuse.trilith"), "home", str(node.mount), "-o", options])
    time.sleep(1)
    assert helper.poll() is None
    node.start()
    assert helper.wait(timeout=LIMIT_S) == 0
    node.wait_for_mount()
    # The server mounts it by itself after a start, and mount(8) may come before or after that.
    node.stop()
    check("umount", "-l", str(node.mount))
    node.start()
    call(node, options)
    node.wait_for_mount()
    # One that was ended is mounted again, however lately it was.
    check("umount", str(node.mount))
    call(node, options)
    assert os.path.ismount(node.mount)
    call(node, options)
    listed = [line for line in node.run("mount", "--ls").splitlines() if str(node.mount) in line]
    assert len(listed) == 1 and "kept" in listed[0]
    assert Path("/proc/mounts").read_text().count(f" {node.mount} ") == 1
