//! What all parts of a device share.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use disk::{Disk, DiskError, DiskErrorKind, Durability, Operation};
use env::Env;
use format::frame::{self, MAX_FRAME_BYTES};
use format::superblock::Superblock;
use format::zone_header::{ZoneHeader, ZoneState, ZoneStream, frame_seed, zone_nonce};
use parking_lot::Mutex;
use tokio::sync::Notify;
use types::limits::BLOCK_BYTES;
use types::{Activation, DeviceId, ZoneIndex, ZoneOffset};

use crate::answers::{Answers, WatchedDisk};
use crate::book::ZoneBook;
use crate::class::{AppendClass, CLASSES, STREAMS};
use crate::combiner::Combiner;
use crate::config::{DeviceConfig, SyncMode};
use crate::error::AppendError;
use crate::geometry::Geometry;
use crate::launch::{LargeLane, Launch};
use crate::limits::{BATCH_BYTES, HANG_TIME, LARGE_FRAME_BYTES};
use crate::notes::Notes;
use crate::stats::DeviceStats;
use crate::units::Units;

pub(crate) struct Inner {
    /// All requests go through it, so that `answers` knows of them.
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) answers: Arc<Answers>,
    pub(crate) env: Env,
    pub(crate) config: DeviceConfig,
    pub(crate) superblock: Superblock,
    pub(crate) geometry: Geometry,
    pub(crate) table: ZoneTable,
    pub(crate) zones: Mutex<Zones>,
    pub(crate) units: Units,
    pub(crate) notes: Notes,
    /// One for each (core, class): `core * CLASSES + class`.
    pub(crate) combiners: Box<[Combiner]>,
    pub(crate) large: Mutex<LargeLane>,
    pub(crate) stats: DeviceStats,
    /// Classes that were refused for want of a zone since one was last freed.
    pub(crate) refused: [AtomicBool; CLASSES],
    /// The write that failed, after which nothing is written any more.
    poison: OnceLock<Arc<DiskError>>,
    /// Nothing is appended any more, by the owner's wish.
    pub(crate) sealed: AtomicBool,
    /// The handle is gone: background work ends.
    pub(crate) closing: AtomicBool,
    /// Something was written without being durable since the last flush.
    pub(crate) dirty: AtomicBool,
    /// Held over a flush.
    pub(crate) flushing: tokio::sync::Mutex<()>,
    /// A zone has changed its state, or its last write in flight has ended.
    pub(crate) zone_changed: Notify,
}

/// The book and those that wait for it.
pub(crate) struct Zones {
    pub(crate) book: ZoneBook,
    /// Writes that wait for their stream's next zone. Bounded by the combiners' one each and [`LargeLane`]'s limit.
    pub(crate) waiting: [VecDeque<Launch>; STREAMS],
}

impl Inner {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        env: &Env,
        config: DeviceConfig,
        superblock: Superblock,
        geometry: Geometry,
        book: ZoneBook,
        units: Units,
    ) -> Inner {
        let combiners = (0..env.core_count() * CLASSES).map(|_| Combiner::default()).collect();
        let table = ZoneTable::new(geometry.zone_count());
        let answers = Arc::new(Answers::new(env));
        Inner {
            disk: Arc::new(WatchedDisk::new(disk, answers.clone())),
            answers,
            env: env.clone(),
            config,
            superblock,
            geometry,
            table,
            zones: Mutex::new(Zones { book, waiting: std::array::from_fn(|_| VecDeque::new()) }),
            units,
            notes: Notes::default(),
            combiners,
            large: Mutex::new(LargeLane::default()),
            stats: DeviceStats::default(),
            refused: std::array::from_fn(|_| AtomicBool::new(false)),
            poison: OnceLock::new(),
            sealed: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            dirty: AtomicBool::new(false),
            flushing: tokio::sync::Mutex::new(()),
            zone_changed: Notify::new(),
        }
    }

    pub(crate) fn device(&self) -> DeviceId {
        self.superblock.device
    }

    /// Most bytes of one batch on this device: small zones have small batches, so that their ends are not wasted.
    pub(crate) fn batch_bytes(&self) -> usize {
        let quarter = self.geometry.data_bytes() as usize / 4 / BLOCK_BYTES * BLOCK_BYTES;
        BATCH_BYTES.min(quarter.max(BLOCK_BYTES))
    }

    /// Frames longer than this are written alone.
    pub(crate) fn large_frame_bytes(&self) -> usize {
        LARGE_FRAME_BYTES.min(self.batch_bytes())
    }

    /// Longest frame that this device takes.
    pub(crate) fn max_frame_bytes(&self) -> usize {
        MAX_FRAME_BYTES.min(self.geometry.data_bytes() as usize)
    }

    /// What a write of a class promises. Checkpoints and copies are durable in every mode: what names them (a manifest, the reset of the
    /// zone that was copied out of) is durable itself and on another disk, whose flushes know nothing of this one. Were they lost, more would go
    /// than what the mode puts at risk.
    pub(crate) fn durability_of(&self, class: AppendClass) -> Durability {
        match class {
            AppendClass::Data | AppendClass::Tombstone => self.durability(),
            AppendClass::Relocation | AppendClass::Meta => Durability::Durable,
        }
    }

    /// What a write of somebody outside promises.
    pub(crate) fn durability(&self) -> Durability {
        match self.config.sync {
            SyncMode::Always => Durability::Durable,
            SyncMode::Batch { .. } | SyncMode::Off => Durability::Volatile,
        }
    }

    /// Why nothing may be appended, if so.
    pub(crate) fn refusal(&self) -> Option<AppendError> {
        if let Some(cause) = self.poison.get() {
            return Some(AppendError::Poisoned { device: self.device(), cause: cause.clone() });
        }
        self.sealed.load(Ordering::Acquire).then(|| AppendError::Sealed { device: self.device() })
    }

    /// Whether the disk has owed an answer for long.
    pub(crate) fn hangs(&self) -> bool {
        self.answers.owed_for() >= HANG_TIME
    }

    /// The failed write that ended all writing.
    pub(crate) fn poisoned_by(&self) -> Option<Arc<DiskError>> {
        self.poison.get().cloned()
    }

    /// Ends all writing. What waits for a zone fails.
    pub(crate) fn poison(self: &Arc<Self>, error: DiskError) -> Arc<DiskError> {
        let mut first = false;
        let cause = self.poison.get_or_init(|| {
            first = true;
            Arc::new(error)
        });
        if first {
            tracing::error!(device = self.device().0, error = %cause, "a write failed: the device takes no more writes");
            self.retry_waiting();
            self.zone_changed.notify_waiters();
        }
        cause.clone()
    }

    /// Tries again to place what waited for a zone.
    pub(crate) fn retry_waiting(self: &Arc<Self>) {
        let waiting: Vec<Launch> = self.zones.lock().waiting.iter_mut().flat_map(|queue| queue.drain(..)).collect();
        for launch in waiting {
            crate::launch::place(self, launch);
        }
    }

    /// The header of a zone in a state.
    pub(crate) fn zone_header(
        &self,
        zone: ZoneIndex,
        activation: Activation,
        state: ZoneState,
        stream: Option<ZoneStream>,
        end: u64,
    ) -> ZoneHeader {
        zone_header(&self.superblock, &self.env, (zone, activation), state, stream, end)
    }

    /// The secret of a zone's activation.
    pub(crate) fn seed(&self, zone: ZoneIndex, activation: Activation) -> u64 {
        seed_of(&self.superblock, zone, activation)
    }
}

