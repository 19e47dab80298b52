//! What is to be written.

use crate::large::Kept;
use bytes::Bytes;
use engine::{Payload, Waiter};
use format::attributes::{ChecksumScheme, ETag, StorageClass};
use format::entry::EntryState;
use format::record::{EntryName, RecordKind};
use std::sync::Arc;
use types::KeyHash;

/// What to write.
#[derive(Clone)]
pub(crate) struct Draft {
    pub kind: RecordKind,
    pub name: EntryName,
    pub hash: KeyHash,
    /// Encoded attributes.
    pub attributes: Bytes,
    pub etag: ETag,
    pub modified_ms: u64,
    pub storage_class: StorageClass,
    pub checksum: Option<ChecksumScheme>,
    /// Bytes of the object: of its content, not of the payload, which may be a list of chunks.
    pub length: u64,
    pub tree_height: u8,
    pub payload: Payload,
    /// The chunks that the payload lists stay while the write lives.
    pub kept: Option<Arc<Kept>>,
    /// Who waits for it: if nobody does any more, it is not begun.
    pub waiter: Waiter,
}

impl Draft {
    pub fn state(&self) -> EntryState {
        match self.kind {
            RecordKind::Tombstone => EntryState::Tombstone,
            _ => EntryState::Live,
        }
    }
}
