"""The few faults that `./test` makes, and when it can't make them."""

import dataclasses
import os
import shutil
import subprocess

import judge

# A process that dies, and links that break, of the nodes that it costs most to lose and least.
FAULTS = ("kill: the manager's leader", "link: a node from all, both ways")
# The same with files on mounts, at the node that serves their contents.
FILE_FAULTS = ("files: kill: the node that serves contents", "files: link: the node that serves contents from all, both ways")
# Nobody is timed: the machine may be slow and the build unoptimised. Service has to come back all the same.
BARS = judge.Bars(serving=2, outage=30.0, back=60.0)
# The exit code of what was left out, by an old custom of test runners.
LEFT_OUT = 77


def some_of(faults):
    chosen = FAULTS + FILE_FAULTS if os.path.exists("/dev/fuse") else FAULTS
    return [dataclasses.replace(fault, bars=BARS) for fault in faults if fault.name in chosen]


def reason_against():
    """Why there can be no network namespaces here, as far as can be told without making one."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not shutil.which("ip"):
        return "network namespaces need `ip` (the package iproute2)"
    if not shutil.which("nsenter"):
        return "network namespaces need `nsenter` (the package util-linux)"
    return None


def error_of(make):
    try:
        make()
    except (subprocess.CalledProcessError, OSError) as error:
        return error
    return None
