//! A kind of record, and the table that holds the records of one kind.
//!
//! A kind says everything about itself in one implementation of [`Record`]. [`crate::modules`] lists the kinds. The state, its copy in
//! `kv`, its export and the checks of what was read walk that list.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Deref;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use types::{CellId, DeviceId, NodeId};

use crate::modules::device::DeviceRecord;
use crate::modules::groups::GroupKey;
use crate::snapshot::{Edit, ImpossibleState, Snapshot};

/// One kind of record.
pub(crate) trait Record: Clone + Debug + PartialEq + Eq + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// What a record is found by. Singletons have `()`.
    type Key: Key;

    /// The first byte of the kind's entries. No two kinds have one, and [`crate::entry`] uses the ones below [`FIRST_TAG`].
    const TAG: u8;

    /// As errors and docs/format.md call it.
    const NAME: &'static str;

    /// The ids that records of the kind are given, if the manager gives them.
    const NUMBERS: Option<Numbers> = None;

    /// For a record that was read: whether this is its key. Records that do not repeat their key stand under any.
    fn is_at(&self, _: &Self::Key) -> bool {
        true
    }

    /// For a record that was read: whether a manager can have come to it.
    fn check(&self, _: &Self::Key, _: &Snapshot) -> Result<(), ImpossibleState> {
        Ok(())
    }

    /// Skips what may have been given out after a copy was made, and is lost.
    fn skip_lost(&mut self) {}

    /// A device is forgotten: what the kind knows of it goes with it.
    fn forget_device(_: &mut Edit<'_>, _: &DeviceRecord) {}

    /// Whether a record of the kind counts on a placed group.
    fn needs_group(_: &Snapshot, _: GroupKey) -> bool {
        false
    }

    /// What a record that contradicts itself is refused with.
    fn refuse(key: &Self::Key, what: &'static str) -> ImpossibleState {
        ImpossibleState::Record { kind: Self::NAME, key: format!("{key:?}"), what }
    }
}

/// The least [`Record::TAG`].
pub(crate) const FIRST_TAG: u8 = 3;

/// A kind that the list of modules has: where the state keeps it.
pub(crate) trait Kept: Record {
    fn table(state: &Snapshot) -> &Table<Self>;
    fn table_mut(state: &mut Snapshot) -> &mut Table<Self>;
}

/// Ids that were never given out count up. None is given twice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    pub(crate) first: u64,
    /// Numbers stay below it.
    pub(crate) limit: u64,
    /// How many an import skips: more than any manager can have handed out between two copies.
    pub(crate) skipped: u64,
}

/// The records of one kind. A clone costs an increment; a change copies the table's pointers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table<R: Record> {
    records: Arc<BTreeMap<R::Key, Arc<R>>>,
    /// The lowest number that was never given out; 0 for kinds without numbers.
    pub(crate) next: u64,
}

impl<R: Record> Default for Table<R> {
    fn default() -> Self {
        Table { records: Arc::default(), next: R::NUMBERS.map_or(0, |numbers| numbers.first) }
    }
}

impl<R: Record> Deref for Table<R> {
    type Target = BTreeMap<R::Key, Arc<R>>;

    fn deref(&self) -> &Self::Target {
        &self.records
    }
}

impl<R: Record> Table<R> {
    pub(crate) fn records_mut(&mut self) -> &mut BTreeMap<R::Key, Arc<R>> {
        Arc::make_mut(&mut self.records)
    }
}

/// What a record is found by.
pub(crate) trait Key: Ord + Clone + Debug + Send + Sync + 'static {
    /// As it stands behind the tag. Numbers are big-endian, so that they sort.
    fn encode(&self) -> Vec<u8>;
    fn decode(bytes: &[u8]) -> Option<Self>;
}

impl Key for () {
    fn encode(&self) -> Vec<u8> {
        Vec::new()
    }

    fn decode(bytes: &[u8]) -> Option<()> {
        bytes.is_empty().then_some(())
    }
}

impl Key for String {
    fn encode(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }

    fn decode(bytes: &[u8]) -> Option<String> {
        str::from_utf8(bytes).ok().map(str::to_owned)
    }
}

impl Key for u32 {
    fn encode(&self) -> Vec<u8> {
        self.to_be_bytes().to_vec()
    }

    fn decode(bytes: &[u8]) -> Option<u32> {
        bytes.try_into().ok().map(u32::from_be_bytes)
    }
}

impl Key for DeviceId {
    fn encode(&self) -> Vec<u8> {
        self.0.encode()
    }

    fn decode(bytes: &[u8]) -> Option<DeviceId> {
        u32::decode(bytes).map(DeviceId)
    }
}

impl Key for NodeId {
    fn encode(&self) -> Vec<u8> {
        self.0.encode()
    }

    fn decode(bytes: &[u8]) -> Option<NodeId> {
        u32::decode(bytes).map(NodeId)
    }
}

impl Key for CellId {
    fn encode(&self) -> Vec<u8> {
        self.0.to_be_bytes().to_vec()
    }

    fn decode(bytes: &[u8]) -> Option<CellId> {
        bytes.try_into().ok().map(|number| CellId(u16::from_be_bytes(number)))
    }
}
