//! Making the copies of a blob equal (docs/rfd/0024, rules 9 and 10).
//!
//! Copies may differ where a write was not acknowledged: its holder is gone, or its caller. Any of them may then stand, since every
//! acknowledged write is on all copies in sync. The first one does. A piece counts only if all copies in sync have it.
//!
//! Copies are compared by the sums of their blocks. So only what differs is moved.

use std::ops::Range;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use env::Instant;
use format::blob_header::BlobState;
use types::{BLOB_BYTES, BlobId, DeviceId, PIECE_BYTES, PIECES_PER_BLOB, Pieces};

use super::Image;
use super::asking::{Effect, each};
use super::error::{Fault, ImageError};
use super::limits::{BLOCK_BYTES, BRING_BYTES, COPY_PATIENCE, COPY_PAUSE};
use super::map::{Copies, Place};
use super::range_lock::Mode;
use crate::stores::{BlobAt, BlobRow, BlobSums, BlockSum, Change};

const BLOCKS_OF_PIECE: usize = (PIECE_BYTES / BLOCK_BYTES) as usize;

/// What all copies of a blob shall say of its pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) owned: Pieces,
    pub(crate) data: Pieces,
}

/// For how long a change is made again that a device refuses without which the image does not go on.
#[derive(Default)]
pub(crate) struct Again {
    deadline: Option<Instant>,
}

impl Again {
    async fn pause(&mut self, image: &Image) -> bool {
        let env = &image.outside.env;
        if image.copies == 1 {
            return false;
        }
        let deadline = *self.deadline.get_or_insert_with(|| env.now() + COPY_PATIENCE);
        env.sleep(COPY_PAUSE).await;
        env.now() < deadline
    }
}

/// A range to bring, and the pieces in it that have no content there yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lack {
    pub(crate) range: Range<u32>,
    pub(crate) filled: Pieces,
}

impl Image {
    /// Whether a part must be mended before anything else touches it.
    pub(crate) fn needs_mending(&self, index: u32) -> bool {
        if !self.has_unequal.load(Ordering::Acquire) {
            return false;
        }
        let state = self.state.lock();
        state.map.has_unequal(index)
            || state.strays.iter().any(|(part, _)| *part == index)
            || state.stray_copies.iter().any(|(id, _)| id.index == index)
    }

    /// Makes the copies of a part's blobs equal, and frees what an unfinished request left. The caller has locked nothing.
    pub(crate) async fn mend_part(&self, index: u32) -> Result<(), ImageError> {
        let _guard = self.locks.acquire(index, 0..BLOB_BYTES, Mode::Exclusive).await;
        self.settle().await?;
        let strays: Vec<BlobId> = {
            let state = self.state.lock();
            let of_part = state.strays.iter().filter(|(part, _)| *part == index);
            of_part.map(|(index, layer)| BlobId { image: self.id, index: *index, layer: *layer }).collect()
        };
        for id in strays {
            self.free_stray(id).await?;
        }
        self.free_stray_copies(index).await?;
        let unequal: Vec<BlobId> = {
            let state = self.state.lock();
            let of_part = state.map.blobs_of(index).iter().filter(|blob| !blob.is_equal);
            of_part.map(|blob| BlobId { image: self.id, index, layer: blob.layer }).collect()
        };
        for id in unequal {
            let is_freeing = self.state.lock().map.blob(index, id.layer).is_some_and(|blob| blob.freeing);
            if is_freeing { self.free(index, id.layer).await? } else { self.equalize(id).await? }
        }
        Ok(())
    }

    /// A blob that was never finished, wherever it stands.
    async fn free_stray(&self, id: BlobId) -> Result<(), Fault> {
        // What a device in doubt has of it is in the map by now. A request that was given up between two questions leaves no doubt.
        let is_known = self.state.lock().map.blob(id.index, id.layer).is_some();
        if !is_known {
            env::mark("images: a blob that was not finished freed");
            for device in self.view().devices {
                self.free_found(device, id).await?;
            }
        }
        self.state.lock().strays.remove(&(id.index, id.layer));
        Ok(())
    }

    /// Copies that were begun, or were not needed any more, and that the map does not know. The part is locked.
    async fn free_stray_copies(&self, index: u32) -> Result<(), Fault> {
        let strays: Vec<(BlobId, DeviceId)> = {
            let state = self.state.lock();
            state.stray_copies.iter().filter(|(id, _)| id.index == index).copied().collect()
        };
        for (id, device) in strays {
            let is_stray = {
                let state = self.state.lock();
                let is_known = state.map.blob(index, id.layer).is_some_and(|blob| blob.is_on(device));
                // One that is out frees it when it comes back.
                !is_known && state.view.devices.contains(&device)
            };
            if is_stray {
                env::mark("images: a copy that the map does not know freed");
                self.free_found(device, id).await?;
            }
            self.state.lock().stray_copies.remove(&(id, device));
        }
        Ok(())
    }

