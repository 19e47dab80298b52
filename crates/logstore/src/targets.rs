//! The targets of a cell, as its gateway sees them: who gets copies, how records become frames and frames records, and how much
//! of each zone is live.

mod live;
mod numbered;

use crate::read::chunk_frame_bytes;
use crate::remembered::next_generation;
use crate::watched::Watched;
use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use device::{AppendClass, AppendDone, AppendError, LogVector, PieceOfFrame, ZoneInfo, ZoneState, ZoneStream};
use env::watch;
use format::chunk_ref::ChunkRef;
use format::frame;
use format::record::Record;
use format::replicas::Places;
use futures_util::future::try_join_all;
use live::{Absent, LiveBytes};
use numbered::Numbered;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use target::{LogAppend, LogTarget, TargetFailure};
use topology::ReplicaTable;
use types::limits::MAX_REPLICAS;
use types::{CellId, DeviceId, Place, Position};

pub(crate) use live::LiveCount;
pub(crate) use target::ReadFailure;

/// A record that was read and checked.
pub(crate) struct RecordFrame {
    pub record: Record,
    pub payload: Bytes,
}

/// A piece of a record's payload.
pub(crate) struct RecordPiece {
    pub record: Record,
    /// Of the whole payload.
    pub payload_bytes: usize,
    pub piece: Bytes,
}

fn decoded(engine_header: &Bytes) -> Result<Record, ReadFailure> {
    Record::decode(engine_header).map_err(|error| ReadFailure::Corrupt(error.to_string()))
}

/// The devices of the cell, each behind its target.
pub(crate) struct Targets {
    cell: CellId,
    /// By number. Devices come, and their places stay: what is known of one that is away is good when it is back.
    by_id: Numbered<One>,
    absent: Absent,
    table: ArcSwap<ReplicaTable>,
    tables_are_given: bool,
    /// Devices of the cell, those that are away among them; others are gone for good. None before anybody has said so.
    known: ArcSwapOption<BTreeSet<DeviceId>>,
    /// Devices in whose places others are: their copies count no longer where copies are made, and still where something is looked for.
    replaced: ArcSwap<BTreeSet<DeviceId>>,
    /// Failures that ask for another table, and those whose table is in force or was given up.
    failures: watch::Sender<u64>,
    settled_failures: Watched<u64>,
    /// Everything below is in the installed checkpoint.
    covered: Mutex<HashMap<DeviceId, LogVector>>,
    /// Start vectors don't move until a later start (docs/rfd/0004).
    cover_is_held: AtomicBool,
}

struct One {
    device: Arc<dyn LogTarget>,
    /// Live bytes of each zone: of records that the index names, and of chunks. Hints: collection proves liveness itself.
    live: Box<[LiveBytes]>,
}

