"""Servers of a test's own, which can be killed."""

import os
import signal
import subprocess
import time
import urllib.request

from conftest import SERVER, free_port, wait_until_it_listens

LIMIT_S = 120


class Node:
    """A server of its own, which can be killed."""

    def __init__(self, folder, device_size="2GiB", devices=()):
        """With files for its devices, or with the one in its data folder."""
        self.folder, self.device_size = folder, device_size
        self.devices = [folder / name for name in devices]
        self.data = folder / "data"
        self.s3, self.admin = free_port(), free_port()
        self.start()

    def start(self):
        command = [SERVER, "serve", "--data", str(self.data), "--device-size", self.device_size]
        command += ["--s3-addr", f"127.0.0.1:{self.s3}", "--admin-addr", f"127.0.0.1:{self.admin}"]
        command += self.named_devices()
        with open(self.folder / "server.log", "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until_it_listens(self.process, self.s3, self.folder)

    def named_devices(self):
        return ["--devices", ",".join(map(str, self.devices))] if self.devices else []

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        self.process.terminate()
        assert self.process.wait(timeout=30) == 0

    def run(self, *words, refused=None):
        """`trilith WORDS`; what it says. With `refused`, a part of the reason why it must not work."""
        done = subprocess.run(
            [SERVER, *words, "--data", str(self.data)], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S
        )
        if refused is None:
            assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        else:
            assert done.returncode != 0 and refused in done.stderr, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def metric(self, name):
        """The sum of all series of a name."""
        return self.metric_of(name + "{")

    def metric_of(self, series):
        """The sum of all series that begin so."""
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics").read().decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(series))


class Cluster:
    """Nodes, each of which can be killed."""

    def __init__(self, folder, first_address, nodes=3):
        """On as many addresses of this machine as there are nodes, from the first one on; each suite has its own."""
        self.folder, self.first_address = folder, first_address
        self.others = []
        self.begin(nodes)

    def begin(self, nodes):
        """Starts all nodes, as many as there are to be from now on."""
        command = [SERVER, "cluster", "dev", "--data", str(self.folder), "--nodes", str(nodes)]
        command += ["--device-size", "2GiB", "--first-addr", self.first_address]
        with open(self.folder / "dev.log", "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(lambda: "Start it again" in (self.folder / "dev.log").read_text(), "the cluster starts")

    def data(self, number):
        return self.folder / f"node-{number}"

    def pid(self, number):
        return int((self.data(number) / "trilith.pid").read_text())

    def kill(self, number):
        os.kill(self.pid(number), signal.SIGKILL)

    def start(self, number):
        command = [SERVER, "serve", "--data", str(self.data(number))]
        with open(self.folder / f"again-{number}.log", "ab") as log:
            self.others.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def run(self, number, *words):
        """`trilith WORDS` at a node. It may still be starting, or wait for another one to be silent for long enough."""
        command = [SERVER, *words, "--data", str(self.data(number))]
        end = time.monotonic() + LIMIT_S
        while True:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
            if done.returncode == 0:
                return done.stdout
            assert "Usage" not in done.stderr and time.monotonic() < end, f"{words}: {done.stdout}{done.stderr}"
            time.sleep(0.3)

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=30)
        for process in self.others:
            process.terminate()
        for process in self.others:
            process.wait(timeout=30)


def wait_until(is_so, what):
    end = time.monotonic() + LIMIT_S
    while not is_so():
        assert time.monotonic() < end, f"{what}: not within {LIMIT_S} s"
        time.sleep(0.3)
