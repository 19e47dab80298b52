//! The table of replica sets (ZStore, section 3.7, "Consistent hash").
//!
//! A key's hash picks a slot; the slot names the devices that a write of that key goes to, primary first. It decides where
//! writes go and never where reads look, so a new table moves no data. The primary's log orders the writes of a key, so two
//! tables with different primaries are different *generations*, and orders compare by generation first.
//!
//! On one node each device is a failure domain of its own, and the sets are dealt out evenly. Over several nodes the table knows each
//! device's [`Site`], and straw2 chooses ([`spread`]).
//!
//! Invariants: every set names `copies` distinct devices of distinct failure domains; on one node each device is primary of its share
//! of the slots, give or take one.

use serde::{Deserialize, Serialize};
use std::sync::{Arc, OnceLock};
use types::limits::MAX_REPLICAS;
use types::{DeviceId, Generation, KeyHash};

mod site;
mod spread;

pub use site::Site;

/// Slots of a table. Enough that 64 devices differ by less than 2% in load; small enough to keep in one page cluster.
pub const REPLICA_SLOTS: usize = 4096;

/// The devices of one slot, primary first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaSet {
    devices: [DeviceId; MAX_REPLICAS],
    copies: u8,
}

impl ReplicaSet {
    /// Primary first.
    pub fn devices(&self) -> &[DeviceId] {
        &self.devices[..self.copies as usize]
    }

    pub fn primary(&self) -> DeviceId {
        self.devices[0]
    }
}

/// The table. Small enough to be rebuilt whenever the set of devices changes: only its inputs are stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "TableFields")]
pub struct ReplicaTable {
    generation: Generation,
    devices: Vec<DeviceId>,
    copies: u8,
    /// Of the devices, in their order; none if all are on one node.
    sites: Option<Vec<Site>>,
    /// The level of domains of which each may have one copy of a record, if sites are known.
    #[serde(skip)]
    level: usize,
    /// What was chosen by the sites, once somebody asked for it. Follows from them.
    #[serde(skip)]
    chosen: Arc<OnceLock<Box<[ReplicaSet]>>>,
}

/// A table as it is written down; reading it checks it.
#[derive(Deserialize)]
struct TableFields {
    generation: Generation,
    devices: Vec<DeviceId>,
    copies: u8,
    sites: Option<Vec<Site>>,
}

impl TryFrom<TableFields> for ReplicaTable {
    type Error = TableError;

    fn try_from(fields: TableFields) -> Result<Self, TableError> {
        let TableFields { generation, devices, copies, sites } = fields;
        let is_placed = sites.is_some();
        let table = match sites {
            None => ReplicaTable::new(generation, devices.clone())?,
            Some(sites) => ReplicaTable::placed(generation, sites)?,
        };
        let is_same = table.devices == devices && table.copies == copies && table.sites.is_some() == is_placed;
        if is_same { Ok(table) } else { Err(TableError::Inconsistent) }
    }
}

impl PartialEq for ReplicaTable {
    fn eq(&self, other: &ReplicaTable) -> bool {
        self.generation == other.generation && self.is_laid_out_as(other)
    }
}

impl Eq for ReplicaTable {}

impl ReplicaTable {
    /// A table over devices that each are a failure domain of their own, with `min(MAX_REPLICAS, devices)` copies.
    ///
    /// Slot `s` with `n` devices has as primary device `s mod n`; its further copies follow in an order that the quotient
    /// `s / n` rotates, so that the load of a lost device spreads over all others.
    pub fn new(generation: Generation, mut devices: Vec<DeviceId>) -> Result<Self, TableError> {
        devices.sort_unstable();
        devices.dedup();
        if devices.is_empty() {
            return Err(TableError::NoDevice);
        }
        if devices.len() > REPLICA_SLOTS {
            return Err(TableError::TooManyDevices { devices: devices.len() });
        }
        let copies = devices.len().min(MAX_REPLICAS) as u8;
        Ok(ReplicaTable { generation, devices, copies, sites: None, level: 0, chosen: Arc::default() })
    }

    /// A table over devices whose sites are known. A set has no two copies on one host, and none in one rack or zone as long as there are
    /// others: so `copies` is `min(MAX_REPLICAS, hosts)`, on one host `min(MAX_REPLICAS, nodes)`. On one node it is
    /// [`ReplicaTable::new`].
    pub fn placed(generation: Generation, mut sites: Vec<Site>) -> Result<Self, TableError> {
        sites.sort_unstable_by_key(Site::device);
        sites.dedup_by_key(|site| site.device());
        let table = ReplicaTable::new(generation, sites.iter().map(Site::device).collect())?;
        match spread::copies(&sites) {
            None => Ok(table),
            Some((copies, level)) => Ok(ReplicaTable { copies, sites: Some(sites), level, ..table }),
        }
    }

    /// Whether both tables have the same sets, whatever their generation.
    pub fn is_laid_out_as(&self, other: &ReplicaTable) -> bool {
        self.devices == other.devices && self.copies == other.copies && self.sites == other.sites
    }

    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Copies of each record.
    pub fn copies(&self) -> usize {
        self.copies as usize
    }

    /// All devices that the table writes to, ascending.
    pub fn devices(&self) -> &[DeviceId] {
        &self.devices
    }

    /// The devices that a write of this key goes to.
    pub fn set_of(&self, hash: &KeyHash) -> ReplicaSet {
        self.set(hash.placement_bits() as usize % REPLICA_SLOTS)
    }

