"""Buckets of the volume engine in clusters: every gateway serves them, `kill -9` of each node in turn loses nothing, and a lone node grows."""

import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

import nodes
from conftest import REGION, SERVER
from nodes import wait_until
from test_volume_buckets import content

LIMIT_S = 120
MIB = 1 << 20
NODES = (1, 2, 3)
# The first of as many addresses of this machine as there are nodes; other tests use the first ones of it.
FIRST_ADDRESS = "127.0.79.1"
GROUPS = 16


class Cluster(nodes.Cluster):
    """Three nodes, each of which can be killed, and their clients."""

    def address(self, number):
        return FIRST_ADDRESS.rsplit(".", 1)[0] + f".{number}"

    def make_bucket(self):
        """A node may still be starting."""
        words = ["bucket", "make", "box", "--engine", "volume", "--data", self.folder, "--endpoint", f"http://{self.address(1)}:9000"]
        made = lambda: subprocess.run([SERVER, *words], stdin=subprocess.DEVNULL, timeout=LIMIT_S).returncode == 0
        wait_until(made, "the bucket is made")

    def client(self, number):
        return client(self.folder, self.address(number))

    def groups(self, number, copies="3 copies"):
        return groups(self.address(number), copies)


def client(folder, address):
    """A client of the node at an address, with the root pair that stands in a folder."""
    lines = (folder / "credentials").read_text().splitlines()
    pair = dict(line.split(" = ", 1) for line in lines if " = " in line)
    config = Config(retries={"total_max_attempts": 1}, region_name=REGION, connect_timeout=5)
    keys = {"aws_access_key_id": pair["access_key"], "aws_secret_access_key": pair["secret_key"]}
    return boto3.client("s3", endpoint_url=f"http://{address}:9000", config=config, **keys)


def groups(address, copies="3 copies"):
    """Placement groups that have all copies, as the node at an address sees it; 0 while it starts."""
    command = [SERVER, "status", "--admin", f"{address}:9001"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
    words = next((line.split() for line in done.stdout.splitlines() if f"have {copies}" in line), [])
    return int(words[words.index("placement") - 1]) if words else 0


@pytest.fixture
def cluster(request):
    folder = Path(tempfile.mkdtemp(prefix="trilith-groups-"))
    made = Cluster(folder, FIRST_ADDRESS, getattr(request, "param", len(NODES)))
    try:
        yield made
        made.stop()
    finally:
        if made.process.poll() is None:
            made.process.kill()
        for process in made.others:
            process.kill()
        shutil.rmtree(folder, ignore_errors=True)


def read(s3, key):
    """The object's bytes; none if it is absent. A node that is away is asked again."""
    end = time.monotonic() + LIMIT_S
    while True:
        try:
            return s3.get_object(Bucket="box", Key=key)["Body"].read()
        except s3.exceptions.NoSuchKey:
            return None
        except (ClientError, BotoCoreError):
            assert time.monotonic() < end, f"{key} can't be read"
            time.sleep(0.3)


def listed(s3):
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket="box", PaginationConfig={"PageSize": 50})
    return [found["Key"] for page in pages for found in page.get("Contents", [])]


