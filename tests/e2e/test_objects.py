"""Objects through boto3: writing, reading, copying, deleting, and what stands beside the content."""

import datetime
import hashlib
import io
import os

import pytest

from errors import refused


def md5(content):
    return hashlib.md5(content).hexdigest()


@pytest.mark.parametrize("size", [0, 1, 4096, 131_071, 131_072, 131_073, 1 << 20, (1 << 20) + 1, 5_000_000])
def test_content_comes_back(s3, bucket, size):
    content = os.urandom(size)
    put = s3.put_object(Bucket=bucket, Key="key", Body=content)
    assert put["ETag"] == f'"{md5(content)}"'
    got = s3.get_object(Bucket=bucket, Key="key")
    assert got["Body"].read() == content
    assert got["ContentLength"] == size
    assert got["ETag"] == put["ETag"]
    head = s3.head_object(Bucket=bucket, Key="key")
    assert (head["ContentLength"], head["ETag"]) == (size, put["ETag"])


def test_empty_streams_between_others(endpoint, bucket):
    """Clients ask for "100 Continue" before a stream, also an empty one."""
    s3 = endpoint.client(read_timeout=10, max_pool_connections=1, s3={"addressing_style": "path"})
    for content in [b"", b"x", b"", b"", b"y"]:
        s3.put_object(Bucket=bucket, Key="key", Body=io.BytesIO(content))
        assert s3.get_object(Bucket=bucket, Key="key")["Body"].read() == content


KEYS = ["a", "a/b", "a/", "//", "with space", "plus+", "percent%41", "ünïcode/😀", "q?u=e&r#y", "a" * 1024, "~!@$^*()'\"<>|\\", "tab\tline\nend"]


def test_keys(s3, bucket):
    for key in KEYS:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    for key in KEYS:
        assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == key.encode(), key
    assert [found["Key"] for found in s3.list_objects_v2(Bucket=bucket)["Contents"]] == sorted(KEYS, key=str.encode)
    with refused("KeyTooLongError", 400):
        s3.put_object(Bucket=bucket, Key="k" * 1025, Body=b"")


def test_metadata_and_content_headers(s3, bucket):
    expires = datetime.datetime(2027, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
    s3.put_object(
        Bucket=bucket,
        Key="key",
        Body=b"x",
        Metadata={"one": "1", "two-words": "zwei Wörter".encode("ascii", "ignore").decode()},
        ContentType="text/plain",
        ContentEncoding="gzip",
        ContentDisposition='attachment; filename="a"',
        ContentLanguage="en",
        CacheControl="max-age=5",
        Expires=expires,
        WebsiteRedirectLocation="/elsewhere",
        StorageClass="STANDARD_IA",
        Tagging="a=1&b=2",
    )
    for answer in (s3.get_object(Bucket=bucket, Key="key"), s3.head_object(Bucket=bucket, Key="key")):
        assert answer["Metadata"] == {"one": "1", "two-words": "zwei Wrter"}
        assert answer["ContentType"] == "text/plain"
        assert answer["ContentEncoding"] == "gzip"
        assert answer["ContentDisposition"] == 'attachment; filename="a"'
        assert answer["ContentLanguage"] == "en"
        assert answer["CacheControl"] == "max-age=5"
        assert answer["ExpiresString"] == "Sat, 02 Jan 2027 03:04:05 GMT"
        assert answer["WebsiteRedirectLocation"] == "/elsewhere"
        assert answer["StorageClass"] == "STANDARD_IA"
    tags = s3.get_object_tagging(Bucket=bucket, Key="key")["TagSet"]
    assert tags == [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}]
    for listed in (
        s3.list_objects_v2(Bucket=bucket)["Contents"],
        s3.list_objects(Bucket=bucket)["Contents"],
        s3.list_object_versions(Bucket=bucket)["Versions"],
    ):
        assert [item["StorageClass"] for item in listed] == ["STANDARD_IA"]
    with refused("MetadataTooLarge", 400):
        s3.put_object(Bucket=bucket, Key="key", Body=b"x", Metadata={"large": "m" * 2100})


