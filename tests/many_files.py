"""Fills a file volume of a server of its own with many small files, and says what that costs: time, memory, lists, a start.

    sudo TRILITH_BIN=target/release/trilith python3 tests/many_files.py FOLDER [--files 1000000] [--directories 1] [--processes 4] [--bytes 0]

FOLDER is made, and holds the server's data. Takes root, for the mount and to drop the kernel's caches.
"""

import argparse
import os
import signal
import subprocess
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

BIN = os.environ.get("TRILITH_BIN", "target/release/trilith")
STEP = 100_000
LISTS = (10_000, 100_000)
STATS = 10_000


class Server:
    def __init__(self, folder):
        self.data, self.mount, self.log = folder / "data", folder / "mount", folder / "log"
        self.mount.mkdir(parents=True)
        self.process = None

    def start(self):
        ports = ["--s3-addr", "127.0.0.1:19875", "--admin-addr", "127.0.0.1:19876"]
        with open(self.log, "ab") as log:
            command = [BIN, "serve", "--data", str(self.data), "--device-size", "16GiB", *ports]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def run(self, *words):
        subprocess.run([BIN, *words, "--data", str(self.data)], check=True, capture_output=True, timeout=120)

    def try_for(self, seconds, work):
        until = time.monotonic() + seconds
        while True:
            try:
                return work()
            except (OSError, subprocess.CalledProcessError):
                if time.monotonic() > until:
                    raise
                time.sleep(0.01)

    def end(self, how):
        self.process.send_signal(how)
        self.process.wait()

    def resident(self):
        """Bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    def remount(self):
        self.run("umount", str(self.mount))
        self.run("mount", "home", str(self.mount), "--detach")


def make(job):
    """Makes files; the longest that one took, in seconds."""
    folder, first, end, size = job
    longest, content = 0, b"x" * size
    for number in range(first, end):
        began = time.perf_counter()
        file = os.open(f"{folder}/file-{number:08}", os.O_CREAT | os.O_WRONLY | os.O_EXCL)
        if size:
            os.write(file, content)
        os.close(file)
        longest = max(longest, time.perf_counter() - began)
    return longest


def fill(server, pool, options, folders):
    before, done = server.resident(), 0
    while done < options.files:
        step = min(STEP, options.files - done)
        part = step // options.processes
        shares = [(done + part * number, done + part * (number + 1)) for number in range(options.processes)]
        jobs = [(folders[(done // STEP + number) % len(folders)], *share, options.bytes) for number, share in enumerate(shares)]
        began = time.monotonic()
        longest = max(pool.map(make, jobs))
        rate = part * options.processes / (time.monotonic() - began)
        done += step
        resident = server.resident()
        print(
            f"{done:>9} files: {rate:6.0f} a second, longest {longest * 1000:4.0f} ms,"
            f" {resident >> 20} MiB resident, {(resident - before) / done:.0f} bytes a file",
            flush=True,
        )


def lists(server, what):
    for folder in sorted(server.mount.iterdir(), key=lambda folder: folder.name):
        if folder.name.startswith("many-"):
            continue
        began = time.monotonic()
        count = sum(1 for _ in os.scandir(folder))
        print(f"{what}: {folder.name} has {count} names, listed in {time.monotonic() - began:.2f} s", flush=True)


def stats(server, options, folder):
    """Of names that the mount has not seen: it is a new one."""
    server.remount()
    numbers = range(0, options.files // options.processes, max(1, options.files // options.processes // STATS))
    began = time.monotonic()
    for number in numbers:
        os.stat(f"{folder}/file-{number:08}")
    print(f"stat of {len(numbers)} names on a new mount: {len(numbers) / (time.monotonic() - began):.0f} a second", flush=True)


def starts(server):
    for how in (signal.SIGKILL, signal.SIGTERM):
        server.end(how)
        began = time.monotonic()
        server.start()
        # It goes to the tree, and changes it.
        server.try_for(120, lambda: os.mkdir(server.mount / f"after-{how.name}"))
        took = time.monotonic() - began
        print(f"a start after {how.name} serves after {took:.2f} s, {server.resident() >> 20} MiB resident", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    for name, value in {"files": 1_000_000, "directories": 1, "processes": 4, "bytes": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    server = Server(options.folder)
    server.start()
    try:
        server.try_for(60, lambda: server.run("volume", "create", "home"))
        server.run("mount", "home", str(server.mount), "--detach")
        folders = [str(server.mount / (f"many-{number}" if options.directories > 1 else "one")) for number in range(options.directories)]
        for folder in folders:
            os.mkdir(folder)
        with ProcessPoolExecutor(options.processes) as pool:
            for count in LISTS if options.files > max(LISTS) else ():
                folder = server.mount / f"list-{count}"
                folder.mkdir()
                part = count // options.processes
                list(pool.map(make, [(str(folder), part * number, part * (number + 1), 0) for number in range(options.processes)]))
            fill(server, pool, options, folders)
        lists(server, "after making")
        if options.directories == 1:
            stats(server, options, folders[0])
            lists(server, "on a new mount")
        starts(server)
        lists(server, "after a start")
        stored = sum(file.stat().st_size for file in (server.data / "consensus").rglob("*") if file.is_file())
        print(f"log and rows: {stored >> 20} MiB, {stored / options.files:.0f} bytes a file")
    finally:
        subprocess.run([BIN, "umount", str(server.mount), "--data", str(server.data)], capture_output=True)
        server.end(signal.SIGTERM)
        subprocess.run(["umount", "-l", str(server.mount)], capture_output=True)


main()
