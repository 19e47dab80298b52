//! The content of this node's copy of a group: its blocks, and what the device's journal has of them.

use std::sync::Arc;

use device::{Volume, VolumeError};
use disk::AlignedBuf;

use crate::blocks::{Way, read_local};
use crate::journal::Journal;

/// A copy's content. Clones are the same one.
#[derive(Clone)]
pub struct OwnCopy {
    volume: Volume,
    part: u16,
    journal: Option<Arc<Journal>>,
}

impl OwnCopy {
    /// The content in a part of a device's volume.
    pub fn new(volume: Volume, part: u16, journal: Option<Arc<Journal>>) -> OwnCopy {
        OwnCopy { volume, part, journal }
    }

    /// Writes whole blocks, in units that have space.
    pub async fn write(&self, offset: u64, buf: AlignedBuf) -> Result<(), VolumeError> {
        match &self.journal {
            Some(journal) => journal.write(&self.volume, self.part, offset, buf).await,
            None => self.volume.write(offset, buf).await,
        }
    }

    /// Reads whole blocks.
    pub async fn read(&self, offset: u64, len: usize, way: Way) -> Result<AlignedBuf, VolumeError> {
        match &self.journal {
            Some(journal) => journal.read(&self.volume, self.part, offset, len, way).await,
            None => read_local(&self.volume, offset, len, way).await,
        }
    }
}
