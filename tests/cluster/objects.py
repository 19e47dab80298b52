"""Objects of a bucket, of all sizes, through boto3 at all nodes: plain and conditional PUTs, multipart uploads, deletes, reads, lists.

Each thread has keys of its own, and knows what each must hold (ledger.py). Every answer is compared with that at once; `verify` reads back
from every node what was acknowledged, and compares every byte.
"""

import random
import sys

import boto3
import botocore.config
import botocore.exceptions

import network
import talk
from crew import PAUSE_SECONDS, Crew
from ledger import ABSENT, content, version_of

THREADS = 3
PACE_SECONDS = 0.05
# A thread deletes when it has more.
MOST_KEYS = 40
PART_BYTES = 5 << 20
# So many of a hundred steps are these; the rest reads.
STEPS = (("create", 30), ("overwrite", 15), ("swap", 12), ("remove", 8), ("multipart", 2), ("large", 3), ("list", 10))


def client(node):
    config = botocore.config.Config(
        retries={"total_max_attempts": 1}, region_name="us-east-1", connect_timeout=5, read_timeout=60, s3={"addressing_style": "path"}
    )
    keys = {"aws_access_key_id": "tester", "aws_secret_access_key": "tester-secret"}
    return boto3.client("s3", endpoint_url=f"http://{network.address(node)}:9000", config=config, **keys)


class Open(Exception):
    """Nobody can tell how the request ended."""


class Full(Exception):
    """There is no room. Of a write some copies may stand all the same: nobody can tell (docs/semantics.md)."""


def ask(call, **arguments):
    """The answer; a ClientError that says something of the object; or one of the above."""
    try:
        return call(**arguments)
    except botocore.exceptions.ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        if status == 503:
            raise Open from error
        if status == 507:
            raise Full from error
        raise
    except (botocore.exceptions.HTTPClientError, botocore.exceptions.BotoCoreError) as error:
        raise Open from error


