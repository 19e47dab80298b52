//! Reading a range of a chunk: its header and the blocks that cover the range, no more (RFD 2, decision 1).
//!
//! Damage elsewhere in the chunk is neither met nor told here: whole reads, scrubs and `fsck` find it.

use super::CHUNK_HEADER_BYTES;
use crate::store::Inner;
use bytes::Bytes;
use device::PieceOfFrame;
use engine::EngineError;
use format::chunk_ref::ChunkRef;
use std::ops::Range;
use types::{KeyHash, Place};

impl Inner {
    /// Reads a range of a chunk, shorter than the chunk, from the first copy whose blocks there are good.
    pub(super) async fn read_chunk_piece(
        &self,
        owner: &KeyHash,
        chunk: &ChunkRef,
        within: Range<usize>,
    ) -> Result<Bytes, EngineError> {
        let payload_bytes = chunk.payload_bytes as usize;
        let wanted = PieceOfFrame { engine_header_bytes: CHUNK_HEADER_BYTES, payload_bytes, range: within };
        let targets = &self.targets;
        let read = |place: Place| {
            let wanted = &wanted;
            async move { targets.read_piece(&place, wanted).await }
        };
        let piece = self
            .first_good(&chunk.places, read, |piece| &piece.record)
            .await?
            .ok_or_else(|| super::nothing_stands_at(&chunk.places))?;
        super::check_chunk(owner, chunk, &piece.record, piece.payload_bytes)?;
        Ok(piece.piece)
    }
}
