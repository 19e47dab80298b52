"""Buckets of the volume engine: objects of all sizes, conditions, lists, uploads, space, `kill -9`, strict buckets."""

import contextlib
import hashlib
import mmap
import os
import subprocess
import threading
import urllib.request

import boto3
import pytest
from botocore.config import Config

from conftest import REGION, SERVER
from errors import refused
from nodes import Node, wait_until

MIB = 1 << 20


@pytest.fixture
def server(tmp_path):
    node = Node(tmp_path, device_size="1GiB")
    yield node
    if node.process.poll() is None:
        node.kill()


def client(node):
    lines = (node.data / "credentials").read_text().splitlines()
    pair = dict(line.split(" = ", 1) for line in lines if " = " in line)
    config = Config(retries={"total_max_attempts": 1}, region_name=REGION)
    url = f"http://127.0.0.1:{node.s3}"
    keys = {"aws_access_key_id": pair["access_key"], "aws_secret_access_key": pair["secret_key"]}
    return boto3.client("s3", endpoint_url=url, config=config, **keys)


def content(number, length):
    seed = hashlib.sha256(str(number).encode()).digest()
    return (seed * (length // 32 + 1))[:length]


def read(s3, key, bucket="box"):
    return s3.get_object(Bucket=bucket, Key=key)["Body"].read()


def used_bytes(node):
    text = urllib.request.urlopen(f"http://127.0.0.1:{node.admin}/metrics").read().decode()
    lines = [line for line in text.splitlines() if line.startswith("trilith_volume_engine_used_bytes")]
    return float(lines[0].rsplit(" ", 1)[1])


def test_objects_conditions_lists_and_uploads(server):
    server.run("bucket", "make", "box", "--engine", "volume", *endpoint(server))
    assert "engine volume" in server.run("bucket", "info", "box", *endpoint(server))
    s3 = client(server)
    sizes = [0, 1, 4096, 100_000, 128 * 1024, 128 * 1024 + 1, MIB, 5 * MIB + 3, 40 * MIB]
    for number, size in enumerate(sizes):
        answer = s3.put_object(Bucket="box", Key=f"size/{size}", Body=content(number, size), Metadata={"m": str(number)})
        assert answer["ETag"] == f'"{hashlib.md5(content(number, size)).hexdigest()}"'
    for number, size in enumerate(sizes):
        got = s3.get_object(Bucket="box", Key=f"size/{size}")
        assert (got["Body"].read(), got["Metadata"]) == (content(number, size), {"m": str(number)})
    part = s3.get_object(Bucket="box", Key=f"size/{40 * MIB}", Range=f"bytes={3 * MIB - 5}-{3 * MIB + 4}")["Body"].read()
    assert part == content(8, 40 * MIB)[3 * MIB - 5 : 3 * MIB + 5]
    # Overwrites and conditions.
    first = s3.put_object(Bucket="box", Key="a", Body=b"one")["ETag"]
    with refused("PreconditionFailed", 412):
        s3.put_object(Bucket="box", Key="a", Body=b"two", IfNoneMatch="*")
    s3.put_object(Bucket="box", Key="a", Body=b"three", IfMatch=first)
    with refused("PreconditionFailed", 412):
        s3.put_object(Bucket="box", Key="a", Body=b"four", IfMatch=first)
    assert read(s3, "a") == b"three"
    # Lists.
    listed = s3.list_objects_v2(Bucket="box", Delimiter="/")
    assert [found["Key"] for found in listed["Contents"]] == ["a"]
    assert [found["Prefix"] for found in listed["CommonPrefixes"]] == ["size/"]
    names = [found["Key"] for found in s3.list_objects_v2(Bucket="box", Prefix="size/")["Contents"]]
    assert names == sorted(f"size/{size}" for size in sizes)
    # An upload in parts.
    upload = s3.create_multipart_upload(Bucket="box", Key="parts")["UploadId"]
    bodies = {1: content(20, 5 * MIB), 2: content(21, 6 * MIB), 3: content(22, 77)}
    parts = []
    for number, body in bodies.items():
        answer = s3.upload_part(Bucket="box", Key="parts", UploadId=upload, PartNumber=number, Body=body)
        parts.append({"PartNumber": number, "ETag": answer["ETag"]})
    server.kill()
    server.start()
    s3 = client(server)
    done = {"Bucket": "box", "Key": "parts", "UploadId": upload, "MultipartUpload": {"Parts": parts}}
    etag = s3.complete_multipart_upload(**done)["ETag"]
    assert read(s3, "parts") == b"".join(bodies.values())
    assert s3.get_object(Bucket="box", Key="parts", PartNumber=2)["Body"].read() == bodies[2]
    server.kill()
    server.start()
    s3 = client(server)
    assert s3.complete_multipart_upload(**done)["ETag"] == etag, "a retry answers the first outcome, also after a start"
    for number, size in enumerate(sizes):
        assert read(s3, f"size/{size}") == content(number, size)
    with refused("BucketNotEmpty", 409):
        s3.delete_bucket(Bucket="box")
    server.stop()


def test_space_comes_back_at_once(tmp_path):
    server = Node(tmp_path, device_size="320MiB")
    s3 = client(server)
    server.run("bucket", "make", "box", "--engine", "volume", *endpoint(server))
    for round_ in range(4):
        # Together they are more than the device has.
        for number in range(6):
            s3.put_object(Bucket="box", Key=f"{number}", Body=content(round_ * 100 + number, 16 * MIB))
        assert read(s3, "5") == content(round_ * 100 + 5, 16 * MIB)
        for number in range(6):
            s3.delete_object(Bucket="box", Key=f"{number}")
    status, kept = None, 0
    while status is None and kept < 100:
        try:
            s3.put_object(Bucket="box", Key=f"full/{kept}", Body=content(kept, 16 * MIB))
            kept += 1
        except s3.exceptions.ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
    assert status == 507, "a full device is told"
    # The log has 80 MiB, and each group that has something has units of 8 MiB.
    assert kept >= 5, f"{kept} objects of 16 MiB on a device of 320 MiB"
    assert read(s3, f"full/{kept - 1}") == content(kept - 1, 16 * MIB)
    for number in range(kept):
        s3.delete_object(Bucket="box", Key=f"full/{number}")
    for number in range(kept):
        # Other groups have these names: the space is theirs when the former ones have given it back, which is in a second or two.
        wait_until(lambda: status_of_put(s3, f"again/{number}", content(number, 16 * MIB)) == 200, "there is room again")
    assert read(s3, f"again/{kept - 1}") == content(kept - 1, 16 * MIB)
    for number in range(kept):
        s3.delete_object(Bucket="box", Key=f"again/{number}")
    s3.delete_bucket(Bucket="box")
    server.stop()


def test_what_was_acknowledged_outlives_kill(server):
    server.run("bucket", "make", "box", "--engine", "volume", *endpoint(server))
    # What each key may be: the last answered write, then the one on its way. None: it is absent.
    known = {}
    for round_ in range(4):
        stop = threading.Event()

        def write(worker):
            s3 = client(server)
            number = 0
            while not stop.is_set():
                number += 1
                key = f"{worker}/{number % 20}"
                size = [10, 4096, 70_000, 300_000][number % 4]
                begun = None if number % 7 == 0 else (f"{round_}/{worker}/{number}", size)
                known[key] = known.get(key, [None]) + [begun]
                try:
                    if begun is None:
                        s3.delete_object(Bucket="box", Key=key)
                    else:
                        s3.put_object(Bucket="box", Key=key, Body=content(*begun))
                except Exception:
                    # The server was killed.
                    return
                known[key] = [begun]

        workers = [threading.Thread(target=write, args=(worker,)) for worker in range(6)]
        for worker in workers:
            worker.start()
        stop.wait(3)
        server.kill()
        stop.set()
        for worker in workers:
            worker.join()
        server.start()
        s3 = client(server)
        for key, allowed in known.items():
            try:
                found = read(s3, key)
            except s3.exceptions.NoSuchKey:
                found = None
            as_one_of = [begun for begun in allowed if found == (begun and content(*begun))]
            assert as_one_of, f"{key} in round {round_}: {found and len(found)} bytes, expected one of {allowed}"
            known[key] = as_one_of[-1:]
        listed = {found["Key"] for found in s3.list_objects_v2(Bucket="box").get("Contents", [])}
        assert listed == {key for key, allowed in known.items() if allowed[0]}
    assert len(known) > 20, f"{len(known)} keys were written"
    assert used_bytes(server) > 0
    server.stop()


def test_groups_stand_on_both_devices_of_a_server(tmp_path):
    server = Node(tmp_path, device_size="1GiB", devices=("a", "b"))
    server.run("bucket", "make", "box", "--engine", "volume", *endpoint(server))
    s3 = client(server)
    bodies = {f"{number}": content(number, 20_000 + number) for number in range(80)}
    for key, body in bodies.items():
        s3.put_object(Bucket="box", Key=key, Body=body)
    assert devices_with_objects(server) == 2
    server.kill()
    server.start()
    s3 = client(server)
    assert {key: read(s3, key) for key in bodies} == bodies
    # A device is away: its objects are no absent ones, and the others are served.
    server.stop()
    away = tmp_path / "away"
    (tmp_path / "b").rename(away)
    devices, server.devices = server.devices, server.devices[:1]
    server.start()
    s3 = client(server)
    answers = {key: answer_of(s3, key) for key in bodies}
    assert set(answers.values()) == {200, 503}, answers
    assert all(read(s3, key) == bodies[key] for key, answer in answers.items() if answer == 200)
    server.stop()
    away.rename(tmp_path / "b")
    server.devices = devices
    server.start()
    s3 = client(server)
    assert {key: read(s3, key) for key in bodies} == bodies
    server.stop()


def devices_with_objects(node):
    """Devices that have more of the volume engine's than the log of its groups."""
    text = urllib.request.urlopen(f"http://127.0.0.1:{node.admin}/metrics").read().decode()
    lines = [line for line in text.splitlines() if line.startswith("trilith_target_owned_bytes{") and '"volume-engine"' in line]
    return sum(float(line.rsplit(" ", 1)[1]) > 100 * MIB for line in lines)


def status_of_put(s3, key, body):
    try:
        return s3.put_object(Bucket="box", Key=key, Body=body)["ResponseMetadata"]["HTTPStatusCode"]
    except s3.exceptions.ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"]


def answer_of(s3, key):
    try:
        return s3.get_object(Bucket="box", Key=key)["ResponseMetadata"]["HTTPStatusCode"]
    except s3.exceptions.ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"]


def test_a_strict_bucket_overwrites_nothing(server):
    server.run("bucket", "make", "kept", "--engine", "volume:strict", *endpoint(server))
    s3 = client(server)
    assert s3.head_bucket(Bucket="kept")["ResponseMetadata"]["HTTPHeaders"]["x-trilith-engine"] == "volume:strict"
    s3.put_object(Bucket="kept", Key="a", Body=b"one")
    with refused("OperationAborted", 409):
        s3.put_object(Bucket="kept", Key="a", Body=b"two")
    with refused("OperationAborted", 409):
        s3.put_object(Bucket="kept", Key="a", Body=content(1, 2 * MIB))
    server.kill()
    server.start()
    s3 = client(server)
    assert read(s3, "a", "kept") == b"one"
    s3.delete_object(Bucket="kept", Key="a")
    s3.put_object(Bucket="kept", Key="a", Body=b"two")
    assert read(s3, "a", "kept") == b"two"
    server.stop()


def endpoint(node):
    return ["--endpoint", f"http://127.0.0.1:{node.s3}"]


def fsck(node, wrong=None):
    """`trilith fsck`; what it says. With `wrong`, a part of what it must find."""
    command = [SERVER, "fsck", "--data", str(node.data), *node.named_devices()]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    said = done.stdout + done.stderr
    if wrong is None:
        assert done.returncode == 0 and "All is well." in said, said
    else:
        assert done.returncode == 1 and any("WRONG" in line and wrong in line for line in said.splitlines()), said
    return said


def test_fsck_reads_all_objects_and_names_the_damaged_one(tmp_path):
    node = Node(tmp_path, device_size="1GiB", devices=["a.dev", "b.dev"])
    s3 = client(node)
    node.run("bucket", "make", "box", "--engine", "volume", *endpoint(node))
    sizes = [0, 10, 100_000, 3 * MIB]
    for number in range(20):
        s3.put_object(Bucket="box", Key=f"k/{number}", Body=content(number, sizes[number % 4]))
    upload = s3.create_multipart_upload(Bucket="box", Key="open")["UploadId"]
    s3.upload_part(Bucket="box", Key="open", UploadId=upload, PartNumber=1, Body=content(99, 5 * MIB))
    s3.delete_object(Bucket="box", Key="k/2")
    node.stop()
    before = [hashlib.sha256(device.read_bytes()).digest() for device in node.devices]
    total = sum(sizes) * 5 - sizes[2]
    said = fsck(node)
    assert f"bucket    box: 19 objects, {total / MIB:.1f} MiB" in said, said
    assert f"checked   {(total + 5 * MIB) / MIB:.1f} MiB of objects in volume buckets" in said, said
    for sought, key in [(content(6, 4096), "k/6"), (content(99, 4096), "open")]:
        with changed_bit(node.devices, sought):
            fsck(node, wrong=f"`{key}` in bucket")
    assert [hashlib.sha256(device.read_bytes()).digest() for device in node.devices] == before, "it changes nothing"
    node.start()
    assert read(client(node), "k/6") == content(6, 100_000)
    node.stop()


@contextlib.contextmanager
def changed_bit(devices, sought):
    """A bit is another one meanwhile, of content that begins so."""
    for device in devices:
        with open(device, "r+b") as file, mmap.mmap(file.fileno(), 0) as bytes_of:
            at = bytes_of.find(sought)
            if at >= 0:
                bytes_of[at + 17] ^= 4
                bytes_of.flush()
                break
    else:
        raise AssertionError("no device has the content")
    yield
    with open(device, "r+b") as file, mmap.mmap(file.fileno(), 0) as bytes_of:
        bytes_of[at + 17] ^= 4
        bytes_of.flush()
