//! Snapshots on their way in: pieces are put together in memory until the last one is there.

use std::collections::BTreeMap;

use bytes::BytesMut;
use env::{Env, Instant};
use parking_lot::Mutex;

use crate::id::GroupId;
use crate::limits::{INCOMING_SNAPSHOT_LIMIT, MAX_INCOMING_SNAPSHOTS, MAX_SNAPSHOT_BYTES, SNAPSHOT_PIECE_BYTES};
use crate::log::{Snapshot, snapshot_checksum};
use crate::message::SnapshotName;

/// What a piece led to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// So much is there; go on from here.
    Partly {
        bytes: u64,
    },
    Whole(Snapshot),
}

/// A piece that is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InboxError {
    #[error("a snapshot of {found} bytes; at most {MAX_SNAPSHOT_BYTES} are allowed")]
    Length { found: u64 },
    #[error("a piece of {found} bytes; at most {SNAPSHOT_PIECE_BYTES} are allowed")]
    Piece { found: usize },
    #[error("{MAX_INCOMING_SNAPSHOTS} snapshots are being received")]
    Full,
    #[error("the snapshot has checksum {found:016x}, expected {expected:016x}; it must be sent again")]
    Checksum { expected: u64, found: u64 },
}

struct Incoming {
    name: SnapshotName,
    received: BytesMut,
    touched_at: Instant,
}

/// All incoming snapshots of a node, one for each group.
pub(crate) struct Inbox {
    env: Env,
    incoming: Mutex<BTreeMap<GroupId, Incoming>>,
}

impl Inbox {
    pub(crate) fn new(env: &Env) -> Self {
        Inbox { env: env.clone(), incoming: Mutex::default() }
    }

    /// Takes a piece. One that does not follow the last is not added; the answer says which one would.
    pub(crate) fn take(&self, group: GroupId, name: SnapshotName, offset: u64, piece: &[u8]) -> Result<Received, InboxError> {
        if name.bytes > MAX_SNAPSHOT_BYTES as u64 {
            return Err(InboxError::Length { found: name.bytes });
        }
        if piece.len() > SNAPSHOT_PIECE_BYTES {
            return Err(InboxError::Piece { found: piece.len() });
        }
        let now = self.env.now();
        let mut incoming = self.incoming.lock();
        incoming.retain(|_, other| now - other.touched_at < INCOMING_SNAPSHOT_LIMIT);
        if incoming.get(&group).is_none_or(|known| known.name != name) {
            // Another one takes its place.
            incoming.remove(&group);
            if incoming.len() >= MAX_INCOMING_SNAPSHOTS {
                return Err(InboxError::Full);
            }
            incoming.insert(group, Incoming { name, received: BytesMut::new(), touched_at: now });
        }
        let known = incoming.get_mut(&group).expect("it was put there");
        known.touched_at = now;
        let follows = offset == known.received.len() as u64 && offset + piece.len() as u64 <= known.name.bytes;
        if follows {
            known.received.extend_from_slice(piece);
        }
        let bytes = known.received.len() as u64;
        if bytes < known.name.bytes {
            return Ok(Received::Partly { bytes });
        }
        let whole = incoming.remove(&group).expect("it is there");
        let found = snapshot_checksum(&whole.received);
        if found != whole.name.checksum {
            return Err(InboxError::Checksum { expected: whole.name.checksum, found });
        }
        Ok(Received::Whole(Snapshot { summary: whole.name.summary, bytes: whole.received.freeze() }))
    }
}

#[cfg(test)]
mod tests;
