//! Making durable what was written, in the modes where writes are not durable at once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use disk::{DiskError, DiskExt};

use crate::config::SyncMode;
use crate::inner::Inner;

/// The flushes of [`SyncMode::Batch`]. The task ends with the device.
pub(crate) fn start_flushing(inner: &Arc<Inner>) {
    let SyncMode::Batch { flush_interval_ms } = inner.config.sync else { return };
    let interval = Duration::from_millis(flush_interval_ms);
    let env = inner.env.clone();
    let weak = Arc::downgrade(inner);
    let flushing = async move {
        loop {
            env.sleep(interval).await;
            let Some(inner) = weak.upgrade() else { return };
            if inner.closing.load(Ordering::Acquire) || flush_dirty(&inner).await.is_err() {
                return;
            }
        }
    };
    drop(inner.env.spawn(flushing));
}

/// Makes durable what was written before. Who finds a flush under way waits for it: that one has taken the mark of writes that are not durable yet.
pub(crate) async fn flush_dirty(inner: &Arc<Inner>) -> Result<(), Arc<DiskError>> {
    if inner.config.sync == SyncMode::Always {
        return Ok(());
    }
    let _turn = inner.flushing.lock().await;
    if let Some(cause) = inner.poisoned_by() {
        return Err(cause);
    }
    if !inner.dirty.swap(false, Ordering::AcqRel) {
        return Ok(());
    }
    inner.stats.flushes.add(1);
    let mut taken = TakenMark { inner, is_settled: false };
    let outcome = inner.disk.flush().await;
    taken.is_settled = true;
    outcome.map_err(|error| inner.poison(error))
}

/// The mark of unflushed writes, taken by a flush. A flush that nobody waits for any more has settled nothing: the next one does it again.
struct TakenMark<'a> {
    inner: &'a Inner,
    is_settled: bool,
}

impl Drop for TakenMark<'_> {
    fn drop(&mut self) {
        if !self.is_settled {
            self.inner.dirty.store(true, Ordering::Release);
        }
    }
}
