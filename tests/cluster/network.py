"""Network namespaces of their own for a switch, three nodes and the clients, and what can be wrong between them.

```text
    trilith-hosts-switch          n1 ── v1 ┐
      bridge                     n2 ── v2 ┼─ br ── v4 ── client        a wire that does badly is put between v and br:
                                  n3 ── v3 ┘                            v2 ── wire.py ── w2 ══ b2 ── br
```

Nothing of the machine's own network is touched: the bridge too is in a namespace. A cut is a neighbour entry with an address that nobody
has: packets leave and are lost, and nobody is told, as with a broken switch.
"""

import ctypes
import os
import pathlib
import subprocess
import sys

PREFIX = "trilith-hosts-"
BRIDGE = "bridge0"
SWITCH = PREFIX + "switch"
CLIENT = 3
HOSTS = [PREFIX + name for name in ("n1", "n2", "n3", "client")]
NODES = [0, 1, 2]
NOBODY = "02:00:00:00:00:99"
CLONE_NEWNET = 0x40000000
WIRE = pathlib.Path(__file__).with_name("wire.py")


def address(host):
    return f"10.231.18.{host + 1}"


def sh(*words, **options):
    return subprocess.run([str(word) for word in words], check=True, text=True, **options)


def inside(host, *words):
    """A command line that runs in a host's namespace of networks, and in no other: what it mounts is seen by everybody."""
    return ["nsenter", f"--net=/run/netns/{HOSTS[host]}", *(str(word) for word in words)]


def switch(*words):
    sh("ip", "-n", SWITCH, *words)


def make():
    remove()
    for name in [SWITCH, *HOSTS]:
        sh("ip", "netns", "add", name)
    switch("link", "add", BRIDGE, "type", "bridge")
    switch("link", "set", BRIDGE, "up")
    for host, name in enumerate(HOSTS):
        switch("link", "add", f"v{host}", "type", "veth", "peer", "name", "eth0", "netns", name)
        switch("link", "set", f"v{host}", "master", BRIDGE, "up")
        switch("link", "add", f"w{host}", "type", "veth", "peer", "name", f"b{host}")
        switch("link", "set", f"b{host}", "up")
        switch("link", "set", f"w{host}", "up")
        sh("ip", "-n", name, "addr", "add", f"{address(host)}/24", "dev", "eth0")
        sh("ip", "-n", name, "link", "set", "eth0", "up")
        sh("ip", "-n", name, "link", "set", "lo", "up")


def remove():
    for name in [SWITCH, *HOSTS]:
        subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)


def enter_clients():
    """From here on this process, and whatever it starts, is on the clients' host."""
    namespace = os.open(f"/run/netns/{HOSTS[CLIENT]}", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    os.close(namespace)


def cut(sender, receiver):
    """What sender sends to receiver is lost."""
    words = ["neigh", "replace", address(receiver), "lladdr", NOBODY, "nud", "permanent", "dev", "eth0"]
    sh("ip", "-n", HOSTS[sender], *words)


def heal():
    """Ends all cuts."""
    for name in HOSTS:
        sh("ip", "-n", name, "neigh", "flush", "nud", "permanent", "dev", "eth0")


def swap_port(former, later):
    """The bridge forgets whom it has heard behind the former."""
    switch("link", "set", former, "nomaster")
    switch("link", "set", later, "master", BRIDGE)


class BadWires:
    """Wires to these hosts delay, lose, repeat and reorder; until they are mended."""

    def __init__(self, hosts, *words):
        self.wires = []
        for host in hosts:
            swap_port(f"v{host}", f"b{host}")
            command = ["ip", "netns", "exec", SWITCH, sys.executable, str(WIRE), f"v{host}", f"w{host}", *words]
            self.wires.append((host, subprocess.Popen(command)))

    def mend(self):
        for host, wire in self.wires:
            ended = wire.poll()
            wire.terminate()
            wire.wait()
            swap_port(f"b{host}", f"v{host}")
            if ended is not None:
                raise RuntimeError(f"the wire of host {host} ended with {ended}")