def test_every_gateway_serves_objects_lists_and_uploads(cluster):
    cluster.make_bucket()
    clients = {number: cluster.client(number) for number in NODES}
    sizes = [0, 1, 4096, 100_000, 128 * 1024 + 1, 3 * MIB + 5]
    for number, size in enumerate(sizes):
        clients[1 + number % 3].put_object(Bucket="box", Key=f"size/{size}", Body=content(number, size), Metadata={"m": str(number)})
    for s3 in clients.values():
        for number, size in enumerate(sizes):
            got = s3.get_object(Bucket="box", Key=f"size/{size}")
            assert (got["Body"].read(), got["Metadata"]) == (content(number, size), {"m": str(number)})
        assert listed(s3) == sorted(f"size/{size}" for size in sizes)
        rolled = s3.list_objects_v2(Bucket="box", Delimiter="/")
        assert [found["Prefix"] for found in rolled["CommonPrefixes"]] == ["size/"]
    for number in range(120):
        clients[1 + number % 3].put_object(Bucket="box", Key=f"many/{number:03}", Body=b"x")
    assert listed(clients[2]) == sorted([f"size/{size}" for size in sizes] + [f"many/{number:03}" for number in range(120)])
    # Conditions and deletes, each at another node than the one before.
    tag = clients[1].put_object(Bucket="box", Key="a", Body=b"one")["ETag"]
    with pytest.raises(ClientError, match="PreconditionFailed"):
        clients[2].put_object(Bucket="box", Key="a", Body=b"two", IfNoneMatch="*")
    clients[3].put_object(Bucket="box", Key="a", Body=b"three", IfMatch=tag)
    assert read(clients[1], "a") == b"three"
    clients[2].delete_object(Bucket="box", Key="a")
    assert [read(s3, "a") for s3 in clients.values()] == [None, None, None]
    # An upload whose parts come through different gateways.
    upload = clients[1].create_multipart_upload(Bucket="box", Key="parts")["UploadId"]
    bodies = {1: content(20, 5 * MIB), 2: content(21, 6 * MIB), 3: content(22, 77)}
    parts = []
    for number, body in bodies.items():
        answer = clients[number].upload_part(Bucket="box", Key="parts", UploadId=upload, PartNumber=number, Body=body)
        parts.append({"PartNumber": number, "ETag": answer["ETag"]})
    found = clients[3].list_multipart_uploads(Bucket="box")["Uploads"]
    assert [(one["Key"], one["UploadId"]) for one in found] == [("parts", upload)]
    clients[2].complete_multipart_upload(Bucket="box", Key="parts", UploadId=upload, MultipartUpload={"Parts": parts})
    assert read(clients[3], "parts") == b"".join(bodies.values())
    assert clients[1].get_object(Bucket="box", Key="parts", PartNumber=2)["Body"].read() == bodies[2]


class Writers:
    """Threads that put and delete through all gateways, and know what each key may be."""

    def __init__(self, cluster, round_):
        self.known, self.answered, self.stopped = {}, 0, threading.Event()
        self.threads = [threading.Thread(target=self.write, args=(cluster, round_, worker)) for worker in range(6)]
        for thread in self.threads:
            thread.start()

    def write(self, cluster, round_, worker):
        number = 0
        while not self.stopped.is_set():
            number += 1
            s3 = cluster.client(1 + number % 3)
            key = f"{worker}/{number % 15}"
            size = [10, 4096, 70_000, 300_000][number % 4]
            begun = None if number % 6 == 0 else (f"{round_}/{worker}/{number}", size)
            # What is not answered may take effect until the key is written again, or never.
            self.known[key] = self.known.get(key, [None]) + [begun]
            try:
                if begun is None:
                    s3.delete_object(Bucket="box", Key=key)
                else:
                    s3.put_object(Bucket="box", Key=key, Body=content(*begun))
            except (ClientError, BotoCoreError):
                time.sleep(0.1)
                continue
            self.known[key] = [begun]
            self.answered += 1

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join()


def test_nothing_acknowledged_is_lost_when_each_node_is_killed_in_turn(cluster):
    cluster.make_bucket()
    wait_until(lambda: cluster.groups(1) == GROUPS, "all groups have three copies")
    known = {}
    for round_, number in enumerate([1, 2, 3, 1]):
        writers = Writers(cluster, round_)
        for key, allowed in known.items():
            writers.known.setdefault(key, allowed)
        time.sleep(2)
        cluster.kill(number)
        time.sleep(10)
        before = writers.answered
        wait_until(lambda: writers.answered > before + 20, f"writes go on without node {number}")
        cluster.start(number)
        other = 1 + number % 3
        wait_until(lambda: cluster.groups(other) == GROUPS, f"all groups have three copies again, with node {number}")
        writers.stop()
        known = writers.known
        for node in NODES:
            s3 = cluster.client(node)
            for key, allowed in known.items():
                found = read(s3, key)
                as_one_of = [begun for begun in allowed if found == (begun and content(*begun))]
                assert as_one_of, f"{key} in round {round_} at node {node}: {found and len(found)} bytes, expected one of {allowed}"
                known[key] = as_one_of[-1:]
            assert listed(s3) == sorted(key for key, allowed in known.items() if allowed[0])
    assert len(known) > 60, f"{len(known)} keys were written"


