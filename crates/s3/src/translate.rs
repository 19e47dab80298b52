//! The service's errors as S3's.

use http::HeaderValue;
use http::header::CONTENT_RANGE;
use object::ObjectError;
use types::limits::{MAX_KEY_BYTES, MAX_USER_METADATA_BYTES, MIN_PART_BYTES};

use crate::failure::{self as code, Code, Failure};
use crate::payload::{ChunkError, PayloadError};
use crate::server::BodyFailure;

impl From<ObjectError> for Failure {
    fn from(error: ObjectError) -> Failure {
        match error {
            ObjectError::NoSuchBucket => code::NO_SUCH_BUCKET.into(),
            ObjectError::NoSuchKey => code::NO_SUCH_KEY.into(),
            ObjectError::NoSuchUpload => code::NO_SUCH_UPLOAD.into(),
            ObjectError::NoSuchBucketPolicy => code::NO_SUCH_BUCKET_POLICY.into(),
            ObjectError::AccessDenied => code::ACCESS_DENIED.into(),
            ObjectError::BucketAlreadyExists => code::BUCKET_ALREADY_EXISTS.into(),
            ObjectError::BucketAlreadyOwnedByYou => code::BUCKET_ALREADY_OWNED_BY_YOU.into(),
            ObjectError::BucketNotEmpty => code::BUCKET_NOT_EMPTY.into(),
            ObjectError::InvalidBucketName(_) => code::INVALID_BUCKET_NAME.into(),
            ObjectError::TooManyBuckets { .. } => code::TOO_MANY_BUCKETS.into(),
            ObjectError::MalformedPolicy(fault) => {
                Failure::with(code::MALFORMED_POLICY, format!("The policy is invalid: {fault}."))
            }
            ObjectError::KeyTooLong { bytes } => Failure::new(code::KEY_TOO_LONG)
                .detail("Size", bytes.to_string())
                .detail("MaxSizeAllowed", MAX_KEY_BYTES.to_string()),
            ObjectError::MetadataTooLarge { bytes } => Failure::new(code::METADATA_TOO_LARGE)
                .detail("Size", bytes.to_string())
                .detail("MaxSizeAllowed", MAX_USER_METADATA_BYTES.to_string()),
            ObjectError::EntityTooLarge { limit } => {
                Failure::new(code::ENTITY_TOO_LARGE).detail("MaxSizeAllowed", limit.to_string())
            }
            ObjectError::EntityTooSmall { number, bytes } => Failure::new(code::ENTITY_TOO_SMALL)
                .detail("ProposedSize", bytes.to_string())
                .detail("MinSizeAllowed", MIN_PART_BYTES.to_string())
                .detail("PartNumber", number.to_string()),
            error => of_content(error),
        }
    }
}

/// Errors of bodies, parts and conditions.
fn of_content(error: ObjectError) -> Failure {
    let say = |code: &'static Code, error: &ObjectError| Failure::with(code, sentence(&error.to_string()));
    match error {
        ObjectError::IncompleteBody { .. } => code::INCOMPLETE_BODY.into(),
        ObjectError::Body(error) => match error.cause().downcast_ref::<PayloadError>() {
            Some(payload) => of_payload(payload),
            None => code::INTERNAL_ERROR.into(),
        },
        ObjectError::BadDigest { what } => {
            Failure::with(code::BAD_DIGEST, format!("The {what} you specified did not match the calculated checksum."))
        }
        ObjectError::InvalidDigest { .. } => code::INVALID_DIGEST.into(),
        ObjectError::MissingTrailer { .. } => code::MALFORMED_TRAILER.into(),
        ObjectError::InvalidTrailer { what } => {
            let name = what.to_ascii_lowercase();
            Failure::with(code::INVALID_REQUEST, format!("Value for x-amz-checksum-{name} trailing header is invalid."))
        }
        ObjectError::InvalidPart { number } => Failure::new(code::INVALID_PART).detail("PartNumber", number.to_string()),
        ObjectError::BadPartDigest { number, what } => {
            let name = what.to_ascii_lowercase();
            Failure::with(
                code::BAD_DIGEST,
                format!("The {name} you specified for part {number} did not match what we received."),
            )
        }
        ObjectError::InvalidPartOrder => code::INVALID_PART_ORDER.into(),
        ObjectError::InvalidPartNumber { number } => {
            Failure::argument("Part number must be an integer between 1 and 10000, inclusive", "partNumber", number.to_string())
        }
        ObjectError::NoSuchPart { number } => {
            Failure::new(code::INVALID_PART_NUMBER).detail("PartNumberRequested", number.to_string())
        }
        ObjectError::PreconditionFailed { condition } => Failure::new(code::PRECONDITION_FAILED).detail("Condition", condition),
        ObjectError::NotModified(_) => code::NOT_MODIFIED.into(),
        ObjectError::InvalidRange { length } => {
            let unsatisfied = HeaderValue::try_from(format!("bytes */{length}")).expect("digits");
            Failure::new(code::INVALID_RANGE).detail("ActualObjectSize", length.to_string()).header(CONTENT_RANGE, unsatisfied)
        }
        ObjectError::Conflict { .. } => code::OPERATION_ABORTED.into(),
        ObjectError::InvalidArgument { .. } => say(code::INVALID_ARGUMENT, &error),
        ObjectError::InvalidRequest { .. } => say(code::INVALID_REQUEST, &error),
        ObjectError::Full => code::STORAGE_FULL.into(),
        ObjectError::SlowDown { .. } => code::SLOW_DOWN.into(),
        ObjectError::ServiceUnavailable { .. } => {
            tracing::debug!(%error, "cannot serve");
            code::SERVICE_UNAVAILABLE.into()
        }
        ObjectError::DeviceMissing { .. } => say(code::SERVICE_UNAVAILABLE, &error),
        error => {
            tracing::error!(%error, "internal error");
            code::INTERNAL_ERROR.into()
        }
    }
}

/// Why content could not be taken.
pub fn of_payload(error: &PayloadError) -> Failure {
    match error {
        PayloadError::Body(failure) => of_body(*failure),
        PayloadError::Sha256Mismatch { given, computed } => Failure::new(code::X_AMZ_CONTENT_SHA256_MISMATCH)
            .detail("ClientComputedContentSHA256", given.clone())
            .detail("S3ComputedContentSHA256", computed.clone()),
        PayloadError::Chunk(ChunkError::Signature) => code::SIGNATURE_DOES_NOT_MATCH.into(),
        PayloadError::Chunk(ChunkError::Incomplete | ChunkError::Length { .. }) => code::INCOMPLETE_BODY.into(),
        PayloadError::Chunk(ChunkError::Trailer(_)) => code::MALFORMED_TRAILER.into(),
        PayloadError::Chunk(ChunkError::Small { number, bytes }) => {
            Failure::new(code::INVALID_CHUNK_SIZE).detail("Chunk", number.to_string()).detail("BadChunkSize", bytes.to_string())
        }
        PayloadError::Chunk(error @ ChunkError::Framing(_)) => {
            Failure::with(code::INCOMPLETE_BODY, sentence(&error.to_string()))
        }
    }
}

/// Why a body did not come to its end.
pub fn of_body(failure: BodyFailure) -> Failure {
    match failure {
        BodyFailure::Stalled => code::REQUEST_TIMEOUT.into(),
        BodyFailure::Broken => code::INCOMPLETE_BODY.into(),
    }
}

/// With a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let mut characters = text.chars();
    let Some(first) = characters.next() else { return String::new() };
    format!("{}{}.", first.to_uppercase(), characters.as_str())
}
