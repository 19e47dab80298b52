#!/usr/bin/env python3
"""Runs inside a virtual machine: verifies what earlier lives acknowledged, then writes until the machine dies.

    inside.py TRILITH SHARED LIFE SYNC

TRILITH is the program, SHARED a folder of the host that outlives the machine, LIFE the number of this life, from 0, SYNC the
server's --sync. The log's device is a loop device over /dev/vda: it takes writes into this machine's memory and makes them durable
when it is flushed, like a disk with a volatile cache (a direct write to /dev/vda itself survives the machine unflushed). The
manager's state is on a file system on /dev/vdb. Every acknowledgement is written to
SHARED/acks-LIFE before the next request of its thread, so what the host finds there had been acknowledged.
"""
import hashlib
import http.client
import os
import random
import subprocess
import sys
import threading
import time

TRILITH, SHARED, LIFE, SYNC = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
DEVICE = "/dev/loop0"
ADDRESS = ("127.0.0.1", 9000)
THREADS = 4
KEYS_PER_THREAD = 40
BUCKET = "crash"


def run(*command):
    subprocess.run(command, check=True)


def mount():
    # Only a flush writes the cache back.
    with open("/proc/sys/vm/dirty_writeback_centisecs", "w") as period:
        period.write("0")
    run("losetup", "--direct-io=off", DEVICE, "/dev/vda")
    if subprocess.run(["blkid", "/dev/vdb"], capture_output=True).returncode != 0:
        run("mkfs.ext4", "-q", "/dev/vdb")
        run(TRILITH, "device", "format", DEVICE)
    os.makedirs("/mnt/state", exist_ok=True)
    run("mount", "/dev/vdb", "/mnt/state")


def start_server():
    environment = dict(os.environ, TRILITH_ROOT_USER="root-user", TRILITH_ROOT_PASSWORD="root-password")
    log = open(f"{SHARED}/server-{LIFE}.log", "w")
    subprocess.Popen(
        [TRILITH, "serve", "--data", "/mnt/state/trilith", "--devices", DEVICE, "--default-buckets", BUCKET, "--sync", SYNC],
        stdout=log, stderr=log, env=environment,
    )
    for _ in range(600):
        try:
            request("GET", "/")
            break
        except OSError:
            time.sleep(0.1)
    else:
        sys.exit("the server did not start")
    run("env", "TRILITH_ROOT_USER=root-user", "TRILITH_ROOT_PASSWORD=root-password",
        TRILITH, "bucket", "policy", "set", BUCKET, "public-read-write")


def request(method, path, body=None, connection=None):
    own = connection or http.client.HTTPConnection(*ADDRESS, timeout=60)
    own.request(method, path, body=body)
    response = own.getresponse()
    return response.status, response.read()


def content(key, version):
    """A few bytes to some 300 KiB, told by its name: both small records and chunks."""
    seed = hashlib.sha256(f"{key}/{version}".encode()).digest()
    size = [20, 900, 4096, 5000, 70_000, 300_000][seed[0] % 6]
    return (seed * (size // 32 + 1))[:size]


def read_lives():
    """For each key: the newest acknowledged version and the newest attempted one, each with its line."""
    acknowledged, attempted = {}, {}
    for life in range(LIFE):
        path = f"{SHARED}/acks-{life}"
        for line in open(path) if os.path.exists(path) else []:
            kind, key, version = line.split()
            table = acknowledged if kind == "ack" else attempted
            table[key] = (int(version), line)
    return acknowledged, attempted


def get(key):
    """Status and body; status 0 if the answer breaks off."""
    try:
        return request("GET", f"/{BUCKET}/{key}")
    except http.client.HTTPException:
        return 0, b""


def verify():
    acknowledged, attempted = read_lives()
    listed = list_all()
    lost = other = 0
    for key in sorted(attempted):
        least = acknowledged.get(key, (0, ""))[0]
        most = attempted[key][0]
        status, body = get(key)
        # Every fifth version deletes: absent is right when a deletion is among the versions that may be the newest.
        versions = range(least, most + 1)
        allowed = [v for v in versions if v % 5 != 0 and status == 200 and body == content(key, v)]
        absent = status == 404 and any(v % 5 == 0 for v in versions)
        if not allowed and not absent:
            # Nothing, an error, or what was there before: what was acknowledged is gone. Else somebody made it up.
            is_lost = key in acknowledged and (status != 200 or any(body == content(key, v) for v in range(least)))
            lost += is_lost
            other += not is_lost
            print(f"WRONG {key}: status {status}, {len(body)} bytes, acknowledged {least}, attempted {most}", flush=True)
        if (status == 200) != (key in listed) or (status == 200 and listed[key] != len(body)):
            other += 1
            print(f"WRONG {key}: GET and LIST disagree", flush=True)
    print(f"VERIFIED life {LIFE}: {len(attempted)} keys, {lost} lost, {other} otherwise wrong", flush=True)
    with open(f"{SHARED}/verdict-{LIFE}", "w") as verdict:
        verdict.write(f"{len(attempted)} {lost} {other}\n")


def list_all():
    status, body = request("GET", f"/{BUCKET}?list-type=2")
    assert status == 200, body
    sizes = {}
    for part in body.decode().split("<Contents>")[1:]:
        key = part.split("<Key>")[1].split("</Key>")[0]
        sizes[key] = int(part.split("<Size>")[1].split("</Size>")[0])
    return sizes


def write(thread):
    random.seed(LIFE * 100 + thread)
    _, attempted = read_lives()
    versions = {f"k-{thread}-{n}": 0 for n in range(KEYS_PER_THREAD)}
    versions.update({key: version for key, (version, _) in attempted.items() if key in versions})
    connection = http.client.HTTPConnection(*ADDRESS, timeout=60)
    while True:
        key = random.choice(list(versions))
        versions[key] += 1
        version = versions[key]
        note(f"try {key} {version}")
        if version % 5 == 0:
            status, _ = request("DELETE", f"/{BUCKET}/{key}", connection=connection)
        else:
            status, _ = request("PUT", f"/{BUCKET}/{key}", content(key, version), connection)
        if status in (200, 204):
            note(f"ack {key} {version}")


LOCK = threading.Lock()


def note(line):
    with LOCK:
        NOTES.write(line + "\n")
        NOTES.flush()


mount()
start_server()
verify()
NOTES = open(f"{SHARED}/acks-{LIFE}", "w")
for number in range(THREADS):
    threading.Thread(target=write, args=(number,), daemon=True).start()
with open(f"{SHARED}/writing-{LIFE}", "w"):
    pass
time.sleep(600)
