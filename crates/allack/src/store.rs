//! Where the records of all groups of a meta server become durable: one stream, so that one write carries what many groups have.

mod memory;
mod wal;

use std::collections::BTreeMap;

use format::decode::DecodeError;

use crate::id::GroupId;
use crate::record::Record;
use crate::saved::{Replay, ReplayError, Saved};

pub use self::memory::MemoryStore;
pub use self::wal::{Durable, WalStore};

/// A meta server's records can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the meta server's log holds what is no record; remove this member, and let an empty one join")]
    Record(#[from] DecodeError),
    #[error("group {group}")]
    Replay { group: GroupId, source: ReplayError },
    #[error("the meta server's log can't be opened")]
    Open(#[from] ::wal::OpenError),
    #[error("the meta server's log takes no records")]
    Append(#[from] ::wal::AppendError),
    #[error(
        "{most} groups are as many as the meta server's log has room for: give it more segments, or place the group elsewhere"
    )]
    TooManyGroups { most: usize },
}

/// The groups of a store while its records are read.
#[derive(Debug, Default)]
struct Replayed(BTreeMap<GroupId, Replay>);

impl Replayed {
    fn apply(&mut self, record: &Record) {
        self.0.entry(record.group).or_default().apply(&record.change);
    }

    fn finish(self) -> Result<BTreeMap<GroupId, Saved>, StoreError> {
        let finish = |(group, replay): (GroupId, Replay)| match replay.finish() {
            Ok(saved) => Ok((group, saved)),
            Err(source) => Err(StoreError::Replay { group, source }),
        };
        self.0.into_iter().map(finish).collect()
    }
}
