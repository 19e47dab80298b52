//! The state of a disk whose durability can no longer be known.

use std::io;
use std::sync::{Arc, OnceLock};

use crate::error::{DiskError, DiskErrorKind, Operation};

/// Set once, by the first failed flush or durable write; never cleared.
#[derive(Debug, Default)]
pub(crate) struct Poison {
    cause: OnceLock<DiskError>,
}

impl Poison {
    /// Poisons the disk with `error`, unless an earlier error has done so.
    pub(crate) fn set(&self, error: &DiskError) {
        self.cause.get_or_init(|| error.clone());
    }

    /// The error for an operation that a poisoned disk refuses; none while the disk is sound.
    pub(crate) fn refusal(&self, operation: Operation, offset: u64, len: u64) -> Option<DiskError> {
        let first = self.cause.get()?;
        Some(DiskError {
            kind: DiskErrorKind::Poisoned,
            device: first.device.clone(),
            operation,
            offset,
            len,
            cause: Some(Arc::new(io::Error::other(first.to_string()))),
        })
    }
}
