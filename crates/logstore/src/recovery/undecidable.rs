//! Which keys a start can't decide: devices that may hold their newest version are missing (RFD 2, decision 21;
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
use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;
use topology::{REPLICA_SLOTS, ReplicaSet, ReplicaTable};
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
    pub(super) fn find(found: &FoundRecords, uncovered: Vec<ReplicaTable>, missing: &[DeviceId], me: GatewayId) -> Undecidable {
        let lost = |write: &&FoundWrite| {
            let is_missing = missing.contains(&write.record.replica_devices.primary());
            write.record.write.gateway != me && is_missing && write.known_order().is_none()
        };
        let keys = found.written.iter().filter(lost);
        let keys = keys.map(|write| (write.record.hash, write.record.replica_devices.primary())).collect();
        let (opened, missing) = (found.opened.clone(), missing.to_vec());
        let mut tables = uncovered;
        tables.retain(|table| table.sets().any(|set| is_away(&set, &opened, &missing)));
        Undecidable { keys, tables, opened, missing, ..Undecidable::default() }
    }

    fn is_away(&self, set: &ReplicaSet) -> bool {
        is_away(set, &self.opened, &self.missing)
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

/// No copy can be read, and some can when a device is back. Devices that are gone for good are waited for no longer.
fn is_away(set: &ReplicaSet, read: &[DeviceId], missing: &[DeviceId]) -> bool {
    let is_among = |devices: &[DeviceId]| set.devices().iter().any(|device| devices.contains(device));
    !is_among(read) && is_among(missing)
}

/// The missing devices without which writes by these tables can't be decided by whoever reads the devices `read`: each is named for some
/// key with no device that is read. Ascending; empty if everything can be decided.
pub fn devices_to_wait_for(tables: &[ReplicaTable], read: &[DeviceId], missing: &[DeviceId]) -> Vec<DeviceId> {
    let away = tables.iter().flat_map(ReplicaTable::sets).filter(|set| is_away(set, read, missing));
    let awaited: BTreeSet<DeviceId> = away.flat_map(|set| set.devices().to_vec()).collect();
    awaited.into_iter().filter(|device| missing.contains(device)).collect()
}

/// The answer for what waits for devices.
pub(crate) fn until(devices: &[DeviceId]) -> String {
    let names: Vec<String> = devices.iter().map(DeviceId::to_string).collect();
    match names.len() {
        1 => format!("unavailable until device {} is back", names[0]),
        _ => format!("unavailable until devices {} are back", names.join(", ")),
    }
}
