"""One server for all suites: the built program on a fresh data folder, or the endpoint in TRILITH_ENDPOINT."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

import boto3
import pytest
from botocore.config import Config

ROOT = Path(__file__).resolve().parents[2]
SERVER = os.environ.get("TRILITH_BIN", str(ROOT / "target/debug/trilith"))
DOMAIN = "s3.trilith.test"
REGION = "us-east-1"
START_LIMIT_S = 20


class Endpoint:
    """Where the server is, and who may do everything there."""

    def __init__(self, url, user, password):
        self.url, self.user, self.password = url, user, password
        self.host, self.port = url.removeprefix("http://").rsplit(":", 1)
        self.port = int(self.port)

    def client(self, **settings):
        """A boto3 client. Failures shall show at once, so nothing is tried twice."""
        config = Config(retries={"total_max_attempts": 1}, region_name=REGION, **settings)
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=self.user,
            aws_secret_access_key=self.password,
            config=config,
        )

    def environment(self):
        """For command lines."""
        keys = {"AWS_ACCESS_KEY_ID": self.user, "AWS_SECRET_ACCESS_KEY": self.password, "AWS_DEFAULT_REGION": REGION}
        return os.environ | keys | {"AWS_ENDPOINT_URL": self.url, "AWS_PAGER": "", "AWS_EC2_METADATA_DISABLED": "true"}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.fixture(scope="session")
def endpoint():
    given = os.environ.get("TRILITH_ENDPOINT")
    if given:
        yield Endpoint(given, os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])
        return
    folder = Path(tempfile.mkdtemp(prefix="trilith-e2e-"))
    port, admin_port = free_port(), free_port()
    settings = {"TRILITH_ROOT_USER": "root-user", "TRILITH_ROOT_PASSWORD": "root-password", "TRILITH_DOMAIN": DOMAIN}
    command = [SERVER, "serve", "--data", str(folder / "data"), "--device-size", "4GiB"]
    command += ["--s3-addr", f"127.0.0.1:{port}", "--admin-addr", f"127.0.0.1:{admin_port}"]
    with open(folder / "server.log", "wb") as log:
        server = subprocess.Popen(command, env=os.environ | settings, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_until_it_listens(server, port, folder)
        yield Endpoint(f"http://127.0.0.1:{port}", "root-user", "root-password")
        assert server.poll() is None, f"the server ended: {(folder / 'server.log').read_text()}"
    finally:
        server.terminate()
        server.wait(timeout=30)
        shutil.rmtree(folder)


def wait_until_it_listens(server, port, folder):
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise RuntimeError(f"the server does not listen: {(folder / 'server.log').read_text()}")


@pytest.fixture(scope="session")
def s3(endpoint):
    return endpoint.client(s3={"addressing_style": "path"})


@pytest.fixture
def bucket(s3):
    """A bucket of the test's own, gone with all it holds when the test ends."""
    name = f"test-{uuid.uuid4().hex[:20]}"
    s3.create_bucket(Bucket=name)
    yield name
    empty(s3, name)
    s3.delete_bucket(Bucket=name)


def empty(s3, name):
    for page in s3.get_paginator("list_multipart_uploads").paginate(Bucket=name):
        for upload in page.get("Uploads", []):
            s3.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=name):
        keys = [{"Key": found["Key"]} for found in page.get("Contents", [])]
        if keys:
            left = s3.delete_objects(Bucket=name, Delete={"Objects": keys, "Quiet": True})
            assert "Errors" not in left, left["Errors"]
