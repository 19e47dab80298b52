//! Which keys a start can't decide: devices that may hold their newest version are missing (zstore.md, decision 21;
//! docs/rfd/0004).
//!
//! | what is missing                                              | what can't be answered                 | what still can      |
//! |--------------------------------------------------------------|----------------------------------------|---------------------|
//! | the primary of another gateway's write whose order is unknown | that key                              | writes, other keys  |
//! | every device that an uncovered table names for a key          | the keys of those slots, and all lists | writes, other keys  |
//! | every copy of a part of the checkpoint                        | everything                            | nothing             |
//!
//! A write of this start comes after all that can't be seen, because its generation does: its key can be answered again. Lists can't,
//! because names may be missing of which nothing is known here.

use super::walk::{FoundRecords, FoundWrite};
use engine::EngineError;
use format::manifest::RecordedTable;
use std::collections::HashMap;
use std::sync::OnceLock;
use topology::{REPLICA_SLOTS, ReplicaSet, ReplicaTable, TableError};
use types::{DeviceId, GatewayId, KeyHash};

/// What this start can't decide; empty in normal life.
#[derive(Default)]
pub(crate) struct Undecidable {
    /// Keys of other gateways' writes, and the missing primary of each.
    keys: HashMap<KeyHash, DeviceId>,
    /// Tables that name, for some keys, missing devices only.
    tables: Vec<ReplicaTable>,
    opened: Vec<DeviceId>,
    missing: Vec<DeviceId>,
    /// Why the checkpoint can't be read.
    checkpoint: OnceLock<String>,
}

impl Undecidable {
    pub(super) fn find(
        found: &FoundRecords,
        recorded: &[RecordedTable],
        missing: &[DeviceId],
        me: GatewayId,
    ) -> Result<Undecidable, TableError> {
        let lost = |write: &&FoundWrite| {
            let is_missing = missing.contains(&write.record.replica_devices.primary());
            write.record.write.gateway != me && is_missing && write.known_order().is_none()
        };
        let keys = found.written.iter().filter(lost);
        let keys = keys.map(|write| (write.record.hash, write.record.replica_devices.primary())).collect();
        let (opened, missing) = (found.opened.clone(), missing.to_vec());
        let mut undecidable = Undecidable { keys, opened, missing, ..Undecidable::default() };
        for table in recorded {
            let table = ReplicaTable::new(table.generation, table.devices.clone())?;
            if table.sets().any(|set| undecidable.is_away(&set)) {
                undecidable.tables.push(table);
            }
        }
        Ok(undecidable)
    }

    /// No copy can be read, and some can when a device is back. Devices that are gone for good are waited for no longer.
    fn is_away(&self, set: &ReplicaSet) -> bool {
        let is_among = |devices: &[DeviceId]| set.devices().iter().any(|device| devices.contains(device));
        !is_among(&self.opened) && is_among(&self.missing)
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.tables.is_empty() && self.checkpoint.get().is_none()
    }

    /// The key's newest write may be where nobody can look.
    pub fn is_key(&self, hash: &KeyHash) -> bool {
        self.keys.contains_key(hash)
    }

    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// The checkpoint can't be read: nothing can be answered, and nothing written.
    pub fn set_unreadable(&self, error: &EngineError) {
        self.checkpoint.get_or_init(|| format!("the checkpoint can't be read without it: {error}"));
    }

    pub fn is_unreadable(&self) -> bool {
        self.checkpoint.get().is_some()
    }

    /// The missing devices that may hold this key's newest version; none if it can be decided.
    pub fn waits_for(&self, hash: &KeyHash) -> Vec<DeviceId> {
        if self.is_unreadable() {
            return self.missing.clone();
        }
        let of_tables = self.tables.iter().map(|table| table.set_of(hash)).filter(|set| self.is_away(set));
        let mut devices: Vec<DeviceId> = of_tables.flat_map(|set| set.devices().to_vec()).collect();
        devices.extend(self.keys.get(hash));
        self.expected_back(devices)
    }

    /// The missing devices without which a list may lack names; none if lists are complete.
    pub fn lists_wait_for(&self) -> Vec<DeviceId> {
        if self.is_unreadable() {
            return self.missing.clone();
        }
        let sets = self.tables.iter().flat_map(ReplicaTable::sets).filter(|set| self.is_away(set));
        let mut devices: Vec<DeviceId> = sets.flat_map(|set| set.devices().to_vec()).collect();
        devices.extend(self.keys.values());
        self.expected_back(devices)
    }

    fn expected_back(&self, mut devices: Vec<DeviceId>) -> Vec<DeviceId> {
        devices.sort_unstable();
        devices.dedup();
        devices.retain(|device| self.missing.contains(device));
        devices
    }

    /// The share of all keys, existing or not, that can't be decided: 0 to 1.
    pub fn share(&self) -> f64 {
        if self.is_unreadable() {
            return 1.0;
        }
        let away = |table: &ReplicaTable| table.sets().filter(|set| self.is_away(set)).count();
        self.tables.iter().map(away).max().unwrap_or(0) as f64 / REPLICA_SLOTS as f64
    }

    /// Why nothing can be written or answered, if so.
    pub fn check_readable(&self) -> Result<(), EngineError> {
        match self.checkpoint.get() {
            Some(why) => Err(EngineError::DeviceMissing { reason: format!("{}; {why}", until(&self.missing)) }),
            None => Ok(()),
        }
    }
}

/// The answer for what waits for devices.
pub(crate) fn until(devices: &[DeviceId]) -> String {
    let names: Vec<String> = devices.iter().map(DeviceId::to_string).collect();
    match names.len() {
        1 => format!("unavailable until device {} is back", names[0]),
        _ => format!("unavailable until devices {} are back", names.join(", ")),
    }
}
