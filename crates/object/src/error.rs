//! Why an operation failed, in S3's meanings but without its codes: those are the interface's.

use engine::{EngineError, InvalidKey};
use manager::InvalidBucketName;
use types::limits::{MAX_OBJECT_BYTES, MAX_PARTS, MAX_USER_METADATA_BYTES, MIN_PART_BYTES};

use crate::body::BodyError;
use crate::policy::InvalidPolicy;

/// Failure of an operation on objects or buckets.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ObjectError {
    #[error("no such bucket")]
    NoSuchBucket,
    #[error("no such key")]
    NoSuchKey,
    #[error("no such upload: it was never made, or was completed or aborted")]
    NoSuchUpload,
    #[error("the bucket has no policy")]
    NoSuchBucketPolicy,
    #[error("access denied")]
    AccessDenied,
    #[error("a bucket of this name belongs to somebody else")]
    BucketAlreadyExists,
    #[error("the bucket is yours already")]
    BucketAlreadyOwnedByYou,
    #[error("the bucket still holds objects")]
    BucketNotEmpty,
    #[error("invalid bucket name: {0}")]
    InvalidBucketName(#[from] InvalidBucketName),
    #[error("no more buckets can be made: {reason}")]
    TooManyBuckets { reason: String },
    #[error("invalid policy: {0}")]
    MalformedPolicy(#[from] InvalidPolicy),
    #[error("a key has at most {most} bytes, this one has {bytes}", most = types::limits::MAX_KEY_BYTES)]
    KeyTooLong { bytes: usize },
    #[error("user metadata has at most {MAX_USER_METADATA_BYTES} bytes, this has {bytes}")]
    MetadataTooLarge { bytes: usize },
    #[error("an object has at most {MAX_OBJECT_BYTES} bytes, and one request carries at most {limit}")]
    EntityTooLarge { limit: u64 },
    #[error("part {number} has {bytes} bytes; all parts but the last have at least {MIN_PART_BYTES}")]
    EntityTooSmall { number: u16, bytes: u64 },
    #[error("the body has {found} bytes, {declared} were declared")]
    IncompleteBody { declared: u64, found: u64 },
    #[error("the request's body could not be read: {0}")]
    Body(BodyError),
    #[error("the content does not have the {what} that was given for it")]
    BadDigest { what: &'static str },
    #[error("invalid digest: {reason}")]
    InvalidDigest { reason: String },
    #[error("the {what} announced as a trailer did not follow the body")]
    MissingTrailer { what: &'static str },
    #[error("the {what} in the trailer is no such value")]
    InvalidTrailer { what: &'static str },
    #[error("part {number} was not uploaded, or is not the part that was named")]
    InvalidPart { number: u16 },
    /// It has a checksum of another algorithm.
    #[error("part {number} does not have the {what} that was given for it")]
    BadPartDigest { number: u16, what: &'static str },
    #[error("the parts are not in ascending order")]
    InvalidPartOrder,
    #[error("part numbers are 1 to {MAX_PARTS}, not {number}")]
    InvalidPartNumber { number: u32 },
    #[error("the object has no part {number}")]
    NoSuchPart { number: u16 },
    #[error("a condition of the request does not hold: {condition}")]
    PreconditionFailed { condition: &'static str },
    /// With what a client must still be told of the object.
    #[error("not modified")]
    NotModified(Box<engine::ObjectInfo>),
    #[error("the range lies outside of the object's {length} bytes")]
    InvalidRange { length: u64 },
    #[error("another operation is in the way: {reason}")]
    Conflict { reason: String },
    #[error("invalid argument: {reason}")]
    InvalidArgument { reason: String },
    /// Well formed, but it makes no sense.
    #[error("invalid request: {reason}")]
    InvalidRequest { reason: String },
    #[error("no space left for new data: delete objects, or add a device")]
    Full,
    #[error("too many requests: {reason}")]
    SlowDown { reason: String },
    #[error("temporarily unavailable: {reason}")]
    ServiceUnavailable { reason: String },
    /// A device that may hold the answer is missing.
    #[error("{reason}")]
    DeviceMissing { reason: String },
    #[error("internal error: {detail}")]
    InternalError { detail: String },
}

impl From<BodyError> for ObjectError {
    /// Where the body is stored content that is copied, it fails as reading that does.
    fn from(error: BodyError) -> Self {
        match error.cause().downcast_ref::<ObjectError>() {
            Some(of_source) => of_source.clone(),
            None => ObjectError::Body(error),
        }
    }
}

impl From<EngineError> for ObjectError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::NotFound => ObjectError::NoSuchKey,
            EngineError::NoSuchUpload => ObjectError::NoSuchUpload,
            EngineError::InvalidPart { number } => ObjectError::InvalidPart { number },
            EngineError::PreconditionFailed => ObjectError::PreconditionFailed { condition: "If-Match or If-None-Match" },
            EngineError::Conflict { reason } => ObjectError::Conflict { reason },
            EngineError::Full => ObjectError::Full,
            EngineError::Unavailable { reason } => ObjectError::ServiceUnavailable { reason },
            EngineError::DeviceMissing { reason } => ObjectError::DeviceMissing { reason },
            EngineError::Busy { reason } => ObjectError::SlowDown { reason },
            // The service has checked what a client can get wrong, so these are ours.
            EngineError::Invalid { reason } => ObjectError::InternalError { detail: reason },
            EngineError::Corrupt { detail } | EngineError::Internal { detail } => ObjectError::InternalError { detail },
        }
    }
}

impl From<InvalidKey> for ObjectError {
    fn from(error: InvalidKey) -> Self {
        match error {
            InvalidKey::TooLong { bytes } => ObjectError::KeyTooLong { bytes },
            InvalidKey::Empty | InvalidKey::NotUtf8 => ObjectError::InvalidArgument { reason: error.to_string() },
        }
    }
}
