//! Writes (docs/rfd/0024, rules 2, 3 and 6).
//!
//! ```text
//!   where a piece has content      the blocks of 4 KiB that are touched; edges are read and written back
//!   where it has none              the whole piece, padded with what it reads as
//!   where the part has no blob     a new blob with these pieces
//! ```

use std::collections::BTreeSet;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use env::Instant;
use format::blob_header::BlobState;
use smallvec::SmallVec;
use types::{BLOB_BYTES, BlobId, DeviceId, Layer, PIECE_BYTES, Pieces};

use super::asking::{Effect, each};
use super::comparing::Again;
use super::error::{Fault, ImageError};
use super::limits::{BLOCK_BYTES, SPACE_PATIENCE, SPACE_PAUSE};
use super::map::{Blob, Copies, Place, written_range};
use super::range_lock::{Mode, RangeGuard};
use super::standing::least_copies;
use super::{Cut, Image};
use crate::stores::{BlobAt, Change, NewBlob};

/// What a request needs space for, and how long it waits for it.
#[derive(Default)]
pub(super) struct Space {
    deadline: Option<Instant>,
    /// Devices that said in this round that they have none.
    pub(super) full: SmallVec<[DeviceId; 1]>,
}

impl Space {
    /// Returns if the request shall try again; it holds no lock meanwhile.
    pub(super) async fn wait(&mut self, image: &Image, fault: Fault) -> Result<(), ImageError> {
        let Fault::NoSpace(device) = fault else { return Err(fault.into()) };
        if !self.full.contains(&device) {
            // Another device may have space.
            self.full.push(device);
            return Ok(());
        }
        let env = &image.outside.env;
        let deadline = *self.deadline.get_or_insert_with(|| env.now() + SPACE_PATIENCE);
        if env.now() >= deadline {
            return Err(fault.into());
        }
        self.full.clear();
        env.sleep(SPACE_PAUSE).await;
        Ok(())
    }
}

/// How a write is carried out, as the map stands.
struct Plan {
    has_blob: bool,
    layer: Layer,
    /// What is replaced.
    written: Range<u32>,
    /// Pieces that have content from then on, and had none.
    filled: Pieces,
}

impl Plan {
    /// What must be locked.
    fn locked(&self) -> Range<u32> {
        if self.has_blob { self.written.clone() } else { 0..BLOB_BYTES }
    }
}

impl Image {
    pub(super) async fn write_cut(&self, cut: &Cut, data: Bytes) -> Result<(), ImageError> {
        let mut space = Space::default();
        loop {
            let gate = self.gate.read().await;
            self.check_size(cut.index as u64 * u64::from(BLOB_BYTES) + u64::from(cut.range.end))?;
            let Err(fault) = self.write_gated(cut.index, &cut.range, &data, &space.full).await else { return Ok(()) };
            drop(gate);
            space.wait(self, fault).await?;
        }
    }

    /// One attempt, with the gate held.
    pub(super) async fn write_gated(
        &self,
        index: u32,
        range: &Range<u32>,
        data: &Bytes,
        full: &[DeviceId],
    ) -> Result<(), Fault> {
        let (guard, plan) = self.claim(index, || self.plan(index, range), Plan::locked).await?;
        let content = self.padded(index, range, data, &plan.written).await?;
        let change = Change { offset: plan.written.start, content, filled: plan.filled, ..Change::default() };
        if plan.has_blob {
            self.change(BlobId { image: self.id, index, layer: plan.layer }, change).await?;
        } else {
            self.create(index, plan.layer, change, full).await?;
        }
        drop(guard);
        Ok(())
    }

    /// Locks what a change needs, which depends on what the map says once the lock is held. The plan was made under the lock.
    pub(super) async fn claim<P>(
        &self,
        index: u32,
        plan: impl Fn() -> P,
        locked: impl Fn(&P) -> Range<u32>,
    ) -> Result<(RangeGuard<'_>, P), ImageError> {
        let mut wanted = locked(&plan());
        let mut attempt = 0;
        loop {
            let mut guard = self.locks.acquire(index, wanted.clone(), Mode::Exclusive).await;
            self.settle().await?;
            if self.needs_mending(index) {
                drop(guard);
                self.mend_part(index).await?;
                continue;
            }
            let plan = plan();
            let needed = locked(&plan);
            if guard.covers(&needed) {
                guard.narrow(needed);
                return Ok((guard, plan));
            }
            attempt += 1;
            wanted = if attempt == 1 { needed } else { 0..BLOB_BYTES };
        }
    }

