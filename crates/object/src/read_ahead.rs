//! What all answers together hold of large objects, beyond what their clients can take next.
//!
//! A client that reads slowly, or not at all, keeps what was read for it. Of each one that is little; of thousands it would be all of the memory.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use types::limits::CHUNK_BYTES;

use crate::stream::READ_AHEAD_CHUNKS;

/// Most bytes that the streams of a process hold of chunks.
const MOST_BYTES: usize = 256 * 1024 * 1024;

/// The room that streams share. Who finds none goes on without reading ahead. The further ahead a chunk is, the more of the room must be free for it: clients
/// that read slowly don't keep from others what these need next.
#[derive(Clone)]
pub(crate) struct ReadAhead {
    left: Arc<Semaphore>,
    chunks: usize,
}

/// Room for one chunk. It is given back with the last of the bytes that are held in it, whoever has these by then.
#[derive(Clone)]
pub(crate) struct Room {
    _permit: Arc<OwnedSemaphorePermit>,
}

/// Bytes, and the room that they take.
struct Held {
    bytes: Bytes,
    _room: Room,
}

impl ReadAhead {
    pub(crate) fn of_chunks(chunks: usize) -> Self {
        ReadAhead { left: Arc::new(Semaphore::new(chunks)), chunks }
    }

    /// Room for a chunk that is so many after the one that is wanted next, if there is enough.
    pub(crate) fn take(&self, ahead: usize) -> Option<Room> {
        let left_to_others = self.chunks * ahead / READ_AHEAD_CHUNKS;
        if self.left.available_permits() <= left_to_others {
            return None;
        }
        let permit = Arc::clone(&self.left).try_acquire_owned().ok()?;
        Some(Room { _permit: Arc::new(permit) })
    }

    /// Chunks that there is room for.
    #[cfg(test)]
    pub(crate) fn left(&self) -> usize {
        self.left.available_permits()
    }
}

impl Default for ReadAhead {
    fn default() -> Self {
        ReadAhead::of_chunks(MOST_BYTES / CHUNK_BYTES)
    }
}

impl Room {
    pub(crate) fn hold(&self, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Held { bytes, _room: self.clone() })
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
