//! Disks that a person has given up for use, and that no server has taken yet.
//!
//! A server formats an empty file by itself, but never a disk that holds bytes: those may be somebody's. `trilith device format`
//! is the person's word. It writes a superblock whose cluster is all zeros; a server that is given such a disk formats it
//! again, with the same zones, as the next device of its own cluster. So numbers are handed out in one place only, by the
//! manager of the server that takes the disk, and any number of disks can be prepared ahead, for whatever cluster.

use device::{Device, OpenError};
use disk::Disk;
use format::superblock::{Region, Superblock, ZoneRegion};
use types::{ClusterId, DeviceId};

/// The cluster of a prepared disk. Real ones are random.
pub const NO_CLUSTER: ClusterId = ClusterId([0; 16]);
/// The number of a prepared disk. Real ones count from 0.
pub const NO_DEVICE: DeviceId = DeviceId(u32::MAX);

/// The zones of a prepared disk; none if the disk is not one.
pub async fn prepared_zones(disk: &dyn Disk) -> Result<Option<ZoneRegion>, OpenError> {
    match Device::identify(disk).await {
        Ok(superblock) if superblock.cluster == NO_CLUSTER => Ok(zones_of(&superblock)),
        // What it is, or that it is nothing, is for the opening of the device to say.
        Ok(_) | Err(OpenError::Superblock { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn zones_of(superblock: &Superblock) -> Option<ZoneRegion> {
    superblock.regions.iter().map(|Region::Zone(region)| *region).next()
}