class Objects(Crew):
    def __init__(self, bucket):
        super().__init__()
        self.bucket = bucket
        self.clients = [client(node) for node in network.NODES]
        self.done = {}
        self.tags = {}
        for number in range(THREADS):
            self.start(self.next_step, random.Random(number), number)

    def next_step(self, chance, number):
        names, weights = [name for name, _ in STEPS] + ["read"], [weight for _, weight in STEPS]
        weights.append(100 - sum(weights))
        pause, step = PACE_SECONDS, chance.choices(names, weights)[0]
        try:
            self.step(step, chance, number)
        except (Open, Full) as error:
            pause, step = PAUSE_SECONDS, type(error).__name__.lower()
        except Exception as error:
            raise RuntimeError(f"{step}: {type(error).__name__} {error}") from error
        finally:
            with self.lock:
                self.done[step] = self.done.get(step, 0) + 1
        return pause

    def step(self, step, chance, number):
        s3 = self.clients[chance.randrange(len(self.clients))]
        mine = [key for key in list(self.ledger.keys) if key.startswith(f"{number}/")]
        sure = [key for key in mine if self.ledger.is_sure(key)[0]]
        held = [key for key in sure if self.ledger.is_sure(key)[1] != ABSENT]
        fresh = f"{number}/{len(mine):05}"
        if step in ("create", "multipart", "large") and len(held) > MOST_KEYS:
            step = "remove"
        if step == "create":
            return self.put(s3, fresh, chance.randrange(20_000), IfNoneMatch="*")
        if step == "large":
            return self.put(s3, fresh, chance.randrange(1 << 20, 3 << 20))
        if step == "multipart":
            return self.multipart(s3, fresh, PART_BYTES + chance.randrange(100_000))
        if step == "list":
            return self.list(s3, number)
        if not held:
            return None
        key = chance.choice(held)
        if step == "overwrite":
            return self.put(s3, key, chance.randrange(20_000))
        if step == "swap":
            return self.put(s3, key, chance.randrange(20_000), IfMatch=self.tags[key])
        if step == "remove":
            return self.write(key, True, s3.delete_object)
        floor = self.ledger.floor(key)
        return self.judge(key, floor, self.found(s3, key))

    def write(self, key, is_delete, call, **arguments):
        """Carries a write out and notes how it ended."""
        version = self.ledger.ask(key, is_delete)
        if callable(arguments.get("Body")):
            arguments["Body"] = arguments["Body"](version)
        answer = ask(call, Bucket=self.bucket, Key=key, **arguments)
        self.tags[key] = answer.get("ETag")
        self.ledger.acknowledge(key, version)

    def put(self, s3, key, length, **conditions):
        self.write(key, False, s3.put_object, Body=lambda version: content(key, version, length), **conditions)

    def multipart(self, s3, key, length):
        upload = ask(s3.create_multipart_upload, Bucket=self.bucket, Key=key)["UploadId"]
        version = self.ledger.ask(key)
        whole = content(key, version, length)
        parts = []
        try:
            for number, part in enumerate((whole[:PART_BYTES], whole[PART_BYTES:]), 1):
                place = {"Bucket": self.bucket, "Key": key, "UploadId": upload, "PartNumber": number}
                parts.append({"PartNumber": number, "ETag": ask(s3.upload_part, Body=part, **place)["ETag"]})
        except (Open, Full):
            # Parts are no object: nobody may find them.
            self.ledger.refuse(key, version)
            raise
        place = {"Bucket": self.bucket, "Key": key, "UploadId": upload}
        answer = ask(s3.complete_multipart_upload, MultipartUpload={"Parts": parts}, **place)
        self.tags[key] = answer["ETag"]
        self.ledger.acknowledge(key, version)

    def list(self, s3, number):
        floors = {key: self.ledger.floor(key) for key in list(self.ledger.keys) if key.startswith(f"{number}/")}
        pages = []
        token = {}
        while True:
            answer = ask(s3.list_objects_v2, Bucket=self.bucket, Prefix=f"{number}/", MaxKeys=25, **token)
            pages += [entry["Key"] for entry in answer.get("Contents", [])]
            if not answer["IsTruncated"]:
                break
            token = {"ContinuationToken": answer["NextContinuationToken"]}
        # This thread alone writes these keys: what is sure stands in the list, or does not.
        for key in floors:
            is_sure, holds = self.ledger.is_sure(key)
            if is_sure and (key in pages) != (holds != ABSENT):
                self.complain(f"list: {key} {'is' if key in pages else 'is not'} listed and holds version {holds}")
        for key in set(pages) - set(floors):
            self.complain(f"list: nobody wrote {key}")

    def judge(self, key, floor, version):
        complaint = self.ledger.check(key, floor, version)
        if complaint:
            self.complain(f"read: {complaint}")

    def go(self):
        self.done = {}
        return super().go()

    def verify(self, everything):
        keys, wrong = self.read_back(everything, lambda node, key: self.found(self.clients[node], key))
        # Whoever swaps needs the tag; which one a write of open outcome made is not known.
        for key in keys:
            if self.ledger.is_sure(key)[1] != ABSENT:
                try:
                    self.tags[key] = self.clients[0].head_object(Bucket=self.bucket, Key=key)["ETag"]
                except Exception as error:
                    wrong.append(f"{key}: {error}")
        return {"checked": len(keys), "done": self.done, "wrong": wrong}

    def found(self, s3, key):
        try:
            answer = ask(s3.get_object, Bucket=self.bucket, Key=key)
        except botocore.exceptions.ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
                return ABSENT
            raise
        try:
            return version_of(key, answer["Body"].read())
        except (botocore.exceptions.HTTPClientError, botocore.exceptions.BotoCoreError) as error:
            raise Open from error


def main():
    objects = Objects(sys.argv[1])
    talk.answer({"go": objects.go, "rest": objects.rest, "verify": objects.verify})


if __name__ == "__main__":
    sys.exit(main())
