//! Zeros and trims: whole pieces by bits of headers, parts of pieces by writing zeros.
//!
//! | what is below a piece | zeros | zeros, stays allocated | trim |
//! |---|---|---|---|
//! | content | becomes zeros | becomes zeros | becomes zeros |
//! | nothing, or zeros | is dropped | becomes zeros | is dropped |
//!
//! A blob that owns nothing any more is freed.

use std::ops::Range;

use bytes::Bytes;
use futures_util::future::join_all;
use types::{BLOB_BYTES, BlobId, Layer, PIECE_BYTES, Pieces};

use super::error::{Fault, ImageError};
use super::write::Space;
use super::{Cut, Image, all, cuts};
use crate::stores::Change;

/// Why a range is cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Zeros,
    KeepAllocated,
    Trim,
}

/// What is written to parts of pieces: less than two pieces side by side.
static ZEROS: [u8; 2 * PIECE_BYTES as usize] = [0; 2 * PIECE_BYTES as usize];

/// What happens to whole pieces, as the map stands.
enum Plan {
    Nothing,
    Change(Layer, Change),
    Create(Layer, Change),
    Free(Layer),
}

impl Image {
    pub(super) async fn clear(&self, offset: u64, length: u64, purpose: Purpose) -> Result<(), ImageError> {
        let (_entry, cuts) = self.enter(offset, length).await?;
        if let [cut] = cuts.as_slice() {
            return self.clear_cut(cut, purpose, None).await;
        }
        for cuts in cuts.chunks(CUTS_AT_ONCE) {
            all(join_all(cuts.iter().map(|cut| self.clear_cut(cut, purpose, None))).await)?;
        }
        Ok(())
    }

    /// Makes zeros of what lies beyond the size that is served, up to `end`.
    pub(super) async fn clear_beyond(&self, start: u64, end: u64) -> Result<(), ImageError> {
        for cut in cuts(start..end) {
            self.clear_cut(&cut, Purpose::Zeros, Some(end)).await?;
        }
        Ok(())
    }

    /// Clears a range of a part. `size`: where the image ends, if not at the size that is served.
    async fn clear_cut(&self, cut: &Cut, purpose: Purpose, size: Option<u64>) -> Result<(), ImageError> {
        let mut space = Space::default();
        loop {
            let gate = self.gate.read().await;
            let range = self.up_to_end(cut, size)?;
            let Err(fault) = self.clear_gated(cut.index, &range, purpose, &space).await else { return Ok(()) };
            drop(gate);
            space.wait(self, fault).await?;
        }
    }

    /// The range; if it ends with the image, it goes on to the end of the part, where nothing is but zeros.
    fn up_to_end(&self, cut: &Cut, size: Option<u64>) -> Result<Range<u32>, ImageError> {
        let end = u64::from(cut.index) * u64::from(BLOB_BYTES) + u64::from(cut.range.end);
        let size = match size {
            Some(size) => size,
            None => {
                self.check_size(end)?;
                self.size()
            }
        };
        Ok(if end == size { cut.range.start..BLOB_BYTES } else { cut.range.clone() })
    }

    async fn clear_gated(&self, index: u32, range: &Range<u32>, purpose: Purpose, space: &Space) -> Result<(), Fault> {
        let pieces = Pieces::within(range.clone());
        // A range that holds no whole piece is all edge.
        let whole = pieces.runs().next().unwrap_or(range.end..range.end);
        if purpose != Purpose::Trim {
            self.clear_edge(index, range.start..whole.start, purpose, space).await?;
            self.clear_edge(index, whole.end..range.end, purpose, space).await?;
        }
        self.clear_pieces(index, pieces, purpose, space).await
    }

    /// Writes zeros, unless the pieces read as zeros anyway.
    async fn clear_edge(&self, index: u32, range: Range<u32>, purpose: Purpose, space: &Space) -> Result<(), Fault> {
        if range.is_empty() {
            return Ok(());
        }
        let touched = Pieces::touched(range.clone());
        let around = touched.runs().next().expect("it is not empty");
        let look = || {
            let (below, state) = (self.below(), self.state.lock());
            let (_, data) = state.map.seen(index, &state.lineage, below.as_deref());
            ((touched & data).is_empty(), state.map.blob(index, state.view.layer).is_some())
        };
        let (guard, (is_zero, is_held)) = self.claim(index, look, |_| around.clone()).await?;
        drop(guard);
        if is_zero && (is_held || purpose != Purpose::KeepAllocated) {
            return Ok(self.check_tenure().await?);
        }
        let zeros = Bytes::from_static(&ZEROS[..range.len()]);
        self.write_gated(index, &range, &zeros, &space.full).await
    }

    async fn clear_pieces(&self, index: u32, pieces: Pieces, purpose: Purpose, space: &Space) -> Result<(), Fault> {
        let Some(span) = pieces.runs().next() else { return Ok(()) };
        let locked = |plan: &Plan| match plan {
            Plan::Nothing | Plan::Change(..) => span.clone(),
            Plan::Create(..) | Plan::Free(_) => 0..BLOB_BYTES,
        };
        let (guard, plan) = self.claim(index, || self.plan_clear(index, pieces, purpose), locked).await?;
        match plan {
            // No store is asked that could say that this holder is over.
            Plan::Nothing => self.check_tenure().await?,
            Plan::Change(layer, change) => self.change(BlobId { image: self.id, index, layer }, change).await?,
            Plan::Create(layer, change) => self.create(index, layer, change, &space.full).await?,
            Plan::Free(layer) => self.free(index, layer).await?,
        }
        drop(guard);
        Ok(())
    }

    fn plan_clear(&self, index: u32, pieces: Pieces, purpose: Purpose) -> Plan {
        let (below, state) = (self.below(), self.state.lock());
        let layer = state.view.layer;
        let (_, under) = state.map.seen_under(index, layer, &state.lineage, below.as_deref());
        let keeps = purpose == Purpose::KeepAllocated;
        let Some(blob) = state.map.blob(index, layer) else {
            let zeroed = if keeps { pieces } else { pieces & under };
            let change = Change { zeroed, ..Change::default() };
            return if zeroed.is_empty() { Plan::Nothing } else { Plan::Create(layer, change) };
        };
        let are_zeros = blob.owned & !blob.data;
        let zeroed = (if keeps { pieces } else { pieces & under }) & !are_zeros;
        let dropped = if keeps { Pieces::NONE } else { pieces & blob.owned & !under };
        if !keeps && ((blob.owned | zeroed) & !dropped).is_empty() {
            return Plan::Free(layer);
        }
        if zeroed.is_empty() && dropped.is_empty() {
            return Plan::Nothing;
        }
        Plan::Change(layer, Change { zeroed, dropped, ..Change::default() })
    }
}

/// Parts of one request that are cleared at the same time.
const CUTS_AT_ONCE: usize = 16;
