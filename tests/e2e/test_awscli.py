"""The aws command line, as people use it."""

import filecmp
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

AWS = Path(sys.executable).parent / "aws"
LIMIT_S = 120


@pytest.fixture
def aws(endpoint, tmp_path):
    # Presigned URLs by Signature Version 4 also for us-east-1.
    config = tmp_path / "aws-config"
    config.write_text("[default]\ns3 =\n    signature_version = s3v4\n")
    environment = endpoint.environment() | {"AWS_CONFIG_FILE": str(config)}

    def run(*arguments, **settings):
        command = [str(AWS), *map(str, arguments)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False, **settings)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def make_tree(folder):
    for number in range(60):
        path = folder / f"part {number % 7}" / f"file-{number}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(number * 997))
    (folder / "large.bin").write_bytes(os.urandom(20 * 1024 * 1024))
    (folder / "empty").write_bytes(b"")


def differences(one, other):
    compared = filecmp.dircmp(one, other)
    found = compared.left_only + compared.right_only + compared.diff_files + compared.funny_files
    for name in compared.common_dirs:
        found += differences(one / name, other / name)
    return found


def test_sync_up_and_down(aws, bucket, tmp_path):
    up, down = tmp_path / "up", tmp_path / "down"
    make_tree(up)
    aws("s3", "sync", up, f"s3://{bucket}/tree")
    aws("s3", "sync", f"s3://{bucket}/tree", down)
    assert differences(up, down) == []
    for path in up.rglob("*"):
        if path.is_file():
            assert filecmp.cmp(path, down / path.relative_to(up), shallow=False), path
    assert aws("s3", "sync", up, f"s3://{bucket}/tree") == "", "nothing is left to do"
    listed = aws("s3", "ls", "--recursive", "--summarize", f"s3://{bucket}/tree/")
    assert "Total Objects: 62" in listed
    assert "PRE part 3/" in aws("s3", "ls", f"s3://{bucket}/tree/")
    aws("s3", "mv", f"s3://{bucket}/tree/large.bin", f"s3://{bucket}/moved.bin")
    aws("s3", "rm", "--recursive", f"s3://{bucket}/tree")
    assert aws("s3", "ls", f"s3://{bucket}").split()[-1] == "moved.bin"


def test_streams(aws, bucket):
    aws("s3", "cp", "-", f"s3://{bucket}/stream", input="from a pipe")
    assert aws("s3", "cp", f"s3://{bucket}/stream", "-") == "from a pipe"
    assert "from a" == aws("s3api", "get-object", "--bucket", bucket, "--key", "stream", "--range", "bytes=0-5", "/dev/stdout")[:6]


def test_api(aws, bucket):
    head = json.loads(aws("s3api", "put-object", "--bucket", bucket, "--key", "k", "--body", __file__, "--checksum-algorithm", "SHA256"))
    assert head["ChecksumSHA256"]
    found = json.loads(aws("s3api", "list-objects-v2", "--bucket", bucket))
    assert [entry["Key"] for entry in found["Contents"]] == ["k"]
    url = aws("s3", "presign", f"s3://{bucket}/k").strip()
    assert "X-Amz-Signature=" in url


def test_no_sign_request(aws, s3, bucket):
    policy = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject", "s3:PutObject"], "Resource": f"arn:aws:s3:::{bucket}/*"}]}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))
    aws("s3", "cp", "--no-sign-request", "-", f"s3://{bucket}/anonymous", input="from nobody")
    assert aws("s3", "cp", "--no-sign-request", f"s3://{bucket}/anonymous", "-") == "from nobody"
