//! `object::Policy::parse`: no document makes it panic; one that was accepted for a bucket allows something, allows nothing that
//! only an owner may do, and is refused for any other bucket.
#![no_main]

use libfuzzer_sys::fuzz_target;
use object::{Action, Policy};

/// What no policy can grant.
const OWNERS: [Action; 4] =
    [Action::DeleteBucket, Action::GetBucketPolicy, Action::PutBucketPolicy, Action::DeleteBucketPolicy];
const OTHERS: [Action; 4] = [
    Action::AbortMultipartUpload,
    Action::ListMultipartUploadParts,
    Action::ListBucketMultipartUploads,
    Action::GetBucketLocation,
];
const COMMON: [Action; 4] = [Action::GetObject, Action::PutObject, Action::DeleteObject, Action::ListBucket];

fuzz_target!(|document: &[u8]| {
    let Ok(policy) = Policy::parse(document, "bucket") else { return };
    assert!(OTHERS.into_iter().chain(COMMON).any(|action| policy.allows(action)), "a policy that allows nothing");
    assert!(!OWNERS.into_iter().any(|action| policy.allows(action)), "a policy that makes everybody an owner");
    assert!(Policy::parse(document, "bucketeer").is_err(), "a policy of one bucket passes for another's");
    assert!(Policy::parse(document, "buck").is_err(), "a policy of one bucket passes for another's");
});
