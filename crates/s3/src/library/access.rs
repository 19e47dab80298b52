//! What the library asks about credentials, access, host names and bucket names.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::{Extensions, HeaderMap, HeaderValue};
use object::ObjectService;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::dto::ETagCondition;
use s3s::host::{S3Host, VirtualHost};
use s3s::path::S3Path;
use s3s::validation::NameValidation;
use s3s::{S3Error, S3ErrorCode, S3Result};

use super::FailureSlot;
use super::document::Allowance;
use crate::auth::Authenticator;
use crate::expected_owner;
use crate::failure::{Failure, NOT_IMPLEMENTED, PRECONDITION_FAILED};
use crate::query::Query;
use crate::sigv4::Claim;
use crate::target::bucket_of_name;

/// Secrets of access keys.
pub struct Secrets(pub Arc<Authenticator>);

#[async_trait::async_trait]
impl S3Auth for Secrets {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        let secret = self.0.secret(access_key);
        secret.map(SecretKey::from).ok_or_else(|| S3Error::new(S3ErrorCode::InvalidAccessKeyId))
    }
}

/// The access key that the guard has read in a request, if there is one.
#[derive(Debug, Clone)]
pub(crate) struct Claimed(Option<Arc<str>>);

impl Claimed {
    pub fn of(claim: Option<&Claim<'_>>) -> Claimed {
        Claimed(claim.map(|claim| Arc::from(claim.access_key.as_ref())))
    }
}

/// Refuses a request in which the library has found another signature than the guard: nobody has asked what that covers.
pub fn check_claimed(extensions: &Extensions, found: Option<&str>) -> S3Result<()> {
    match extensions.get::<Claimed>() {
        Some(Claimed(claimed)) if claimed.as_deref() == found => Ok(()),
        _ => Err(S3Error::new(S3ErrorCode::AccessDenied)),
    }
}

/// Who may call which operation. The object service decides for each bucket and object; what it does not see is for those who
/// are known.
pub struct Access(pub Arc<ObjectService>);

/// Operations that the object service authorises itself.
const AUTHORISED_BELOW: [&str; 11] = [
    "AbortMultipartUpload",
    "CompleteMultipartUpload",
    "CreateMultipartUpload",
    "DeleteObjects",
    "GetBucketLocation",
    "GetBucketPolicy",
    "HeadBucket",
    "ListMultipartUploads",
    "ListObjectVersions",
    "ListParts",
    "PutBucketPolicy",
];

#[async_trait::async_trait]
impl S3Access for Access {
    async fn check(&self, cx: &mut S3AccessContext<'_>) -> S3Result<()> {
        let found = cx.credentials().map(|found| found.access_key.clone());
        check_claimed(cx.extensions_mut(), found.as_deref())?;
        if found.is_none() && !AUTHORISED_BELOW.contains(&cx.s3_op().name()) {
            return Err(S3Error::new(S3ErrorCode::AccessDenied));
        }
        if found.is_some()
            && let Some(allowance) = cx.extensions_mut().get::<Allowance>()
        {
            allowance.verified();
        }
        self.check_request(cx).map_err(|failure| match cx.extensions_mut().get::<FailureSlot>() {
            Some(slot) => slot.put(failure),
            None => S3Error::new(S3ErrorCode::AccessDenied),
        })
    }
}

impl Access {
    fn check_request(&self, cx: &S3AccessContext<'_>) -> Result<(), Failure> {
        if OF_BUCKETS.contains(&cx.s3_op().name()) {
            check_nothing_else_asked(&Query::parse(cx.uri().query())?)?;
        }
        match cx.s3_path() {
            S3Path::Root => Ok(()),
            S3Path::Bucket { bucket } => expected_owner::check(&self.0, cx.headers(), bucket),
            S3Path::Object { bucket, .. } => {
                expected_owner::check(&self.0, cx.headers(), bucket)?;
                if cx.s3_op().name() == "CompleteMultipartUpload" {
                    self.0.find_bucket(bucket)?;
                    check_readable(cx.headers())?;
                }
                Ok(())
            }
        }
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

/// What the library takes any PUT or DELETE of a bucket's path for that asks for nothing it knows.
const OF_BUCKETS: [&str; 2] = ["CreateBucket", "DeleteBucket"];

/// Refuses what is about a part of a bucket that nobody here has heard of: `DELETE /bucket?metadataConfiguration` is not about the
/// bucket. S3 adds such parts each year, so whatever is not known is one.
fn check_nothing_else_asked(query: &Query<'_>) -> Result<(), Failure> {
    let is_harmless = |name: &str| name == "x-id" || name.get(..6).is_some_and(|amz| amz.eq_ignore_ascii_case("x-amz-"));
    match query.pairs().iter().find(|(name, _)| !is_harmless(name)) {
        None => Ok(()),
        Some((name, _)) => {
            let message = format!("The query parameter {name} implies functionality that is not implemented.");
            Err(Failure::with(NOT_IMPLEMENTED, message))
        }
    }
}

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