    /// Frees a blob of a device in sync if it is there. A device that fails is taken out.
    pub(crate) async fn free_found(&self, device: DeviceId, id: BlobId) -> Result<(), Fault> {
        match self.free_on(device, id).await {
            Err(Fault::Device(device, reason)) => Ok(self.lose(device, &reason).await?),
            freed => freed,
        }
    }

    /// Makes the copies of one blob equal. The caller has locked its whole part.
    pub(crate) async fn equalize(&self, id: BlobId) -> Result<(), Fault> {
        let mut again = Again::default();
        loop {
            // A device that is out compares the blobs whose epoch on others is its own or later.
            let Some((copies, following, announces)) = self.begin_comparing(id)? else { return Ok(()) };
            let places: Copies = copies.iter().chain(&following).copied().collect();
            let found = each(&places, |place| self.sums(place.device, id)).await;
            if self.judge(&mut again, found.iter().filter_map(|found| found.as_ref().err())).await? {
                continue;
            }
            let found: Vec<BlobSums> = found.into_iter().flatten().collect();
            let target = target_of(found.iter().take(copies.len()).map(|found| &found.row));
            let source = (places[0], &found[0]);
            let mut brought: Vec<Result<(), Fault>> = Vec::new();
            for (place, copy) in places.iter().zip(&found) {
                brought.push(self.bring(id, source, (*place, copy), target, announces).await);
            }
            if self.judge(&mut again, brought.iter().filter_map(|brought| brought.as_ref().err())).await? {
                continue;
            }
            let mut state = self.state.lock();
            if !announces && !state.view.out.is_empty() {
                // A device went out meanwhile.
                continue;
            }
            env::mark("images: copies compared");
            if let Some(blob) = state.map.blob_mut(id.index, id.layer) {
                (blob.owned, blob.data, blob.is_equal) = (target.owned, target.data, true);
            }
            return Ok(());
        }
    }

    /// Copies in sync, those that follow, and whether a device is out.
    fn begin_comparing(&self, id: BlobId) -> Result<Option<(Copies, Copies, bool)>, Fault> {
        let mut state = self.state.lock();
        let (epoch, announces) = (state.view.epoch, !state.view.out.is_empty());
        let Some(blob) = state.map.blob_mut(id.index, id.layer) else { return Ok(None) };
        if blob.copies.is_empty() {
            return Err(ImageError::io(format!("blob {id} has no copy left")).into());
        }
        if announces {
            blob.epoch = blob.epoch.max(epoch);
        }
        Ok(Some((blob.copies.clone(), blob.following.clone(), announces)))
    }

    pub(crate) async fn sums(&self, device: DeviceId, id: BlobId) -> Result<BlobSums, Fault> {
        let found = self.ask(device, Effect::Reads, |admission| self.outside.stores.sums(device, admission, id)).await?;
        let expected = found.row.data.count() as usize * BLOCKS_OF_PIECE;
        match found.sums.len() == expected {
            true => Ok(found),
            false => Err(Fault::Device(device, format!("{} sums of {expected} blocks", found.sums.len()))),
        }
    }

