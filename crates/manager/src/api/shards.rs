//! What the chunk store's monitor and its nodes ask of the manager.

use std::sync::Arc;

use types::{DeviceId, NodeId};

use crate::error::ManagerError;
use crate::manager::Manager;
use crate::operation::shard::{OpenShard, SealShard, SetShardHosts, SetShardMembers, ShardError};
use crate::operation::volume::{GrantBulk, RegisterVolume, ReleaseBulk, VolumeError};
use crate::record::{Bulk, ShardRecord, VolumeRecord};

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

    /// Says which nodes are members of a shard's unit.
    pub async fn set_shard_members(
        &self,
        shard: u32,
        members: Vec<NodeId>,
    ) -> Result<Arc<ShardRecord>, ManagerError<ShardError>> {
        self.propose(SetShardMembers { shard, members }).await
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
