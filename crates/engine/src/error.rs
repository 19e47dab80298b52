//! Why an engine operation failed.

use types::ErrorKind;

/// Failure of an engine operation. `kind()` says what the caller can do; the text is for people.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    #[error("no such object")]
    NotFound,
    #[error("no such upload")]
    NoSuchUpload,
    #[error("part {number} is missing or was replaced since it was listed")]
    InvalidPart { number: u16 },
    #[error("the condition does not hold")]
    PreconditionFailed,
    #[error("another operation on this key or upload is in the way: {reason}")]
    Conflict { reason: String },
    #[error("no space left for new data: delete objects, or add a device")]
    Full,
    #[error("temporarily unavailable: {reason}")]
    Unavailable { reason: String },
    /// A device that may hold the answer is missing, and nobody else can tell.
    #[error("{reason}")]
    DeviceMissing { reason: String },
    #[error("stored data is corrupt and no other copy could answer: {detail}")]
    Corrupt { detail: String },
    #[error("too many requests queued: {reason}")]
    Busy { reason: String },
    #[error("invalid request: {reason}")]
    Invalid { reason: String },
    #[error("internal error: {detail}")]
    Internal { detail: String },
}

impl EngineError {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            EngineError::NotFound | EngineError::NoSuchUpload => ErrorKind::NotFound,
            EngineError::PreconditionFailed => ErrorKind::PreconditionFailed,
            EngineError::Conflict { .. } => ErrorKind::Conflict,
            EngineError::Full => ErrorKind::Full,
            EngineError::Unavailable { .. } | EngineError::DeviceMissing { .. } => ErrorKind::Unavailable,
            EngineError::Corrupt { .. } => ErrorKind::Corrupt,
            EngineError::Busy { .. } => ErrorKind::Busy,
            EngineError::Invalid { .. } | EngineError::InvalidPart { .. } => ErrorKind::Invalid,
            EngineError::Internal { .. } => ErrorKind::Internal,
        }
    }
}
