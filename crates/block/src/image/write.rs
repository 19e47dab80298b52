//! Writes (docs/rfd/0024, rules 2, 3 and 6).
//!
//! ```text
//!   where a piece has content      the blocks of 4 KiB that are touched; edges are read and written back
//!   where it has none              the whole piece, padded with what it reads as
//!   where the part has no blob     a new blob with these pieces
//! ```

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use env::Instant;
use format::blob_header::BlobState;
use smallvec::SmallVec;
use types::{BLOB_BYTES, BlobId, DeviceId, Layer, PIECE_BYTES, Pieces};

use super::asking::{Effect, each};
use super::error::{Fault, ImageError};
use super::limits::{BLOCK_BYTES, SPACE_PATIENCE, SPACE_PAUSE};
use super::map::{Blob, Copies, Place, written_range};
use super::range_lock::{Mode, RangeGuard};
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
    blob: Option<Copies>,
    layer: Layer,
    /// What is replaced.
    written: Range<u32>,
    /// Pieces that have content from then on, and had none.
    filled: Pieces,
}

impl Plan {
    /// What must be locked.
    fn locked(&self) -> Range<u32> {
        if self.blob.is_some() { self.written.clone() } else { 0..BLOB_BYTES }
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
        match &plan.blob {
            Some(copies) => self.change(BlobId { image: self.id, index, layer: plan.layer }, copies, change).await?,
            None => self.create(index, plan.layer, change, full).await?,
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
            let mut guard = self.locks.acquire(index, wanted, Mode::Exclusive).await;
            self.settle().await?;
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
        Plan { blob: blob.map(|blob| blob.copies.clone()), layer, written: written_range(range, data), filled }
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

    /// Changes all copies of a blob, then the map.
    pub(super) async fn change(&self, id: BlobId, copies: &Copies, change: Change) -> Result<(), Fault> {
        let one = |place: &Place| {
            let (device, at) = (place.device, BlobAt { block: place.block, id });
            let change = &change;
            async move {
                self.ask(device, Effect::Changes, |admission| self.outside.stores.change(device, admission, at, change.clone()))
                    .await
            }
        };
        each(copies, one).await.into_iter().collect::<Result<(), Fault>>()?;
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

    /// Makes a blob with its first change. The caller has locked the whole part.
    pub(super) async fn create(&self, index: u32, layer: Layer, change: Change, full: &[DeviceId]) -> Result<(), Fault> {
        let id = BlobId { image: self.id, index, layer };
        let parent = self.state.lock().view.parent;
        let devices = self.outside.placement.places(id, 1, &[], full);
        if devices.is_empty() {
            let device = full.first().copied().or(self.seats.iter().next().map(|seat| seat.device));
            return Err(device.map_or_else(|| ImageError::io("the image has no device").into(), Fault::NoSpace));
        }
        let one = |device: &DeviceId| {
            let (device, change) = (*device, &change);
            async move {
                let blob = NewBlob { id, state: BlobState::Whole, parent };
                let create = |admission| self.outside.stores.create(device, admission, blob, change.clone());
                let block = self.ask(device, Effect::Changes, create).await?;
                Ok(Place { device, block })
            }
        };
        let made = each(&devices, one).await;
        if made.iter().any(|made| made.is_err()) {
            // What was made is not part of the image.
            for place in made.iter().flatten() {
                self.free_copy(id, *place).await?;
            }
        }
        let copies = made.into_iter().collect::<Result<Copies, Fault>>()?;
        let blob = Blob { layer, owned: change.filled | change.zeroed, data: change.filled, copies, freeing: false };
        self.state.lock().map.insert(index, blob);
        Ok(())
    }

    /// Frees all copies of a blob, then forgets it. The caller has locked the whole part.
    pub(super) async fn free(&self, index: u32, layer: Layer) -> Result<(), Fault> {
        let copies = match self.state.lock().map.blob_mut(index, layer) {
            Some(blob) => {
                blob.freeing = true;
                blob.copies.clone()
            }
            None => return Ok(()),
        };
        let id = BlobId { image: self.id, index, layer };
        each(&copies, |place| self.free_copy(id, *place)).await.into_iter().collect::<Result<(), Fault>>()?;
        self.state.lock().map.remove(index, layer);
        Ok(())
    }

    async fn free_copy(&self, id: BlobId, place: Place) -> Result<(), Fault> {
        let at = BlobAt { block: place.block, id };
        let free = |admission| self.outside.stores.free(place.device, admission, at);
        match self.ask(place.device, Effect::Changes, free).await {
            // An earlier attempt took effect.
            Err(Fault::Absent) => Ok(()),
            done => done,
        }
    }
}
