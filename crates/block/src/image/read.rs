//! Reads: from the newest blob that owns a piece, then from what lies below.

use std::ops::Range;
use std::time::Duration;

use bytes::BytesMut;
use futures_util::future::join_all;
use types::{BLOB_BYTES, BlobId, DeviceId, Layer, PIECE_BYTES};

use super::asking::{Effect, Patience};
use super::content::{Content, Part, append, extend};
use super::error::{Fault, ImageError};
use super::limits::{COPY_PAUSE, TENURE_PATIENCE};
use super::map::{Copies, Place, Source, blocks_around};
use super::range_lock::{Mode, RangeGuard};
use super::{Cut, Image};
use crate::stores::BlobAt;

/// A stretch of one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Not 0.
    pub length: u64,
    /// No layer has anything there, nor has a parent.
    pub is_hole: bool,
    /// Reads as zeros.
    pub is_zero: bool,
}

impl Image {
    pub(super) async fn read_cut(&self, cut: &Cut) -> Result<Content, ImageError> {
        let _guard = self.claim_read(cut).await?;
        self.check_tenure().await?;
        self.read_locked(cut.index, cut.range.clone()).await.map_err(ImageError::from)
    }

    /// Locks a range to read, whose copies are equal then.
    async fn claim_read(&self, cut: &Cut) -> Result<RangeGuard<'_>, ImageError> {
        loop {
            let guard = self.locks.acquire(cut.index, cut.range.clone(), Mode::Shared).await;
            self.check_open()?;
            if self.copies == 1 {
                self.settle().await?;
            }
            if !self.needs_mending(cut.index) {
                return Ok(guard);
            }
            drop(guard);
            self.mend_part(cut.index).await?;
        }
    }

    /// Another holder may have taken the image over without all stores, and zeros ask no store: nothing is answered from what is known here until the
    /// manager has said lately that this holder is not over.
    pub(super) async fn check_tenure(&self) -> Result<(), ImageError> {
        let env = &self.outside.env;
        let is_over = || self.tenure.lock().is_some_and(|until| env.now() > until);
        if !is_over() {
            return Ok(());
        }
        env::mark("images: a request that waited for the tenure");
        let deadline = env.now() + TENURE_PATIENCE;
        while is_over() {
            self.check_open()?;
            if env.now() > deadline {
                return Err(ImageError::io("the manager does not say whether another holder has the image"));
            }
            env.sleep(COPY_PAUSE).await;
        }
        Ok(())
    }

    /// Reads a range of a part that the caller has locked.
    pub(super) async fn read_locked(&self, index: u32, range: Range<u32>) -> Result<Content, Fault> {
        let mut sources = {
            let (has_below, state) = (self.below().is_some(), self.state.lock());
            state.map.sources(index, &range, &state.lineage, has_below)
        };
        if sources.len() == 1 {
            let (run, source) = sources.remove(0);
            return self.read_run(index, run, source).await;
        }
        let mut content = Content::new();
        for parts in join_all(sources.into_iter().map(|(run, source)| self.read_run(index, run, source))).await {
            parts?.into_iter().for_each(|part| append(&mut content, part));
        }
        Ok(content)
    }

    async fn read_run(&self, index: u32, run: Range<u32>, source: Source) -> Result<Content, Fault> {
        match (source, self.below()) {
            (Source::Blob(layer, copies), _) => self.read_copies(index, layer, &copies, run).await,
            (Source::Below, Some(below)) => Ok(below.read(index, run).await?),
            (Source::Below, None) | (Source::Zeros, _) => Ok(Content::from_iter([Part::Zeros(run.end - run.start)])),
        }
    }

    /// Reads content of a blob, from the first copy that answers.
    pub(super) async fn read_copies(
        &self,
        index: u32,
        layer: Layer,
        copies: &Copies,
        run: Range<u32>,
    ) -> Result<Content, Fault> {
        let id = BlobId { image: self.id, index, layer };
        let mut last = None;
        for (number, place) in self.in_order(copies).into_iter().enumerate() {
            // Others may answer at once.
            let patience = if number + 1 < copies.len() { Patience::of(Duration::ZERO) } else { Patience::of_device() };
            match self.read_settled(patience, place, id, &run).await {
                Ok(content) => return Ok(content),
                Err(fault @ Fault::Error(_)) => return Err(fault),
                Err(fault) => {
                    if copies.len() > 1 {
                        env::mark("images: a read asked another copy");
                        self.suspect(place.device);
                    }
                    last = Some(fault);
                }
            }
        }
        Err(last.unwrap_or_else(|| ImageError::io(format!("blob {id} has no copy left")).into()))
    }

    async fn read_settled(&self, mut patience: Patience, place: Place, id: BlobId, run: &Range<u32>) -> Result<Content, Fault> {
        self.settle_one(place.device, &mut patience).await?;
        self.read_copy(patience, place, id, run).await
    }

    async fn read_copy(&self, patience: Patience, place: Place, id: BlobId, run: &Range<u32>) -> Result<Content, Fault> {
        let (at, blocks) = (BlobAt { block: place.block, id }, blocks_around(run));
        let length = blocks.end - blocks.start;
        let read = |admission| self.outside.stores.read(place.device, Some(admission), at, blocks.start, length);
        let bytes = self.ask_for(patience, place.device, Effect::Reads, read).await?;
        let skipped = (run.start - blocks.start) as usize;
        Ok(Content::from_iter([Part::Data(bytes.slice(skipped..skipped + run.len()))]))
    }

    /// This node's copy first, those of devices that did not answer last.
    fn in_order(&self, copies: &Copies) -> Copies {
        let mut ordered = copies.clone();
        if ordered.len() > 1 {
            let is_suspect =
                |device| self.seats.of(device).is_some_and(|seat| seat.is_suspect() || self.seats.doubt_of(&seat).is_some());
            ordered.sort_by_key(|place| (is_suspect(place.device), !self.outside.placement.is_here(place.device)));
        }
        ordered
    }

    fn suspect(&self, device: DeviceId) {
        if let Some(seat) = self.seats.of(device) {
            seat.suspect(true);
            self.wake_keeper();
        }
    }

    /// Adds what a range of a part reads as, which the caller has locked.
    pub(super) async fn pad(&self, bytes: &mut BytesMut, index: u32, range: Range<u32>) -> Result<(), Fault> {
        if !range.is_empty() {
            extend(bytes, &self.read_locked(index, range).await?);
        }
        Ok(())
    }

    /// What is allocated in a range: consecutive extents from its start on, at least one, at most `most`. They may end before the range.
    pub async fn status(&self, offset: u64, length: u64, most: usize) -> Result<Vec<Extent>, ImageError> {
        let (_entry, cuts) = self.enter(offset, length).await?;
        self.settle().await?;
        self.check_tenure().await?;
        let mut extents: Vec<Extent> = Vec::new();
        for cut in &cuts {
            for extent in self.extents_of(cut) {
                let is_full = extents.len() == most.max(1);
                match extents.last_mut() {
                    Some(last) if (last.is_hole, last.is_zero) == (extent.is_hole, extent.is_zero) => {
                        last.length += extent.length
                    }
                    _ if is_full => return Ok(extents),
                    _ => extents.push(extent),
                }
            }
        }
        Ok(extents)
    }

    fn extents_of(&self, cut: &Cut) -> Vec<Extent> {
        let (owned, data) = {
            let (below, state) = (self.below(), self.state.lock());
            state.map.seen(cut.index, &state.lineage, below.as_deref())
        };
        if owned.is_empty() {
            return vec![Extent { length: cut.range.len() as u64, is_hole: true, is_zero: true }];
        }
        let mut extents = Vec::new();
        let mut at = cut.range.start;
        while at < cut.range.end {
            let piece = at / PIECE_BYTES;
            let end = cut.range.end.min((piece + 1) * PIECE_BYTES).min(BLOB_BYTES);
            extents.push(Extent {
                length: u64::from(end - at),
                is_hole: !owned.contains(piece),
                is_zero: !data.contains(piece),
            });
            at = end;
        }
        extents
    }
}
