"""Multipart uploads through boto3."""

import hashlib
import io
import os

import pytest
from boto3.s3.transfer import TransferConfig

from errors import refused

MIB = 1 << 20


def put_parts(s3, bucket, key, upload, contents, **settings):
    parts = []
    for number, content in contents.items():
        answer = s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=number, Body=content, **settings)
        parts.append({"PartNumber": number, "ETag": answer["ETag"]})
    return parts


def test_whole_life(s3, bucket):
    contents = {1: os.urandom(5 * MIB), 3: os.urandom(6 * MIB), 7: os.urandom(1234)}
    created = s3.create_multipart_upload(Bucket=bucket, Key="a/b c", Metadata={"m": "1"}, ContentType="text/x")
    upload = created["UploadId"]
    parts = put_parts(s3, bucket, "a/b c", upload, contents)
    listed = s3.list_parts(Bucket=bucket, Key="a/b c", UploadId=upload)
    assert [(part["PartNumber"], part["Size"]) for part in listed["Parts"]] == [(n, len(c)) for n, c in contents.items()]
    page = s3.list_parts(Bucket=bucket, Key="a/b c", UploadId=upload, MaxParts=1, PartNumberMarker=1)
    assert ([part["PartNumber"] for part in page["Parts"]], page["IsTruncated"], page["NextPartNumberMarker"]) == ([3], True, 3)
    open_uploads = s3.list_multipart_uploads(Bucket=bucket)["Uploads"]
    assert [(found["Key"], found["UploadId"]) for found in open_uploads] == [("a/b c", upload)]
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket), "no object yet"
    done = s3.complete_multipart_upload(Bucket=bucket, Key="a/b c", UploadId=upload, MultipartUpload={"Parts": parts})
    digests = b"".join(hashlib.md5(content).digest() for content in contents.values())
    assert done["ETag"] == f'"{hashlib.md5(digests).hexdigest()}-3"'
    got = s3.get_object(Bucket=bucket, Key="a/b c")
    assert got["Body"].read() == b"".join(contents.values())
    assert (got["Metadata"], got["ContentType"], got["ETag"]) == ({"m": "1"}, "text/x", done["ETag"])
    second = s3.get_object(Bucket=bucket, Key="a/b c", PartNumber=2)
    assert (second["Body"].read(), second["PartsCount"]) == (contents[3], 3)
    assert s3.head_object(Bucket=bucket, Key="a/b c", PartNumber=3)["ContentLength"] == 1234
    with refused("416", 416):
        s3.head_object(Bucket=bucket, Key="a/b c", PartNumber=4)
    across = s3.get_object(Bucket=bucket, Key="a/b c", Range=f"bytes={5 * MIB - 3}-{5 * MIB + 2}")["Body"].read()
    assert across == contents[1][-3:] + contents[3][:3]
    again = s3.complete_multipart_upload(Bucket=bucket, Key="a/b c", UploadId=upload, MultipartUpload={"Parts": parts})
    assert again["ETag"] == done["ETag"], "a retry answers the first outcome"
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_mistakes(s3, bucket):
    upload = s3.create_multipart_upload(Bucket=bucket, Key="key")["UploadId"]
    parts = put_parts(s3, bucket, "key", upload, {1: b"too small", 2: b"last"})

    def complete(parts, upload=upload, **settings):
        s3.complete_multipart_upload(Bucket=bucket, Key="key", UploadId=upload, MultipartUpload={"Parts": parts}, **settings)

    with refused("EntityTooSmall", 400):
        complete(parts)
    with refused("InvalidPartOrder", 400):
        complete(parts[::-1])
    with refused("InvalidPart", 400):
        complete([{"PartNumber": 1, "ETag": '"0123456789abcdef0123456789abcdef"'}])
    with refused("InvalidPart", 400):
        complete([{"PartNumber": 9, "ETag": parts[0]["ETag"]}])
    with refused("MalformedXML", 400):
        complete([])
    with refused("NoSuchUpload", 404):
        complete(parts, upload="0" * 32)
    with refused("NoSuchUpload", 404):
        s3.upload_part(Bucket=bucket, Key="key", UploadId="nonsense", PartNumber=1, Body=b"x")
    with refused("InvalidArgument", 400):
        s3.upload_part(Bucket=bucket, Key="key", UploadId=upload, PartNumber=10_001, Body=b"x")
    s3.abort_multipart_upload(Bucket=bucket, Key="key", UploadId=upload)
    with refused("NoSuchUpload", 404):
        s3.list_parts(Bucket=bucket, Key="key", UploadId=upload)


