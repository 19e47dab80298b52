//! The holder of an open image (docs/rfd/0024): the map of its blobs, the locks of ranges, the layers.
//!
//! ```text
//!   request ─► door (MAX_REQUESTS) ─► cut into parts of 4 MiB ─► gate (writes) ─► range lock ─► no device in doubt ─► plan ─► stores ─► map ─► answer
//! ```
//!
//! Invariants
//! - A request plans under its range lock, and the pieces of its range change only under that lock. A read has a shared one.
//! - The layers change only while the gate is closed: no write is under way then.
//! - A blob is freed only under the lock of its whole part: no read of it is under way then.
//! - In every view, the bytes beyond its size read as zeros. So growing needs no I/O.
//! - A change whose effect is unknown leaves its device in doubt before its range is unlocked ([`seats`]).
//! - A change that not all copies have leaves its blob to be compared before its range is unlocked ([`comparing`]).

mod admin;
mod asking;
mod below;
mod clear;
mod comparing;
mod content;
mod error;
mod flatten;
mod following;
mod healing;
mod keep;
mod limits;
pub(crate) mod lineage;
mod map;
mod range_lock;
mod read;
mod seats;
mod standing;
mod taking;
mod tidy;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use bytes::Bytes;
use env::{Env, Instant};
use futures_util::future::join_all;
use net::BoxFuture;
use parking_lot::Mutex;
use smallvec::SmallVec;
use subsystem::Latencies;
use tokio::sync::{Notify, RwLock, Semaphore, SemaphorePermit};
use types::{BLOB_BYTES, BlobId, DeviceId, ImageId, Layer, LayerOf, NodeId, PIECE_BYTES, Token};

use self::lineage::Lineage;
use self::map::Map;
use self::range_lock::RangeLocks;
use self::seats::Seats;
use crate::registry::{Registry, View};
use crate::stores::{BlobRow, Stores};

pub use self::below::{Ancestor, Ancestors, Below};
pub use self::content::{Content, Part};
pub use self::error::{ImageError, ImageErrorKind, OpenError};
pub use self::limits::{
    COPY_PATIENCE, COPY_PAUSE, MAX_BYTES, MAX_CLONE_DEPTH, MAX_REQUESTS, REGISTRY_PATIENCE, REGISTRY_PAUSE, SECTOR_BYTES,
    SPACE_PATIENCE, SPACE_PAUSE,
};
pub use self::read::Extent;

/// Reads a range of a layer that has ended, as a snapshot has it.
pub async fn read_layer(outside: &Outside, layer: LayerOf, offset: u64, length: u32) -> Result<Content, OpenError> {
    let below = below::load(outside, Some(layer)).await?;
    let mut content = Content::new();
    for cut in cuts(offset..offset + u64::from(length)) {
        let below = below.as_ref().expect("a layer was named");
        let parts = below.read(cut.index, cut.range).await.map_err(|error| OpenError::Parent(error.to_string()))?;
        parts.into_iter().for_each(|part| content::append(&mut content, part));
    }
    Ok(content)
}

/// Says where new blobs go.
pub trait Placement: Send + Sync {
    /// The devices that may get blobs: active ones, of nodes that answer.
    fn devices(&self) -> Vec<DeviceId>;

    /// The host that a device is on: copies there may fail together. None: the device was given up.
    fn host_of(&self, device: DeviceId) -> Option<NodeId>;

    /// Whether copies are to leave a device: it is drained, or is to be given up.
    fn is_leaving(&self, device: DeviceId) -> bool;

    /// Whether a device is on the holder's node: reads prefer it.
    fn is_here(&self, device: DeviceId) -> bool;

    /// Devices for so many copies of a blob beside those that it has, on other hosts as far as there are any, on other devices in any case.
    /// None of `without` is among them. Fewer than asked for: there is no more space.
    fn places(&self, blob: BlobId, count: usize, beside: &[DeviceId], without: &[DeviceId]) -> SmallVec<[DeviceId; 3]>;
}

/// What a holder works with.
#[derive(Clone)]
pub struct Outside {
    pub env: Env,
    pub stores: Arc<dyn Stores>,
    pub registry: Arc<dyn Registry>,
    pub placement: Arc<dyn Placement>,
    pub ancestors: Arc<dyn Ancestors>,
}