    /// What became of a change of several copies. True: it is to be made again, since a device went out, or may answer yet.
    pub(crate) async fn judge<'a>(&self, again: &mut Again, faults: impl Iterator<Item = &'a Fault>) -> Result<bool, Fault> {
        let mut was_any = false;
        for fault in faults {
            let (device, reason) = match fault {
                Fault::Device(device, reason) => (*device, reason.as_str()),
                Fault::Absent(device) => (*device, "a blob is not there any more"),
                Fault::NoSpace(_) | Fault::Error(_) => return Err(fault.clone()),
            };
            was_any = true;
            if self.stop_following(device) {
                continue;
            }
            if !self.is_spare(device) {
                if !again.pause(self).await {
                    return Err(fault.clone());
                }
                continue;
            }
            self.lose(device, reason).await?;
            env::mark("images: a change made again without a device");
        }
        Ok(was_any)
    }

    /// Brings what a copy lacks. `announces`: its header gets the present epoch in any case.
    pub(crate) async fn bring(
        &self,
        id: BlobId,
        (from, source): (Place, &BlobSums),
        (to, copy): (Place, &BlobSums),
        target: Target,
        announces: bool,
    ) -> Result<(), Fault> {
        let at = BlobAt { block: to.block, id };
        for Lack { range, filled } in lacks(source, copy, target) {
            let content = self.read_place(from, id, &range).await?;
            env::mark("images: content brought to another copy");
            self.copied_bytes.fetch_add(content.len() as u64, Ordering::Relaxed);
            let change = Change { offset: range.start, content, filled, ..Change::default() };
            self.change_copy(to.device, at, change).await?;
        }
        let zeroed = target.owned & !target.data & !(copy.row.owned & !copy.row.data);
        let dropped = copy.row.owned & !target.owned;
        if announces || !zeroed.is_empty() || !dropped.is_empty() {
            self.change_copy(to.device, at, Change { zeroed, dropped, ..Change::default() }).await?;
        }
        Ok(())
    }

    pub(crate) async fn change_copy(&self, device: DeviceId, at: BlobAt, change: Change) -> Result<(), Fault> {
        self.ask(device, Effect::Changes, |admission| self.outside.stores.change(device, admission, at, change.clone())).await
    }

    async fn read_place(&self, place: Place, id: BlobId, range: &Range<u32>) -> Result<Bytes, Fault> {
        let at = BlobAt { block: place.block, id };
        let length = range.end - range.start;
        let read = |admission| self.outside.stores.read(place.device, Some(admission), at, range.start, length);
        self.ask(place.device, Effect::Reads, read).await
    }

    /// A copy of a blob on a device that has none, or an older one: made equal to the others. The caller has locked its whole part, and the
    /// blob's copies are equal.
    pub(crate) async fn sync_copy(&self, id: BlobId, device: DeviceId) -> Result<Place, Fault> {
        let blob = self.state.lock().map.blob(id.index, id.layer).cloned();
        let blob = blob.ok_or_else(|| ImageError::io("the blob was freed"))?;
        let (from, source) = self.source_of(id, &blob.copies).await?;
        let copy = match self.sums(device, id).await {
            Err(Fault::Absent(_)) => {
                self.begin_copy(id, device).await?;
                self.sums(device, id).await?
            }
            found => found?,
        };
        let to = Place { device, block: copy.row.at.block };
        let target = Target { owned: blob.owned, data: blob.data };
        self.bring(id, (from, &source), (to, &copy), target, true).await?;
        if copy.row.state == BlobState::Partial {
            let at = BlobAt { block: to.block, id };
            self.ask(device, Effect::Changes, |admission| self.outside.stores.complete(device, admission, at)).await?;
        }
        Ok(to)
    }

    /// The first copy that can be read.
    async fn source_of(&self, id: BlobId, copies: &Copies) -> Result<(Place, BlobSums), Fault> {
        let mut last = ImageError::io(format!("blob {id} has no copy left")).into();
        for place in copies {
            match self.sums(place.device, id).await {
                Ok(sums) => return Ok((*place, sums)),
                Err(fault) => last = fault,
            }
        }
        Err(last)
    }

    async fn begin_copy(&self, id: BlobId, device: DeviceId) -> Result<(), Fault> {
        let parent = self.view().parent;
        let blob = crate::stores::NewBlob { id, state: BlobState::Partial, parent };
        let create = |admission| self.outside.stores.create(device, admission, blob, Change::default());
        self.ask(device, Effect::Changes, create).await.map(drop)
    }
}

/// What all copies in sync have.
fn target_of<'a>(rows: impl Iterator<Item = &'a BlobRow>) -> Target {
    let targets = rows.map(|row| Target { owned: row.owned, data: row.data });
    let both = |one: Target, other: Target| Target { owned: one.owned & other.owned, data: one.data & other.data };
    targets.reduce(both).unwrap_or(Target { owned: Pieces::NONE, data: Pieces::NONE })
}

/// The content of the target's pieces that a copy lacks: whole pieces where it has none, else the blocks that differ.
pub(crate) fn lacks(source: &BlobSums, copy: &BlobSums, target: Target) -> Vec<Lack> {
    let mut lacks: Vec<Lack> = Vec::new();
    for piece in (0..PIECES_PER_BLOB).filter(|piece| target.data.contains(*piece)) {
        let start = piece * PIECE_BYTES;
        if !copy.row.data.contains(piece) {
            let range = start..start + PIECE_BYTES;
            add(&mut lacks, Lack { filled: Pieces::within(range.clone()), range });
            continue;
        }
        let pairs = sums_of(source, piece).iter().zip(sums_of(copy, piece));
        for (block, _) in pairs.enumerate().filter(|(_, (here, there))| here != there) {
            let at = start + block as u32 * BLOCK_BYTES;
            add(&mut lacks, Lack { range: at..at + BLOCK_BYTES, filled: Pieces::NONE });
        }
    }
    lacks
}

fn add(lacks: &mut Vec<Lack>, next: Lack) {
    match lacks.last_mut() {
        Some(last) if last.range.end == next.range.start && next.range.end - last.range.start <= BRING_BYTES => {
            last.range.end = next.range.end;
            last.filled = last.filled | next.filled;
        }
        _ => lacks.push(next),
    }
}

/// Of a piece with content.
fn sums_of(sums: &BlobSums, piece: u32) -> &[BlockSum] {
    let before = Pieces(sums.row.data.0 & ((1u64 << piece) - 1)).count() as usize * BLOCKS_OF_PIECE;
    sums.sums.get(before..before + BLOCKS_OF_PIECE).unwrap_or_default()
}
