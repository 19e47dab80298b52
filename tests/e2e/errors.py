"""What a request must be refused with."""

from contextlib import contextmanager

import pytest
from botocore.exceptions import ClientError


@contextmanager
def refused(code, status=None):
    """The block must fail with this S3 error code."""
    with pytest.raises(ClientError) as caught:
        yield
    answer = caught.value.response
    assert answer["Error"]["Code"] == code, answer
    if status is not None:
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == status, answer
