//! Finishing zones, and the end of all appending.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use disk::DiskError;
use types::ZoneIndex;

use super::Device;
use crate::book::{Plan, ZoneBook, ZoneUse};
use crate::inner::Inner;
use crate::zone_io;

impl Device {
    /// Finishes the zones that are open, durably; later appends open others. What was placed before has ended when this
    /// returns. For a recovery that wants a sealed log to walk (RFD 2, decision 7).
    pub async fn finish_open_zones(&self) -> Result<(), Arc<DiskError>> {
        let (plan, settling) = {
            let mut zones = self.inner.zones.lock();
            let plan = zones.book.finish_open();
            // Zones that were full before count too: their last frames may be under way. None of them takes another.
            let is_settled = |zone: &ZoneIndex| is_settled(&self.inner, &zones.book, *zone);
            let settling = self.inner.geometry.zones().filter(|zone| !is_settled(zone)).collect();
            (plan, settling)
        };
        self.finish(plan, settling).await
    }

    /// Finishes the zone that tombstones have opened from the reserve, durably, if there is one. What it holds is behind the log's
    /// floor then, so that a checkpoint covers it.
    pub async fn finish_reserved_zone(&self) -> Result<(), Arc<DiskError>> {
        let plan = self.inner.zones.lock().book.finish_reserved();
        let settling = plan.finish.clone();
        self.finish(plan, settling).await
    }

    /// Finishes zones that were taken from their heads, and waits until those that are settling have ended, durably.
    async fn finish(&self, plan: Plan, settling: Vec<ZoneIndex>) -> Result<(), Arc<DiskError>> {
        zone_io::carry_out(&self.inner, plan);
        self.wait_until(|inner| {
            let book = &inner.zones.lock().book;
            settling.iter().all(|zone| is_settled(inner, book, *zone))
        })
        .await
    }

    /// Ends all appending: what has no place yet is refused, what is in flight ends, open zones are finished, and everything
    /// written is made durable. Only reads remain. Where free zones are short, zones stay open that the next process goes on with.
    pub async fn seal(&self) -> Result<(), Arc<DiskError>> {
        let inner = &self.inner;
        inner.sealed.store(true, Ordering::Release);
        inner.retry_waiting();
        loop {
            // A zone that is being activated becomes an open one.
            self.wait_until(|inner| {
                let book = &inner.zones.lock().book;
                let is_changing = |zone: ZoneIndex| {
                    let changes =
                        [ZoneUse::Activating, ZoneUse::Finishing, ZoneUse::Prewriting, ZoneUse::Lending, ZoneUse::Returning];
                    changes.contains(&book.entry(zone).doing) || inner.table.writes_in_flight(zone) > 0
                };
                !inner.geometry.zones().any(is_changing)
            })
            .await?;
            let plan = inner.zones.lock().book.finish_at_end(&|| inner.env.now());
            if plan.finish.is_empty() {
                break;
            }
            let settling = plan.finish.clone();
            self.finish(plan, settling).await?;
        }
        self.flush().await
    }

    async fn wait_until(&self, reached: impl Fn(&Inner) -> bool) -> Result<(), Arc<DiskError>> {
        loop {
            let changed = self.inner.zone_changed.notified();
            if let Some(cause) = self.inner.poisoned_by() {
                return Err(cause);
            }
            if reached(&self.inner) {
                return Ok(());
            }
            changed.await;
        }
    }
}

/// Whether nothing of a zone is under way: no frame, and no header that finishes it.
fn is_settled(inner: &Inner, book: &ZoneBook, zone: ZoneIndex) -> bool {
    book.entry(zone).doing != ZoneUse::Finishing && inner.table.writes_in_flight(zone) == 0
}
