//! Disks that a person has given up for use, and that no server has taken yet.
//!
//! A server formats an empty file by itself, but never a disk that holds bytes: those may be somebody's. `trilith device format`
//! is the person's word. It writes a superblock whose cluster is all zeros; a server that is given such a disk formats it
//! again, with the same zones, as the next device of its own cluster. So numbers are handed out in one place only, by the
//! manager of the server that takes the disk, and any number of disks can be prepared ahead, for whatever cluster.

use device::{Device, OpenError};
use disk::Disk;
use format::superblock::ZoneRegion;
use types::{ClusterId, DeviceId};

/// The cluster of a prepared disk. Real ones are random.
pub const NO_CLUSTER: ClusterId = ClusterId([0; 16]);
/// The number of a prepared disk. Real ones count from 0.
pub const NO_DEVICE: DeviceId = DeviceId(u32::MAX);

/// How a prepared disk is divided.
#[derive(Clone, Copy)]
pub struct Prepared {
    pub zones: ZoneRegion,
    /// Of the region for chunks; 0 if there is none.
    pub volume_bytes: u64,
}

impl Prepared {
    /// How far the disk may grow.
    pub fn capacity_bytes(&self) -> u64 {
        self.zones.first_byte + u64::from(self.zones.zone_count) * self.zones.zone_bytes + self.volume_bytes
    }
}

/// How a disk was prepared; none if it was not.
pub async fn prepared(disk: &dyn Disk) -> Result<Option<Prepared>, OpenError> {
    match Device::identify(disk).await {
        Ok(superblock) if superblock.cluster == NO_CLUSTER => {
            let volume_bytes = superblock.volume_region().map_or(0, |volume| volume.byte_count);
            Ok(superblock.zone_region().map(|zones| Prepared { zones, volume_bytes }))
        }
        // What it is, or that it is nothing, is for the opening of the device to say.
        Ok(_) | Err(OpenError::Superblock { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