def test_response_overrides(s3, bucket):
    s3.put_object(Bucket=bucket, Key="key", Body=b"x", ContentType="text/plain")
    got = s3.get_object(
        Bucket=bucket,
        Key="key",
        ResponseContentType="text/csv",
        ResponseCacheControl="no-store",
        ResponseContentDisposition="inline",
        ResponseContentEncoding="br",
        ResponseContentLanguage="de",
    )
    assert (got["ContentType"], got["CacheControl"], got["ContentDisposition"]) == ("text/csv", "no-store", "inline")
    assert (got["ContentEncoding"], got["ContentLanguage"]) == ("br", "de")


def test_ranges(s3, bucket):
    content = bytes(range(256)) * 12_000
    s3.put_object(Bucket=bucket, Key="key", Body=content)
    size = len(content)
    for text, expected in [
        ("bytes=0-0", content[:1]),
        ("bytes=5-9", content[5:10]),
        (f"bytes={size - 3}-", content[-3:]),
        ("bytes=-7", content[-7:]),
        (f"bytes=-{size * 2}", content),
        (f"bytes=1048570-{size + 100}", content[1_048_570:]),
    ]:
        got = s3.get_object(Bucket=bucket, Key="key", Range=text)
        assert got["Body"].read() == expected, text
        assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
    got = s3.get_object(Bucket=bucket, Key="key", Range="bytes=5-9")
    assert got["ContentRange"] == f"bytes 5-9/{size}"
    with refused("InvalidRange", 416):
        s3.get_object(Bucket=bucket, Key="key", Range=f"bytes={size}-")
    assert s3.get_object(Bucket=bucket, Key="key", Range="bytes=9-5")["ContentLength"] == size, "no range at all"


def test_conditional_reads(s3, bucket):
    tag = s3.put_object(Bucket=bucket, Key="key", Body=b"x")["ETag"]
    modified = s3.head_object(Bucket=bucket, Key="key")["LastModified"]
    before, after = modified - datetime.timedelta(hours=1), modified + datetime.timedelta(hours=1)
    other = '"0123456789abcdef0123456789abcdef"'
    for good in [
        {"IfMatch": tag},
        {"IfMatch": "*"},
        {"IfNoneMatch": other},
        {"IfModifiedSince": before},
        {"IfUnmodifiedSince": after},
        {"IfMatch": tag, "IfUnmodifiedSince": before},
        {"IfNoneMatch": other, "IfModifiedSince": after},
    ]:
        assert s3.get_object(Bucket=bucket, Key="key", **good)["Body"].read() == b"x", good
    for unmet, code, status in [
        ({"IfMatch": other}, "PreconditionFailed", 412),
        ({"IfUnmodifiedSince": before}, "PreconditionFailed", 412),
        ({"IfNoneMatch": tag}, "304", 304),
        ({"IfNoneMatch": "*"}, "304", 304),
        ({"IfModifiedSince": after}, "304", 304),
    ]:
        with refused(code, status):
            s3.get_object(Bucket=bucket, Key="key", **unmet)


def test_conditional_writes(s3, bucket):
    tag = s3.put_object(Bucket=bucket, Key="lock", Body=b"1", IfNoneMatch="*")["ETag"]
    with refused("PreconditionFailed", 412):
        s3.put_object(Bucket=bucket, Key="lock", Body=b"2", IfNoneMatch="*")
    with refused("PreconditionFailed", 412):
        s3.put_object(Bucket=bucket, Key="lock", Body=b"2", IfMatch='"0123456789abcdef0123456789abcdef"')
    next_tag = s3.put_object(Bucket=bucket, Key="lock", Body=b"2", IfMatch=tag)["ETag"]
    with refused("NoSuchKey", 404):
        s3.put_object(Bucket=bucket, Key="absent", Body=b"2", IfMatch=tag)
    with refused("PreconditionFailed", 412):
        s3.delete_object(Bucket=bucket, Key="lock", IfMatch=tag)
    s3.delete_object(Bucket=bucket, Key="lock", IfMatch=next_tag)
    with refused("NoSuchKey", 404):
        s3.get_object(Bucket=bucket, Key="lock")


