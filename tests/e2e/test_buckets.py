"""Buckets, policies, and the settings that clients ask for."""

import json
import uuid

import boto3
import pytest
from botocore import UNSIGNED

from errors import refused


def test_life_of_a_bucket(s3):
    name = f"life-{uuid.uuid4().hex[:12]}"
    assert s3.create_bucket(Bucket=name)["Location"] == f"/{name}"
    assert s3.create_bucket(Bucket=name)["Location"] == f"/{name}", "in us-east-1 its owner may make it again"
    assert s3.head_bucket(Bucket=name)["BucketRegion"] == "us-east-1"
    assert s3.get_bucket_location(Bucket=name)["LocationConstraint"] is None
    found = [bucket for bucket in s3.list_buckets()["Buckets"] if bucket["Name"] == name]
    assert len(found) == 1 and found[0]["CreationDate"]
    s3.put_object(Bucket=name, Key="key", Body=b"x")
    with refused("BucketNotEmpty", 409):
        s3.delete_bucket(Bucket=name)
    s3.delete_object(Bucket=name, Key="key")
    # An open upload keeps no bucket.
    upload = s3.create_multipart_upload(Bucket=name, Key="key")["UploadId"]
    s3.delete_bucket(Bucket=name)
    with refused("404", 404):
        s3.head_bucket(Bucket=name)
    with refused("NoSuchBucket", 404):
        s3.delete_bucket(Bucket=name)
    s3.create_bucket(Bucket=name)
    with refused("NoSuchUpload", 404):
        s3.list_parts(Bucket=name, Key="key", UploadId=upload)
    with refused("NoSuchKey", 404):
        s3.get_object(Bucket=name, Key="key")
    s3.delete_bucket(Bucket=name)


def test_list_buckets_in_pages(s3):
    stem = f"page-{uuid.uuid4().hex[:8]}-"
    names = [f"{stem}{number}" for number in range(5)]
    for name in names:
        s3.create_bucket(Bucket=name)
    first = s3.list_buckets(Prefix=stem, MaxBuckets=2)
    second = s3.list_buckets(Prefix=stem, MaxBuckets=9, ContinuationToken=first["ContinuationToken"])
    assert [bucket["Name"] for bucket in first["Buckets"] + second["Buckets"]] == names
    for name in names:
        s3.delete_bucket(Bucket=name)


@pytest.mark.parametrize("name", ["ab", "Upper", "under_score", "10.0.0.1", "dot..dot", "-dash", "x" * 64])
def test_impossible_names(endpoint, name):
    s3 = endpoint.client(s3={"addressing_style": "path"})
    s3.meta.events.unregister("before-parameter-build.s3", boto3.session.botocore.handlers.validate_bucket_name)
    with refused("InvalidBucketName", 400):
        s3.create_bucket(Bucket=name)


def statement(bucket, actions, resources, principal="*"):
    return {"Effect": "Allow", "Principal": principal, "Action": actions, "Resource": [f"arn:aws:s3:::{bucket}{end}" for end in resources]}


