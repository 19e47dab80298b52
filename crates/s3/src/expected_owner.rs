//! `x-amz-expected-bucket-owner`: a request that is meant for one owner's bucket, and must not reach another's of the same name.

use http::HeaderMap;
use object::ObjectService;

use crate::failure::{ACCESS_DENIED, Failure};
use crate::owner::canonical_id;

const EXPECTED_OWNER: &str = "x-amz-expected-bucket-owner";

/// The same, of a copy's source.
const EXPECTED_SOURCE_OWNER: &str = "x-amz-source-expected-bucket-owner";

/// Refuses a request for a bucket that is another's than its client expects.
pub fn check(service: &ObjectService, headers: &HeaderMap, bucket: &str) -> Result<(), Failure> {
    check_header(service, headers, EXPECTED_OWNER, bucket)
}

/// The same for the bucket that is copied from.
pub fn check_source(service: &ObjectService, headers: &HeaderMap, bucket: &str) -> Result<(), Failure> {
    check_header(service, headers, EXPECTED_SOURCE_OWNER, bucket)
}

/// Owners have no account numbers here: they are expected by the id or by the name that lists show. A bucket that is not there is left to
/// the operation.
fn check_header(service: &ObjectService, headers: &HeaderMap, name: &str, bucket: &str) -> Result<(), Failure> {
    let Some(expected) = headers.get(name) else { return Ok(()) };
    let Ok(bucket) = service.find_bucket(bucket) else { return Ok(()) };
    let owner = bucket.owner();
    if expected.as_bytes() == owner.as_bytes() || expected.as_bytes() == canonical_id(owner).as_bytes() {
        return Ok(());
    }
    Err(ACCESS_DENIED.into())
}