thread_local! {
    /// Room for one record's header, so that encoding it allocates nothing.
    static HEADER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Targets {
    /// `tables_are_given`: another table comes with a view of the cell, not when a device fails here.
    pub fn new(cell: CellId, devices: Vec<Arc<dyn LogTarget>>, table: Arc<ReplicaTable>, tables_are_given: bool) -> Self {
        let targets = Targets {
            cell,
            by_id: Numbered::new(),
            absent: Absent::default(),
            table: ArcSwap::new(table),
            tables_are_given,
            known: ArcSwapOption::empty(),
            replaced: ArcSwap::default(),
            failures: watch::Sender::default(),
            settled_failures: Watched::default(),
            covered: Mutex::default(),
            cover_is_held: AtomicBool::new(false),
        };
        devices.into_iter().for_each(|device| targets.add(device));
        targets
    }

    /// Takes a device in, unless it is known.
    pub fn add(&self, device: Arc<dyn LogTarget>) {
        let number = device.id().0;
        let is_put = self.absent.comes(&*device.clone(), |live| self.by_id.put(number, One { device, live }));
        if !is_put {
            tracing::error!(device = number, "the manager gives no device such a number; it is not used");
        }
    }

    /// Notes which devices the cell has; whether others than before.
    pub fn set_known(&self, known: BTreeSet<DeviceId>) -> bool {
        self.absent.keep(&known);
        let before = self.known.swap(Some(Arc::new(known.clone())));
        before.is_none_or(|before| *before != known)
    }

    /// Whether a device is gone for good: copies on it count no longer.
    pub fn is_gone(&self, id: DeviceId) -> bool {
        self.known.load().as_ref().is_some_and(|known| !known.contains(&id))
    }

    /// Whether all copies are: there is nothing left to read, nor to copy.
    pub fn are_gone(&self, places: &Places) -> bool {
        places.as_slice().iter().all(|place| self.is_gone(place.device))
    }

    /// Notes in whose places other devices are; whether in others than before.
    pub fn set_replaced(&self, replaced: BTreeSet<DeviceId>) -> bool {
        let before = self.replaced.swap(Arc::new(replaced.clone()));
        *before != replaced
    }

    /// The copies beside which others are made: those that are not gone for good, and won't be. Of a record that has as many as there may be, and
    /// too few that fail apart, one that stands on a host with another gives its place to the next.
    pub fn kept(&self, places: &Places) -> SmallVec<[Place; MAX_REPLICAS]> {
        let replaced = self.replaced.load();
        let is_kept = |device: DeviceId| !self.is_gone(device) && !replaced.contains(&device);
        let mut kept: SmallVec<[Place; MAX_REPLICAS]> =
            places.as_slice().iter().filter(|place| is_kept(place.device)).copied().collect();
        let table = self.table();
        if kept.len() == MAX_REPLICAS
            && let devices = devices_of(&kept)
            && table.apart(&devices) < table.copies()
            && let Some(surplus) = table.surplus(&devices)
        {
            kept.remove(surplus);
        }
        kept
    }

    /// Whether a record has fewer copies that fail apart than one has that is written now.
    pub fn lacks_copies(&self, places: &Places) -> bool {
        let table = self.table();
        table.apart(&devices_of(&self.kept(places))) < table.copies()
    }

    fn one(&self, id: DeviceId) -> Option<&One> {
        self.by_id.get(id.0)
    }

    /// Where writes go at present.
    pub fn table(&self) -> arc_swap::Guard<Arc<ReplicaTable>> {
        self.table.load()
    }

    pub fn devices(&self) -> impl Iterator<Item = &Arc<dyn LogTarget>> {
        self.by_id.iter().map(|one| &one.device)
    }

    /// Devices of which this gateway has a hold and that writes go to: what others have to say, or do, is not waited for. A server of its own knows
    /// itself which of its devices are well.
    pub fn in_use(&self) -> impl Iterator<Item = &Arc<dyn LogTarget>> {
        let table = self.table.load_full();
        self.devices().filter(move |device| !self.tables_are_given || table.devices().contains(&device.id()))
    }

    /// Whether copies may be made on a device: one that was replaced may still seem to take writes.
    pub fn takes_copies(&self, id: DeviceId) -> bool {
        self.is_writable(id) && !self.replaced.load().contains(&id)
    }

    /// Whether a device is there and takes writes.
    pub fn is_writable(&self, id: DeviceId) -> bool {
        self.device(id).is_some_and(|device| device.is_writable())
    }

    pub fn device(&self, id: DeviceId) -> Option<&Arc<dyn LogTarget>> {
        self.one(id).map(|one| &one.device)
    }

    /// A device failed: writes are to go to the others from here on. They do once the table without it is recorded.
    pub fn note_failure(&self) {
        if !self.tables_are_given && self.next_table().is_some() {
            self.failures.send_if_modified(|count| {
                *count += 1;
                true
            });
        }
    }

    /// Counts the failures that ask for another table.
    pub fn failures(&self) -> watch::Receiver<u64> {
        self.failures.subscribe()
    }

    /// The table without the devices that have failed, under the next generation (RFD 2, decision 2). None if none has, or
    /// no other is left: then the table stays, and every write says why it fails.
    pub fn next_table(&self) -> Option<ReplicaTable> {
        let table = self.table();
        let is_well = |id: &&DeviceId| self.is_writable(**id);
        let well: Vec<DeviceId> = table.devices().iter().filter(is_well).copied().collect();
        if well.len() == table.devices().len() {
            return None;
        }
        ReplicaTable::new(next_generation(table.generation())?, well).ok()
    }

    /// Writes go by this table, which is recorded.
    pub fn set_table(&self, table: Arc<ReplicaTable>) {
        self.table.store(table);
    }

    /// So many failures have the table that they asked for, or will not get it.
    pub fn settle_failures(&self, count: u64) {
        self.settled_failures.change(|settled| *settled = count);
    }

    /// Waits until every failure noted so far is settled, so that who tries again after a failed write does not meet the same device.
    pub async fn failures_settled(&self) {
        let noted = *self.failures.borrow();
        self.settled_failures.wait_for(|settled| *settled >= noted).await;
    }

    /// Appends one copy of a record.
    pub fn append(
        &self,
        device: DeviceId,
        class: AppendClass,
        record: &Record,
        payload: &[&[u8]],
        done: Arc<dyn AppendDone>,
        token: u64,
    ) -> Result<(), AppendError> {
        let Some(one) = self.one(device) else {
            return Err(AppendError::Unanswered { device, reason: "this gateway has not reached it yet".into() });
        };
        // Taken, not borrowed: an append may complete at once, and what completes may append again.
        let mut header = HEADER.take();
        header.clear();
        record.encode(&mut header);
        let payload_bytes = payload.iter().map(|piece| piece.len()).sum();
        let frame_bytes = frame::frame_bytes(header.len(), payload_bytes);
        let mut compose = |slot: &mut [u8]| frame::compose(slot, record.kind as u8, self.cell, &header, payload);
        let appended = one.device.append(LogAppend { class, frame_bytes, done, tag: token }, &mut compose);
        HEADER.set(header);
        appended
    }

    /// Reads a copy on this thread if the page cache holds it; `None` also when anything is unusual about it.
    pub fn try_read(&self, place: &Place, frame_bytes: u32) -> Option<RecordFrame> {
        let one = self.one(place.device)?;
        let mut buf = vec![0u8; frame_bytes as usize];
        let view = one.device.try_read(*place, &mut buf)?;
        let bytes = Bytes::from(buf);
        let record = Record::decode(&bytes.slice(view.engine_header())).ok()?;
        Some(RecordFrame { record, payload: bytes.slice(view.payload()) })
    }

    /// Reads a copy.
    pub async fn read(&self, place: &Place, frame_bytes: u32) -> Result<RecordFrame, ReadFailure> {
        let frame = self.holder(place)?.read(*place, frame_bytes as usize).await?;
        Ok(RecordFrame { record: decoded(&frame.engine_header)?, payload: frame.payload })
    }

    /// Reads a piece of a copy.
    pub async fn read_piece(&self, place: &Place, wanted: &PieceOfFrame) -> Result<RecordPiece, ReadFailure> {
        let piece = self.holder(place)?.read_piece(*place, wanted.clone()).await?;
        let record = decoded(&piece.engine_header)?;
        Ok(RecordPiece { record, payload_bytes: piece.payload_bytes, piece: piece.piece })
    }

    /// The order in which copies are read: those of this process first, and last those on disks of its own that hang, and on devices that it has no hold
    /// on, or that the cell goes on without: asked while its disk hangs or its node is away, one keeps a reader waiting.
    pub fn nearest(&self, places: &Places) -> SmallVec<[Place; MAX_REPLICAS]> {
        if !self.tables_are_given {
            return SmallVec::from_slice(places.as_slice());
        }
        let table = self.table();
        let rank = |place: &Place| match self.device(place.device) {
            Some(device) if device.local().is_some_and(|device| device.hangs()) => 2,
            Some(device) if device.is_here() => 0,
            Some(device) if device.is_writable() && table.devices().contains(&place.device) => 1,
            _ => 2,
        };
        // Once each: whether a disk hangs takes a look at all that is under way there.
        let mut ranked: SmallVec<[(u8, Place); MAX_REPLICAS]> =
            places.as_slice().iter().map(|place| (rank(place), *place)).collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        ranked.into_iter().map(|(_, place)| place).collect()
    }

    fn holder(&self, place: &Place) -> Result<&Arc<dyn LogTarget>, ReadFailure> {
        self.device(place.device).ok_or_else(|| ReadFailure::Unavailable(format!("device {} is missing", place.device)))
    }

    /// For each device, where its log may grow next: one position a stream. To be read before an epoch advances.
    /// Fails if one target can't be asked.
    pub async fn log_starts(&self) -> Result<Vec<(DeviceId, Position)>, TargetFailure> {
        let asked: Vec<_> = self.in_use().collect();
        let floors = try_join_all(asked.iter().map(|device| device.log_floor())).await?;
        Ok(asked.iter().zip(&floors).flat_map(|(device, floor)| starts_of(device.id(), floor)).collect())
    }

    /// Notes that everything below these positions is in a checkpoint.
    pub fn set_covered(&self, starts: &[(DeviceId, Position)]) {
        *self.covered.lock() = vectors_of(starts);
    }

    /// From here on nothing more gets covered.
    pub fn hold_cover(&self) {
        self.cover_is_held.store(true, Ordering::Relaxed);
    }

    /// Whether a device that runs short of zones has finished ones that only a checkpoint makes collectable: after many quick
    /// starts, each of which sealed its open zones.
    pub fn lacks_cover(&self, is_short: impl Fn(&dyn LogTarget) -> bool) -> bool {
        let is_held = self.cover_is_held.load(Ordering::Relaxed);
        !is_held
            && self.in_use().any(|device| {
                let covered = self.covered(device.id());
                let is_beyond = |zone: &ZoneInfo| {
                    let is_log = matches!(zone.stream, Some(ZoneStream::Ordered | ZoneStream::Relocated));
                    is_log && zone.state == Some(ZoneState::Finished) && zone.activation >= covered.of(zone.stream).activation
                };
                is_short(&**device) && device.zones().iter().any(is_beyond)
            })
    }

    /// Below this a device holds nothing that the installed checkpoint lacks.
    pub fn covered(&self, device: DeviceId) -> LogVector {
        self.covered.lock().get(&device).copied().unwrap_or(LogVector::START)
    }
}

/// Where the copies of a chunk or node are, with the bytes of their frames.
pub(crate) fn frames_of(chunk: &ChunkRef) -> impl Iterator<Item = (Place, u64)> {
    let bytes = u64::from(chunk_frame_bytes(chunk.payload_bytes));
    chunk.places.as_slice().iter().map(move |place| (*place, bytes))
}

/// Streams of a device, in the order in which a manifest names their positions.
const STREAMS: usize = 3;

fn devices_of(places: &[Place]) -> SmallVec<[DeviceId; MAX_REPLICAS]> {
    places.iter().map(|place| place.device).collect()
}

fn starts_of(device: DeviceId, vector: &LogVector) -> [(DeviceId, Position); STREAMS] {
    [(device, vector.ordered), (device, vector.relocated), (device, vector.meta)]
}

/// The inverse of [`Targets::log_starts`]. A device named with another number of positions is walked from its beginning.
pub(crate) fn vectors_of(starts: &[(DeviceId, Position)]) -> HashMap<DeviceId, LogVector> {
    let mut positions: HashMap<DeviceId, Vec<Position>> = HashMap::new();
    for (device, position) in starts {
        positions.entry(*device).or_default().push(*position);
    }
    let vector = |positions: Vec<Position>| match positions[..] {
        [ordered, relocated, meta] => LogVector { ordered, relocated, meta },
        _ => LogVector::START,
    };
    positions.into_iter().map(|(device, positions)| (device, vector(positions))).collect()
}
