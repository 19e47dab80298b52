//! Volumes: devices' blocks for chunks, and their granting to shards. A volume goes with its device ([`crate::RemoveDevice`]).

use std::sync::Arc;

use format::chunk_place::BlockPlace;
use serde::{Deserialize, Serialize};
use types::{DeviceId, ErrorKind};

use super::limits::MAX_VOLUME_BLOCKS;
use super::{Bulk, VolumeRecord};
use crate::modules::device::DeviceState;
use crate::operation::{Operation, Refusal};
use crate::snapshot::{CommandIndex, Edit, Snapshot};

/// Why a change of a volume was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VolumeError {
    #[error("there is no device {device}")]
    NoSuchDevice { device: DeviceId },
    #[error("the number of device {device} is too large for the places of chunks")]
    DeviceNumber { device: DeviceId },
    #[error("a volume has 1 to {MAX_VOLUME_BLOCKS} blocks, not {found}")]
    Blocks { found: u32 },
    #[error("the volume of device {device} has {before} blocks and can't have fewer, {found}")]
    Shrinks { device: DeviceId, before: u32, found: u32 },
    #[error("device {device} has no volume")]
    NoVolume { device: DeviceId },
    #[error("device {device} takes no writes")]
    NotWritable { device: DeviceId },
    #[error("all blocks of device {device} are granted")]
    Full { device: DeviceId },
    #[error("there is no shard {shard}")]
    NoSuchShard { shard: u32 },
}

impl Refusal for VolumeError {
    fn kind(&self) -> ErrorKind {
        match self {
            VolumeError::NoSuchDevice { .. } | VolumeError::NoVolume { .. } | VolumeError::NoSuchShard { .. } => {
                ErrorKind::NotFound
            }
            VolumeError::Blocks { .. } => ErrorKind::Invalid,
            VolumeError::Shrinks { .. } | VolumeError::NotWritable { .. } => ErrorKind::Conflict,
            VolumeError::DeviceNumber { .. } | VolumeError::Full { .. } => ErrorKind::Full,
        }
    }
}

/// Says how many blocks for chunks a device has. There may be more than before, not fewer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterVolume {
    pub device: DeviceId,
    pub blocks: u32,
}

impl Operation for RegisterVolume {
    type Reply = Arc<VolumeRecord>;
    type Refusal = VolumeError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<VolumeRecord>, VolumeError> {
        let (device, found) = (self.device, self.blocks);
        if edit.state.device(device).is_none() {
            return Err(VolumeError::NoSuchDevice { device });
        }
        if BlockPlace::new(device, 0).is_none() {
            return Err(VolumeError::DeviceNumber { device });
        }
        if !(1..=MAX_VOLUME_BLOCKS).contains(&found) {
            return Err(VolumeError::Blocks { found });
        }
        let mut volume = match edit.state.volume(device) {
            Some(before) if before.blocks == found => return Ok(Arc::clone(before)),
            Some(before) => VolumeRecord::clone(before),
            None => VolumeRecord::new(device, found),
        };
        let before = std::mem::replace(&mut volume.blocks, found);
        if found < before {
            return Err(VolumeError::Shrinks { device, before, found });
        }
        Ok(edit.set(device, Arc::new(volume)))
    }
}

/// Grants a shard the lowest free bulk of a device. Doing it again grants another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantBulk {
    pub shard: u32,
    pub device: DeviceId,
}

impl Operation for GrantBulk {
    type Reply = Bulk;
    type Refusal = VolumeError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Bulk, VolumeError> {
        let (shard, device) = (self.shard, self.device);
        if edit.state.shard(shard).is_none() {
            return Err(VolumeError::NoSuchShard { shard });
        }
        let mut volume = find(edit.state, device)?;
        // What is on a device that is drained or has failed will move away.
        if edit.state.device(device).is_none_or(|record| record.state != DeviceState::Active) {
            return Err(VolumeError::NotWritable { device });
        }
        let granted = volume.grant(shard).ok_or(VolumeError::Full { device })?;
        edit.set(device, Arc::new(volume));
        Ok(granted)
    }
}

/// A shard gives a bulk back: nothing of it is there any more. If it is not the shard's, nothing changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseBulk {
    pub shard: u32,
    pub device: DeviceId,
    pub first_block: u32,
}

impl Operation for ReleaseBulk {
    type Reply = ();
    type Refusal = VolumeError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<(), VolumeError> {
        let device = self.device;
        let mut volume = find(edit.state, device)?;
        volume.release(self.shard, self.first_block);
        edit.set(device, Arc::new(volume));
        Ok(())
    }
}

/// A copy of a volume, to be changed.
fn find(state: &Snapshot, device: DeviceId) -> Result<VolumeRecord, VolumeError> {
    state.volume(device).map(|volume| VolumeRecord::clone(volume)).ok_or(VolumeError::NoVolume { device })
}
