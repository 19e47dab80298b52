"""Ways of signing and framing: headers, URLs, chunks with trailing checksums, nobody at all; and both addressing styles."""

import base64
import http.client
import io
import os
import socket
import time
import urllib.error
import urllib.request
import zlib

import boto3
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.httpchecksum import AwsChunkedWrapper, Crc32Checksum

from conftest import DOMAIN, REGION
from errors import refused


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
def test_checksums(s3, bucket, algorithm):
    field = f"Checksum{algorithm}"
    try:
        put = s3.put_object(Bucket=bucket, Key="key", Body=b"hello world", ChecksumAlgorithm=algorithm)
    except Exception as error:
        if "botocore[crt]" in str(error):
            pytest.skip("this boto3 lacks the algorithm")
        raise
    got = s3.get_object(Bucket=bucket, Key="key", ChecksumMode="ENABLED")
    assert got[field] == put[field]
    assert got["ChecksumType"] == "FULL_OBJECT"
    assert got["Body"].read() == b"hello world"
    wrong = base64.b64encode(bytes(len(base64.b64decode(put[field])))).decode()
    with refused("BadDigest", 400):
        s3.put_object(Bucket=bucket, Key="key", Body=b"hello world", **{field: wrong})


def test_content_md5(s3, bucket):
    with refused("BadDigest", 400):
        s3.put_object(Bucket=bucket, Key="key", Body=b"x", ContentMD5="AAAAAAAAAAAAAAAAAAAAAA==")
    with refused("InvalidDigest", 400):
        s3.put_object(Bucket=bucket, Key="key", Body=b"x", ContentMD5="nonsense")


def test_unsigned_payload(endpoint, bucket):
    s3 = endpoint.client(s3={"addressing_style": "path", "payload_signing_enabled": False})
    s3.put_object(Bucket=bucket, Key="key", Body=b"unsigned")
    assert s3.get_object(Bucket=bucket, Key="key")["Body"].read() == b"unsigned"


def send(endpoint, request):
    """Sends a signed request and returns status and body."""
    connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=30)
    path = request.url.split(f":{endpoint.port}", 1)[1]
    connection.request(request.method, path, body=request.data, headers=dict(request.headers.items()))
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def chunked(endpoint, bucket, content, spoil=lambda body: body):
    """A PUT as SDKs send it over TLS: unsigned chunks, and a checksum behind them. The framing is botocore's own."""
    wrapper = AwsChunkedWrapper(io.BytesIO(content), checksum_cls=Crc32Checksum, checksum_name="x-amz-checksum-crc32", chunk_size=65_536)
    body = spoil(wrapper.read())
    headers = {
        "Content-Encoding": "aws-chunked",
        "X-Amz-Trailer": "x-amz-checksum-crc32",
        "X-Amz-Decoded-Content-Length": str(len(content)),
        "Content-Length": str(len(body)),
    }
    request = AWSRequest(method="PUT", url=f"{endpoint.url}/{bucket}/chunked", data=body, headers=headers)
    request.context["checksum"] = {"request_algorithm": {"in": "trailer"}}
    S3SigV4Auth(Credentials(endpoint.user, endpoint.password), "s3", REGION).add_auth(request)
    assert request.headers["X-Amz-Content-SHA256"] == "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
    return send(endpoint, request)


@pytest.mark.parametrize("size", [0, 1, 65_536, 200_000, 3_000_000])
def test_chunks_with_trailing_checksum(endpoint, s3, bucket, size):
    content = os.urandom(size)
    assert chunked(endpoint, bucket, content) == (200, "")
    got = s3.get_object(Bucket=bucket, Key="chunked", ChecksumMode="ENABLED")
    assert got["Body"].read() == content
    assert got["ChecksumCRC32"] == base64.b64encode(zlib.crc32(content).to_bytes(4, "big")).decode()
    assert "ContentEncoding" not in got


