//! Chunks of a large object that are durable but belong to no object yet.

use std::any::Any;

/// Chunks appended so far for one large object or part. Dropped without a commit, they are garbage that the engine
/// reclaims; while this value lives the engine keeps them.
pub struct StagedChunks {
    /// Bytes staged so far.
    pub length: u64,
    /// The engine's own record of the chunks.
    pub inner: Box<dyn Staged>,
}

/// An engine's own record of staged chunks; only the engine that made it can read it.
pub trait Staged: Any + Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;
}