@pytest.mark.parametrize("cluster", [1], indirect=True)
def test_a_lone_node_grows_and_is_outlived(cluster):
    cluster.make_bucket()
    s3 = cluster.client(1)
    known = {f"{number}": content(number, [0, 10, 4096, 70_000, 3 * MIB][number % 5]) for number in range(60)}
    for key, body in known.items():
        s3.put_object(Bucket="box", Key=key, Body=body)
    assert cluster.groups(1, "1 copy") == GROUPS
    cluster.stop()
    cluster.others = []
    cluster.begin(len(NODES))
    # They are served while the copies are made, through the nodes that have none yet, too.
    for key in list(known)[::10]:
        assert read(cluster.client(3), key) == known[key]
    wait_until(lambda: cluster.groups(2) == GROUPS, "all groups have three copies")
    known["late"] = b"late"
    cluster.client(2).put_object(Bucket="box", Key="late", Body=b"late")
    cluster.kill(1)
    for number in (2, 3):
        s3 = cluster.client(number)
        assert {key: read(s3, key) for key in known} == known
        assert listed(s3) == sorted(known)
    wait_until(lambda: put_once(cluster.client(2), "after"), "writes go on without the first node")
    assert read(cluster.client(3), "after") == b"after"


class Machine:
    """A server with an address of its own: what a person has on one machine."""

    def __init__(self, folder, number):
        self.folder, self.data, self.address = folder / f"{number}", folder / f"{number}" / "data", f"127.0.81.{number}"
        self.folder.mkdir()
        self.process = None

    def run(self, *words):
        """`trilith WORDS`, until it is done: another machine may still be starting."""
        command, said = [SERVER, *words, "--data", str(self.data)], []

        def is_done():
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
            assert "Usage" not in done.stderr, done.stderr
            said.append(done.stdout)
            return done.returncode == 0

        wait_until(is_done, f"{words[:2]}")
        return said[-1]

    def serve(self):
        command = [SERVER, "serve", "--data", str(self.data), "--device-size", "2GiB"]
        command += ["--s3-addr", f"{self.address}:9000", "--admin-addr", f"{self.address}:9001"]
        with open(self.folder / "server.log", "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def machines(tmp_path):
    made = [Machine(tmp_path, number) for number in NODES]
    yield made
    for machine in made:
        machine.kill()


def test_a_server_that_is_opened_keeps_its_volume_buckets(machines):
    """The commands of docs/operations/cluster.md: one server, which others join while it serves."""
    first, *others = machines
    first.serve()
    first.run("bucket", "make", "box", "--engine", "volume", "--endpoint", f"http://{first.address}:9000")
    s3 = client(first.data, first.address)
    known = {f"{number}": content(number, [0, 10, 4096, 70_000, 3 * MIB][number % 5]) for number in range(60)}
    for key, body in known.items():
        s3.put_object(Bucket="box", Key=key, Body=body)
    assert groups(first.address, "1 copy") == GROUPS
    first.run("cluster", "open", "--cluster-addr", f"{first.address}:9002")
    for machine in others:
        token = first.run("cluster", "token").split()[-1]
        machine.run("cluster", "join", token, "--via", f"{first.address}:9002", "--cluster-addr", f"{machine.address}:9002")
        machine.serve()
        wait_until(lambda: put_once(client(first.data, machine.address), "while"), "the new node serves the bucket")
        key = list(known)[machines.index(machine)]
        assert read(client(first.data, machine.address), key) == known[key]
    known["while"] = b"while"
    wait_until(lambda: groups(others[0].address) == GROUPS, "all groups have three copies")
    first.kill()
    for machine in others:
        s3 = client(first.data, machine.address)
        assert {key: read(s3, key) for key in known} == known
        assert listed(s3) == sorted(known)
    wait_until(lambda: put_once(client(first.data, others[0].address), "after"), "writes go on without the first node")
    assert read(client(first.data, others[1].address), "after") == b"after"


def put_once(s3, key):
    try:
        s3.put_object(Bucket="box", Key=key, Body=key.encode())
        return True
    except (ClientError, BotoCoreError):
        return False
