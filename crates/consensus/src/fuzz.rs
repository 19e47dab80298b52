//! Ways in for the fuzz targets: what a start reads from its disks and what peers send, without disks and peers. No part of the interface.
//!
//! Each panics where bytes that were accepted do not survive being written again.

use std::collections::BTreeMap;

use wal::Lsn;

use crate::id::GroupId;
use crate::log::{GroupState, check_slot};
use crate::message::{Answer, Request, decode, encode};
use crate::record::Record;

/// A message, as a node takes it from a peer.
pub fn message(bytes: &[u8]) {
    if let Ok(request) = decode::<Request>(bytes) {
        assert_eq!(decode::<Request>(&encode(&request)), Ok(request));
    }
    if let Ok(answer) = decode::<Answer>(bytes) {
        assert_eq!(decode::<Answer>(&encode(&answer)), Ok(answer));
    }
}

/// A block of the log's base.
pub fn base_slot(block: &[u8]) {
    check_slot(block);
}

/// The records of a log, replayed as a start would; then what a group asks of its part first.
pub fn records(records: &[Vec<u8>]) {
    let mut groups: BTreeMap<GroupId, GroupState> = BTreeMap::new();
    for (lsn, bytes) in (Lsn::FIRST.0..).zip(records) {
        let Ok(record) = Record::decode(bytes) else { return };
        assert_eq!(Record::decode(&record.encode()).as_ref(), Ok(&record));
        if groups.entry(record.group).or_default().replay(record.group, record.change, Lsn(lsn)).is_err() {
            return;
        }
    }
    for (group, state) in &mut groups {
        if state.check(*group).is_err() {
            return;
        }
        let first = state.first_index();
        let entries = state.entries(first..u64::MAX, usize::MAX);
        for (index, entry) in (first..).zip(&entries) {
            assert_eq!(entry.position.index.0, index, "entries are consecutive");
        }
        assert_eq!(state.entry_bytes(), entries.iter().map(crate::record::Entry::bytes).sum::<usize>());
        assert_eq!(state.entries_before(first, wal::Lsn(u64::MAX)).is_some(), !entries.is_empty());
        let number = state.number_snapshot();
        assert!(number > 0, "a number that was used");
        assert!(state.floor().is_none_or(|lsn| lsn >= Lsn::FIRST && lsn.0 <= records.len() as u64));
    }
}
