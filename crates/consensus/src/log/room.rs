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
//! favoured group's alone, and what makes states longer leaves another to the rest: or nothing could make them shorter.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use disk::BLOCK_BYTES;

use super::bounds::{Bounds, entry_bytes_of_full};
use super::{Inner, LONGEST_RECORD_BYTES, SharedLog};
use crate::id::GroupId;
use crate::limits::{RESERVED_SEGMENTS, SNAPSHOT_PIECE_BYTES};
use crate::log::GroupLog;

/// How often a snapshot that finds no room looks again.
const ROOM_INTERVAL: Duration = Duration::from_millis(50);

/// The same for rows, in another store.
const ELSEWHERE_INTERVAL: Duration = Duration::from_secs(1);

/// What is to be written, by what becomes of it when there is little room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It makes a state longer: refused first.
    Growth,
    /// Other commands, and what a leader has taken.
    Command,
    /// Of a group that has not as many entries as make a snapshot worth its while in a full log. A group has these, or a snapshot is due: whatever
    /// groups need, either something is taken or something is given up.
    FewEntries,
    /// Beginnings of leaders and members of groups, without which nobody leads. Where groups need as much as they may, too: each is short, they come
    /// with elections and changes of members, and a group's snapshot covers them after some thousands at the latest.
    Upkeep,
}

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

/// Room for a snapshot that a leader has sent. It is counted as if the group had it.
pub(crate) struct SentClaim {
    group: GroupLog,
    bytes: usize,
    _room: Claim,
}

impl Drop for SentClaim {
    fn drop(&mut self) {
        self.group.state().expect_no_more(self.bytes);
        self.group.log().measure();
    }
}

/// What records of these bytes take at most, when each is written by itself.
fn written_bytes(bytes: usize, longest: usize) -> u64 {
    let records = bytes / longest + 1;
    (bytes + 2 * records * BLOCK_BYTES) as u64
}

impl SharedLog {
    /// Room for a proposal or for entries of a leader; none if it is needed for snapshots, or if groups need as much as they may.
    pub(crate) fn claim_for_entries(&self, group: &GroupLog, bytes: usize, purpose: Purpose) -> Option<Claim> {
        let (own, has_few) = {
            let state = group.state();
            let snapshot = state.snapshot().map_or(0, |snapshot| snapshot.bytes.len());
            ((state.live_bytes() + bytes) as u64, state.entry_bytes() <= entry_bytes_of_full(snapshot))
        };
        let purpose = self.purpose_for(group.id(), purpose);
        let purpose = if purpose == Purpose::Command && has_few { Purpose::FewEntries } else { purpose };
        self.claim_needed(group.id(), bytes as u64, own, written_bytes(bytes, LONGEST_RECORD_BYTES), purpose)
    }

    /// Room for a snapshot that a leader sends, until it is in the log: others that come meanwhile find less.
    pub(crate) fn claim_for_sent_snapshot(&self, group: &GroupLog, bytes: usize, purpose: Purpose) -> Option<SentClaim> {
        let more = bytes.saturating_sub(group.state().live_bytes()) as u64;
        let written = written_bytes(bytes, SNAPSHOT_PIECE_BYTES);
        let _room = self.claim_needed(group.id(), more, bytes as u64, written, purpose)?;
        group.state().expect(bytes);
        Some(SentClaim { group: group.clone(), bytes, _room })
    }

    /// Room for what a group needs besides: so many bytes, after which its state may be of `longest`.
    fn claim_needed(&self, group: GroupId, bytes: u64, longest: u64, written: u64, purpose: Purpose) -> Option<Claim> {
        let needs = &self.inner.needs;
        let longest = longest.max(needs.longest_snapshot.load(Ordering::Acquire));
        if !self.may_need(group, bytes, longest, purpose) {
            return None;
        }
        let claim = self.claim_beside(longest, written)?;
        needs.longest_snapshot.fetch_max(longest, Ordering::AcqRel);
        needs.all.fetch_add(bytes, Ordering::AcqRel);
        if !self.is_favoured(group) {
            needs.beside_favoured.fetch_add(bytes, Ordering::AcqRel);
        }
        Some(claim)
    }