/// What an image takes, snapshots included, its parent not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Blocks of 4 MiB, each copy counted.
    pub blocks: u64,
    /// Bytes of the pieces that have content, copies not counted.
    pub data_bytes: u64,
}

/// How long requests took, failed ones too.
#[derive(Default)]
pub struct ImageLatencies {
    pub reads: Arc<Latencies>,
    pub writes: Arc<Latencies>,
    /// Zeros and trims.
    pub clears: Arc<Latencies>,
}

/// An open image. All its operations may run at the same time. No operation leaves a task behind.
pub struct Image {
    id: ImageId,
    token: Token,
    /// That each blob shall have.
    copies: u8,
    /// The record's, as this holder knows it.
    epoch: AtomicU64,
    outside: Outside,
    /// What a clone stands on, until it is flattened.
    below: Mutex<Option<Arc<dyn Below>>>,
    state: Mutex<State>,
    locks: RangeLocks,
    seats: Seats,
    door: Semaphore,
    /// A write holds it shared; what switches the layer holds it alone.
    gate: RwLock<()>,
    /// Held by what changes which devices count.
    standing: tokio::sync::Mutex<Option<standing::Pending>>,
    /// Since when devices are out, as far as this holder saw it.
    gone: Mutex<BTreeMap<DeviceId, Instant>>,
    /// Wakes [`Image::keep`].
    keeper: Notify,
    /// A blob has copies that may differ, or an unfinished request left something.
    has_unequal: AtomicBool,
    copied_bytes: AtomicU64,
    latencies: ImageLatencies,
    /// Until when reads may be answered without asking; none: there is no end.
    tenure: Mutex<Option<Instant>>,
    /// Held by what changes the record besides.
    admin: tokio::sync::Mutex<()>,
    ended: AtomicU8,
}

pub(crate) struct State {
    map: Map,
    view: View,
    lineage: Lineage,
    /// What is served: less than the record's while the image shrinks.
    size_bytes: u64,
    /// Devices that are out and take changes.
    following: BTreeSet<DeviceId>,
    /// A device that is being taken out.
    leaving: Option<DeviceId>,
    /// Blobs that are being made.
    making: BTreeSet<(u32, Layer)>,
    /// Blobs that were not finished.
    strays: BTreeSet<(u32, Layer)>,
    /// Copies that may stand on devices in sync, and that the map does not know.
    stray_copies: BTreeSet<(BlobId, DeviceId)>,
}

impl State {
    /// Takes over what a device has after a change of unknown effect. Of an image with one copy, a blob that was not finished then stands.
    fn reconcile(&mut self, device: DeviceId, rows: &[BlobRow]) {
        self.map.reconcile(device, rows);
        if self.view.copies > 1 {
            return;
        }
        for row in rows {
            let (key, place) = ((row.at.id.index, row.at.id.layer), map::Place { device, block: row.at.block });
            if self.strays.remove(&key) {
                let copies = SmallVec::from_slice(&[place]);
                self.map.insert(key.0, map::Blob::new(key.1, (row.owned, row.data), copies, row.epoch));
            }
        }
    }

    fn new(view: View, lineage: Lineage) -> State {
        State {
            map: Map::default(),
            lineage,
            size_bytes: view.size_bytes,
            view,
            following: BTreeSet::new(),
            leaving: None,
            making: BTreeSet::new(),
            strays: BTreeSet::new(),
            stray_copies: BTreeSet::new(),
        }
    }
}

/// A range of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cut {
    index: u32,
    range: Range<u32>,
    /// Where it begins in the request.
    skipped: usize,
}

