//! Who may fill the log, and how far.
//!
//! ```text
//!   │◄────────── live ──────────►│◄─ claims ─►│◄── for the longest snapshot ──►│◄─ RESERVED_SEGMENTS ─►│
//!   │                            │ proposals, entries of leaders              │ snapshots             │ votes, purges, marks
//! ```
//!
//! A full log is the end of all groups of a node, so nobody gets there: what may be long asks first. Proposals and entries leave room for the
//! snapshot that gives them up again, or a log that is full of entries could never be emptied.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use disk::BLOCK_BYTES;

use super::{Inner, LONGEST_RECORD_BYTES, SharedLog};
use crate::limits::{RESERVED_SEGMENTS, SNAPSHOT_PIECE_BYTES};
use crate::log::GroupLog;

/// How often a snapshot that finds no room looks again.
const ROOM_INTERVAL: Duration = Duration::from_millis(50);

/// Room in the log that its holder may fill.
pub(crate) struct Claim {
    inner: Arc<Inner>,
    bytes: u64,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.inner.claimed_bytes.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// What records of these bytes take at most, when each is written by itself.
fn written_bytes(bytes: usize, longest: usize) -> u64 {
    let records = bytes / longest + 1;
    (bytes + 2 * records * BLOCK_BYTES) as u64
}

impl SharedLog {
    /// Room for a proposal or for entries of a leader; none if it is needed for snapshots.
    pub(crate) fn claim_for_entries(&self, group: &GroupLog, bytes: usize) -> Option<Claim> {
        let own = group.state().live_bytes() + bytes;
        let longest = self.inner.longest_snapshot.fetch_max(own as u64, Ordering::AcqRel).max(own as u64);
        let left_free = written_bytes(longest as usize, SNAPSHOT_PIECE_BYTES);
        // One segment more: what is left must still be left when the next one is begun.
        self.claim(written_bytes(bytes, LONGEST_RECORD_BYTES), left_free, RESERVED_SEGMENTS + 1)
    }

    /// Room for a snapshot.
    pub(crate) fn claim_for_snapshot(&self, bytes: usize) -> Option<Claim> {
        self.claim(written_bytes(bytes, SNAPSHOT_PIECE_BYTES), 0, RESERVED_SEGMENTS)
    }

    /// Room for a snapshot, as soon as there is; none if the log is closed.
    pub(super) async fn wait_for_snapshot_room(&self, bytes: usize) -> Option<Claim> {
        while !self.inner.is_closed.load(Ordering::Acquire) {
            if let Some(claim) = self.claim_for_snapshot(bytes) {
                return Some(claim);
            }
            self.inner.untidy.notify_one();
            self.inner.env.sleep(ROOM_INTERVAL).await;
        }
        None
    }

    fn claim(&self, bytes: u64, left_free: u64, reserved_segments: usize) -> Option<Claim> {
        let inner = &self.inner;
        let used = inner.wal.live_segment_count() + reserved_segments;
        // The end of a segment is wasted where the next record does not fit.
        let useful = inner.segment_bytes - LONGEST_RECORD_BYTES as u64 - 2 * BLOCK_BYTES as u64;
        let free = inner.most_segments.saturating_sub(used) as u64 * useful;
        let fits = |claimed: u64| claimed + bytes + left_free <= free;
        let claimed = inner
            .claimed_bytes
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |claimed| fits(claimed).then_some(claimed + bytes));
        claimed.ok().map(|_| Claim { inner: Arc::clone(inner), bytes })
    }

    /// Measures what the longest snapshot may become.
    pub(super) fn measure(&self) {
        let groups = self.inner.groups.lock();
        let longest = groups.values().map(|state| state.lock().live_bytes() as u64).max().unwrap_or(0);
        self.inner.longest_snapshot.store(longest, Ordering::Release);
    }

    /// Nobody waits for room any more.
    pub(crate) fn close(&self) {
        self.inner.is_closed.store(true, Ordering::Release);
    }
}
