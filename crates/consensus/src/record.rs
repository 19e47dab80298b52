//! What stands in the shared log: one change of one group in each record.
//!
//! ```text
//! version 1 byte │ group, change: postcard (varints, little endian; variants by their number)
//! ```
//!
//! Numbers of variants and the order of fields are the format: append only, and a change of either is a new version.
//! Invariants
//! - A record means the same wherever replay begins: `Entries` puts entries in their places, it does not cut off what follows;
//!   only `Truncate` does. Thus the log may say things again to be rid of old segments.
//! - A snapshot counts when its `SnapshotEnd` is there; its pieces belong together by its number.

use bytes::Bytes;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::{GroupId, LogPosition, NodeId, Term, below_limit};

/// The newest version: the first one.
pub(crate) const RECORD_VERSION: u8 = 1;

/// Bytes that a record has besides commands, pieces and memberships, at most.
pub(crate) const RECORD_OVERHEAD_BYTES: usize = 128;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) group: GroupId,
    pub(crate) change: Change,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Change {
    /// The vote is given, or a leader acknowledged.
    Vote(Vote),
    /// Entries in their places, and what is known to be committed.
    Entries {
        committed: Option<LogPosition>,
        entries: Vec<Entry>,
    },
    /// Entries after `last` are void; all, if there is none.
    Truncate {
        last: Option<LogPosition>,
    },
    /// Entries through `last` are given up: a snapshot covers them.
    Purge {
        last: LogPosition,
    },
    SnapshotBegin {
        #[serde(deserialize_with = "below_limit")]
        number: u64,
        summary: SnapshotSummary,
        bytes: u64,
        checksum: u64,
    },
    SnapshotPiece {
        number: u64,
        offset: u64,
        piece: Blob,
    },
    SnapshotEnd {
        number: u64,
    },
    /// The group has left this node for good.
    Remove,
    /// Nothing. Its durability proves that of all records before it.
    Mark,
}

/// Whom a node follows or wants to follow. Ordered by term; in one term, a leader comes after all candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Vote {
    pub(crate) term: Term,
    pub(crate) node: NodeId,
    /// A quorum has voted so.
    pub(crate) committed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) position: LogPosition,
    pub(crate) content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Content {
    /// What a new leader begins with.
    Blank,
    Command(Blob),
    Membership(Membership),
}

/// Who belongs to a group. Two sets of voters stand side by side while one is being exchanged for the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Membership {
    pub(crate) voters: Vec<Vec<NodeId>>,
    /// All members with their addresses, learners included, by number.
    pub(crate) members: Vec<(NodeId, String)>,
}

impl Membership {
    /// Whether a node is a voter, of any of the sets.
    pub(crate) fn has_vote(&self, node: NodeId) -> bool {
        self.voters.iter().flatten().any(|voter| *voter == node)
    }
}

/// What a snapshot covers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SnapshotSummary {
    pub(crate) last: Option<LogPosition>,
    /// The last membership that it covers, and where that stood.
    pub(crate) membership_at: Option<LogPosition>,
    pub(crate) membership: Membership,
}

/// Bytes that serde copies as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Blob(pub(crate) Bytes);

impl Serialize for Blob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Blob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(BlobVisitor)
    }
}

struct BlobVisitor;

impl Visitor<'_> for BlobVisitor {
    type Value = Blob;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Blob, E> {
        Ok(Blob(Bytes::copy_from_slice(bytes)))
    }
}

/// Bytes that are no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    #[error("an empty record")]
    Empty,
    #[error("record version {found}; this program reads up to {RECORD_VERSION}")]
    Version { found: u8 },
    #[error("no record: {0}")]
    Content(#[from] postcard::Error),
    #[error("{count} bytes after the record's end")]
    TrailingBytes { count: usize },
}

impl Record {
    pub(crate) fn encode(&self) -> Vec<u8> {
        postcard::to_extend(self, vec![RECORD_VERSION]).expect("a vector takes everything")
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let (version, content) = bytes.split_first().ok_or(RecordError::Empty)?;
        if *version != RECORD_VERSION {
            return Err(RecordError::Version { found: *version });
        }
        let (record, rest) = postcard::take_from_bytes(content)?;
        match rest.len() {
            0 => Ok(record),
            count => Err(RecordError::TrailingBytes { count }),
        }
    }
}

impl Entry {
    /// What the entry counts against limits.
    pub(crate) fn bytes(&self) -> usize {
        RECORD_OVERHEAD_BYTES
            + match &self.content {
                Content::Blank => 0,
                Content::Command(command) => command.0.len(),
                Content::Membership(membership) => {
                    membership.voters.iter().map(|set| set.len() * 10).sum::<usize>()
                        + membership.members.iter().map(|(_, address)| address.len() + 20).sum::<usize>()
                }
            }
    }
}

#[cfg(test)]
mod tests;