impl Image {
    /// Takes the image over with the view that the manager gave with the token: enters all its devices and learns their blobs.
    ///
    /// Afterwards the owner calls [`Image::tidy`] once: it finishes what an earlier holder left undone.
    pub fn open(outside: Outside, view: View) -> BoxFuture<'static, Result<Image, OpenError>> {
        Box::pin(async move {
            lineage::check(&view).map_err(OpenError::Damaged)?;
            if !view.size_bytes.is_multiple_of(SECTOR_BYTES) || view.size_bytes > MAX_BYTES {
                return Err(OpenError::Damaged(format!("image {} can't have {} bytes", view.id, view.size_bytes)));
            }
            let below = below::load(&outside, view.parent).await?;
            let lineage = Lineage::of(view.layer, &view.branches);
            let used = view.devices.iter().chain(view.out.iter().map(|(device, _)| device)).copied();
            let image = Image {
                id: view.id,
                token: view.token,
                copies: view.copies,
                epoch: AtomicU64::new(view.epoch.0),
                below: Mutex::new(below),
                seats: Seats::new(used),
                state: Mutex::new(State::new(view, lineage)),
                outside,
                locks: RangeLocks::default(),
                door: Semaphore::new(MAX_REQUESTS as usize),
                gate: RwLock::default(),
                standing: tokio::sync::Mutex::default(),
                gone: Mutex::default(),
                keeper: Notify::new(),
                has_unequal: AtomicBool::new(false),
                copied_bytes: AtomicU64::new(0),
                latencies: ImageLatencies::default(),
                tenure: Mutex::new(None),
                admin: tokio::sync::Mutex::default(),
                ended: AtomicU8::new(0),
            };
            image.take_over().await?;
            Ok(image)
        })
    }

    pub fn id(&self) -> ImageId {
        self.id
    }

    pub fn token(&self) -> Token {
        self.token
    }

    /// Whether every request fails from now on: the image was closed, or another holder has it.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire) != 0
    }

    pub fn size(&self) -> u64 {
        self.state.lock().size_bytes
    }

    /// The record as this holder last changed it.
    pub fn view(&self) -> View {
        self.state.lock().view.clone()
    }

    pub fn usage(&self) -> Usage {
        let (blocks, pieces) = self.state.lock().map.usage();
        Usage { blocks, data_bytes: pieces * u64::from(PIECE_BYTES) }
    }

    /// Whether all copies of each blob hold the same. Ask when no request is under way.
    pub fn is_settled(&self) -> bool {
        let state = self.state.lock();
        state.strays.is_empty() && state.stray_copies.is_empty() && state.map.unequal().is_empty() && !self.seats.any_in_doubt()
    }

    /// Bytes that were copied to make copies equal, or to make more of them.
    pub fn copied_bytes(&self) -> u64 {
        self.copied_bytes.load(Ordering::Relaxed)
    }

    /// How long requests took.
    pub fn latencies(&self) -> &ImageLatencies {
        &self.latencies
    }

    /// The image is known to be this holder's until then. Once called, reads beyond it wait for the next call.
    pub fn extend_tenure(&self, until: Instant) {
        *self.tenure.lock() = Some(until);
    }

    fn below(&self) -> Option<Arc<dyn Below>> {
        self.below.lock().clone()
    }

    fn wake_keeper(&self) {
        self.keeper.notify_one();
    }

    fn note_unequal(&self) {
        self.has_unequal.store(true, Ordering::Release);
        self.wake_keeper();
    }

    /// The parts that must be mended. Without any, requests do not look for them.
    fn unequal_parts(&self) -> Vec<u32> {
        let state = self.state.lock();
        let mut parts = state.map.unequal();
        parts.extend(state.strays.iter().map(|(index, _)| *index));
        parts.extend(state.stray_copies.iter().map(|(id, _)| id.index));
        if parts.is_empty() {
            self.has_unequal.store(false, Ordering::Release);
        }
        parts
    }

    /// Reads. The content covers exactly the range.
    pub async fn read(&self, offset: u64, length: u32) -> Result<Content, ImageError> {
        self.timed(&self.latencies.reads, self.read_range(offset, length)).await
    }

    async fn read_range(&self, offset: u64, length: u32) -> Result<Content, ImageError> {
        let (_entry, cuts) = self.enter(offset, u64::from(length)).await?;
        if let [cut] = cuts.as_slice() {
            return self.read_cut(cut).await;
        }
        let mut content = Content::new();
        for parts in join_all(cuts.iter().map(|cut| self.read_cut(cut))).await {
            parts?.into_iter().for_each(|part| content::append(&mut content, part));
        }
        Ok(content)
    }

    /// Writes; durable when it returns.
    pub async fn write(&self, offset: u64, data: Bytes) -> Result<(), ImageError> {
        self.timed(&self.latencies.writes, self.write_range(offset, data)).await
    }

    async fn write_range(&self, offset: u64, data: Bytes) -> Result<(), ImageError> {
        let (_entry, cuts) = self.enter(offset, data.len() as u64).await?;
        if let [cut] = cuts.as_slice() {
            return self.write_cut(cut, data).await;
        }
        let of = |cut: &Cut| data.slice(cut.skipped..cut.skipped + cut.range.len());
        all(join_all(cuts.iter().map(|cut| self.write_cut(cut, of(cut)))).await)
    }

    /// Makes a range read as zeros. If it stays allocated, a later write there needs no space.
    pub async fn write_zeros(&self, offset: u64, length: u64, keep_allocated: bool) -> Result<(), ImageError> {
        let purpose = if keep_allocated { clear::Purpose::KeepAllocated } else { clear::Purpose::Zeros };
        self.timed(&self.latencies.clears, self.clear(offset, length, purpose)).await
    }

    /// The content of a range is not needed any more. Whole pieces read as zeros afterwards; parts of pieces may keep their content.
    pub async fn trim(&self, offset: u64, length: u64) -> Result<(), ImageError> {
        self.timed(&self.latencies.clears, self.clear(offset, length, clear::Purpose::Trim)).await
    }

    /// Makes durable what was answered, in the sync modes where it is not already.
    pub async fn flush(&self) -> Result<(), ImageError> {
        let _entry = self.pass_door().await?;
        let flush = |device: DeviceId| async move {
            let Err(error) = self.outside.stores.flush(device).await else { return Ok(()) };
            self.lose(device, &error.to_string()).await
        };
        all(join_all(self.view().devices.into_iter().map(flush)).await)
    }

    async fn timed<T>(&self, latencies: &Latencies, request: impl Future<Output = T>) -> T {
        let env = &self.outside.env;
        let begun = env.now();
        let outcome = request.await;
        latencies.record(env.now() - begun);
        outcome
    }

    /// A request enters: it is cut into ranges of parts.
    async fn enter(&self, offset: u64, length: u64) -> Result<(SemaphorePermit<'_>, SmallVec<[Cut; 1]>), ImageError> {
        if !offset.is_multiple_of(SECTOR_BYTES) || !length.is_multiple_of(SECTOR_BYTES) {
            return Err(ImageError::invalid(format!("a request begins and ends at multiples of {SECTOR_BYTES}")));
        }
        let entry = self.pass_door().await?;
        let end = offset.checked_add(length).ok_or_else(|| ImageError::invalid("the range ends beyond 2^64"))?;
        self.check_size(end)?;
        Ok((entry, cuts(offset..end)))
    }

    async fn pass_door(&self) -> Result<SemaphorePermit<'_>, ImageError> {
        self.check_open()?;
        let entry = self.door.acquire().await.expect("the door is never taken away");
        self.check_open()?;
        Ok(entry)
    }

    fn check_size(&self, end: u64) -> Result<(), ImageError> {
        let size = self.size();
        if end > size {
            return Err(ImageError::invalid(format!("byte {end} lies beyond the image's size of {size} bytes")));
        }
        Ok(())
    }

    fn check_open(&self) -> Result<(), ImageError> {
        match self.ended.load(Ordering::Acquire) {
            0 => Ok(()),
            SUPERSEDED => Err(ImageError::new(ImageErrorKind::Superseded, "another holder has the image")),
            _ => Err(ImageError::new(ImageErrorKind::Closed, "the image was closed")),
        }
    }

    /// Every request fails from now on. The first reason counts.
    fn end(&self, kind: ImageErrorKind) {
        let ended = if kind == ImageErrorKind::Superseded { SUPERSEDED } else { CLOSED };
        if self.ended.compare_exchange(0, ended, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            tracing::info!(image = %self.id, token = %self.token, ?kind, "the holder ends");
            if kind == ImageErrorKind::Superseded {
                env::mark("images: a holder superseded");
            }
            self.keeper.notify_one();
        }
    }
}

const SUPERSEDED: u8 = 1;
const CLOSED: u8 = 2;

/// The parts that a range touches.
fn cuts(range: Range<u64>) -> SmallVec<[Cut; 1]> {
    let mut cuts = SmallVec::new();
    let mut at = range.start;
    while at < range.end {
        let index = at / u64::from(BLOB_BYTES);
        let base = index * u64::from(BLOB_BYTES);
        let end = range.end.min(base + u64::from(BLOB_BYTES));
        cuts.push(Cut {
            index: index as u32,
            range: (at - base) as u32..(end - base) as u32,
            skipped: (at - range.start) as usize,
        });
        at = end;
    }
    cuts
}

/// The first failure, after all have ended.
fn all(results: impl IntoIterator<Item = Result<(), ImageError>>) -> Result<(), ImageError> {
    results.into_iter().collect()
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod twin;
