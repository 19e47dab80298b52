//! The chunk store's part of the state.

use std::sync::Arc;

use types::DeviceId;

use super::{Edit, ImpossibleState, RecordKey, Snapshot, check_number};
use crate::limits::{MAX_SHARDS, SHARD_NUMBER_LIMIT};
use crate::record::{BulkOwner, ShardRecord, VolumeRecord};

impl Snapshot {
    /// A shard by its number.
    pub fn shard(&self, id: u32) -> Option<&Arc<ShardRecord>> {
        self.shards.get(&id)
    }

    /// All shards by number.
    pub fn shards(&self) -> impl Iterator<Item = &Arc<ShardRecord>> {
        self.shards.values()
    }

    /// The shard that takes registrations, if there is one.
    pub fn open_shard(&self) -> Option<&Arc<ShardRecord>> {
        self.shards.values().next_back().filter(|newest| newest.is_open)
    }

    /// The number that the next shard will get.
    pub fn next_shard(&self) -> u32 {
        self.next.shard
    }

    /// A device's blocks for chunks; none if it has none, or they were not registered.
    pub fn volume(&self, device: DeviceId) -> Option<&Arc<VolumeRecord>> {
        self.volumes.get(&device)
    }

    /// All volumes by their devices' numbers.
    pub fn volumes(&self) -> impl Iterator<Item = &Arc<VolumeRecord>> {
        self.volumes.values()
    }

    /// Whether shards and volumes can have come about.
    pub(super) fn check_shards(&self) -> Result<(), ImpossibleState> {
        check_number("next shard", u64::from(self.next.shard), u64::from(SHARD_NUMBER_LIMIT))?;
        check_number("shards", self.shards.len() as u64, MAX_SHARDS as u64 + 1)?;
        let newest = self.shards.keys().next_back();
        for (id, record) in self.shards.iter() {
            check_number("shard", u64::from(*id), u64::from(self.next.shard))?;
            let is_older_open = (record.is_open && newest != Some(id)).then_some("registrations beside a newer one");
            if let Some(what) = record.contradiction().or(is_older_open) {
                return Err(ImpossibleState::Shard { shard: *id, what });
            }
        }
        for (device, record) in self.volumes.iter() {
            if let Some(what) = record.contradiction().or_else(|| self.dangling(record)) {
                return Err(ImpossibleState::Volume { device: *device, what });
            }
        }
        Ok(())
    }

    /// What a volume refers to that is not there.
    fn dangling(&self, volume: &VolumeRecord) -> Option<&'static str> {
        let owners_exist = || {
            volume.granted.iter().all(|run| match run.owner {
                BulkOwner::Shard(shard) => self.shards.contains_key(&shard),
                BulkOwner::Skipped | BulkOwner::Free => true,
            })
        };
        let checks =
            [(self.devices.contains_key(&volume.device), "no device"), (owners_exist(), "blocks of a shard that there is not")];
        checks.into_iter().find(|(holds, _)| !holds).map(|(_, what)| what)
    }
}

impl Edit<'_> {
    pub(crate) fn take_shard_id(&mut self) -> u32 {
        self.touched.push(RecordKey::NextIds);
        self.state.next.shard += 1;
        self.state.next.shard - 1
    }

    pub(crate) fn set_shard(&mut self, shard: ShardRecord) -> Arc<ShardRecord> {
        self.touched.push(RecordKey::Shard(shard.id));
        let shard = Arc::new(shard);
        Arc::make_mut(&mut self.state.shards).insert(shard.id, Arc::clone(&shard));
        shard
    }

    pub(crate) fn set_volume(&mut self, volume: VolumeRecord) -> Arc<VolumeRecord> {
        self.touched.push(RecordKey::Volume(volume.device));
        let volume = Arc::new(volume);
        Arc::make_mut(&mut self.state.volumes).insert(volume.device, Arc::clone(&volume));
        volume
    }

    pub(crate) fn remove_volume(&mut self, device: DeviceId) {
        if self.state.volumes.contains_key(&device) {
            self.touched.push(RecordKey::Volume(device));
            Arc::make_mut(&mut self.state.volumes).remove(&device);
        }
    }
}
