//! One error type per operation.

use std::path::PathBuf;

use crate::batch::{Batch, MAX_BATCH_BYTES, MAX_KEY_BYTES, MAX_VALUE_BYTES};

/// The store could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the key-value store in {}; check that the folder is readable and no other process uses it", folder.display())]
pub struct OpenError {
    pub folder: PathBuf,
    #[source]
    pub cause: fjall::Error,
}

/// A read failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("key-value store in {} could not be read", folder.display())]
    Storage {
        folder: PathBuf,
        #[source]
        cause: fjall::Error,
    },
    #[error("the key-value store has crashed; open it again")]
    Crashed,
}

/// A batch was not committed. After [`CommitError::Storage`] the store accepts no further writes.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    #[error("a key of {found} bytes; a key has 1 to {MAX_KEY_BYTES} bytes")]
    KeyLength { found: usize },
    #[error("a value of {found} bytes; the longest is {MAX_VALUE_BYTES} bytes")]
    ValueLength { found: usize },
    #[error("a batch of {found} bytes; the largest is {MAX_BATCH_BYTES} bytes")]
    BatchLength { found: usize },
    #[error("key-value store in {} could not be written", folder.display())]
    Storage {
        folder: PathBuf,
        #[source]
        cause: fjall::Error,
    },
    #[error("the key-value store failed earlier and accepts no writes; restart to open it again")]
    Poisoned,
    #[error("the key-value store has crashed; open it again")]
    Crashed,
}

/// Committed batches may not be durable. The store accepts no further writes.
#[derive(Debug, thiserror::Error)]
pub enum PersistError {
    #[error("key-value store in {} could not be made durable", folder.display())]
    Storage {
        folder: PathBuf,
        #[source]
        cause: fjall::Error,
    },
    #[error("the key-value store failed earlier and accepts no writes; restart to open it again")]
    Poisoned,
    #[error("the key-value store has crashed; open it again")]
    Crashed,
}

/// Checks a batch against the named limits, before any of it is applied.
pub(crate) fn check(batch: &Batch) -> Result<(), CommitError> {
    if batch.bytes() > MAX_BATCH_BYTES {
        return Err(CommitError::BatchLength { found: batch.bytes() });
    }
    for (key, value) in batch.changes() {
        if key.is_empty() || key.len() > MAX_KEY_BYTES {
            return Err(CommitError::KeyLength { found: key.len() });
        }
        if let Some(value) = value
            && value.len() > MAX_VALUE_BYTES
        {
            return Err(CommitError::ValueLength { found: value.len() });
        }
    }
    Ok(())
}
