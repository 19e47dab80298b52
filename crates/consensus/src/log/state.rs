//! What the log holds of one group, in memory: the log itself is read only when it is opened.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use crc_fast::{CrcAlgorithm, checksum};
use disk::BLOCK_BYTES;
use wal::Lsn;

use crate::id::{GroupId, LogIndex, LogPosition, NodeId};
use crate::limits::{MAX_SNAPSHOT_BYTES, SNAPSHOT_PIECE_BYTES};
use crate::record::{Change, Content, Entry, Membership, SnapshotSummary, Vote};

/// A snapshot with its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) summary: SnapshotSummary,
    pub(crate) bytes: Bytes,
}

/// The checksum of a snapshot's contents.
pub(crate) fn snapshot_checksum(bytes: &[u8]) -> u64 {
    checksum(CrcAlgorithm::Crc64Nvme, bytes)
}

/// The records of one group do not fit together: something between them is missing or was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    #[error("group {group}: entry {found} where {expected} should come")]
    Hole { group: GroupId, expected: u64, found: u64 },
    #[error("group {group}: entries begin at {first}, and no snapshot covers what came before")]
    Uncovered { group: GroupId, first: u64 },
    #[error("group {group}: a piece of snapshot {number} at byte {found}, expected at {expected}")]
    Piece { group: GroupId, number: u64, expected: u64, found: u64 },
    #[error("group {group}: snapshot {number} is announced with {bytes} bytes, at most {MAX_SNAPSHOT_BYTES} are allowed")]
    SnapshotLength { group: GroupId, number: u64, bytes: u64 },
    #[error("group {group}: snapshot {number} has checksum {found:016x}, expected {expected:016x}")]
    SnapshotChecksum { group: GroupId, number: u64, expected: u64, found: u64 },
}

/// A value and the record that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held<T> {
    value: T,
    lsn: Lsn,
}

#[derive(Clone, Debug)]
struct HeldEntry {
    entry: Entry,
    lsn: Lsn,
}

/// A snapshot of which records were read, but not the last.
#[derive(Debug)]
struct Partial {
    summary: SnapshotSummary,
    bytes: u64,
    checksum: u64,
    first_lsn: Lsn,
    received: BytesMut,
}

/// One group's part of the log.
#[derive(Debug, Default)]
pub(crate) struct GroupState {
    vote: Option<Held<Vote>>,
    committed: Option<LogPosition>,
    purged: Option<Held<LogPosition>>,
    /// By their indices. Consecutive, but while the log is read: where reading begins, records of entries that were written again since may
    /// be gone, and those of their successors not.
    entries: BTreeMap<u64, HeldEntry>,
    entry_bytes: usize,
    snapshot: Option<Held<Snapshot>>,
    /// Snapshots on their way into the log, by their numbers, with their first records.
    unfinished: BTreeMap<u64, Lsn>,
    /// Lengths of snapshots that a leader has sent, while they are taken in.
    expected: Vec<usize>,
    /// While the log is read.
    partial: BTreeMap<u64, Partial>,
    next_snapshot: u64,
    /// The group was forgotten: a record of it that came now would bring a part of it back.
    is_removed: bool,
    /// Entries count as written when they outlive the process. Of a group whose only member is this node.
    is_ordered: bool,
}

impl GroupState {
    pub(crate) fn vote(&self) -> Option<Vote> {
        self.vote.map(|held| held.value)
    }

    pub(crate) fn set_vote(&mut self, vote: Vote, lsn: Lsn) {
        self.vote = Some(Held { value: vote, lsn });
    }

    pub(crate) fn committed(&self) -> Option<LogPosition> {
        self.committed
    }

    pub(crate) fn set_committed(&mut self, committed: Option<LogPosition>) {
        self.committed = committed;
    }

    pub(crate) fn purged(&self) -> Option<LogPosition> {
        self.purged.map(|held| held.value)
    }