    /// Where another copy of a key's record goes, beside those on `has`: the device that shares least of its failure domains with these, of
    /// several one that writes of the key go to. None if no other device may have it.
    pub fn another(&self, hash: &KeyHash, has: &[DeviceId], may: impl Fn(DeviceId) -> bool) -> Option<DeviceId> {
        let set = self.set_of(hash);
        let devices = set.devices().iter().chain(&self.devices).copied();
        // Of equals the first.
        devices.filter(|device| !has.contains(device) && may(*device)).min_by_key(|device| self.shared_levels(*device, has))
    }

    /// How many of the copies on these devices fail apart: those in one domain, of which a write puts one copy into each, count as one.
    pub fn apart(&self, devices: &[DeviceId]) -> usize {
        (0..devices.len()).filter(|at| self.companion(devices, *at).is_none()).count()
    }

    /// The last of these devices that stands in one domain with an earlier one.
    pub fn surplus(&self, devices: &[DeviceId]) -> Option<usize> {
        (0..devices.len()).rev().find(|at| self.companion(devices, *at).is_some())
    }

    /// The first of the devices before this one that stands in its domain.
    fn companion(&self, devices: &[DeviceId], at: usize) -> Option<usize> {
        let own = self.site(devices[at])?;
        let is_beside =
            |other: &DeviceId| self.site(*other).is_some_and(|other| spread::shared_levels(own, other) > self.level);
        devices[..at].iter().position(is_beside)
    }

    /// Where a device stands; none if all are on one node, or it is not in the table.
    fn site(&self, device: DeviceId) -> Option<&Site> {
        self.sites.as_ref()?.iter().find(|site| site.device() == device)
    }

    /// How many levels of failure domains a device has in common with one of these at most. Nothing is known of devices that are not in the
    /// table.
    fn shared_levels(&self, device: DeviceId, with: &[DeviceId]) -> usize {
        let Some(own) = self.site(device) else { return 0 };
        with.iter().filter_map(|other| self.site(*other)).map(|other| spread::shared_levels(own, other)).max().unwrap_or(0)
    }

    /// The sets of all slots.
    pub fn sets(&self) -> impl Iterator<Item = ReplicaSet> {
        (0..REPLICA_SLOTS).map(|slot| self.set(slot))
    }

    fn set(&self, slot: usize) -> ReplicaSet {
        match &self.sites {
            None => self.dealt(slot),
            Some(sites) => self.chosen.get_or_init(|| spread::all_sets(sites, self.copies))[slot],
        }
    }

    fn dealt(&self, slot: usize) -> ReplicaSet {
        let count = self.devices.len();
        let primary = slot % count;
        let mut devices = [DeviceId::default(); MAX_REPLICAS];
        devices[0] = self.devices[primary];
        // The other copies stand at offsets 1 + r and 1 + r + step (mod count - 1) after the primary: distinct by construction.
        let others = count - 1;
        for (copy, device) in devices.iter_mut().enumerate().take(self.copies as usize).skip(1) {
            let offset = 1 + (slot / count + copy - 1) % others;
            *device = self.devices[(primary + offset) % count];
        }
        ReplicaSet { devices, copies: self.copies }
    }
}

/// Why a table can't be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    #[error("no device can take writes: add one, or bring one back")]
    NoDevice,
    #[error("{devices} devices are more than the {REPLICA_SLOTS} slots of a replica table")]
    TooManyDevices { devices: usize },
    #[error("a replica table whose fields contradict each other")]
    Inconsistent,
}

#[cfg(test)]
mod placed_tests;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn table(count: u32) -> ReplicaTable {
        ReplicaTable::new(Generation(1), (0..count).map(DeviceId).collect()).unwrap()
    }

    #[test]
    fn sets_name_distinct_devices() {
        for count in 1..=64 {
            let table = table(count);
            for slot in 0..REPLICA_SLOTS {
                let set = table.set(slot);
                assert_eq!(set.devices().len(), (count as usize).min(3));
                let mut devices = set.devices().to_vec();
                devices.sort_unstable();
                devices.dedup();
                assert_eq!(devices.len(), set.devices().len(), "{count} devices, slot {slot}");
            }
        }
    }

    #[test]
    fn load_is_even() {
        for count in [1u32, 2, 3, 5, 12, 64] {
            let table = table(count);
            let mut primaries: HashMap<DeviceId, usize> = HashMap::new();
            let mut copies: HashMap<DeviceId, usize> = HashMap::new();
            for slot in 0..REPLICA_SLOTS {
                let set = table.set(slot);
                *primaries.entry(set.primary()).or_default() += 1;
                for device in set.devices() {
                    *copies.entry(*device).or_default() += 1;
                }
            }
            let spread = |loads: &HashMap<DeviceId, usize>| loads.values().max().unwrap() - loads.values().min().unwrap();
            assert!(spread(&primaries) <= 1, "{count} devices: {primaries:?}");
            assert!(spread(&copies) <= 8, "{count} devices: {copies:?}");
        }
    }

    #[test]
    fn a_lost_primarys_slots_spread_over_the_others() {
        let table = table(6);
        let mut seconds: HashMap<DeviceId, usize> = HashMap::new();
        for slot in (0..REPLICA_SLOTS).filter(|slot| table.set(*slot).primary() == DeviceId(0)) {
            *seconds.entry(table.set(slot).devices()[1]).or_default() += 1;
        }
        assert_eq!(seconds.len(), 5);
    }

    #[test]
    fn no_device_is_an_error() {
        assert_eq!(ReplicaTable::new(Generation(1), Vec::new()), Err(TableError::NoDevice));
    }
}
