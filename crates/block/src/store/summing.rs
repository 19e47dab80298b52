//! Sums of a copy's content, with which a holder compares copies without moving them (docs/rfd/0024, rules 9 and 10).

use std::sync::Arc;

use device::{Volume, VolumeError};
use types::limits::BLOCK_BYTES;
use types::{BlobId, PIECE_BYTES, Pieces};

use super::Inner;
use super::changing::check_image;
use super::layout::data_start;
use super::work::Right;
use crate::stores::{Admission, BlobAt, BlobSums, BlockSum, StoreError};

impl Inner {
    pub(super) async fn sums(self: &Arc<Self>, admission: Admission, id: BlobId) -> Result<BlobSums, StoreError> {
        let block = self.state.lock().table.block_of(id).ok_or(StoreError::Absent)?;
        let at = BlobAt { block, id };
        check_image(&admission, at)?;
        let room = self.room_for(types::BLOB_BYTES as usize).await;
        let (begun, head) = self.begin(Some(&admission), at, Right::Reads, room).await?;
        let sums = sums_of(&self.volume, block, head.data).await;
        drop(begun);
        let sums = sums.map_err(|error| StoreError::Failed(error.to_string()))?;
        self.counters.reads.add(head.data.runs().count() as u64);
        self.counters.read_bytes.add((sums.len() * BLOCK_BYTES) as u64);
        Ok(BlobSums { row: head.row(block), sums })
    }
}

/// The sums of each 4 KiB of pieces that have content, read from the medium.
pub(crate) async fn sums_of(volume: &Volume, block: u32, data: Pieces) -> Result<Vec<BlockSum>, VolumeError> {
    let mut sums = Vec::with_capacity((data.count() * PIECE_BYTES) as usize / BLOCK_BYTES);
    for run in data.runs() {
        let content = volume.read_medium(data_start(block, run.start), run.len()).await?;
        sums.extend(content.chunks(BLOCK_BYTES).map(sum));
    }
    Ok(sums)
}

fn sum(content: &[u8]) -> BlockSum {
    let hash = blake3::hash(content);
    let (half, _) = hash.as_bytes().split_first_chunk().expect("it is twice as long");
    *half
}