    pub(crate) fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshot.as_ref().map(|held| &held.value)
    }

    /// Bytes that entries take.
    pub(crate) fn entry_bytes(&self) -> usize {
        self.entry_bytes
    }

    /// A snapshot of this length is about to be the group's.
    pub(crate) fn expect(&mut self, bytes: usize) {
        self.expected.push(bytes);
    }

    /// One of this length is, or will not be.
    pub(crate) fn expect_no_more(&mut self, bytes: usize) {
        if let Some(at) = self.expected.iter().position(|expected| *expected == bytes) {
            self.expected.swap_remove(at);
        }
    }

    /// Bytes that a log with nothing but this group's contents would hold, and with a snapshot that it is sent.
    pub(crate) fn live_bytes(&self) -> usize {
        let held = self.snapshot().map_or(0, |snapshot| snapshot.bytes.len());
        self.entry_bytes + self.expected.iter().copied().fold(held, usize::max)
    }

    /// Bytes that these contents take in the log when they are said again, at most: records of long pieces are written each by itself, and so are
    /// the beginning and the end of a snapshot, what is left of it and of the entries, and the rest. A write takes whole blocks.
    pub(crate) fn needed_bytes(&self) -> u64 {
        const SHORT_WRITES: usize = 5;
        let writes = self.live_bytes() / SNAPSHOT_PIECE_BYTES + SHORT_WRITES;
        (self.live_bytes() + writes * BLOCK_BYTES) as u64
    }

    /// Bytes of entries that a snapshot of the state after `applied` would cover, and the newest one does not.
    pub(crate) fn coverable_bytes(&self, applied: LogIndex) -> usize {
        let covered = self.snapshot().and_then(|snapshot| snapshot.summary.last).map_or(0, |last| last.index.0 + 1);
        let coverable = self.entries.range(covered..(applied.0 + 1).max(covered));
        coverable.map(|(_, held)| held.entry.bytes()).sum()
    }

    /// The position of the last entry, purged ones included.
    pub(crate) fn last(&self) -> Option<LogPosition> {
        self.entries.values().next_back().map(|held| held.entry.position).or(self.purged())
    }

    /// The index of the first entry that is there, or of the next one.
    pub(crate) fn first_index(&self) -> u64 {
        match (self.entries.first_key_value(), self.purged()) {
            (Some((first, _)), _) => *first,
            (None, Some(purged)) => purged.index.0 + 1,
            (None, None) => 0,
        }
    }

    /// Entries with an index in `range`, as far as they are there, until they have `most_bytes`; at least one.
    pub(crate) fn entries(&self, range: Range<u64>, most_bytes: usize) -> Vec<Entry> {
        let mut bytes = 0;
        let mut found = Vec::new();
        for held in self.entries.range(range.start..range.end.max(range.start)).map(|(_, held)| held) {
            bytes += held.entry.bytes();
            if !found.is_empty() && bytes > most_bytes {
                break;
            }
            found.push(held.entry.clone());
        }
        found
    }

    /// Puts an entry in its place: the next one, or one that is there.
    pub(crate) fn put(&mut self, entry: Entry, lsn: Lsn) {
        let index = entry.position.index.0;
        let is_first = self.entries.is_empty() && self.purged.is_none();
        let next = self.first_index() + self.entries.len() as u64;
        assert!(
            is_first || (self.first_index()..=next).contains(&index),
            "Raft appends entry {index} where {next} should come"
        );
        self.take_in(entry, lsn);
    }

    /// Puts an entry in its place, whatever stands beside it.
    fn take_in(&mut self, entry: Entry, lsn: Lsn) {
        let index = entry.position.index.0;
        if self.purged().is_some_and(|purged| index <= purged.index.0) {
            return;
        }
        self.entry_bytes += entry.bytes();
        if let Some(former) = self.entries.insert(index, HeldEntry { entry, lsn }) {
            self.entry_bytes -= former.entry.bytes();
        }
    }

    /// Drops entries after `last`; all, if there is none.
    pub(crate) fn truncate(&mut self, last: Option<LogPosition>) {
        let dropped = self.entries.split_off(&last.map_or(0, |last| last.index.0 + 1));
        self.forget(&dropped);
    }

    fn forget(&mut self, dropped: &BTreeMap<u64, HeldEntry>) {
        self.entry_bytes -= dropped.values().map(|held| held.entry.bytes()).sum::<usize>();
    }

    /// Drops entries through `last`, which may lie beyond the last one.
    pub(crate) fn purge(&mut self, last: LogPosition, lsn: Lsn) {
        let kept = self.entries.split_off(&(last.index.0 + 1));
        let dropped = std::mem::replace(&mut self.entries, kept);
        self.forget(&dropped);
        if self.purged().is_none_or(|purged| purged.index <= last.index) {
            self.purged = Some(Held { value: last, lsn });
        }
    }

    /// A number for a snapshot that is about to be written.
    pub(crate) fn number_snapshot(&mut self) -> u64 {
        self.next_snapshot += 1;
        self.next_snapshot
    }

    /// The first record of a snapshot is `lsn`: the log must not forget it from here on.
    pub(crate) fn begin_snapshot(&mut self, number: u64, lsn: Lsn) {
        self.unfinished.insert(number, lsn);
    }

    /// All of a snapshot is in the log. It counts unless a later one does.
    pub(crate) fn end_snapshot(&mut self, number: u64, snapshot: Snapshot) {
        let Some(lsn) = self.unfinished.remove(&number) else { return };
        if self.snapshot().is_none_or(|current| current.summary.last <= snapshot.summary.last) {
            self.snapshot = Some(Held { value: snapshot, lsn });
        }
    }

    /// A snapshot will not be finished.
    pub(crate) fn abandon_snapshot(&mut self, number: u64) {
        self.unfinished.remove(&number);
    }

    /// The oldest record that this group needs.
    pub(crate) fn floor(&self) -> Option<Lsn> {
        let single =
            [self.vote.map(|held| held.lsn), self.purged.map(|held| held.lsn), self.snapshot.as_ref().map(|held| held.lsn)];
        // Entries that were written again lie out of order.
        let oldest_entry = self.entries.values().map(|held| held.lsn).min();
        single.into_iter().chain([oldest_entry, self.unfinished.values().min().copied()]).flatten().min()
    }

    /// The snapshot, if it begins before `before`.
    pub(crate) fn snapshot_before(&self, before: Lsn) -> Option<&Snapshot> {
        self.snapshot.as_ref().filter(|held| held.lsn < before).map(|held| &held.value)
    }

    /// The first entries at or after `index` that stand before `before` and follow each other.
    pub(crate) fn entries_before(&self, index: u64, before: Lsn) -> Option<Range<u64>> {
        let mut from = self.entries.range(index..);
        let first = from.find(|(_, held)| held.lsn < before).map(|(index, _)| *index)?;
        let next = self.entries.range(first..).find(|(_, held)| held.lsn >= before).map(|(index, _)| *index);
        Some(first..next.unwrap_or(u64::MAX))
    }

    /// What was purged, if that stands before `before`.
    pub(crate) fn purge_before(&self, before: Lsn) -> Option<LogPosition> {
        self.purged.filter(|held| held.lsn < before).map(|held| held.value)
    }

    /// The vote, if it stands before `before`.
    pub(crate) fn vote_before(&self, before: Lsn) -> Option<Vote> {
        self.vote.filter(|held| held.lsn < before).map(|held| held.value)
    }

    /// Bytes of what stands before `before`, of a snapshot all if it begins there.
    pub(crate) fn bytes_before(&self, before: Lsn) -> usize {
        let snapshot = self.snapshot_before(before).map_or(0, |snapshot| snapshot.bytes.len());
        let entries = self.entries.values().filter(|held| held.lsn < before).map(|held| held.entry.bytes());
        snapshot + entries.sum::<usize>()
    }

    /// Takes in one record while the log is read.
    pub(crate) fn replay(&mut self, group: GroupId, change: Change, lsn: Lsn) -> Result<(), ReplayError> {
        match change {
            Change::Vote(vote) => self.set_vote(vote, lsn),
            Change::Entries { committed, entries } => {
                self.committed = self.committed.max(committed);
                for entry in entries {
                    self.take_in(entry, lsn);
                }
            }
            Change::Truncate { last } => self.truncate(last),
            Change::Purge { last } => self.purge(last, lsn),
            Change::SnapshotBegin { number, summary, bytes, checksum } => {
                if bytes > MAX_SNAPSHOT_BYTES as u64 {
                    return Err(ReplayError::SnapshotLength { group, number, bytes });
                }
                self.next_snapshot = self.next_snapshot.max(number);
                let received = BytesMut::with_capacity(bytes as usize);
                self.partial.insert(number, Partial { summary, bytes, checksum, first_lsn: lsn, received });
            }
            Change::SnapshotPiece { number, offset, piece } => {
                // Without its first record it is one that is not needed any more.
                let Some(partial) = self.partial.get_mut(&number) else { return Ok(()) };
                let expected = partial.received.len() as u64;
                if offset != expected || offset + piece.0.len() as u64 > partial.bytes {
                    return Err(ReplayError::Piece { group, number, expected, found: offset });
                }
                partial.received.extend_from_slice(&piece.0);
            }
            Change::SnapshotEnd { number } => self.replay_snapshot(group, number)?,
            Change::Remove => *self = GroupState::default(),
            Change::Mark => {}
        }
        Ok(())
    }

    fn replay_snapshot(&mut self, group: GroupId, number: u64) -> Result<(), ReplayError> {
        let Some(partial) = self.partial.remove(&number) else { return Ok(()) };
        let found = snapshot_checksum(&partial.received);
        let is_whole = partial.received.len() as u64 == partial.bytes;
        if found != partial.checksum || !is_whole {
            return Err(ReplayError::SnapshotChecksum { group, number, expected: partial.checksum, found });
        }
        self.begin_snapshot(number, partial.first_lsn);
        self.end_snapshot(number, Snapshot { summary: partial.summary, bytes: partial.received.freeze() });
        Ok(())
    }

    /// Ends the reading of the log: snapshots without an end were never counted on, and what is there must be whole.
    pub(crate) fn check(&mut self, group: GroupId) -> Result<(), ReplayError> {
        self.partial.clear();
        let covered = self.snapshot().and_then(|snapshot| snapshot.summary.last).map_or(0, |last| last.index.0 + 1);
        let first = self.first_index();
        if first > covered {
            return Err(ReplayError::Uncovered { group, first });
        }
        let begin = self.purged().map_or(first, |purged| purged.index.0 + 1);
        let hole = (begin..).zip(self.entries.keys()).find(|(expected, found)| expected != *found);
        hole.map_or(Ok(()), |(expected, found)| Err(ReplayError::Hole { group, expected, found: *found }))
    }

    /// Whether `node` is the only voter in every membership that the log holds, so that it can have promised nothing to anybody else.
    pub(crate) fn is_alone(&self, node: NodeId) -> bool {
        let mut memberships = self.memberships().peekable();
        memberships.peek().is_some() && memberships.all(|membership| membership.voters == [[node]])
    }

    fn memberships(&self) -> impl Iterator<Item = &Membership> {
        let written = self.entries.values().filter_map(|held| match &held.entry.content {
            Content::Membership(membership) => Some(membership),
            _ => None,
        });
        written.chain(self.snapshot().map(|snapshot| &snapshot.summary.membership))
    }

    /// Whether a node that comes back with this may have promised itself to a leader that it does not remember.
    pub(crate) fn may_have_promised(&self, node: NodeId) -> bool {
        !self.is_empty() && !self.is_alone(node)
    }

    /// Whether the group has had no other member than this one, since the oldest membership that the log knows.
    pub(crate) fn is_sole(&self, node: NodeId) -> bool {
        self.is_alone(node) && self.memberships().all(|membership| membership.members.len() == 1)
    }

    pub(crate) fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    pub(crate) fn set_ordered(&mut self, is_ordered: bool) {
        self.is_ordered = is_ordered;
    }

    /// From now on no record of the group comes into the log.
    pub(crate) fn set_removed(&mut self) {
        self.is_removed = true;
    }

    pub(crate) fn is_removed(&self) -> bool {
        self.is_removed
    }

    /// Whether nothing is known of the group.
    pub(crate) fn is_empty(&self) -> bool {
        self.vote.is_none() && self.entries.is_empty() && self.snapshot.is_none() && self.purged.is_none()
    }

    /// Entries in `range` now stand in record `lsn`.
    pub(crate) fn moved(&mut self, range: Range<LogIndex>, lsn: Lsn) {
        self.entries.range_mut(range.start.0..range.end.0).for_each(|(_, held)| held.lsn = lsn);
    }

    /// The purge now stands in record `lsn`.
    pub(crate) fn moved_purge(&mut self, lsn: Lsn) {
        if let Some(held) = &mut self.purged {
            held.lsn = lsn;
        }
    }
}

#[cfg(test)]
mod tests;
