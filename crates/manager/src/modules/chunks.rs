//! The chunk store's shards, and which of them owns which blocks of which device (docs/rfd/0012).
//!
//! Shards and volumes come back from an import as they were when the copy was made. A shard that was opened after it is not known any more:
//! its unit and its chunks are where they were, and no lookup leads there. A shard that was sealed after it counts as open; its unit refuses
//! registrations by itself. Blocks that are skipped stay unused.

pub mod limits;
mod record;
mod shard;
mod volume;

use std::sync::Arc;

use types::{DeviceId, NodeId};

use super::commands;
use super::groups::{GroupKey, GroupKind, GroupRecord};
use crate::error::ManagerError;
use crate::manager::Manager;
use crate::snapshot::Snapshot;

pub use record::{Bulk, BulkOwner, GrantedRun, IMPORT_SKIPPED_BLOCKS, IMPORT_SKIPPED_SHARDS, ShardRecord, VolumeRecord};
pub use shard::{OpenShard, SealShard, SetShardHosts, ShardError};
pub use volume::{GrantBulk, RegisterVolume, ReleaseBulk, VolumeError};

commands! {
    Chunks,
    /// Commands of the chunk store.
    ChunkCommand: OpenShard, SealShard, SetShardHosts, RegisterVolume, GrantBulk, ReleaseBulk,
}

/// The group of a shard's maintenance unit.
pub fn unit_key(shard: u32) -> GroupKey {
    GroupKey { kind: GroupKind::CHUNK_UNITS, number: shard }
}

impl Snapshot {
    /// Where a shard's maintenance unit is to be.
    pub fn unit(&self, shard: u32) -> Option<&Arc<GroupRecord>> {
        self.group(unit_key(shard))
    }

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
        self.shards.next as u32
    }

    /// A device's blocks for chunks; none if it has none, or they were not registered.
    pub fn volume(&self, device: DeviceId) -> Option<&Arc<VolumeRecord>> {
        self.volumes.get(&device)
    }

    /// All volumes by their devices' numbers.
    pub fn volumes(&self) -> impl Iterator<Item = &Arc<VolumeRecord>> {
        self.volumes.values()
    }
}

impl Manager {
    /// Opens the next shard, if it gets the number `expected_next` and no other is open.
    pub async fn open_shard(
        &self,
        expected_next: u32,
        capacity: u64,
        members: Vec<NodeId>,
        hosts: Vec<NodeId>,
    ) -> Result<Arc<ShardRecord>, ManagerError<ShardError>> {
        self.propose(OpenShard { expected_next, capacity, members, hosts }).await
    }

    /// Ends a shard's taking of registrations.
    pub async fn seal_shard(&self, shard: u32) -> Result<Arc<ShardRecord>, ManagerError<ShardError>> {
        self.propose(SealShard { shard }).await
    }

    /// Says which nodes host a shard's lookup units.
    pub async fn set_shard_hosts(&self, shard: u32, hosts: Vec<NodeId>) -> Result<Arc<ShardRecord>, ManagerError<ShardError>> {
        self.propose(SetShardHosts { shard, hosts }).await
    }

    /// Says how many blocks for chunks a device has; writes nothing if that is known.
    pub async fn register_volume(&self, device: DeviceId, blocks: u32) -> Result<Arc<VolumeRecord>, ManagerError<VolumeError>> {
        let known = self.snapshot().volume(device).filter(|known| known.blocks == blocks).cloned();
        match known {
            Some(known) => Ok(known),
            None => self.propose(RegisterVolume { device, blocks }).await,
        }
    }

    /// Grants a shard the lowest free bulk of a device.
    pub async fn grant_bulk(&self, shard: u32, device: DeviceId) -> Result<Bulk, ManagerError<VolumeError>> {
        self.propose(GrantBulk { shard, device }).await
    }

    /// Takes a bulk back from a shard.
    pub async fn release_bulk(&self, shard: u32, device: DeviceId, first_block: u32) -> Result<(), ManagerError<VolumeError>> {
        self.propose(ReleaseBulk { shard, device, first_block }).await
    }
}