    fn plan(&self, index: u32, range: &Range<u32>) -> Plan {
        let state = self.state.lock();
        let layer = state.view.layer;
        let blob = state.map.blob(index, layer);
        let data = blob.map_or(Pieces::NONE, |blob| blob.data);
        let filled = Pieces::touched(range.clone()) & !data;
        Plan { has_blob: blob.is_some(), layer, written: written_range(range, data), filled }
    }

    /// The content of what is replaced: `data` at `range`, with what stands around it.
    async fn padded(&self, index: u32, range: &Range<u32>, data: &Bytes, written: &Range<u32>) -> Result<Bytes, Fault> {
        if range == written {
            return Ok(data.clone());
        }
        let mut bytes = BytesMut::with_capacity(written.len());
        let has_both_edges = written.start < range.start && range.end < written.end;
        if has_both_edges && written.end - written.start <= PIECE_BYTES.max(BLOCK_BYTES) {
            self.pad(&mut bytes, index, written.clone()).await?;
            let skipped = (range.start - written.start) as usize;
            bytes[skipped..skipped + data.len()].copy_from_slice(data);
        } else {
            self.pad(&mut bytes, index, written.start..range.start).await?;
            bytes.extend_from_slice(data);
            self.pad(&mut bytes, index, range.end..written.end).await?;
        }
        assert_eq!(bytes.len(), written.len(), "padding fills what is replaced");
        Ok(bytes.freeze())
    }

    /// Changes all copies of a blob, then the map. What fails in it may stand on some copies alone: these are compared then.
    pub(super) async fn change(&self, id: BlobId, change: Change) -> Result<(), Fault> {
        let unfinished = Unfinished { image: self, id };
        let mut again = Again::default();
        loop {
            let places = self.begin_change(id)?;
            let one = |place: &Place| self.change_copy(place.device, BlobAt { block: place.block, id }, change.clone());
            let changed = each(&places, one).await;
            // Where a device went out, the others get the new epoch before the change is acknowledged.
            if !self.judge(&mut again, changed.iter().filter_map(|changed| changed.as_ref().err())).await? {
                break;
            }
        }
        std::mem::forget(unfinished);
        if change.filled.is_empty() && change.zeroed.is_empty() && change.dropped.is_empty() {
            return Ok(());
        }
        let mut state = self.state.lock();
        if let Some(blob) = state.map.blob_mut(id.index, id.layer) {
            blob.owned = (blob.owned | change.filled | change.zeroed) & !change.dropped;
            blob.data = (blob.data | change.filled) & !change.zeroed & !change.dropped;
        }
        Ok(())
    }

    /// The copies that a change goes to. From here on a device that is out and comes back knows that it may lack the change.
    fn begin_change(&self, id: BlobId) -> Result<Copies, Fault> {
        let mut state = self.state.lock();
        let epoch = state.view.epoch;
        match state.map.blob_mut(id.index, id.layer) {
            Some(blob) if !blob.copies.is_empty() => {
                blob.epoch = blob.epoch.max(epoch);
                Ok(blob.changed_places())
            }
            Some(_) => Err(ImageError::io(format!("blob {id} has no copy left")).into()),
            None => Err(ImageError::io(format!("blob {id} has gone")).into()),
        }
    }

    /// Makes a blob with its first change. The caller has locked the whole part.
    pub(super) async fn create(&self, index: u32, layer: Layer, change: Change, full: &[DeviceId]) -> Result<(), Fault> {
        let id = BlobId { image: self.id, index, layer };
        let making = Making::begin(self, id);
        let (mut again, mut tried) = (Again::default(), BTreeSet::new());
        loop {
            let (epoch, devices) = (self.epoch(), self.places_for_new(id, full)?);
            self.allow(&devices).await?;
            tried.extend(devices.iter().copied());
            let made = each(&devices, |device| self.create_copy(id, *device, change.clone())).await;
            if let Some(fault) =
                made.iter().filter_map(|made| made.as_ref().err()).find(|fault| matches!(fault, Fault::NoSpace(_)))
            {
                // What was made, or may have been, is not part of the image.
                self.free_tried(id, &tried, &[]).await?;
                making.end();
                return Err(fault.clone());
            }
            if self.judge(&mut again, made.iter().filter_map(|made| made.as_ref().err())).await? {
                continue;
            }
            self.free_tried(id, &tried, &devices).await?;
            let copies: Copies = made.into_iter().flatten().collect();
            let blob = Blob::new(layer, (change.filled | change.zeroed, change.filled), copies, epoch);
            if self.takes_up(index, blob) {
                making.end();
                return Ok(());
            }
            self.resolve_standing().await?;
        }
    }

