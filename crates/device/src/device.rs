//! One device: the handle through which everything is done.

mod finish;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use disk::{AlignedBuf, Disk, DiskError, Operation, ReadMode};
use env::{Env, Instant};
use format::superblock::notes::NotesKind;
use format::superblock::{DeviceSecret, Superblock};
use format::unit_table::VolumeOwner;
use format::zone_header::{ZoneState, ZoneStream};
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use types::limits::UNIT_BYTES;
use types::{Activation, CellId, ClusterId, DeviceId, DeviceUuid, Place, ZoneIndex};

use crate::admission::Ticket;
use crate::book::{ZoneBook, ZoneUse};
use crate::class::AppendClass;
use crate::combiner;
use crate::config::{DeviceConfig, FormatOptions};
use crate::error::{AppendError, FormatError, NotesIoError, OpenError, ReadError, ResetError};
use crate::flushing::{flush_dirty, start_flushing};
use crate::geometry::Geometry;
use crate::inner::{Inner, abandoned};
use crate::launch::{self, AppendDone, Appended, Launch, Origin, Pending};
use crate::limits::HANG_LOOK;
use crate::piece::{self, FramePiece, PieceOfFrame};
use crate::position_vector::LogVector;
use crate::read::{self, FrameBuf, Tried};
use crate::recover::{Found, Recovery};
use crate::scrub::{self, NoSuchZone, ScrubReport};
use crate::stats::DeviceStats;
use crate::superblock_io;
use crate::units::{self, Units};
use crate::usage::{OwnerUsage, Usage, ZoneInfo};
use crate::volume::Volume;
use crate::walk::{Segment, Walk};
use crate::{prewrite, zone_io};

/// One device, open. Dropping it ends background work; [`Device::seal`] first makes the next start quick.
pub struct Device {
    inner: Arc<Inner>,
}

/// Who is told, by when it must be submitted, and under which admission.
pub struct AppendOrder {
    pub done: Arc<dyn AppendDone>,
    pub token: u64,
    /// Not submitted to the disk after this.
    pub deadline: Option<Instant>,
    /// Held until the answer has been given.
    pub ticket: Option<Ticket>,
}

