//! What the library asks about credentials, access, host names and bucket names.

use std::sync::Arc;

use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::{Extensions, HeaderMap, HeaderValue};
use object::{Action, ObjectService, Principal};
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::dto::ETagCondition;
use s3s::host::{S3Host, VirtualHost};
use s3s::path::S3Path;
use s3s::validation::NameValidation;
use s3s::{S3Error, S3ErrorCode, S3Result};

use super::FailureSlot;
use crate::direct::check_version;
use crate::expected_owner;
use crate::failure::{ACCESS_DENIED, ACL_NOT_SUPPORTED, Failure, INVALID_BUCKET_ACL, NOT_IMPLEMENTED, PRECONDITION_FAILED};
use crate::query::Query;
use crate::refusals;
use crate::tags;
use crate::target::bucket_of_name;

/// The library asks [`Access`] only where it could verify signatures. It is shown none, and has no secret to check one with.
pub struct NoSecrets;

#[async_trait::async_trait]
impl S3Auth for NoSecrets {
    async fn get_secret_key(&self, _: &str) -> S3Result<SecretKey> {
        Err(S3Error::new(S3ErrorCode::AccessDenied))
    }
}

/// The client, as it was verified before the library saw the request.
pub fn principal(extensions: &Extensions) -> Principal {
    extensions.get().cloned().unwrap_or(Principal::Anonymous)
}

/// Which client may call which operation. The object service decides again for each bucket and object; what it does not see is for known
/// users.
pub struct Access(pub Arc<ObjectService>);

/// Operations that a policy can open to anonymous clients, and what they do to their bucket.
const OPEN_TO_POLICIES: [(&str, Action); 11] = [
    ("AbortMultipartUpload", Action::AbortMultipartUpload),
    ("CompleteMultipartUpload", Action::PutObject),
    ("CreateMultipartUpload", Action::PutObject),
    ("DeleteObjects", Action::DeleteObject),
    ("GetBucketLocation", Action::GetBucketLocation),
    ("GetBucketPolicy", Action::GetBucketPolicy),
    ("HeadBucket", Action::ListBucket),
    ("ListMultipartUploads", Action::ListBucketMultipartUploads),
    ("ListObjectVersions", Action::ListBucket),
    ("ListParts", Action::ListMultipartUploadParts),
    ("PutBucketPolicy", Action::PutBucketPolicy),
];

/// Operations on one version of an object.
const OF_VERSIONS: [&str; 6] =
    ["DeleteObjectTagging", "GetObjectAcl", "GetObjectAttributes", "GetObjectTagging", "PutObjectAcl", "PutObjectTagging"];

#[async_trait::async_trait]
impl S3Access for Access {
    async fn check(&self, cx: &mut S3AccessContext<'_>) -> S3Result<()> {
        let principal = principal(cx.extensions_mut());
        self.check_request(cx, &principal).map_err(|failure| match cx.extensions_mut().get::<FailureSlot>() {
            Some(slot) => slot.put(failure),
            None => S3Error::new(S3ErrorCode::AccessDenied),
        })
    }
}

impl Access {
    /// Asked before anything of the body is read.
    fn check_request(&self, cx: &S3AccessContext<'_>, principal: &Principal) -> Result<(), Failure> {
        let operation = cx.s3_op().name();
        if cx.credentials().is_some() {
            // The library has found a signature that was not verified.
            return Err(ACCESS_DENIED.into());
        }
        let bucket = match cx.s3_path() {
            S3Path::Root => None,
            S3Path::Bucket { bucket } | S3Path::Object { bucket, .. } => Some(bucket),
        };
        if *principal == Principal::Anonymous {
            let open = OPEN_TO_POLICIES.iter().find(|(name, _)| *name == operation);
            let (Some((_, action)), Some(bucket)) = (open, bucket) else { return Err(ACCESS_DENIED.into()) };
            self.0.find_bucket(bucket)?.authorize(principal, *action)?;
        }
        if let Some(bucket) = bucket
            && operation == "CreateMultipartUpload"
        {
            let bucket = self.0.find_bucket(bucket)?;
            tags::authorize(cx.headers(), &bucket, principal)?;
        }
        let query = Query::parse(cx.uri().query())?;
        if OF_BUCKETS.contains(&operation) {
            refusals::check_query(&query, &[])?;
        }
        if OF_VERSIONS.contains(&operation) {
            check_version(&query)?
        } else {
            refusals::check_no_version(&query)?
        }
        if let Some(bucket) = bucket {
            expected_owner::check(&self.0, cx.headers(), bucket)?;
        }
        refusals::check(cx.method(), cx.headers()).map_err(|failure| match operation {
            "CreateBucket" if failure.code == ACL_NOT_SUPPORTED => INVALID_BUCKET_ACL.into(),
            _ => failure,
        })?;
        if let Some(bucket) = bucket
            && BUCKET_FIRST.contains(&operation)
        {
            self.0.find_bucket(bucket)?;
        }
        if operation == "CompleteMultipartUpload" {
            check_readable(cx.headers())?;
        }
        Ok(())
    }
}

/// Answers conditions that the library can't read, which it would refuse as malformed: what is no ETag matches nothing.
fn check_readable(headers: &HeaderMap) -> Result<(), Failure> {
    let is_unreadable =
        |name| headers.get(name).is_some_and(|value| ETagCondition::parse_http_header(HeaderValue::as_bytes(value)).is_err());
    if is_unreadable(IF_MATCH) {
        return Err(Failure::new(PRECONDITION_FAILED).detail("Condition", "If-Match"));
    }
    if is_unreadable(IF_NONE_MATCH) {
        return Err(Failure::with(NOT_IMPLEMENTED, "The end of an upload takes only * for If-None-Match.")
            .detail("Header", "If-None-Match"));
    }
    Ok(())
}

/// Operations whose bucket is looked for before the library reads the headers.
const BUCKET_FIRST: [&str; 2] = ["CompleteMultipartUpload", "GetObjectAttributes"];

/// What the library takes any PUT or DELETE of a bucket's path for that asks for nothing it knows.
const OF_BUCKETS: [&str; 2] = ["CreateBucket", "DeleteBucket"];

/// Takes any name: a bucket that is not there says why.
pub struct AnyName;

impl NameValidation for AnyName {
    fn validate_bucket_name(&self, name: &str) -> bool {
        !name.is_empty()
    }
}

/// The base domain of virtual-host style.
pub struct Domain(pub String);

impl S3Host for Domain {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        let of_domain = VirtualHost::new(self.0.as_str());
        Ok(match bucket_of_name(host, &self.0) {
            Some(bucket) => of_domain.with_bucket(bucket),
            None => of_domain,
        })
    }
}