def test_conditional_complete(s3, bucket):
    tag = s3.put_object(Bucket=bucket, Key="key", Body=b"x")["ETag"]
    upload = s3.create_multipart_upload(Bucket=bucket, Key="key")["UploadId"]
    parts = put_parts(s3, bucket, "key", upload, {1: b"y"})
    with refused("PreconditionFailed", 412):
        s3.complete_multipart_upload(Bucket=bucket, Key="key", UploadId=upload, MultipartUpload={"Parts": parts}, IfNoneMatch="*")
    s3.complete_multipart_upload(Bucket=bucket, Key="key", UploadId=upload, MultipartUpload={"Parts": parts}, IfMatch=tag)
    assert s3.get_object(Bucket=bucket, Key="key")["Body"].read() == b"y"


def test_parts_from_objects(s3, bucket):
    content = os.urandom(6 * MIB)
    s3.put_object(Bucket=bucket, Key="source", Body=content)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="key")["UploadId"]
    settings = {"Bucket": bucket, "Key": "key", "UploadId": upload, "CopySource": {"Bucket": bucket, "Key": "source"}}
    whole = s3.upload_part_copy(PartNumber=1, **settings)["CopyPartResult"]
    assert whole["ETag"] == f'"{hashlib.md5(content).hexdigest()}"'
    some = s3.upload_part_copy(PartNumber=2, CopySourceRange="bytes=10-1000009", **settings)["CopyPartResult"]
    with refused("InvalidArgument", 400):
        s3.upload_part_copy(PartNumber=3, CopySourceRange=f"bytes=0-{6 * MIB}", **settings)
    with refused("InvalidArgument", 400):
        s3.upload_part_copy(PartNumber=3, CopySourceRange="bytes=0-", **settings)
    parts = [{"PartNumber": 1, "ETag": whole["ETag"]}, {"PartNumber": 2, "ETag": some["ETag"]}]
    s3.complete_multipart_upload(Bucket=bucket, Key="key", UploadId=upload, MultipartUpload={"Parts": parts})
    assert s3.get_object(Bucket=bucket, Key="key")["Body"].read() == content + content[10:1_000_010]


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
def test_checksums_of_parts(s3, bucket, algorithm):
    field = f"Checksum{algorithm}"
    try:
        created = s3.create_multipart_upload(Bucket=bucket, Key="key", ChecksumAlgorithm=algorithm)
        answers = [
            s3.upload_part(Bucket=bucket, Key="key", UploadId=created["UploadId"], PartNumber=number, Body=content, ChecksumAlgorithm=algorithm)
            for number, content in [(1, bytes(5 * MIB)), (2, b"end")]
        ]
    except Exception as error:
        if "botocore[crt]" in str(error):
            pytest.skip("this boto3 lacks the algorithm")
        raise
    parts = [{"PartNumber": n + 1, "ETag": answer["ETag"], field: answer[field]} for n, answer in enumerate(answers)]
    done = s3.complete_multipart_upload(Bucket=bucket, Key="key", UploadId=created["UploadId"], MultipartUpload={"Parts": parts})
    head = s3.head_object(Bucket=bucket, Key="key", ChecksumMode="ENABLED")
    assert head[field] == done[field]
    assert head["ChecksumType"] == ("FULL_OBJECT" if algorithm == "CRC64NVME" else "COMPOSITE")


