"""Listing through boto3."""

import random

import pytest

from errors import refused

NAMES = sorted(
    ["a", "a/b", "a/b/c", "a/b0", "a0", "b/", "b//c", "b/1", "dir/x", "dir/y", "dir2/x", "z", "é", "é/x", "with space/x+y"],
    key=str.encode,
)


@pytest.fixture
def filled(s3, bucket):
    for name in NAMES:
        s3.put_object(Bucket=bucket, Key=name, Body=name.encode())
    return bucket


def expected(prefix, delimiter, after=""):
    """What S3 lists: names and rolled-up prefixes."""
    keys, prefixes = [], []
    for name in NAMES:
        if not name.startswith(prefix) or name.encode() <= after.encode():
            continue
        rest = name[len(prefix):]
        if delimiter and delimiter in rest:
            rolled = prefix + rest[: rest.index(delimiter) + len(delimiter)]
            if rolled not in prefixes:
                prefixes.append(rolled)
        else:
            keys.append(name)
    return keys, prefixes


CASES = [("", ""), ("", "/"), ("a", "/"), ("a/", "/"), ("b/", "/"), ("dir", "/"), ("", "b"), ("é", "/"), ("x", ""), ("", "//")]


@pytest.mark.parametrize("prefix,delimiter", CASES)
@pytest.mark.parametrize("page", [1, 2, 1000])
@pytest.mark.parametrize("operation", ["list_objects_v2", "list_objects"])
def test_pages(s3, filled, operation, prefix, delimiter, page):
    keys, prefixes = [], []
    settings = {"Bucket": filled, "Prefix": prefix, "PaginationConfig": {"PageSize": page}}
    if delimiter:
        settings["Delimiter"] = delimiter
    for answer in s3.get_paginator(operation).paginate(**settings):
        found = [entry["Key"] for entry in answer.get("Contents", [])]
        rolled = [entry["Prefix"] for entry in answer.get("CommonPrefixes", [])]
        assert len(found) + len(rolled) <= page
        if operation == "list_objects_v2":
            assert answer["KeyCount"] == len(found) + len(rolled), "prefixes count"
        keys += found
        prefixes += rolled
    assert (keys, prefixes) == expected(prefix, delimiter)


def test_entries(s3, filled):
    answer = s3.list_objects_v2(Bucket=filled, Prefix="dir/", FetchOwner=True)
    for entry in answer["Contents"]:
        head = s3.head_object(Bucket=filled, Key=entry["Key"])
        assert (entry["Size"], entry["ETag"]) == (head["ContentLength"], head["ETag"])
        assert entry["LastModified"].replace(microsecond=0) == head["LastModified"]
        assert entry["StorageClass"] == "STANDARD"
        assert entry["Owner"]["ID"]
    assert "Owner" not in s3.list_objects_v2(Bucket=filled)["Contents"][0]
    assert "Owner" in s3.list_objects(Bucket=filled)["Contents"][0]


def test_start_after_and_encoding(s3, filled):
    answer = s3.list_objects_v2(Bucket=filled, StartAfter="b/")
    assert [entry["Key"] for entry in answer["Contents"]] == expected("", "", "b/")[0]
    answer = s3.list_objects_v2(Bucket=filled, EncodingType="url", Prefix="with", Delimiter="/")
    assert answer["EncodingType"] == "url"
    assert answer["CommonPrefixes"] == [{"Prefix": "with%20space/"}], "asked for by name, it is not decoded"


def test_empty_pages(s3, filled):
    answer = s3.list_objects_v2(Bucket=filled, MaxKeys=0)
    assert (answer["KeyCount"], answer["IsTruncated"]) == (0, False)
    assert "Contents" not in s3.list_objects_v2(Bucket=filled, Prefix="nothing")
    with refused("InvalidArgument", 400):
        s3.list_objects_v2(Bucket=filled, ContinuationToken="!")
    with refused("NoSuchBucket", 404):
        s3.list_objects_v2(Bucket="no-such-bucket-here")


def test_a_list_follows_every_write(s3, bucket):
    chance = random.Random(1)
    present = set()
    for _ in range(200):
        name = f"{chance.randrange(20)}/{chance.randrange(5)}"
        if name in present and chance.random() < 0.5:
            s3.delete_object(Bucket=bucket, Key=name)
            present.remove(name)
        else:
            s3.put_object(Bucket=bucket, Key=name, Body=b"x")
            present.add(name)
        found = [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]
        assert found == sorted(present)


def test_versions_of_buckets_without_versions(s3, filled):
    found = []
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=filled, PaginationConfig={"PageSize": 4}):
        found += [(entry["Key"], entry["VersionId"], entry["IsLatest"]) for entry in page.get("Versions", [])]
    assert found == [(name, "null", True) for name in NAMES]
    s3.delete_object(Bucket=filled, Key="z", VersionId="null")
    s3.delete_objects(Bucket=filled, Delete={"Objects": [{"Key": "a", "VersionId": "null"}]})
    names = [entry["Key"] for entry in s3.list_objects_v2(Bucket=filled)["Contents"]]
    assert names == [name for name in NAMES if name not in ("a", "z")]