    /// Room for a snapshot, which gives entries up.
    pub(crate) fn claim_for_snapshot(&self, bytes: usize) -> Option<Claim> {
        let known = self.inner.needs.longest_snapshot.fetch_max(bytes as u64, Ordering::AcqRel);
        self.claim_beside(known.max(bytes as u64), written_bytes(bytes, SNAPSHOT_PIECE_BYTES))
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

    /// Waits for room elsewhere; false if the log is closed.
    pub(super) async fn wait_until(&self, has_room: impl Fn() -> bool) -> bool {
        while !self.inner.is_closed.load(Ordering::Acquire) {
            if has_room() {
                return true;
            }
            self.inner.env.sleep(ELSEWHERE_INTERVAL).await;
        }
        false
    }

    /// Room that leaves enough for saying again the longest snapshot.
    fn claim_beside(&self, longest: u64, bytes: u64) -> Option<Claim> {
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

    fn longest_snapshot(&self) -> u64 {
        self.inner.needs.longest_snapshot.load(Ordering::Acquire)
    }

    fn bounds(&self, longest: u64) -> Bounds {
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
    fn most_needed(&self, longest: u64, purpose: Purpose) -> (u64, u64) {
        let bounds = self.bounds(longest);
        let all = match purpose {
            Purpose::Growth => bounds.most_grown(),
            Purpose::Command => bounds.most_needed(),
            Purpose::FewEntries => bounds.most_at_all(),
            Purpose::Upkeep => u64::MAX,
        };
        (all, self.inner.favoured.map_or(all, |_| Bounds::beside_favoured(all)))
    }

    /// Nothing of the favoured group is refused first.
    fn purpose_for(&self, group: GroupId, purpose: Purpose) -> Purpose {
        if self.is_favoured(group) && purpose == Purpose::Growth { Purpose::Command } else { purpose }
    }

    /// Whether a group may need so many bytes more, when its state may be of `longest` then.
    fn may_need(&self, group: GroupId, bytes: u64, longest: u64, purpose: Purpose) -> bool {
        let needs = &self.inner.needs;
        let (all, beside_favoured) = (needs.all.load(Ordering::Acquire), needs.beside_favoured.load(Ordering::Acquire));
        let is_favoured = self.is_favoured(group);
        let purpose = self.purpose_for(group, purpose);
        let (most, most_beside_favoured) = self.most_needed(longest, purpose);
        let is_within = all + bytes <= most && (is_favoured || beside_favoured + bytes <= most_beside_favoured);
        let fits = bytes == 0 || is_within;
        if !fits && !needs.is_refused.swap(true, Ordering::AcqRel) {
            tracing::warn!(
                %group, all, most, beside_favoured, most_beside_favoured,
                "what groups of this node need fills its consensus log: proposals are refused until snapshots or groups are smaller, \
                 first those that make a state longer"
            );
        }
        fits
    }

    /// Whether groups should give up entries, before proposals must wait.
    pub(crate) fn is_pressed(&self) -> bool {
        self.is_needed_beyond(1, 2, Purpose::Command)
    }

    /// Whether nothing is taken any more that makes a state longer: of what is left others need all.
    pub(crate) fn is_crowded(&self) -> bool {
        self.is_needed_beyond(1, 1, Purpose::Growth)
    }

    /// Whether groups need more than a part of what they may.
    fn is_needed_beyond(&self, part: u64, of: u64, purpose: Purpose) -> bool {
        let needs = &self.inner.needs;
        let (most, most_beside_favoured) = self.most_needed(self.longest_snapshot(), purpose);
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
        if !self.is_needed_beyond(7, 8, Purpose::Growth) {
            needs.is_refused.store(false, Ordering::Release);
        }
    }

    /// Whether the log has more segments than it should, for what is needed of it.
    pub(crate) fn is_overgrown(&self) -> bool {
        let needed = self.inner.needs.all.load(Ordering::Acquire);
        self.inner.wal.live_segment_count() > self.bounds(self.longest_snapshot()).tidy_at(needed)
    }

    /// Whether groups need more than they may.
    #[cfg(test)]
    pub(crate) fn is_overfull(&self) -> bool {
        self.is_needed_beyond(1, 1, Purpose::Command)
    }

    #[cfg(test)]
    pub(crate) fn claimed_bytes(&self) -> u64 {
        self.inner.claimed_bytes.load(Ordering::Acquire)
    }

    /// Nobody waits for room any more.
    pub(crate) fn close(&self) {
        self.inner.is_closed.store(true, Ordering::Release);
    }
}
