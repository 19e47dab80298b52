//! Sums of a copy's content, with which a holder compares copies without moving them (docs/rfd/0024, rules 9 and 10).

use std::sync::Arc;

use types::limits::BLOCK_BYTES;
use types::{BlobId, PIECE_BYTES};

use super::Inner;
use super::changing::check_image;
use super::layout::data_start;
use super::table::Head;
use super::work::Right;
use crate::stores::{Admission, BlobAt, BlobSums, BlockSum, StoreError};

impl Inner {
    pub(super) async fn sums(self: &Arc<Self>, admission: Admission, id: BlobId) -> Result<BlobSums, StoreError> {
        let block = self.state.lock().table.block_of(id).ok_or(StoreError::Absent)?;
        let at = BlobAt { block, id };
        check_image(&admission, at)?;
        let room = self.room_for(types::BLOB_BYTES as usize).await;
        let (begun, head) = self.begin(Some(&admission), at, Right::Reads, room).await?;
        let sums = self.sums_of(block, &head).await;
        drop(begun);
        Ok(BlobSums { row: head.row(block), sums: sums? })
    }

    async fn sums_of(&self, block: u32, head: &Head) -> Result<Vec<BlockSum>, StoreError> {
        let blocks = (head.data.count() * PIECE_BYTES) as usize / BLOCK_BYTES;
        let mut sums = Vec::with_capacity(blocks);
        for run in head.data.runs() {
            let read = self.volume.read_medium(data_start(block, run.start), run.len()).await;
            let content = read.map_err(|error| StoreError::Failed(error.to_string()))?;
            sums.extend(content.chunks(BLOCK_BYTES).map(sum));
            self.counters.reads.add(1);
            self.counters.read_bytes.add(run.len() as u64);
        }
        Ok(sums)
    }
}

fn sum(content: &[u8]) -> BlockSum {
    let hash = blake3::hash(content);
    let (half, _) = hash.as_bytes().split_first_chunk().expect("it is twice as long");
    *half
}
