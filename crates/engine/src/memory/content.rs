//! Large content and chunks on their way to become some.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use format::part_table::PartTable;
use types::limits::CHUNK_BYTES;

use crate::error::EngineError;
use crate::staging::{Staged, StagedChunks};
use crate::traits::{ContentReader, EngineFuture};

/// One version's bytes in the pieces in which they came, and where its parts lie.
#[derive(Clone)]
pub(super) struct MemoryContent {
    pieces: Arc<[Bytes]>,
    /// Absent for an object without parts.
    parts: Option<PartTable>,
}

impl MemoryContent {
    pub(super) fn without_parts(pieces: Vec<Bytes>) -> Self {
        MemoryContent { pieces: pieces.into(), parts: None }
    }

    pub(super) fn of_parts(parts: Vec<Vec<Bytes>>, table: PartTable) -> Self {
        MemoryContent { pieces: parts.into_iter().flatten().collect(), parts: Some(table) }
    }

    pub(super) fn length(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.len() as u64).sum()
    }

    /// What one piece holds of the range, from its start.
    fn read_now(&self, range: Range<u64>) -> Result<Bytes, EngineError> {
        let length = self.length();
        if range.is_empty() || range.end > length {
            return Err(EngineError::Invalid { reason: format!("bytes {range:?} of {length}") });
        }
        let mut piece_start = 0;
        for piece in self.pieces.iter() {
            let piece_end = piece_start + piece.len() as u64;
            if range.start < piece_end {
                let from = (range.start - piece_start) as usize;
                let to = (range.end.min(piece_end) - piece_start) as usize;
                return Ok(piece.slice(from..to));
            }
            piece_start = piece_end;
        }
        unreachable!("the range starts within the content");
    }
}

impl ContentReader for MemoryContent {
    fn read(&self, range: Range<u64>) -> EngineFuture<'_, Bytes> {
        Box::pin(async move { self.read_now(range) })
    }

    fn parts(&self) -> Option<&PartTable> {
        self.parts.as_ref()
    }
}

/// Chunks in memory that are part of nothing yet.
#[derive(Default)]
pub(super) struct MemoryStaged {
    pieces: Vec<Bytes>,
}

impl MemoryStaged {
    pub(super) fn of_mut(staged: &mut StagedChunks) -> Result<&mut MemoryStaged, EngineError> {
        staged.inner.as_any_mut().downcast_mut().ok_or_else(staged_elsewhere)
    }

    pub(super) fn take_pieces(mut staged: StagedChunks) -> Result<Vec<Bytes>, EngineError> {
        Ok(std::mem::take(&mut MemoryStaged::of_mut(&mut staged)?.pieces))
    }

    pub(super) fn push(&mut self, bytes: Bytes) -> Result<(), EngineError> {
        if bytes.is_empty() || bytes.len() > CHUNK_BYTES {
            return Err(EngineError::Invalid { reason: format!("a chunk has 1 to {CHUNK_BYTES} bytes, not {}", bytes.len()) });
        }
        self.pieces.push(bytes);
        Ok(())
    }
}

impl Staged for MemoryStaged {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

fn staged_elsewhere() -> EngineError {
    EngineError::Invalid { reason: "these chunks were staged by another engine".to_owned() }
}
