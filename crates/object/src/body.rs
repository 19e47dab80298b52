//! What a client sends: the bytes of an object or a part, all at once or as they arrive.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use format::attributes::{Checksum, ChecksumAlgorithm};
use futures_core::Stream;

/// Pieces of a body, in order. After the end or an error it is not asked again.
pub type BodyStream = Pin<Box<dyn Stream<Item = Result<Bytes, BodyError>> + Send>>;

/// Content on its way in.
pub enum Body {
    /// All of it.
    Whole(Bytes),
    /// As it arrives.
    Stream(BodyStream),
}

/// Why the next bytes of a body did not come. The interface that reads the client wraps its own error, and finds it again in
/// [`BodyError::cause`].
#[derive(Clone)]
pub struct BodyError {
    cause: Arc<dyn Error + Send + Sync>,
}

/// Reads a trailing value, once the body has ended without an error.
pub type Trailer = Box<dyn FnOnce() -> Result<Checksum, TrailerFault> + Send>;

/// Why there is no trailing value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrailerFault {
    /// The client did not send it.
    Missing,
    /// It is none of the algorithm's values.
    Invalid,
}

/// What an object carries for which its client wants nothing (S3 since December 2024).
pub const DEFAULT_CHECKSUM: ChecksumAlgorithm = ChecksumAlgorithm::Crc64Nvme;

/// The checksum that a client wants of its content.
pub enum ChecksumWish {
    /// The service's own is stored: [`DEFAULT_CHECKSUM`].
    None,
    /// Computed and stored.
    Compute(ChecksumAlgorithm),
    /// Must be this, and is stored.
    Given(Checksum),
    /// Stored as it is: the content is a copy of stored content that carries it.
    Known(Checksum),
    /// Must be what follows the body, and is stored.
    Trailing(ChecksumAlgorithm, Trailer),
}

/// Content and what it must be.
pub struct Upload {
    pub body: Body,
    /// Bytes of content, where the client has declared them.
    pub length: Option<u64>,
    /// `Content-MD5`.
    pub md5: Option<[u8; 16]>,
    pub checksum: ChecksumWish,
}

impl Upload {
    /// Bytes that must be nothing in particular.
    pub fn whole(bytes: Bytes) -> Self {
        Upload { body: Body::Whole(bytes), length: None, md5: None, checksum: ChecksumWish::None }
    }
}

impl ChecksumWish {
    /// The algorithm that the client names, if any.
    pub fn algorithm(&self) -> Option<ChecksumAlgorithm> {
        match self {
            ChecksumWish::None => None,
            ChecksumWish::Compute(algorithm) | ChecksumWish::Trailing(algorithm, _) => Some(*algorithm),
            ChecksumWish::Given(checksum) | ChecksumWish::Known(checksum) => Some(checksum.algorithm()),
        }
    }
}

impl BodyError {
    pub fn new(cause: impl Error + Send + Sync + 'static) -> Self {
        BodyError { cause: Arc::new(cause) }
    }

    /// The interface's own error; downcast it.
    pub fn cause(&self) -> &(dyn Error + Send + Sync + 'static) {
        self.cause.as_ref()
    }
}

impl fmt::Debug for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.cause, f)
    }
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.cause, f)
    }
}

impl Error for BodyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.cause.as_ref())
    }
}