def test_copies(s3, bucket):
    content = os.urandom(3_000_000)
    s3.put_object(Bucket=bucket, Key="from/a b+c", Body=content, Metadata={"m": "1"}, ContentType="text/x", Tagging="t=1")
    source = {"Bucket": bucket, "Key": "from/a b+c"}
    result = s3.copy_object(Bucket=bucket, Key="to", CopySource=source)["CopyObjectResult"]
    assert result["ETag"] == f'"{md5(content)}"'
    got = s3.get_object(Bucket=bucket, Key="to")
    assert (got["Body"].read(), got["Metadata"], got["ContentType"]) == (content, {"m": "1"}, "text/x")
    s3.copy_object(Bucket=bucket, Key="to", CopySource=source, MetadataDirective="REPLACE", Metadata={"n": "2"})
    head = s3.head_object(Bucket=bucket, Key="to")
    assert (head["Metadata"], head["ContentType"]) == ({"n": "2"}, "binary/octet-stream")
    assert s3.get_object_tagging(Bucket=bucket, Key="to")["TagSet"] == [{"Key": "t", "Value": "1"}]
    s3.copy_object(Bucket=bucket, Key="to", CopySource=source, TaggingDirective="REPLACE", Tagging="u=2")
    assert s3.get_object_tagging(Bucket=bucket, Key="to")["TagSet"] == [{"Key": "u", "Value": "2"}]
    with refused("InvalidRequest", 400):
        s3.copy_object(Bucket=bucket, Key="to", CopySource={"Bucket": bucket, "Key": "to"})
    with refused("NoSuchKey", 404):
        s3.copy_object(Bucket=bucket, Key="to", CopySource={"Bucket": bucket, "Key": "absent"})
    with refused("PreconditionFailed", 412):
        s3.copy_object(Bucket=bucket, Key="to", CopySource=source, CopySourceIfNoneMatch=result["ETag"])
    with refused("PreconditionFailed", 412):
        s3.copy_object(Bucket=bucket, Key="to", CopySource=source, IfNoneMatch="*")


def test_deletes(s3, bucket):
    s3.delete_object(Bucket=bucket, Key="never there")
    keys = [f"key {number} <&>" for number in range(20)]
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in [*keys, "absent"]]})
    assert [deleted["Key"] for deleted in answer["Deleted"]] == [*keys, "absent"]
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    with refused("MalformedXML", 400):
        s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": str(number)} for number in range(1001)]})


def test_delete_objects_verifies_its_document(s3, bucket):
    s3.put_object(Bucket=bucket, Key="kept", Body=b"x")

    def spoil(request, **_):
        # The header that names the algorithm goes too: without its checksum the request would contradict itself.
        others = ("x-amz-checksum", "x-amz-sdk-checksum-algorithm", "content-md5")
        for name in [name for name in request.headers if name.lower().startswith(others)]:
            del request.headers[name]
        request.headers["Content-MD5"] = "AAAAAAAAAAAAAAAAAAAAAA=="

    s3.meta.events.register("before-sign.s3.DeleteObjects", spoil)
    try:
        with refused("BadDigest", 400):
            s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "kept"}]})
    finally:
        s3.meta.events.unregister("before-sign.s3.DeleteObjects", spoil)
    assert s3.head_object(Bucket=bucket, Key="kept")["ContentLength"] == 1


def test_object_attributes(s3, bucket):
    s3.put_object(Bucket=bucket, Key="key", Body=b"hello world", ChecksumAlgorithm="SHA256")
    found = s3.get_object_attributes(
        Bucket=bucket, Key="key", ObjectAttributes=["ETag", "Checksum", "ObjectSize", "StorageClass"]
    )
    assert (found["ETag"], found["ObjectSize"], found["StorageClass"]) == (md5(b"hello world"), 11, "STANDARD")
    assert found["Checksum"]["ChecksumSHA256"] == "uU0nuZNNPgilLlLX2n2r+sSE7+N6U4DukIj3rOLvzek="


def test_what_is_not_there(s3, bucket):
    with refused("NoSuchKey", 404):
        s3.get_object(Bucket=bucket, Key="absent")
    with refused("404", 404):
        s3.head_object(Bucket=bucket, Key="absent")
    with refused("NoSuchBucket", 404):
        s3.get_object(Bucket="no-such-bucket-here", Key="absent")
    with refused("NotImplemented", 501):
        s3.put_object(Bucket=bucket, Key="key", Body=b"x", ServerSideEncryption="AES256")
