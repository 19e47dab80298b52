//! Blocks that are reserved, and content that is written and has no name yet. Dropped, both are free again.

use std::any::Any;
use std::sync::Arc;

use ::engine::Staged;

use super::{Inner, Store};
use crate::content::{Extent, Piece};

/// Blocks that are reserved. Whoever drops it has no write to them under way.
pub struct Held {
    inner: Arc<Inner>,
    extents: Vec<Extent>,
}

impl Held {
    pub(super) fn new(inner: Arc<Inner>, extents: Vec<Extent>) -> Held {
        Held { inner, extents }
    }

    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// A record names them now: they are the machine's.
    pub fn placed(&mut self) {
        self.extents.clear();
    }

    /// The others are held, too.
    pub fn join(&mut self, mut other: Held) {
        self.extents.append(&mut other.extents);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.extents.is_empty() {
            self.inner.state.lock().pg.give_up(&self.extents);
            self.inner.changed.notify_waiters();
        }
    }
}

/// Pieces of a large object that are durable and belong to no object yet.
pub struct StagedContent {
    pub store: Store,
    pub pieces: Vec<Piece>,
    pub held: Option<Held>,
}

impl StagedContent {
    /// Nothing yet.
    pub fn new(store: Store) -> StagedContent {
        StagedContent { store, pieces: Vec::new(), held: None }
    }

    pub fn push(&mut self, piece: Piece, held: Held) {
        self.pieces.push(piece);
        match &mut self.held {
            Some(all) => all.join(held),
            None => self.held = Some(held),
        }
    }
}

impl Staged for StagedContent {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
