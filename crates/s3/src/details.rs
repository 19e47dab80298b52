//! The elements that S3 adds to an error: what the request was about, where only its head says that.

use http::{HeaderMap, Method, Uri};

use crate::failure::{
    BUCKET_ALREADY_EXISTS, BUCKET_ALREADY_OWNED_BY_YOU, BUCKET_NOT_EMPTY, Code, Failure, INVALID_BUCKET_NAME, INVALID_URI,
    METHOD_NOT_ALLOWED, NO_SUCH_BUCKET, NO_SUCH_BUCKET_POLICY, NO_SUCH_CORS_CONFIGURATION, NO_SUCH_ENCRYPTION_CONFIGURATION,
    NO_SUCH_KEY, NO_SUCH_LIFECYCLE_CONFIGURATION, NO_SUCH_OBJECT_LOCK_CONFIGURATION, NO_SUCH_OWNERSHIP_CONTROLS,
    NO_SUCH_PUBLIC_ACCESS_BLOCK, NO_SUCH_REPLICATION_CONFIGURATION, NO_SUCH_TAG_SET, NO_SUCH_UPLOAD, NO_SUCH_VERSION,
    NO_SUCH_WEBSITE_CONFIGURATION,
};
use crate::query::Query;
use crate::target::Target;

/// Errors that are about a bucket.
const OF_BUCKET: [&Code; 15] = [
    BUCKET_ALREADY_EXISTS,
    BUCKET_ALREADY_OWNED_BY_YOU,
    BUCKET_NOT_EMPTY,
    INVALID_BUCKET_NAME,
    NO_SUCH_BUCKET,
    NO_SUCH_BUCKET_POLICY,
    NO_SUCH_CORS_CONFIGURATION,
    NO_SUCH_ENCRYPTION_CONFIGURATION,
    NO_SUCH_LIFECYCLE_CONFIGURATION,
    NO_SUCH_OBJECT_LOCK_CONFIGURATION,
    NO_SUCH_OWNERSHIP_CONTROLS,
    NO_SUCH_PUBLIC_ACCESS_BLOCK,
    NO_SUCH_REPLICATION_CONFIGURATION,
    NO_SUCH_TAG_SET,
    NO_SUCH_WEBSITE_CONFIGURATION,
];

/// Adds what is missing. An operation that knows better (the source of a copy, for example) has said so already.
pub fn complete(failure: Failure, method: &Method, uri: &Uri, host: &HeaderMap, domain: Option<&str>) -> Failure {
    if failure.code == INVALID_URI {
        return failure.detail_unless_there("URI", uri.path());
    }
    let (Ok(target), Ok(query)) = (Target::of(uri.path(), host, domain), Query::parse(uri.query())) else { return failure };
    let code = failure.code;
    if OF_BUCKET.contains(&code) {
        return failure.detail_unless_there("BucketName", target.bucket);
    }
    if code == NO_SUCH_KEY || code == NO_SUCH_VERSION {
        let failure = failure.detail_unless_there("Key", target.key);
        return match query.get("versionId") {
            Some(version) if code == NO_SUCH_VERSION => failure.detail_unless_there("VersionId", version),
            _ => failure,
        };
    }
    if code == NO_SUCH_UPLOAD {
        return failure.detail_unless_there("UploadId", query.text("uploadId"));
    }
    if code == METHOD_NOT_ALLOWED {
        let kind = match (target.bucket.is_empty(), target.key.is_empty()) {
            (true, _) => "SERVICE",
            (false, true) => "BUCKET",
            (false, false) => "OBJECT",
        };
        return failure.detail_unless_there("Method", method.as_str()).detail_unless_there("ResourceType", kind);
    }
    failure
}