def test_policy_for_everybody(endpoint, s3, bucket):
    anonymous = endpoint.client(signature_version=UNSIGNED, s3={"addressing_style": "path"})
    s3.put_object(Bucket=bucket, Key="key", Body=b"x")
    with refused("NoSuchBucketPolicy", 404):
        s3.get_bucket_policy(Bucket=bucket)
    with refused("AccessDenied", 403):
        anonymous.get_object(Bucket=bucket, Key="key")
    read = {"Version": "2012-10-17", "Statement": [statement(bucket, "s3:GetObject", ["/*"], {"AWS": ["*"]})]}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(read))
    assert json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"]) == read
    assert anonymous.get_object(Bucket=bucket, Key="key")["Body"].read() == b"x"
    for act in [
        lambda: anonymous.put_object(Bucket=bucket, Key="key", Body=b"y"),
        lambda: anonymous.delete_object(Bucket=bucket, Key="key"),
        lambda: anonymous.list_objects_v2(Bucket=bucket),
        lambda: anonymous.get_object(Bucket=bucket, Key="absent"),
        lambda: anonymous.get_bucket_policy(Bucket=bucket),
        lambda: anonymous.get_bucket_acl(Bucket=bucket),
        lambda: anonymous.list_buckets(),
    ]:
        with refused("AccessDenied", 403):
            act()
    more = [statement(bucket, ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"], ["/*"], {"AWS": "*"}), statement(bucket, ["s3:ListBucket", "s3:GetBucketLocation"], [""])]
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Version": "2012-10-17", "Statement": more}))
    anonymous.put_object(Bucket=bucket, Key="by everybody", Body=b"y")
    with refused("NoSuchKey", 404):
        anonymous.get_object(Bucket=bucket, Key="absent")
    assert anonymous.list_objects_v2(Bucket=bucket)["KeyCount"] == 2
    anonymous.get_bucket_location(Bucket=bucket)
    outcome = anonymous.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "by everybody"}]})
    assert outcome["Deleted"] == [{"Key": "by everybody"}]
    s3.delete_bucket_policy(Bucket=bucket)
    with refused("AccessDenied", 403):
        anonymous.get_object(Bucket=bucket, Key="key")


@pytest.mark.parametrize(
    "policy",
    [
        "",
        "{",
        '{"Version":"2012-10-17","Statement":[]}',
        '{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::BUCKET/*"}]}',
        '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::1:user/a"},"Action":"s3:GetObject","Resource":"arn:aws:s3:::BUCKET/*"}]}',
        '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:*","Resource":"arn:aws:s3:::BUCKET/*"}]}',
        '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::other/*"}]}',
        '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::BUCKET/*","Condition":{}}]}',
    ],
)
def test_policies_that_would_not_be_enforced_are_refused(s3, bucket, policy):
    with refused("MalformedPolicy", 400):
        s3.put_bucket_policy(Bucket=bucket, Policy=policy.replace("BUCKET", bucket))


def test_settings_at_their_defaults(s3, bucket):
    assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)
    acl = s3.get_bucket_acl(Bucket=bucket)
    assert acl["Grants"][0]["Permission"] == "FULL_CONTROL" and acl["Grants"][0]["Grantee"]["ID"] == acl["Owner"]["ID"]
    s3.put_object(Bucket=bucket, Key="key", Body=b"x")
    assert s3.get_object_acl(Bucket=bucket, Key="key")["Grants"] == acl["Grants"]
    assert s3.get_object_tagging(Bucket=bucket, Key="key")["TagSet"] == []
    assert s3.get_bucket_request_payment(Bucket=bucket)["Payer"] == "BucketOwner"
    s3.get_bucket_logging(Bucket=bucket)
    s3.get_bucket_notification_configuration(Bucket=bucket)
    s3.get_bucket_accelerate_configuration(Bucket=bucket)
    for ask, code in [
        (s3.get_bucket_lifecycle_configuration, "NoSuchLifecycleConfiguration"),
        (s3.get_bucket_cors, "NoSuchCORSConfiguration"),
        (s3.get_bucket_encryption, "ServerSideEncryptionConfigurationNotFoundError"),
        (s3.get_object_lock_configuration, "ObjectLockConfigurationNotFoundError"),
        (s3.get_bucket_tagging, "NoSuchTagSet"),
        (s3.get_bucket_replication, "ReplicationConfigurationNotFoundError"),
        (s3.get_bucket_website, "NoSuchWebsiteConfiguration"),
        (s3.get_bucket_ownership_controls, "OwnershipControlsNotFoundError"),
        (s3.get_public_access_block, "NoSuchPublicAccessBlockConfiguration"),
        (s3.get_bucket_policy_status, "NoSuchBucketPolicy"),
    ]:
        with refused(code, 404):
            ask(Bucket=bucket)
    with refused("NotImplemented", 501):
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})


def test_location_of_another_region(s3):
    with refused("IllegalLocationConstraintException", 400):
        s3.create_bucket(Bucket="elsewhere-bucket", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
