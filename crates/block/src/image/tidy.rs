//! Freeing blobs that no view needs ([`super::lineage`]), after a snapshot was removed or rolled back to.
//!
//! What is to be done follows from the blobs and the record alone. So it can end anywhere, and go on at any time. Each step is derived
//! again under its lock. Pieces are copied in short runs, so that requests to the same part wait for one of them at most.

use std::ops::Range;

use bytes::BytesMut;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use types::{BLOB_BYTES, BlobId, Layer, Pieces};

use super::Image;
use super::content::extend;
use super::error::{Fault, ImageError};
use super::limits::{FILL_BYTES, TIDY_PARTS_AT_ONCE};
use super::lineage::{self, Step};
use crate::stores::Change;

impl Image {
    /// Frees what no view needs. Reads and writes go on.
    pub async fn tidy(&self) -> Result<(), ImageError> {
        let indices = {
            let state = self.state.lock();
            state.map.indices()
        };
        let parts = stream::iter(indices.into_iter().filter(|index| self.next_step(*index).is_some()));
        parts.map(Ok).try_for_each_concurrent(TIDY_PARTS_AT_ONCE, |index| self.tidy_part(index)).await
    }

    async fn tidy_part(&self, index: u32) -> Result<(), ImageError> {
        while self.next_step(index).is_some() {
            let gate = self.gate.read().await;
            let locked = |step: &Option<Step>| step.as_ref().map_or(0..0, locked);
            let (guard, step) = self.claim(index, || self.next_step(index), locked).await?;
            if let Some(step) = step {
                self.carry_out(index, step).await?;
            }
            drop(guard);
            drop(gate);
        }
        Ok(())
    }

    fn next_step(&self, index: u32) -> Option<Step> {
        let state = self.state.lock();
        let blobs = state.map.held(index);
        if blobs.iter().all(|blob| blob.layer == state.view.layer) {
            return None;
        }
        lineage::next_step(&blobs, &lineage::views(&state.view), &state.view.branches)
    }

    async fn carry_out(&self, index: u32, step: Step) -> Result<(), Fault> {
        match step {
            Step::Free(layer) => self.free(index, layer).await,
            Step::Fill { from, to, filled, zeroed } => {
                env::mark("images: pieces copied to a newer layer");
                self.fill(index, from, to, filled, zeroed).await
            }
        }
    }

    /// Copies the zeros, or a run of the content, to a newer blob.
    async fn fill(&self, index: u32, from: Layer, to: Layer, filled: Pieces, zeroed: Pieces) -> Result<(), Fault> {
        let source = {
            let state = self.state.lock();
            let source = state.map.blob(index, from).map(|blob| blob.copies.clone());
            source.expect("the step was derived under the lock")
        };
        let change = match run_of(filled) {
            _ if !zeroed.is_empty() => Change { zeroed, ..Change::default() },
            None => return Ok(()),
            Some(run) => {
                let mut bytes = BytesMut::with_capacity(run.len());
                extend(&mut bytes, &self.read_copies(index, from, &source, run.clone()).await?);
                Change { offset: run.start, content: bytes.freeze(), filled: Pieces::within(run), ..Change::default() }
            }
        };
        self.change(BlobId { image: self.id, index, layer: to }, change).await
    }
}

/// What a step locks.
fn locked(step: &Step) -> Range<u32> {
    match step {
        Step::Free(_) => 0..BLOB_BYTES,
        Step::Fill { zeroed, .. } if !zeroed.is_empty() => hull(*zeroed),
        Step::Fill { filled, .. } => run_of(*filled).unwrap_or(0..0),
    }
}

/// The first pieces, as many as are copied under one lock.
fn run_of(pieces: Pieces) -> Option<Range<u32>> {
    let run = pieces.runs().next()?;
    Some(run.start..run.end.min(run.start + FILL_BYTES))
}

fn hull(pieces: Pieces) -> Range<u32> {
    let (first, last) = (pieces.runs().next(), pieces.runs().last());
    first.map_or(0, |run| run.start)..last.map_or(0, |run| run.end)
}
