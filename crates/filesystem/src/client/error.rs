//! What a client could not do.

use std::fmt::Debug;

use crate::data::DataError;
use crate::ids::{ExtentKey, Ino};
use crate::meta::{MetaCallError, MetaError};

/// Why a call failed. Its errno is for the mount to find.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    #[error(transparent)]
    Meta(#[from] MetaError),
    #[error("the tree of the volume does not answer: {0}")]
    MetaCall(#[from] MetaCallError),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error("{0} is not possible: choose what the call's documentation allows")]
    Invalid(&'static str),
    #[error("{0} is not supported by file volumes")]
    Unsupported(&'static str),
    #[error("there is no data at the offset or after it")]
    BeyondTheEnd,
    #[error("the wait for a lock was interrupted")]
    Interrupted,
    #[error("the lock is one of a circle of processes that wait for each other's locks: unlock something first")]
    Deadlock,
    #[error(
        "the tree of the volume was not heard of for so long that what is locked here may be locked elsewhere: wait until it answers"
    )]
    LeaseOver,
    #[error("{MAX_OPEN_FILES} files are open: close some", MAX_OPEN_FILES = super::MAX_OPEN_FILES)]
    TooManyOpenFiles,
    #[error("{got} bytes of {key:?} of {ino:?} were read, fewer than the key says: restore the file from a copy")]
    Short { ino: Ino, key: ExtentKey, got: u64 },
    #[error("the record of the mount's calls can't be written ({0}): free memory of the machine")]
    Record(String),
    #[error("the tree of the volume gave an answer to another question: {0}")]
    Unexpected(String),
}

impl ClientError {
    pub(super) fn unexpected(answer: &impl Debug) -> Self {
        ClientError::Unexpected(format!("{answer:?}"))
    }

    /// Whether something is broken or out of reach, other than a call that is refused for what it asks.
    pub fn is_failure(&self) -> bool {
        match self {
            ClientError::Data(error) => *error != DataError::Full,
            ClientError::Meta(error) => matches!(error, MetaError::LocksLost | MetaError::Changed),
            ClientError::LeaseOver
            | ClientError::MetaCall(_)
            | ClientError::Short { .. }
            | ClientError::Record(_)
            | ClientError::Unexpected(_) => true,
            _ => false,
        }
    }
}