def test_spoilt_chunks(endpoint, s3, bucket):
    content = os.urandom(100_000)
    status, text = chunked(endpoint, bucket, content, lambda body: body[:1000] + bytes([body[1000] ^ 1]) + body[1001:])
    assert (status, "BadDigest" in text) == (400, True), text
    status, text = chunked(endpoint, bucket, content, lambda body: b"zz" + body[2:])
    assert (status, "IncompleteBody" in text) == (400, True), text
    with refused("NoSuchKey", 404):
        s3.get_object(Bucket=bucket, Key="chunked")


def test_presigned_urls(endpoint, s3, bucket):
    # Without this, boto3 signs URLs for us-east-1 with Signature Version 2, which nobody should take any more.
    old = s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "a b/c"}, ExpiresIn=60)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(old)
    assert (caught.value.code, b"Please use AWS4-HMAC-SHA256" in caught.value.read()) == (400, True)
    s3 = endpoint.client(signature_version="s3v4", s3={"addressing_style": "path"})
    put = s3.generate_presigned_url("put_object", {"Bucket": bucket, "Key": "a b/c"}, ExpiresIn=60)
    with urllib.request.urlopen(urllib.request.Request(put, data=b"by url", method="PUT")) as answer:
        assert answer.status == 200
    get = s3.generate_presigned_url(
        "get_object", {"Bucket": bucket, "Key": "a b/c", "ResponseContentDisposition": "attachment; filename=x"}, ExpiresIn=60
    )
    with urllib.request.urlopen(get) as answer:
        assert answer.read() == b"by url"
        assert answer.headers["Content-Disposition"] == "attachment; filename=x"
    for spoilt in [get.replace("x-id", "y-id"), get[:-1] + ("0" if get[-1] != "0" else "1")]:
        if spoilt == get:
            continue
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(spoilt)
        assert caught.value.code == 403
    expired = s3.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "a b/c"}, ExpiresIn=1)
    time.sleep(2.1)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(expired)
    assert caught.value.code == 403


def test_wrong_credentials(endpoint, bucket):
    def client(user, password):
        return boto3.client("s3", endpoint_url=endpoint.url, aws_access_key_id=user, aws_secret_access_key=password, region_name=REGION)

    with refused("InvalidAccessKeyId", 403):
        client("nobody-here", endpoint.password).list_objects_v2(Bucket=bucket)
    with refused("SignatureDoesNotMatch", 403):
        client(endpoint.user, "wrong-password").list_objects_v2(Bucket=bucket)
    elsewhere = boto3.client(
        "s3", endpoint_url=endpoint.url, aws_access_key_id=endpoint.user, aws_secret_access_key=endpoint.password, region_name="eu-west-1"
    )
    with refused("AuthorizationHeaderMalformed", 400):
        elsewhere.list_buckets()


def test_virtual_host_style(endpoint, s3, bucket, monkeypatch):
    if os.environ.get("TRILITH_ENDPOINT"):
        pytest.skip("the domain of that server is not known")
    resolve = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest: resolve("127.0.0.1" if str(host).endswith(DOMAIN) else host, *rest))
    virtual = boto3.client(
        "s3",
        endpoint_url=f"http://{DOMAIN}:{endpoint.port}",
        aws_access_key_id=endpoint.user,
        aws_secret_access_key=endpoint.password,
        region_name=REGION,
        config=Config(signature_version="s3v4", s3={"addressing_style": "virtual"}),
    )
    virtual.put_object(Bucket=bucket, Key="a/b c", Body=b"by host")
    assert virtual.get_object(Bucket=bucket, Key="a/b c")["Body"].read() == b"by host"
    assert s3.get_object(Bucket=bucket, Key="a/b c")["Body"].read() == b"by host"
    assert [entry["Key"] for entry in virtual.list_objects_v2(Bucket=bucket)["Contents"]] == ["a/b c"]
    url = virtual.generate_presigned_url("get_object", {"Bucket": bucket, "Key": "a/b c"}, ExpiresIn=60)
    assert f"{bucket}.{DOMAIN}" in url
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == b"by host"
