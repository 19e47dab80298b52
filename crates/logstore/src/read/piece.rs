//! Reading a range of a chunk: its header and the blocks that cover the range, no more (zstore.md, decision 1).
//!
//! Damage elsewhere in the chunk is neither met nor told here: whole reads, scrubs and `fsck` find it.

use super::CHUNK_HEADER_BYTES;
use crate::store::Inner;
use crate::targets::ReadFailure;
use bytes::Bytes;
use device::{PieceOfFrame, ReadError};
use engine::EngineError;
use format::chunk_ref::ChunkRef;
use std::ops::Range;
use types::Place;

impl Inner {
    /// Reads a range of a chunk, shorter than the chunk, from the first copy whose blocks there are good.
    pub(super) async fn read_chunk_piece(&self, chunk: &ChunkRef, within: Range<usize>) -> Result<Bytes, EngineError> {
        let payload_bytes = chunk.payload_bytes as usize;
        let wanted = PieceOfFrame { engine_header_bytes: CHUNK_HEADER_BYTES, payload_bytes, range: within };
        let piece = self.first_good(&chunk.places, |place| self.read_piece(place, &wanted)).await?;
        let (found, bytes) = piece.ok_or_else(|| super::nothing_stands_at(&chunk.places))?;
        super::check_chunk_length(chunk, found)?;
        Ok(bytes)
    }

    /// The wanted bytes of one copy, and the length of its whole payload.
    async fn read_piece(&self, place: Place, wanted: &PieceOfFrame) -> Result<(usize, Bytes), ReadFailure> {
        let Some(device) = self.targets.device(place.device) else {
            return Err(ReadFailure::Unavailable(format!("device {} is missing", place.device)));
        };
        match device.read_piece(place, wanted).await {
            Ok(piece) => Ok((piece.view().payload().len(), piece.into_payload())),
            Err(ReadError::Stale { .. }) => Err(ReadFailure::Moved),
            Err(error @ ReadError::Corrupt { .. }) => Err(ReadFailure::Corrupt(error.to_string())),
            Err(error) => Err(ReadFailure::Unavailable(error.to_string())),
        }
    }
}
