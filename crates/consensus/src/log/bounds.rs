//! How far the log may be filled, in segments.
//!
//! ```text
//!  0          needed        tidied up from here    entries are refused                             most
//!  ├────────────┼────────────────────┼──────────────────┼─────────────────────────┼─────────────────┤
//!  │            │  given up lately   │ snapshots due    │ for the longest snapshot│ RESERVED_SEGMENTS + 1
//! ```
//!
//! Tidying up writes again what is needed of the oldest segments, so that once around the log costs `needed` and frees what was given up:
//! at most `needed / (tidy_at - needed)` bytes for each byte that was written otherwise. What groups may need is limited so that this is
//! [`MAX_REWRITES`] at most.

use crate::limits::{FULL_SNAPSHOT_BYTES, MAX_REWRITES, RESERVED_SEGMENTS, SLACK_SEGMENTS};

/// Of the log's segments, one in so many is left free for what is written while it is being tidied up.
const MARGIN_SHARE: usize = 16;

/// Of what groups may need, one part in so many is left to the favoured group.
const FAVOURED_SHARE: u64 = 4;

/// Of what groups may need, one part in so many is left by what makes states longer. What makes them shorter fills it with entries: where that is
/// full, these are more than one part in so many of some group's state, and a snapshot gives them up.
const GROWTH_SHARE: u64 = 2 * MAX_REWRITES as u64;

/// Segments that tidying up leaves besides what is needed: the one that is written to, and one that was not full when it began.
const UNTIDY_SEGMENTS: usize = 2;

/// The room of a log, and the longest snapshot that may have to be written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) most_segments: usize,
    /// Of a segment: its end is wasted where the next record does not fit.
    pub(super) useful_bytes: u64,
    pub(super) longest_snapshot: u64,
}

impl Bounds {
    /// Live segments beyond which a log is tidied up whose groups need so many bytes.
    pub(super) fn tidy_at(&self, needed_bytes: u64) -> usize {
        let needed = needed_bytes.div_ceil(self.useful_bytes) as usize;
        // One whose groups need more than they may is tidied up as far as it goes, once: nobody proposes anything.
        (2 * needed + SLACK_SEGMENTS).min(self.roomy()).max(needed + UNTIDY_SEGMENTS)
    }

    /// What groups may need.
    pub(super) fn most_needed(&self) -> u64 {
        (self.roomy().saturating_sub(1) * MAX_REWRITES / (MAX_REWRITES + 1)) as u64 * self.useful_bytes
    }

    /// What they may need while states get longer. The longest snapshot may then grow by as much as entries before they are given up.
    pub(super) fn most_grown(&self) -> u64 {
        let longest_snapshot = self.longest_snapshot + self.longest_snapshot / GROWTH_SHARE;
        let most = Bounds { longest_snapshot, ..*self }.most_needed();
        most - most / GROWTH_SHARE
    }

    /// What they may need if it has come to be more than they should: rewriting it costs more then, and still comes to an end.
    pub(super) fn most_at_all(&self) -> u64 {
        self.roomy().saturating_sub(1) as u64 * self.useful_bytes
    }

    /// Of what groups may need, the part of those besides the favoured one.
    pub(super) fn beside_favoured(most: u64) -> u64 {
        most - most / FAVOURED_SHARE
    }

    /// Live segments with room for what is written while the log is tidied up, and for a snapshot that makes it easier.
    fn roomy(&self) -> usize {
        let longest = self.longest_snapshot.div_ceil(self.useful_bytes) as usize;
        let full = self.most_segments.saturating_sub(RESERVED_SEGMENTS + 1 + longest);
        full.saturating_sub((self.most_segments / MARGIN_SHARE).max(longest))
    }
}

/// Bytes of entries from which on a group makes a snapshot where the log is full, if its last one is of so many.
pub(crate) fn entry_bytes_of_full(snapshot_bytes: usize) -> usize {
    FULL_SNAPSHOT_BYTES.max(snapshot_bytes / GROWTH_SHARE as usize)
}

#[cfg(test)]
mod tests;
