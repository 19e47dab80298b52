//! How many changes a primary has at a time. One that has begun ends when all copies in sync have answered, or are out: with two copies and one of them away
//! that may take hours, and its caller has long gone.

use tokio::sync::{Semaphore, SemaphorePermit};

use super::ask::{Change, ChangeWhat};
use super::limits::{MAX_RETURNS, MAX_WORK_KIB, MAX_WORKS};

const KIB: usize = 1024;

/// Room for changes.
pub struct Works {
    contents: Semaphore,
    kib: Semaphore,
    returns: Semaphore,
}

/// Room that one change has, until it ends.
pub struct Work<'a> {
    _count: SemaphorePermit<'a>,
    _kib: SemaphorePermit<'a>,
}

impl Default for Works {
    fn default() -> Works {
        Works { contents: Semaphore::new(MAX_WORKS), kib: Semaphore::new(MAX_WORK_KIB), returns: Semaphore::new(MAX_RETURNS) }
    }
}

impl Works {
    /// Waits until there is room for a change.
    pub async fn enter(&self, change: &Change) -> Work<'_> {
        let bytes = match &change.what {
            ChangeWhat::Create { data } | ChangeWhat::Append { data, .. } | ChangeWhat::Overwrite { data, .. } => data.len(),
            ChangeWhat::Punch { .. } | ChangeWhat::Remove | ChangeWhat::Cut { .. } => 0,
        };
        let counted = if change.what.gives_back() { &self.returns } else { &self.contents };
        let kib = bytes.div_ceil(KIB).min(MAX_WORK_KIB) as u32;
        let count = counted.acquire().await.expect("the semaphore is never closed");
        Work { _count: count, _kib: self.kib.acquire_many(kib).await.expect("the semaphore is never closed") }
    }
}

#[cfg(test)]
mod tests;