/// The error for an operation whose disk went away without an answer.
pub(crate) fn abandoned(disk: &dyn Disk, operation: Operation, offset: u64, len: u64) -> DiskError {
    DiskError { kind: DiskErrorKind::Abandoned, device: disk.describe().into(), operation, offset, len, cause: None }
}

/// The error for what is not read, because its zone's activation could not be read at the start.
pub(crate) fn unread(disk: &dyn Disk, offset: u64, len: u64) -> DiskError {
    let operation = Operation::Read;
    DiskError { kind: DiskErrorKind::Failed, device: disk.describe().into(), operation, offset, len, cause: None }
}

/// The header of a zone in a state, as of now.
pub(crate) fn zone_header(
    superblock: &Superblock,
    env: &Env,
    (zone, activation): (ZoneIndex, Activation),
    state: ZoneState,
    stream: Option<ZoneStream>,
    end: u64,
) -> ZoneHeader {
    ZoneHeader {
        device_uuid: superblock.device_uuid,
        zone,
        activation,
        state,
        stream,
        nonce: zone_nonce(&superblock.secret, zone, activation),
        end: ZoneOffset::from_bytes(end),
        changed_ms: env.wall_clock_ms(),
    }
}

/// The secret of a zone's activation.
pub(crate) fn seed_of(superblock: &Superblock, zone: ZoneIndex, activation: Activation) -> u64 {
    frame_seed(superblock.device_uuid, &zone_nonce(&superblock.secret, zone, activation))
}

/// What reads and completions need of each zone, without the book's lock.
pub(crate) struct ZoneTable {
    slots: Box<[ZoneSlot]>,
}

#[derive(Default)]
struct ZoneSlot {
    /// 0 while the zone holds nothing that may be read.
    activation: AtomicU64,
    seed: AtomicU64,
    /// Writes of frames in flight.
    in_flight: AtomicU32,
}

impl ZoneTable {
    fn new(zones: u32) -> ZoneTable {
        ZoneTable { slots: (0..zones).map(|_| ZoneSlot::default()).collect() }
    }

    /// From here on the zone's frames can be read.
    pub(crate) fn publish(&self, zone: ZoneIndex, activation: Activation, seed: u64) {
        let slot = &self.slots[zone.0 as usize];
        slot.seed.store(seed, Ordering::Release);
        slot.activation.store(activation.0, Ordering::Release);
    }

    /// From here on nothing in the zone may be read.
    pub(crate) fn withdraw(&self, zone: ZoneIndex) {
        self.slots[zone.0 as usize].activation.store(0, Ordering::Release);
    }

    /// What a frame at `offset` of a zone must have been sealed with; none when the zone holds nothing.
    ///
    /// Between the two loads the zone may be reset and activated again; then activation and seed disagree and no frame opens,
    /// which is what a reader of a stale place shall find.
    pub(crate) fn seal(&self, device: DeviceId, zone: ZoneIndex, offset: ZoneOffset) -> Option<frame::Seal> {
        let slot = &self.slots[zone.0 as usize];
        let activation = slot.activation.load(Ordering::Acquire);
        let seed = slot.seed.load(Ordering::Acquire);
        (activation != 0).then_some(frame::Seal { device, seed, activation: Activation(activation), offset })
    }

    pub(crate) fn write_begins(&self, zone: ZoneIndex) {
        self.slots[zone.0 as usize].in_flight.fetch_add(1, Ordering::Relaxed);
    }

    /// True when it was the last one in flight.
    pub(crate) fn write_ends(&self, zone: ZoneIndex) -> bool {
        self.slots[zone.0 as usize].in_flight.fetch_sub(1, Ordering::AcqRel) == 1
    }

    pub(crate) fn writes_in_flight(&self, zone: ZoneIndex) -> u32 {
        self.slots[zone.0 as usize].in_flight.load(Ordering::Acquire)
    }
}
