//! What the library asks about credentials, access, host names and bucket names.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use http::Extensions;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::host::{S3Host, VirtualHost};
use s3s::validation::NameValidation;
use s3s::{S3Error, S3ErrorCode, S3Result};

use crate::auth::Authenticator;
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
pub struct Access;

/// Operations that the object service authorises itself.
const AUTHORISED_BELOW: [&str; 13] = [
    "AbortMultipartUpload",
    "CompleteMultipartUpload",
    "CopyObject",
    "CreateMultipartUpload",
    "DeleteObjects",
    "GetBucketLocation",
    "GetBucketPolicy",
    "HeadBucket",
    "ListMultipartUploads",
    "ListObjectVersions",
    "ListParts",
    "UploadPartCopy",
    "PutBucketPolicy",
];

#[async_trait::async_trait]
impl S3Access for Access {
    async fn check(&self, cx: &mut S3AccessContext<'_>) -> S3Result<()> {
        let found = cx.credentials().map(|found| found.access_key.clone());
        check_claimed(cx.extensions_mut(), found.as_deref())?;
        if found.is_some() || AUTHORISED_BELOW.contains(&cx.s3_op().name()) {
            return Ok(());
        }
        Err(S3Error::new(S3ErrorCode::AccessDenied))
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
