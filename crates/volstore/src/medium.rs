//! A group's volume at its primary, and up to where all that was written there is settled.

use disk::{AlignedBuf, BLOCK_BYTES};
use wal::Settling;

use crate::blocks::BlockError;
use crate::mirror::Mirror;
use crate::name::Opseq;
use crate::superblock::Superblock;

/// The volume.
pub struct Medium {
    pub volume: Mirror,
    settling: Settling,
}

impl Medium {
    pub fn new(volume: Mirror) -> Medium {
        Medium { volume, settling: Settling::default() }
    }

    /// Has all that was done before stand on the medium.
    pub async fn settle(&self) -> Result<(), BlockError> {
        let done_before = self.settling.done_below();
        self.volume.flush().await?;
        self.settling.note_flushed(done_before);
        Ok(())
    }

    /// Mutations below this number are resolved: their records and contents are written.
    pub fn note_done(&self, below: Opseq) {
        self.settling.note_done(below.0);
    }

    /// Mutations below this number are resolved, and stand on the medium.
    pub fn settled_below(&self) -> Opseq {
        Opseq(self.settling.settled_below())
    }

    /// Writes a superblock. It is durable behind it, and so is all that was written before.
    pub async fn put_superblock(&self, superblock: &Superblock) -> Result<(), BlockError> {
        let block: AlignedBuf = superblock.encode(&self.volume.uuid());
        self.volume.write(superblock.slot() * BLOCK_BYTES as u64, block).await?;
        self.volume.flush().await
    }
}
