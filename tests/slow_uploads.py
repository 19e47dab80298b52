"""Measures what stalled uploads cost a server: its memory, and the requests beside them.

    python3 tests/slow_uploads.py target/debug/trilith --connections 2500 --size 10000000 --sent 1000000

The server starts on free loopback ports with its data in a temporary folder. The connections are opened one after the other;
each announces a PUT of --size bytes, sends --sent of them and stops. Meanwhile one client PUTs and GETs small and large objects.
Then all connections close, and the memory is watched for a while. It fails if a request beside the stalled ones is not served, or if
content comes back changed. Needs Linux and nothing beyond Python's own library.
"""

import argparse
import asyncio
import contextlib
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request

BUCKET = "slow"
USER, PASSWORD = "slow-uploads", "slow-uploads"
START_SECONDS = 60
# What a request beside the stalled ones may take before it counts as not served.
BESIDE_SECONDS = 60
# After the connections have closed, the memory is read at these seconds.
AFTERWARDS = (1, 2, 5, 10, 20, 30)
# Connections that are being fed at the same time.
AT_A_TIME = 64


def memory(pid: int, name: str) -> float:
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        kibibytes = re.search(rf"^{name}:\s+(\d+) kB", status.read(), re.MULTILINE)
    return int(kibibytes.group(1)) * 1024 / 1e6


class Server:
    """A server of its own, with a bucket in which everybody may write."""

    def __init__(self, program: str, folder: str, options: list[str]):
        self.program = program
        self.environment = os.environ | {"TRILITH_ROOT_USER": USER, "TRILITH_ROOT_PASSWORD": PASSWORD}
        words = [program, "serve", "--data", folder, "--s3-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", *options]
        self.process = subprocess.Popen(words, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.s3 = self.admin = None
        until = time.monotonic() + START_SECONDS
        while self.admin is None and time.monotonic() < until:
            line = self.process.stdout.readline()
            if found := re.search(r"http://(127\.0\.0\.1:\d+)", line):
                self.s3, self.admin = (found.group(1), None) if self.s3 is None else (self.s3, found.group(1))
            elif not line:
                sys.exit("the server ended before it served")
        for command in (["make", BUCKET], ["policy", "set", BUCKET, "public-read-write"]):
            subprocess.run(
                [program, "bucket", *command],
                env=self.environment | {"TRILITH_ENDPOINT": f"http://{self.s3}"},
                check=True,
                stdout=subprocess.DEVNULL,
            )

    def metric(self, name: str) -> str:
        with urllib.request.urlopen(f"http://{self.admin}/metrics", timeout=BESIDE_SECONDS) as answer:
            found = re.search(rf"^{name} (\S+)$", answer.read().decode(), re.MULTILINE)
        return found.group(1) if found else "-"

    def address(self) -> tuple[str, int]:
        host, port = self.s3.split(":")
        return host, int(port)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)


class Peak:
    """The largest resident memory of a process while it is watched."""

    def __init__(self, pid: int):
        self.pid, self.most = pid, 0.0

    async def watch(self) -> None:
        while True:
            self.most = max(self.most, memory(self.pid, "VmRSS"))
            await asyncio.sleep(0.1)


def head(method: str, key: str, length: int | None = None) -> bytes:
    body = "" if length is None else f"content-length: {length}\r\n"
    return f"{method} /{BUCKET}/{key} HTTP/1.1\r\nhost: localhost\r\n{body}\r\n".encode()


async def exchange(server: Server, method: str, key: str, body: bytes | None = None) -> tuple[int, bytes]:
    """Status and body of the answer to one request on a connection of its own."""
    reader, writer = await asyncio.open_connection(*server.address(), limit=1 << 20)
    try:
        writer.write(head(method, key, None if body is None else len(body)))
        if body:
            writer.write(body)
        await writer.drain()
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", answer.lower()).group(1))
        received = await reader.readexactly(length)
        return int(answer.split()[1]), received
    finally:
        writer.close()


async def beside(server: Server, name: str) -> tuple[str, bool]:
    """What a client finds beside the stalled ones, and whether all of it was served."""
    lines, is_served = [], True
    for size in (4096, 1 << 20, 10_000_000):
        body = os.urandom(size)
        for method in ("PUT", "GET"):
            start = time.monotonic()
            try:
                job = exchange(server, method, f"{name}-{size}", body if method == "PUT" else None)
                outcome, received = await asyncio.wait_for(job, BESIDE_SECONDS)
                is_served &= outcome == 200 and (method == "PUT" or received == body)
            except (asyncio.TimeoutError, OSError, asyncio.IncompleteReadError) as error:
                outcome, is_served = f"failed: {type(error).__name__}", False
            lines.append(f"{method} {size} {outcome} in {(time.monotonic() - start) * 1e3:.0f} ms")
    return "; ".join(lines), is_served


async def stall(server: Server, number: int, size: int, sent: bytes, turn: asyncio.Semaphore):
    """Begins an upload and stops; the connection, or none if the server has ended it."""
    async with turn:
        try:
            reader, writer = await asyncio.open_connection(*server.address())
            writer.write(head("PUT", f"stalled-{number}", size))
            # In pieces, so that the server's backpressure is felt here and not in this process's memory.
            for start in range(0, len(sent), 65536):
                writer.write(sent[start : start + 65536])
                await asyncio.wait_for(writer.drain(), BESIDE_SECONDS)
            return reader, writer
        except (OSError, asyncio.TimeoutError):
            return None


async def measure(server: Server, options: argparse.Namespace) -> bool:
    """Whether the requests beside were served."""
    pid = server.process.pid
    print(f"before              {memory(pid, 'VmRSS'):7.0f} MB resident")
    lines, is_served = await beside(server, "alone")
    print(f"alone               {lines}")
    peak, sent, turn = Peak(pid), os.urandom(options.sent), asyncio.Semaphore(AT_A_TIME)
    watching = asyncio.create_task(peak.watch())
    start = time.monotonic()
    stalled = await asyncio.gather(
        *(stall(server, number, options.size, sent, turn) for number in range(options.connections))
    )
    held = [connection for connection in stalled if connection is not None]
    print(f"{len(held)} stalled after {time.monotonic() - start:.1f} s; {memory(pid, 'VmRSS'):.0f} MB resident")
    lines, is_served_beside = await beside(server, "beside")
    print(f"beside them         {lines}")
    for name in ("used_bytes", "limit_bytes", "waiting_uploads", "early_chunks_total", "refused_uploads_total"):
        print(f"  {name:<18}{server.metric(f'trilith_gateway_upload_memory_{name}')}")
    for _, writer in held:
        with contextlib.suppress(OSError):
            writer.close()
    watching.cancel()
    print(f"peak                {peak.most:7.0f} MB resident")
    closed = time.monotonic()
    for seconds in AFTERWARDS:
        await asyncio.sleep(max(0.0, closed + seconds - time.monotonic()))
        print(f"{seconds:3} s after the end  {memory(pid, 'VmRSS'):7.0f} MB resident")
    return is_served and is_served_beside


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--connections", type=int, default=2500)
    parser.add_argument("--size", type=int, default=10_000_000)
    parser.add_argument("--sent", type=int, default=1_000_000)
    parser.add_argument("--serve", action="append", default=[], metavar="OPTION", help="a further option of trilith serve")
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory(prefix="slow-uploads-") as folder:
        server = Server(options.program, folder, options.serve)
        try:
            is_served = asyncio.run(measure(server, options))
        finally:
            server.stop()
    if not is_served:
        sys.exit("a request beside the stalled ones was not served")


if __name__ == "__main__":
    main()
