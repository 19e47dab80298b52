//! Buckets and their policies.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use manager::{BucketEngine, EtagMode};
use object::{BucketOptions, ObjectError};
use s3s::dto::{
    Bucket, BucketLocationConstraint, CreateBucketInput, CreateBucketOutput, DeleteBucketInput, DeleteBucketOutput,
    DeleteBucketPolicyInput, DeleteBucketPolicyOutput, GetBucketLocationInput, GetBucketLocationOutput, GetBucketPolicyInput,
    GetBucketPolicyOutput, HeadBucketInput, HeadBucketOutput, ListBucketsInput, ListBucketsOutput, PutBucketPolicyInput,
    PutBucketPolicyOutput,
};
use s3s::{S3Request, S3Response};

use super::convert::{owner, timestamp};
use super::{Answer, Operations};
use crate::failure::{BUCKET_ALREADY_OWNED_BY_YOU, Failure, ILLEGAL_LOCATION_CONSTRAINT};
use crate::request_headers;

/// Region whose buckets have no location constraint.
const FIRST_REGION: &str = "us-east-1";

/// Most buckets of one answer (S3).
const MAX_LISTED_BUCKETS: usize = 10_000;

/// Chooses how the ETags of a new bucket are made: `md5` or `fast`.
const ETAG_MODE_HEADER: &str = "x-trilith-etag";

/// Chooses which engine keeps the objects of a new bucket, and tells it: `log`, `volume` or `volume:strict`.
const ENGINE_HEADER: &str = "x-trilith-engine";

pub async fn list_buckets(operations: &Operations, request: S3Request<ListBucketsInput>) -> Answer<ListBucketsOutput> {
    let principal = operations.principal(&request);
    let ListBucketsInput { bucket_region, continuation_token, max_buckets, prefix } = request.input;
    let most = match max_buckets {
        None => MAX_LISTED_BUCKETS,
        Some(count @ 1..=10_000) => count as usize,
        Some(count) => {
            let message = "Argument max-buckets must be an integer between 1 and 10000";
            return Err(Failure::argument(message, "max-buckets", count.to_string()));
        }
    };
    let is_here = bucket_region.is_none_or(|region| region == operations.region);
    let after = continuation_token.unwrap_or_default();
    let begins = prefix.clone().unwrap_or_default();
    let mut found = operations.service.list_buckets(&principal)?;
    found.retain(|bucket| is_here && bucket.name.starts_with(&begins) && bucket.name > after);
    let next = (found.len() > most).then(|| found[most - 1].name.clone());
    found.truncate(most);
    let buckets = found.into_iter().map(|bucket| Bucket {
        bucket_region: None,
        creation_date: Some(timestamp(bucket.created_ms)),
        name: Some(bucket.name),
    });
    Ok(S3Response::new(ListBucketsOutput {
        buckets: Some(buckets.collect()),
        continuation_token: next,
        owner: principal.name().map(owner),
        prefix,
    }))
}

pub async fn create_bucket(operations: &Operations, request: S3Request<CreateBucketInput>) -> Answer<CreateBucketOutput> {
    let principal = operations.principal(&request);
    let CreateBucketInput { bucket, create_bucket_configuration, .. } = request.input;
    let wanted = create_bucket_configuration.and_then(|configuration| configuration.location_constraint);
    if let Some(wanted) = wanted
        && !wanted.as_str().is_empty()
        && wanted.as_str() != operations.region
    {
        let message = format!(
            "The {} location constraint is incompatible for the region specific endpoint this request was sent to.",
            wanted.as_str()
        );
        return Err(Failure::with(ILLEGAL_LOCATION_CONSTRAINT, message));
    }
    let options = options(&request.headers)?;
    match operations.service.create_bucket(&principal, &bucket, options).await {
        Ok(_) => {}
        Err(ObjectError::BucketAlreadyOwnedByYou) => make_again(operations, &bucket, &request.headers)?,
        Err(error) => return Err(error.into()),
    }
    let mut response = S3Response::new(CreateBucketOutput { location: Some(format!("/{bucket}")) });
    if let Ok(name) = HeaderValue::try_from(format!("arn:aws:s3:::{bucket}")) {
        response.headers.insert("x-amz-bucket-arn", name);
    }
    Ok(response)
}

