//! The twin in memory, which loses what was not persisted.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::{Replayed, StoreError};
use crate::id::GroupId;
use crate::record::Record;
use crate::saved::Saved;

/// Records in order; a crash keeps the durable ones and as many of the others as had got to the medium.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    durable: Vec<Bytes>,
    queued: VecDeque<Bytes>,
}

impl MemoryStore {
    /// Hands a record over.
    pub fn queue(&mut self, record: &Record) {
        self.queued.push_back(record.encode().into());
    }

    /// Records that are handed over and not durable.
    pub fn queued(&self) -> usize {
        self.queued.len()
    }

    /// So many more records are durable: these.
    pub fn persist(&mut self, count: usize) -> &[Bytes] {
        let before = self.durable.len();
        self.durable.extend(self.queued.drain(..count));
        &self.durable[before..]
    }

    /// The power goes; `kept` of the records that were on their way got to the medium.
    pub fn crash(&mut self, kept: usize) {
        self.persist(kept);
        self.queued.clear();
    }

    /// What a start finds.
    pub fn recover(&self) -> Result<BTreeMap<GroupId, Saved>, StoreError> {
        let mut replayed = Replayed::default();
        for record in &self.durable {
            replayed.apply(&Record::decode(record)?);
        }
        replayed.finish()
    }
}