impl Device {
    /// Makes a device of a disk. What it held is lost.
    pub fn format<'a>(
        disk: &'a dyn Disk,
        env: &'a Env,
        options: &'a FormatOptions,
    ) -> BoxFuture<'a, Result<DeviceUuid, FormatError>> {
        Box::pin(async move { superblock_io::format(disk, env, options).await.map(|superblock| superblock.device_uuid) })
    }

    /// Whose device a disk is, without opening it: this only reads.
    pub fn identify(disk: &dyn Disk) -> BoxFuture<'_, Result<Superblock, OpenError>> {
        Box::pin(async move { superblock_io::identify(disk).await })
    }

    /// Opens a device: checks its identity, settles the zones that were open, and starts the background work. Needs a runtime.
    pub fn open(disk: Arc<dyn Disk>, env: &Env, config: DeviceConfig) -> BoxFuture<'_, Result<Device, OpenError>> {
        Box::pin(async move {
            let superblock = superblock_io::load(&*disk).await?;
            check_identity(&*disk, &superblock, &config)?;
            let geometry = superblock.zone_region().and_then(Geometry::new);
            let geometry = geometry.ok_or_else(|| OpenError::Geometry { device: disk.describe() })?;
            let recovery = Recovery { disk: &disk, env, superblock: &superblock, geometry, is_told: AtomicBool::new(false) };
            let lent = recovery.unit_table().await?;
            let Found { entries, silent } = recovery.zones(lent.as_deref()).await?;
            let book = ZoneBook::new(geometry, entries.clone());
            let units = Units::new(&lent.unwrap_or_default());
            let inner = Arc::new(Inner::new(disk, env, config, superblock, geometry, book, units));
            units::repeat_table(&inner, &silent).await.map_err(|error| {
                let reason = error.to_string();
                OpenError::UnitTable { device: inner.disk.describe(), reason }
            })?;
            for (zone, entry) in geometry.zones().zip(&entries) {
                if matches!(entry.doing, ZoneUse::Open | ZoneUse::Finished) {
                    inner.table.publish(zone, entry.activation, inner.seed(zone, entry.activation));
                }
            }
            prewrite::consider(&inner);
            start_flushing(&inner);
            Ok(Device { inner })
        })
    }

    pub fn id(&self) -> DeviceId {
        self.inner.device()
    }

    pub fn uuid(&self) -> DeviceUuid {
        self.inner.superblock.device_uuid
    }

    pub fn cluster(&self) -> ClusterId {
        self.inner.superblock.cluster
    }

    pub fn cell(&self) -> CellId {
        self.inner.superblock.cell
    }

    /// What a person calls the disk under this device.
    pub fn describe(&self) -> String {
        self.inner.disk.describe()
    }

    /// The disk under this device, for its counters.
    pub fn disk(&self) -> &dyn Disk {
        &*self.inner.disk
    }

    /// The blocks of an owner that are written where they are.
    pub fn volume(&self, owner: VolumeOwner) -> Volume {
        Volume::new(self.inner.clone(), owner)
    }

    /// What each owner of a volume has of the device.
    pub fn owners(&self) -> Vec<OwnerUsage> {
        let usage =
            |owner| OwnerUsage { owner, bytes: self.inner.units.count(owner) as u64 * self.inner.geometry.zone_bytes() };
        VolumeOwner::ALL.map(usage).to_vec()
    }

    /// Random bytes of this device that nobody else knows.
    pub fn secret(&self) -> DeviceSecret {
        self.inner.superblock.secret
    }

    pub fn stats(&self) -> &DeviceStats {
        &self.inner.stats
    }

    /// Longest frame that this device takes.
    pub fn max_frame_bytes(&self) -> usize {
        self.inner.max_frame_bytes()
    }

    /// Appends one frame. `compose` fills exactly `frame_bytes` with [`format::frame::compose`], here and now; `done` hears where
    /// it landed, later or before this returns. An error means that nothing was appended and `done` will not be called.
    ///
    /// Panics when `frame_bytes` is no length of a frame.
    pub fn append(
        &self,
        class: AppendClass,
        frame_bytes: usize,
        compose: impl FnOnce(&mut [u8]),
        done: Arc<dyn AppendDone>,
        token: u64,
    ) -> Result<(), AppendError> {
        self.append_order(class, frame_bytes, compose, AppendOrder { done, token, deadline: None, ticket: None })
    }

    /// [`Device::append`] with a deadline and a ticket.
    pub fn append_order(
        &self,
        class: AppendClass,
        frame_bytes: usize,
        compose: impl FnOnce(&mut [u8]),
        order: AppendOrder,
    ) -> Result<(), AppendError> {
        assert!(frame_bytes >= UNIT_BYTES && frame_bytes.is_multiple_of(UNIT_BYTES), "a frame of {frame_bytes} bytes");
        let inner = &self.inner;
        let result = self.start_append(class, frame_bytes, compose, order);
        if result.is_err() {
            inner.stats.append_errors.add(1);
        }
        result
    }

    /// Carries out `appends`, whose small frames go in one write instead of the first in one of its own.
    pub fn append_together<T>(&self, appends: impl FnOnce() -> T) -> T {
        let _hold = combiner::Hold::new(&self.inner);
        appends()
    }

    fn start_append(
        &self,
        class: AppendClass,
        frame_bytes: usize,
        compose: impl FnOnce(&mut [u8]),
        order: AppendOrder,
    ) -> Result<(), AppendError> {
        let inner = &self.inner;
        if let Some(refusal) = inner.refusal() {
            return Err(refusal);
        }
        if frame_bytes > inner.max_frame_bytes() {
            return Err(AppendError::TooLarge { frame_bytes, most: inner.max_frame_bytes() });
        }
        if inner.refused[class.index()].load(Ordering::Acquire) {
            return Err(AppendError::Full { device: inner.device(), class });
        }
        let AppendOrder { done, token, deadline, ticket } = order;
        let pending = Pending { start: 0, frame_bytes, done, token, deadline, ticket };
        if frame_bytes <= inner.large_frame_bytes() {
            return combiner::append(inner, class, compose, pending);
        }
        let mut buf = AlignedBuf::for_read(frame_bytes);
        compose(&mut buf);
        launch::start_large(inner, Launch { class, origin: Origin::Large, buf, frames: vec![pending] })
    }

    /// [`Device::append`], awaited. Dropping the future does not take the append back.
    pub async fn append_wait(
        &self,
        class: AppendClass,
        frame_bytes: usize,
        compose: impl FnOnce(&mut [u8]),
    ) -> Result<Appended, AppendError> {
        let (tell, told) = oneshot::channel();
        let done = Arc::new(Tell { tell: parking_lot::Mutex::new(Some(tell)) });
        self.append(class, frame_bytes, compose, done, 0)?;
        told.await.unwrap_or_else(|_| {
            let cause = Arc::new(abandoned(&*self.inner.disk, Operation::Write, 0, frame_bytes as u64));
            Err(AppendError::OutcomeUnknown { device: self.id(), cause })
        })
    }

    /// Reads the frame at `place` from the page cache into `buf`, on this thread and without waiting.
    pub fn try_read(&self, place: Place, buf: &mut [u8]) -> Result<Tried, ReadError> {
        read::try_read(&self.inner, place, buf)
    }

    /// Reads the frame at `place`, checked. `expected_bytes` is a guess of its length: if it is good, it is one read.
    pub async fn read(&self, place: Place, expected_bytes: usize) -> Result<FrameBuf, ReadError> {
        read::read(&self.inner, place, expected_bytes).await
    }

    /// Reads a piece of the payload of the frame at `place`: its header, and of its blocks those that hold the piece, checked.
    pub async fn read_piece(&self, place: Place, wanted: &PieceOfFrame) -> Result<FramePiece, ReadError> {
        piece::read_piece(&self.inner, place, wanted).await
    }

    /// Walks all zones that hold frames, from a vector on, in the order of their activations. Zones must not be reset meanwhile.
    /// With `verify_payload` each payload is checked too.
    pub fn walk(&self, from: &LogVector, verify_payload: bool) -> Walk {
        self.walk_until(from, Activation(u64::MAX), verify_payload)
    }

    /// [`Device::walk`] without the zones of later activations than `until`.
    pub fn walk_until(&self, from: &LogVector, until: Activation, verify_payload: bool) -> Walk {
        let zones = self.inner.geometry.zones().filter_map(|zone| self.segment(zone, Some(from)));
        let mut segments: Vec<Segment> = zones.filter(|segment| segment.activation <= until).collect();
        segments.sort_by_key(|segment| segment.activation);
        let inner = &self.inner;
        Walk::new(inner.disk.clone(), &inner.env, inner.geometry, inner.device(), segments, ReadMode::Cached, verify_payload)
    }

    /// Walks one zone from its beginning. Empty for a zone that holds nothing.
    pub fn walk_zone(&self, zone: ZoneIndex, verify_payload: bool) -> Walk {
        let inner = &self.inner;
        let segments = self.segment(zone, None).into_iter().collect();
        Walk::new(inner.disk.clone(), &inner.env, inner.geometry, inner.device(), segments, ReadMode::Cached, verify_payload)
    }

    /// Reads one zone from the medium and checks all of it, at most so fast; 0: no limit. For finished zones.
    pub fn scrub(&self, zone: ZoneIndex, bytes_per_second: u64) -> BoxFuture<'_, Result<ScrubReport, NoSuchZone>> {
        Box::pin(async move {
            if zone.0 >= self.inner.geometry.zone_count() {
                return Err(NoSuchZone(zone));
            }
            Ok(scrub::scrub(&self.inner, self.segment(zone, None), bytes_per_second).await)
        })
    }

    /// A lower bound, for each stream, of the position of every append that has not been placed yet: of all that are dispatched
    /// from now on, and of those composed but not submitted. Appends in flight to the disk may stand below it.
    pub fn log_floor(&self) -> LogVector {
        let zones = self.inner.zones.lock();
        LogVector {
            ordered: zones.book.floor(ZoneStream::Ordered),
            relocated: zones.book.floor(ZoneStream::Relocated),
            meta: zones.book.floor(ZoneStream::Meta),
        }
    }

    /// All zones.
    pub fn zones(&self) -> Vec<ZoneInfo> {
        let zones = self.inner.zones.lock();
        self.inner.geometry.zones().map(|zone| ZoneInfo::of(&zones.book, zone)).collect()
    }

    /// Bytes that the open zone of a stream still takes, before another one is opened.
    pub fn open_room(&self, stream: ZoneStream) -> u64 {
        self.inner.zones.lock().book.open_room(stream)
    }

    /// How much the device holds and how much it could.
    pub fn usage(&self) -> Usage {
        let mut zones = self.inner.zones.lock();
        Usage::of(&mut zones.book, &self.inner)
    }

    /// Makes a finished zone free, durably. The caller guarantees that nothing in it is wanted by anybody (RFD 2, decision
    /// 12). Waits for a header or a frame of the zone that is still being written.
    pub async fn reset(&self, zone: ZoneIndex) -> Result<(), ResetError> {
        // What was written instead of the zone's frames must be durable before the zone goes, in every mode. Copies are, wherever they are; what
        // was written anew on this device is now.
        let device = self.id();
        self.flush().await.map_err(|cause| ResetError::Poisoned { device, cause })?;
        zone_io::reset(&self.inner, zone).await
    }

    /// Makes everything acknowledged durable, in the modes where it is not already.
    pub async fn flush(&self) -> Result<(), Arc<DiskError>> {
        if let Some(cause) = self.inner.poisoned_by() {
            return Err(cause);
        }
        flush_dirty(&self.inner).await
    }

    /// The newest notes of a kind; none if there never were any.
    pub async fn notes(&self, kind: NotesKind) -> Result<Option<Vec<u8>>, NotesIoError> {
        self.inner.notes.read(&self.inner, kind).await
    }

    /// Replaces the notes of a kind, durably. A torn write leaves the ones before. Dropping the future does not take the write back: the next
    /// one waits for its end.
    pub async fn write_notes(&self, kind: NotesKind, bytes: &[u8]) -> Result<(), NotesIoError> {
        self.inner.notes.write(&self.inner, kind, bytes).await
    }

    /// For how long the disk has owed an answer: the age of the oldest write, flush or reservation under way; of reads, since when none has
    /// ended. Zero while nothing is under way.
    pub fn owes_answer_for(&self) -> Duration {
        self.inner.answers.owed_for()
    }

    /// Whether the disk has owed an answer for so long that it is better gone around. It may answer again.
    pub fn hangs(&self) -> bool {
        self.inner.hangs()
    }

    /// Returns when the disk hangs.
    pub async fn hung(&self) {
        while !self.hangs() {
            self.inner.env.sleep(HANG_LOOK).await;
        }
    }

    /// The write that failed, after which this device takes no more.
    pub fn poisoned_by(&self) -> Option<Arc<DiskError>> {
        self.inner.poisoned_by()
    }

    /// What to walk of a zone; none if it holds nothing at or after `from`.
    fn segment(&self, zone: ZoneIndex, from: Option<&LogVector>) -> Option<Segment> {
        let inner = &self.inner;
        let (entry, end) = {
            let zones = inner.zones.lock();
            let holds = matches!(zones.book.durable_state(zone), Some(ZoneState::Open | ZoneState::Finished));
            if !holds {
                return None;
            }
            (*zones.book.entry(zone), zones.book.end(zone))
        };
        let start = match from {
            Some(from) => from.start_in(entry.stream, entry.activation)?,
            None => format::zone_header::ZONE_DATA_START,
        };
        let end = end.min(crate::walk::readable_end(&*inner.disk, inner.geometry, zone));
        let seed = inner.seed(zone, entry.activation);
        let is_unknown = entry.doing == ZoneUse::Unknown;
        let segment = Segment { zone, activation: entry.activation, stream: entry.stream, seed, start, end, is_unknown };
        (start < end).then_some(segment)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        self.inner.closing.store(true, Ordering::Release);
    }
}

/// Hands one answer to a future.
struct Tell {
    tell: parking_lot::Mutex<Option<oneshot::Sender<Result<Appended, AppendError>>>>,
}

impl AppendDone for Tell {
    fn appended(&self, _token: u64, result: Result<Appended, AppendError>) {
        if let Some(tell) = self.tell.lock().take() {
            // The future may have been dropped.
            drop(tell.send(result));
        }
    }
}

fn check_identity(disk: &dyn Disk, superblock: &Superblock, config: &DeviceConfig) -> Result<(), OpenError> {
    let wrong = |expected: String, found: String| OpenError::Identity { device: disk.describe(), expected, found };
    if let Some(cluster) = config.cluster
        && cluster != superblock.cluster
    {
        return Err(wrong(format!("a device of cluster {cluster}"), format!("of cluster {}", superblock.cluster)));
    }
    if let Some(uuid) = config.device_uuid
        && uuid != superblock.device_uuid
    {
        return Err(wrong(format!("device {uuid}"), format!("device {}", superblock.device_uuid)));
    }
    Ok(())
}
