//! Disks that a person has given up for use, and that no server has taken yet.
//!
//! A server formats an empty file by itself, but never a disk that holds bytes: those may be somebody's. `trilith device format`
//! is the person's word. It writes a superblock whose cluster is all zeros; a server that is given such a disk formats it
//! again, with the same zones, as the next device of its own cluster. So numbers are handed out in one place only, by the
//! manager of the server that takes the disk, and any number of disks can be prepared ahead, for whatever cluster.
//!
//! The word is of the disk as it was. A partition table or a file system that came later leaves some copies of the superblock
//! where they are, so a disk counts as prepared only while all of them are there, and nothing else where such things begin.

use anyhow::bail;
use device::{Device, OpenError};
use disk::{AlignedBuf, Disk, DiskError, DiskErrorKind, DiskExt, Durability, ReadMode};
use format::superblock::{SUPERBLOCK_BYTES, Superblock, ZoneRegion};
use std::ops::Range;
use types::{ClusterId, DeviceId};

/// The cluster of a prepared disk. Real ones are random.
pub const NO_CLUSTER: ClusterId = ClusterId([0; 16]);
/// The number of a prepared disk. Real ones count from 0.
pub const NO_DEVICE: DeviceId = DeviceId(u32::MAX);
/// How far from its start a disk is looked at for something that is not ours: file systems and partition tables begin there.
pub const FOREIGN_BYTES: usize = 1 << 20;

/// How a prepared disk is divided.
#[derive(Clone, Copy)]
pub struct Prepared {
    pub zones: ZoneRegion,
}

impl Prepared {
    /// How far the disk may grow.
    pub fn capacity_bytes(&self) -> u64 {
        self.zones.first_byte + u64::from(self.zones.zone_count) * self.zones.zone_bytes
    }
}

/// How a disk was prepared; none if it was not. One that was, and has been used for something else since, is an error.
pub async fn prepared(disk: &dyn Disk) -> anyhow::Result<Option<Prepared>> {
    let superblock = match Device::identify(disk).await {
        Ok(superblock) if superblock.cluster == NO_CLUSTER => superblock,
        // What it is, or that it is nothing, is for the opening of the device to say.
        Ok(_) | Err(OpenError::Superblock { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if !is_untouched(disk, &superblock).await? {
        bail!(
            "it was prepared by `trilith device format`, and something else has been written to it since: a file system, a \
             partition table? Only if it may be erased: trilith device format --overwrite"
        );
    }
    Ok(superblock.zone_region().map(|zones| Prepared { zones }))
}

/// Whether a prepared disk is as the preparation left it, as far as can be told from its head.
pub async fn is_untouched(disk: &dyn Disk, superblock: &Superblock) -> Result<bool, DiskError> {
    for offset in Superblock::read_offsets() {
        let copy = match disk.read(offset, SUPERBLOCK_BYTES, ReadMode::Cached).await {
            Ok(bytes) => Superblock::decode(&bytes),
            Err(error) if matches!(error.kind, DiskErrorKind::OutOfRange | DiskErrorKind::Failed) => return Ok(false),
            Err(error) => return Err(error),
        };
        // The slots have numbers of their own.
        let is_it = copy.is_ok_and(|copy| Superblock { sequence: superblock.sequence, ..copy } == *superblock);
        if !is_it {
            return Ok(false);
        }
    }
    let head = disk.read(0, FOREIGN_BYTES, ReadMode::Cached).await?;
    Ok(gaps().all(|gap| head[gap].iter().all(|byte| *byte == 0)))
}

/// Erases what stood beside the superblocks before, so that the disk is as a new one.
pub async fn clear_gaps(disk: &dyn Disk) -> Result<(), DiskError> {
    let head = disk.read(0, FOREIGN_BYTES, ReadMode::Cached).await?;
    for gap in gaps() {
        if head[gap.clone()].iter().any(|byte| *byte != 0) {
            disk.write(gap.start as u64, AlignedBuf::zeroed(gap.len()), Durability::Durable).await?;
        }
    }
    Ok(())
}

/// The parts of the head that no superblock is in.
fn gaps() -> impl Iterator<Item = Range<usize>> {
    let mut starts: Vec<usize> = Superblock::read_offsets().map(|offset| offset as usize).collect();
    starts.sort_unstable();
    starts.retain(|start| *start < FOREIGN_BYTES);
    let ends: Vec<usize> = starts[1..].iter().copied().chain([FOREIGN_BYTES]).collect();
    starts.into_iter().zip(ends).map(|(start, end)| start + SUPERBLOCK_BYTES..end)
}