/// In the first region S3 says that all is well to an owner who makes a bucket again, and elsewhere that it is there. It is not well here
/// either if another mode of ETags or another engine is asked for: a bucket keeps its own.
fn make_again(operations: &Operations, name: &str, headers: &HeaderMap) -> Result<(), Failure> {
    if operations.region != FIRST_REGION {
        return Err(BUCKET_ALREADY_OWNED_BY_YOU.into());
    }
    let is_other =
        headers.contains_key(ETAG_MODE_HEADER) && operations.service.find_bucket(name)?.etag_mode() != options(headers)?.etag;
    if is_other {
        let message =
            format!("The bucket is yours already, and its ETags are of another kind than {ETAG_MODE_HEADER} asks for.");
        return Err(Failure::with(BUCKET_ALREADY_OWNED_BY_YOU, message));
    }
    if headers.contains_key(ENGINE_HEADER) && operations.service.find_bucket(name)?.engine() != options(headers)?.engine {
        let message = format!("The bucket is yours already, and its engine is another one than {ENGINE_HEADER} asks for.");
        return Err(Failure::with(BUCKET_ALREADY_OWNED_BY_YOU, message));
    }
    Ok(())
}

/// An engine's name in the header.
fn engine_name(engine: BucketEngine) -> &'static str {
    match engine {
        BucketEngine::Log => "log",
        BucketEngine::Volume => "volume",
        BucketEngine::VolumeStrict => "volume:strict",
    }
}

fn options(headers: &HeaderMap) -> Result<BucketOptions, Failure> {
    let etag = match request_headers::text(headers, ETAG_MODE_HEADER) {
        None | Some("md5") => EtagMode::Md5,
        Some("fast") => EtagMode::Fast,
        Some(other) => return Err(Failure::argument(format!("{ETAG_MODE_HEADER} is md5 or fast"), ETAG_MODE_HEADER, other)),
    };
    let engine = match request_headers::text(headers, ENGINE_HEADER) {
        None | Some("log") => BucketEngine::Log,
        Some("volume") => BucketEngine::Volume,
        Some("volume:strict") => BucketEngine::VolumeStrict,
        Some(other) => {
            let message = format!("{ENGINE_HEADER} is log, volume or volume:strict");
            return Err(Failure::argument(message, ENGINE_HEADER, other));
        }
    };
    Ok(BucketOptions { etag, engine })
}

pub async fn head_bucket(operations: &Operations, request: S3Request<HeadBucketInput>) -> Answer<HeadBucketOutput> {
    let principal = operations.principal(&request);
    let bucket = operations.service.head_bucket(&principal, &request.input.bucket)?;
    let mut response = S3Response::new(HeadBucketOutput::default());
    response.headers.insert(ENGINE_HEADER, HeaderValue::from_static(engine_name(bucket.engine())));
    if let Ok(region) = HeaderValue::from_str(&operations.region) {
        response.headers.insert("x-amz-bucket-region", region);
    }
    Ok(response)
}

pub async fn delete_bucket(operations: &Operations, request: S3Request<DeleteBucketInput>) -> Answer<DeleteBucketOutput> {
    let principal = operations.principal(&request);
    operations.service.delete_bucket(&principal, &request.input.bucket).await?;
    Ok(S3Response::new(DeleteBucketOutput::default()))
}

pub async fn get_bucket_location(
    operations: &Operations,
    request: S3Request<GetBucketLocationInput>,
) -> Answer<GetBucketLocationOutput> {
    let principal = operations.principal(&request);
    operations.service.bucket_location(&principal, &request.input.bucket)?;
    let region = (operations.region != FIRST_REGION).then(|| BucketLocationConstraint::from(operations.region.clone()));
    Ok(S3Response::new(GetBucketLocationOutput { location_constraint: region }))
}

pub async fn get_bucket_policy(
    operations: &Operations,
    request: S3Request<GetBucketPolicyInput>,
) -> Answer<GetBucketPolicyOutput> {
    let principal = operations.principal(&request);
    let document = operations.service.bucket_policy(&principal, &request.input.bucket)?;
    let mut response = S3Response::new(GetBucketPolicyOutput { policy: Some(String::from_utf8_lossy(&document).into_owned()) });
    response.headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

pub async fn put_bucket_policy(
    operations: &Operations,
    request: S3Request<PutBucketPolicyInput>,
) -> Answer<PutBucketPolicyOutput> {
    let principal = operations.principal(&request);
    let PutBucketPolicyInput { bucket, policy, .. } = request.input;
    operations.service.put_bucket_policy(&principal, &bucket, Bytes::from(policy)).await?;
    Ok(S3Response::new(PutBucketPolicyOutput::default()))
}

pub async fn delete_bucket_policy(
    operations: &Operations,
    request: S3Request<DeleteBucketPolicyInput>,
) -> Answer<DeleteBucketPolicyOutput> {
    let principal = operations.principal(&request);
    operations.service.delete_bucket_policy(&principal, &request.input.bucket).await?;
    Ok(S3Response::new(DeleteBucketPolicyOutput::default()))
}