def test_transfer_manager(s3, bucket):
    content = os.urandom(21 * MIB)
    config = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB, max_concurrency=4)
    s3.upload_fileobj(io.BytesIO(content), bucket, "managed", Config=config)
    back = io.BytesIO()
    s3.download_fileobj(bucket, "managed", back, Config=config)
    assert back.getvalue() == content
    s3.copy({"Bucket": bucket, "Key": "managed"}, bucket, "copied", Config=config)
    assert s3.get_object(Bucket=bucket, Key="copied")["Body"].read() == content


def test_pages_of_uploads(s3, bucket):
    made = []
    for key in ["a", "a", "b/1", "b/2", "c d"]:
        made.append((key, s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]))
    found = []
    for page in s3.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, PaginationConfig={"PageSize": 2}):
        found += [(entry["Key"], entry["UploadId"]) for entry in page.get("Uploads", [])]
    assert found == sorted(made)
    rolled = s3.list_multipart_uploads(Bucket=bucket, Delimiter="/", Prefix="")
    assert [entry["Prefix"] for entry in rolled["CommonPrefixes"]] == ["b/"]


@pytest.mark.parametrize("algorithm", ["CRC32", "SHA256", None])
def test_parts_of_an_object_with_their_checksums(s3, bucket, algorithm):
    """Pages of GetObjectAttributes, and reads of one part. Without an algorithm the client sends CRC32 with each part."""
    contents = {1: os.urandom(5 * MIB), 2: os.urandom(5 * MIB), 3: b"end"}
    asked = {"ChecksumAlgorithm": algorithm} if algorithm else {}
    field = f"Checksum{algorithm or 'CRC32'}"
    upload = s3.create_multipart_upload(Bucket=bucket, Key="key", **asked)["UploadId"]
    parts = []
    for number, content in contents.items():
        answer = s3.upload_part(Bucket=bucket, Key="key", UploadId=upload, PartNumber=number, Body=content, **asked)
        if field not in answer:
            pytest.skip("this boto3 sends no checksums by itself")
        parts.append({"PartNumber": number, "ETag": answer["ETag"], field: answer[field]})
    listed = s3.list_parts(Bucket=bucket, Key="key", UploadId=upload)
    assert [part[field] for part in listed["Parts"]] == [part[field] for part in parts]
    assert listed.get("ChecksumAlgorithm") == algorithm
    done = s3.complete_multipart_upload(Bucket=bucket, Key="key", UploadId=upload, MultipartUpload={"Parts": parts})
    kind = "COMPOSITE" if algorithm else "FULL_OBJECT"
    assert done["ChecksumType"] == kind
    described = {"Bucket": bucket, "Key": "key", "ObjectAttributes": ["ObjectParts", "Checksum"]}
    page = s3.get_object_attributes(MaxParts=2, **described)["ObjectParts"]
    assert (page["TotalPartsCount"], page["IsTruncated"], page["NextPartNumberMarker"]) == (3, True, 2)
    page = page["Parts"] + s3.get_object_attributes(PartNumberMarker=2, **described)["ObjectParts"]["Parts"]
    expected = [(number, len(content), part[field]) for (number, content), part in zip(contents.items(), parts)]
    assert [(part["PartNumber"], part["Size"], part[field]) for part in page] == expected
    read = s3.get_object(Bucket=bucket, Key="key", PartNumber=3, ChecksumMode="ENABLED")
    assert (read["Body"].read(), read[field], read["ChecksumType"]) == (b"end", parts[2][field], kind)
    shown = s3.list_objects_v2(Bucket=bucket)["Contents"][0]
    assert (shown["ChecksumAlgorithm"], shown["ChecksumType"]) == ([algorithm or "CRC32"], kind)
    with refused("InvalidRequest", 400):
        s3.create_multipart_upload(Bucket=bucket, Key="key", ChecksumAlgorithm="SHA1", ChecksumType="FULL_OBJECT")