    /// Frees a blob where it was tried to be made, but on the devices that have it now.
    async fn free_tried(&self, id: BlobId, tried: &BTreeSet<DeviceId>, chosen: &[DeviceId]) -> Result<(), Fault> {
        let counting = self.view().devices;
        for device in tried.iter().filter(|device| !chosen.contains(device) && counting.contains(device)) {
            self.free_found(*device, id).await?;
        }
        Ok(())
    }

    async fn create_copy(&self, id: BlobId, device: DeviceId, change: Change) -> Result<Place, Fault> {
        let parent = self.state.lock().view.parent;
        let blob = NewBlob { id, state: BlobState::Whole, parent };
        let create = |admission| self.outside.stores.create(device, admission, blob, change.clone());
        let block = self.ask(device, Effect::Changes, create).await?;
        Ok(Place { device, block })
    }

    /// A new blob is part of the image, unless a device of it went out meanwhile, so that it has fewer copies than the record says.
    fn takes_up(&self, index: u32, mut blob: Blob) -> bool {
        let mut state = self.state.lock();
        let before = blob.copies.len();
        blob.copies.retain(|place| state.view.devices.contains(&place.device) && state.leaving != Some(place.device));
        let is_whole = blob.copies.len() == before;
        if is_whole {
            state.map.insert(index, blob);
        }
        is_whole
    }

    /// The devices for a new blob: as many copies as are wanted, as far as devices count now.
    fn places_for_new(&self, id: BlobId, full: &[DeviceId]) -> Result<SmallVec<[DeviceId; 3]>, Fault> {
        let view = self.view();
        let placement = &self.outside.placement;
        let mut without: Vec<DeviceId> = placement.devices();
        let leaving = self.state.lock().leaving;
        without.retain(|device| !view.devices.contains(device) || leaving == Some(*device));
        let possible = placement.places(id, usize::from(view.copies), &[], &without).len();
        without.extend(full);
        let devices = placement.places(id, usize::from(view.copies), &[], &without);
        let least = if view.copies == 1 { 1 } else { least_copies(view.copies) };
        if !devices.is_empty() && devices.len() >= possible.max(least) {
            return Ok(devices);
        }
        let lacking = full.first().or(view.devices.first()).copied();
        Err(lacking.map_or_else(|| ImageError::io("the image has no device").into(), Fault::NoSpace))
    }

    /// Frees all copies of a blob, then forgets it. The caller has locked the whole part.
    pub(super) async fn free(&self, index: u32, layer: Layer) -> Result<(), Fault> {
        let id = BlobId { image: self.id, index, layer };
        let unfinished = Unfinished { image: self, id };
        let mut again = Again::default();
        loop {
            let places = match self.state.lock().map.blob_mut(index, layer) {
                Some(blob) => {
                    blob.freeing = true;
                    blob.changed_places()
                }
                None => break,
            };
            let freed = each(&places, |place| self.free_copy(id, *place)).await;
            if !self.judge(&mut again, freed.iter().filter_map(|freed| freed.as_ref().err())).await? {
                break;
            }
        }
        std::mem::forget(unfinished);
        self.state.lock().map.remove(index, layer);
        Ok(())
    }

    pub(super) async fn free_copy(&self, id: BlobId, place: Place) -> Result<(), Fault> {
        let at = BlobAt { block: place.block, id };
        let free = |admission| self.outside.stores.free(place.device, admission, at);
        match self.ask(place.device, Effect::Changes, free).await {
            // An earlier attempt took effect.
            Err(Fault::Absent(_)) => Ok(()),
            done => done,
        }
    }
}

/// A change of several copies. Dropped, its blob's copies are compared before anything else touches them.
struct Unfinished<'a> {
    image: &'a Image,
    id: BlobId,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let mut state = self.image.state.lock();
        if state.view.copies > 1
            && let Some(blob) = state.map.blob_mut(self.id.index, self.id.layer)
        {
            blob.is_equal = false;
            self.image.note_unequal();
        }
    }
}

/// A blob that is being made. Dropped, what was made of it is freed before anything else touches its part.
struct Making<'a> {
    image: &'a Image,
    id: BlobId,
    is_over: bool,
}

impl<'a> Making<'a> {
    fn begin(image: &'a Image, id: BlobId) -> Making<'a> {
        image.state.lock().making.insert((id.index, id.layer));
        Making { image, id, is_over: false }
    }

    /// The blob stands, or nothing of it does.
    fn end(mut self) {
        self.is_over = true;
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        let key = (self.id.index, self.id.layer);
        let mut state = self.image.state.lock();
        state.making.remove(&key);
        if !self.is_over {
            state.strays.insert(key);
            self.image.note_unequal();
        }
    }
}
