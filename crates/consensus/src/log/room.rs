//! Who may fill the log, and how far.
//!
//! ```text
//!   │◄────────── live ──────────►│◄─ claims ─►│◄── for the longest snapshot ──►│◄─ RESERVED_SEGMENTS ─►│
//!   │                            │ proposals, entries of leaders, snapshots    │ what is said again    │ votes, purges, marks
//! ```
//!
//! A full log is the end of all groups of a node, so nobody gets there: what may be long asks first. Everybody leaves room for saying again what
//! stands in the oldest segment, or a log that is full could never be tidied up.
//!
//! What groups need is limited besides ([`Bounds`]), for a log that holds little else would be written again and again. A part of that is the
//! favoured group's alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use disk::BLOCK_BYTES;

use super::bounds::Bounds;
use super::{Inner, LONGEST_RECORD_BYTES, SharedLog};
use crate::id::GroupId;
use crate::limits::{RESERVED_SEGMENTS, SNAPSHOT_PIECE_BYTES};
use crate::log::GroupLog;

/// How often a snapshot that finds no room looks again.
const ROOM_INTERVAL: Duration = Duration::from_millis(50);

/// What groups need of the log, as of its last look, and what they were given room for since.
#[derive(Default)]
pub(super) struct Needs {
    all: AtomicU64,
    beside_favoured: AtomicU64,
    /// Of the longest snapshot that a group may have to write.
    longest_snapshot: AtomicU64,
    /// Somebody was refused, and it was told.
    is_refused: AtomicBool,
}

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
    /// Room for a proposal or for entries of a leader; none if it is needed for snapshots, or if groups need as much as they may.
    pub(crate) fn claim_for_entries(&self, group: &GroupLog, bytes: usize) -> Option<Claim> {
        let needs = &self.inner.needs;
        let own = (group.state().live_bytes() + bytes) as u64;
        needs.longest_snapshot.fetch_max(own, Ordering::AcqRel);
        if !self.may_need(group.id(), bytes as u64) {
            return None;
        }
        let claim = self.claim_beside_longest(written_bytes(bytes, LONGEST_RECORD_BYTES))?;
        needs.all.fetch_add(bytes as u64, Ordering::AcqRel);
        if !self.is_favoured(group.id()) {
            needs.beside_favoured.fetch_add(bytes as u64, Ordering::AcqRel);
        }
        Some(claim)
    }

    /// Room for a snapshot that a leader sends.
    pub(crate) fn claim_for_sent_snapshot(&self, group: &GroupLog, bytes: usize) -> Option<Claim> {
        let more = bytes.saturating_sub(group.state().live_bytes());
        self.may_need(group.id(), more as u64).then(|| self.claim_for_snapshot(bytes)).flatten()
    }

    /// Room for a snapshot, which gives entries up.
    pub(crate) fn claim_for_snapshot(&self, bytes: usize) -> Option<Claim> {
        self.inner.needs.longest_snapshot.fetch_max(bytes as u64, Ordering::AcqRel);
        self.claim_beside_longest(written_bytes(bytes, SNAPSHOT_PIECE_BYTES))
    }

    /// Room for what is said again, so that a segment gets free.
    pub(super) fn claim_for_saying_again(&self, bytes: usize) -> Option<Claim> {
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

    /// Room that leaves enough for saying again the longest snapshot.
    fn claim_beside_longest(&self, bytes: u64) -> Option<Claim> {
        let longest = self.inner.needs.longest_snapshot.load(Ordering::Acquire);
        let left_free = written_bytes(longest as usize, SNAPSHOT_PIECE_BYTES);
        // One segment more: the oldest one holds other records beside the longest snapshot.
        self.claim(bytes, left_free, RESERVED_SEGMENTS + 1)
    }

    fn claim(&self, bytes: u64, left_free: u64, reserved_segments: usize) -> Option<Claim> {
        let inner = &self.inner;
        let used = inner.wal.live_segment_count() + reserved_segments;
        let free = inner.most_segments.saturating_sub(used) as u64 * self.useful_bytes();
        let fits = |claimed: u64| claimed + bytes + left_free <= free;
        let claimed = inner
            .claimed_bytes
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |claimed| fits(claimed).then_some(claimed + bytes));
        claimed.ok().map(|_| Claim { inner: Arc::clone(inner), bytes })
    }

    /// Of a segment: its end is wasted where the next record does not fit.
    fn useful_bytes(&self) -> u64 {
        self.inner.segment_bytes - LONGEST_RECORD_BYTES as u64 - 2 * BLOCK_BYTES as u64
    }

    fn bounds(&self) -> Bounds {
        let longest = self.inner.needs.longest_snapshot.load(Ordering::Acquire);
        Bounds {
            most_segments: self.inner.most_segments,
            useful_bytes: self.useful_bytes(),
            longest_snapshot: written_bytes(longest as usize, SNAPSHOT_PIECE_BYTES),
        }
    }

    fn is_favoured(&self, group: GroupId) -> bool {
        self.inner.favoured == Some(group)
    }

    /// What may be needed of the log: by all groups, and by those besides the favoured one.
    fn most_needed(&self) -> (u64, u64) {
        let bounds = self.bounds();
        let all = bounds.most_needed();
        (all, self.inner.favoured.map_or(all, |_| bounds.most_needed_beside_favoured()))
    }

    /// Whether a group may need so many bytes more.
    fn may_need(&self, group: GroupId, bytes: u64) -> bool {
        let needs = &self.inner.needs;
        let (all, beside_favoured) = (needs.all.load(Ordering::Acquire), needs.beside_favoured.load(Ordering::Acquire));
        let (most, most_beside_favoured) = self.most_needed();
        let is_within = all + bytes <= most && (self.is_favoured(group) || beside_favoured + bytes <= most_beside_favoured);
        let fits = bytes == 0 || is_within;
        if !fits && !needs.is_refused.swap(true, Ordering::AcqRel) {
            tracing::warn!(
                %group, all, most, beside_favoured, most_beside_favoured,
                "what groups of this node need fills its consensus log: their proposals are refused until snapshots or groups are smaller"
            );
        }
        fits
    }

    /// Whether groups should give up entries, before proposals must wait.
    pub(crate) fn is_pressed(&self) -> bool {
        self.is_needed_beyond(1, 2)
    }

    fn is_needed_beyond(&self, part: u64, of: u64) -> bool {
        let needs = &self.inner.needs;
        let (most, most_beside_favoured) = self.most_needed();
        of * needs.all.load(Ordering::Acquire) > part * most
            || of * needs.beside_favoured.load(Ordering::Acquire) > part * most_beside_favoured
    }

    /// Measures what groups need, and what the longest snapshot may become.
    pub(super) fn measure(&self) {
        let needs = &self.inner.needs;
        let (mut all, mut beside_favoured, mut longest) = (0, 0, 0);
        {
            let groups = self.inner.groups.lock();
            for (group, state) in groups.iter() {
                let state = state.lock();
                all += state.needed_bytes();
                beside_favoured += if self.is_favoured(*group) { 0 } else { state.needed_bytes() };
                longest = longest.max(state.live_bytes() as u64);
            }
            needs.all.store(all, Ordering::Release);
            needs.beside_favoured.store(beside_favoured, Ordering::Release);
            needs.longest_snapshot.store(longest, Ordering::Release);
        }
        if !self.is_needed_beyond(7, 8) {
            needs.is_refused.store(false, Ordering::Release);
        }
    }

    /// Whether the log has more segments than it should, for what is needed of it.
    pub(crate) fn is_overgrown(&self) -> bool {
        let needed = self.inner.needs.all.load(Ordering::Acquire);
        self.inner.wal.live_segment_count() > self.bounds().tidy_at(needed)
    }

    /// Nobody waits for room any more.
    pub(crate) fn close(&self) {
        self.inner.is_closed.store(true, Ordering::Release);
    }
}
