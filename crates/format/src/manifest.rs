//! A cell's checkpoint: what is persisted, and from where recovery walks (RFD 2, decision 11).
//!
//! A manager record, copied into superblocks too, so it carries a checksum of its own.
//!
//! ```text
//! 0        64
//! ├─ head ─┼─ runs, each with its index pieces ─┼─ start ─┼─ watermarks ─┼─ live bytes ─┼─ uploads ─┼─ tables ┤
//! ```
//!
//! Invariants:
//! - Everything that stands below `start` on its device, and every write at or below its gateway's watermark, is in the runs.
//! - Runs stand newest first: the first run that has a name has its newest entry of all runs.
//! - A write above its gateway's watermark may also be in a run; publishing it again changes nothing, because orders decide.
//! - Every write of `covered` and before is decided: it is in the runs, or it was never acknowledged. `covered` lags behind `epoch`
//!   after a start that could not decide everything.
//! - A write that is not covered went to devices of one of `tables`, which were here before it was made.
//! - `uploads` bounds what the walk for open uploads must still read; the log below it holds no part of an open upload.

use crc_fast::crc32_iscsi;
use types::limits::MAX_REPLICAS;
use types::{Activation, CellId, DeviceId, Epoch, GatewayId, Generation, Position, Sequence, ZoneIndex, ZoneOffset};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::decode::{DecodeError, Fault, Reader};
use crate::layout::fixed_layout;
use crate::replicas::{PlaceLayout, Places, check_count};
use crate::run_index::RunId;

/// Version written; 2: live bytes as shares of zones; 1: the first.
pub const MANIFEST_VERSION: u8 = 2;
/// Longest list of shares of a device: one for each zone that it can have, and more.
pub const MAX_SHARES: u32 = 1 << 20;
/// A share of a zone that is all live.
pub const FULL_SHARE: u8 = 255;

const MANIFEST: &str = "manifest";
const CRC_BYTES: usize = 4;

/// One checkpoint of one cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    pub cell: CellId,
    /// Entries of this and all earlier epochs are in the runs.
    pub epoch: Epoch,
    /// Generation of the replica-set table in force when `epoch` ended: writes of later epochs go by this table or a later one. If the
    /// epoch is covered, so is every write by a table of a lower generation.
    pub generation: Generation,
    pub next: NextIds,
    /// Newest first.
    pub runs: Vec<RunSummary>,
    /// Where a walk begins, by device.
    pub start: Vec<(DeviceId, Position)>,
    /// Up to which sequence, without a gap, the writes of each gateway are in the runs.
    pub watermarks: Vec<(GatewayId, Sequence)>,
    /// How much of the zones is live, for choosing what to collect: a hint, which may be wrong.
    pub live: Vec<DeviceLive>,
    /// Below this, a device holds nothing of an open upload.
    pub uploads: Vec<(DeviceId, Position)>,
    /// Writes of this and all earlier epochs are decided; at most `epoch`.
    pub covered: Epoch,
    /// Which devices the writes went to that are not covered.
    pub tables: Vec<RecordedTable>,
}

/// The devices that a generation writes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedTable {
    pub generation: Generation,
    pub devices: Vec<DeviceId>,
}

/// The lowest ids that were never given out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NextIds {
    pub run: RunId,
    pub gateway: GatewayId,
}

/// A run, and where its index is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunSummary {
    pub run: RunId,
    pub level: u8,
    /// Rows.
    pub entries: u64,
    /// Bytes of all frames of the run, once.
    pub bytes: u64,
    pub min_epoch: Epoch,
    pub max_epoch: Epoch,
    /// The records whose payloads, joined, are the run's index.
    pub index: Vec<IndexPiece>,
}

/// One record of a run's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexPiece {
    /// The primary's first.
    pub places: Places,
    /// Bytes of the record's frame.
    pub frame_bytes: u32,
}

/// How much of a device's zones is live: a byte for a zone, or for several neighbours where there are so many of them that the record would get too long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceLive {
    pub device: DeviceId,
    /// Void for zones that were activated later.
    pub newest: Activation,
    /// Neighbours for which one share stands.
    pub zones_per_share: u32,
    /// From the first zones on: live bytes of the zones that are in use, in 255ths of what they can hold. What is missing at the end is zero.
    pub shares: Vec<u8>,
}

impl DeviceLive {
    /// Of a zone that is in use, in [`FULL_SHARE`]ths of what it can hold.
    pub fn share(&self, zone: ZoneIndex) -> u8 {
        self.shares.get((zone.0 / self.zones_per_share.max(1)) as usize).copied().unwrap_or(0)
    }
}

fixed_layout! {
    pub(crate) struct ManifestLayout: 64 {
        /// CRC32C over everything after this field.
        0 crc: U32,
        4 version: u8,
        5 reserved_a: u8,
        6 cell: U16,
        8 epoch: U64,
        16 next_run: U64,
        24 next_gateway: U16,
        26 reserved_b: U16,
        28 generation: U32,
        32 runs: U32,
        36 start: U32,
        40 watermarks: U32,
        44 live: U32,
        48 uploads: U32,
        52 tables: U32,
        56 covered: U64,
    }
}

fixed_layout! {
    pub(crate) struct RunSummaryLayout: 48 {
        0 run: U64,
        8 level: u8,
        9 reserved: [u8; 3],
        /// Index pieces that follow.
        12 pieces: U32,
        16 entries: U64,
        24 bytes: U64,
        32 min_epoch: U64,
        40 max_epoch: U64,
    }
}

fixed_layout! {
    pub(crate) struct IndexPieceLayout: 44 {
        0 frame_bytes: U32,
        4 replica_count: u8,
        5 reserved: [u8; 3],
        8 places: [PlaceLayout; MAX_REPLICAS],
    }
}

fixed_layout! {
    /// A point in a device's log.
    pub(crate) struct LogPointLayout: 16 {
        0 device: U32,
        4 offset: U32,
        8 activation: U64,
    }
}

fixed_layout! {
    pub(crate) struct WatermarkLayout: 16 {
        0 gateway: U16,
        2 reserved: [u8; 6],
        8 sequence: U64,
    }
}

fixed_layout! {
    /// The shares follow, a byte each.
    pub(crate) struct DeviceLiveLayout: 20 {
        0 device: U32,
        4 zones_per_share: U32,
        8 newest: U64,
        16 shares: U32,
    }
}

fixed_layout! {
    /// Numbers of devices follow, 4 bytes each.
    pub(crate) struct RecordedTableLayout: 8 {
        0 generation: U32,
        4 devices: U32,
    }
}

impl Manifest {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(self.head().as_bytes());
        for run in &self.runs {
            write_run(run, &mut out);
        }
        for point in &self.start {
            out.extend_from_slice(LogPointLayout::new(*point).as_bytes());
        }
        for (gateway, sequence) in &self.watermarks {
            let watermark = WatermarkLayout { gateway: gateway.0.into(), reserved: [0; 6], sequence: sequence.0.into() };
            out.extend_from_slice(watermark.as_bytes());
        }
        for device in &self.live {
            write_live(device, &mut out);
        }
        for point in &self.uploads {
            out.extend_from_slice(LogPointLayout::new(*point).as_bytes());
        }
        for table in &self.tables {
            write_table(table, &mut out);
        }
        let crc = crc32_iscsi(&out[CRC_BYTES..]);
        out[..CRC_BYTES].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads a manifest that fills `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Manifest, DecodeError> {
        let mut reader = Reader::new(MANIFEST, bytes);
        let head: &ManifestLayout = reader.fixed("head")?;
        let (expected, found) = (head.crc.get(), crc32_iscsi(&bytes[CRC_BYTES..]));
        if expected != found {
            return Err(reader.error_at(0, "crc", Fault::Checksum { expected, found }));
        }
        reader.check_version(4, head.version, MANIFEST_VERSION)?;
        let runs = head.runs.get() as usize;
        reader.check_count(32, runs, size_of::<RunSummaryLayout>(), "runs")?;
        let runs = (0..runs).map(|_| read_run(&mut reader)).collect::<Result<_, _>>()?;
        let start = list(&mut reader, 36, head.start, "start", LogPointLayout::get)?;
        let watermarks = list(&mut reader, 40, head.watermarks, "watermarks", |one: &WatermarkLayout| {
            (GatewayId(one.gateway.get()), Sequence(one.sequence.get()))
        })?;
        let live = head.live.get() as usize;
        reader.check_count(44, live, size_of::<DeviceLiveLayout>(), "live")?;
        let live = (0..live).map(|_| read_live(&mut reader)).collect::<Result<_, _>>()?;
        let uploads = list(&mut reader, 48, head.uploads, "uploads", LogPointLayout::get)?;
        let tables = head.tables.get() as usize;
        reader.check_count(52, tables, size_of::<RecordedTableLayout>(), "tables")?;
        let tables = (0..tables).map(|_| read_table(&mut reader)).collect::<Result<_, _>>()?;
        reader.finish()?;
        Ok(Manifest {
            cell: CellId(head.cell.get()),
            epoch: Epoch(head.epoch.get()),
            generation: Generation(head.generation.get()),
            next: NextIds { run: RunId(head.next_run.get()), gateway: GatewayId(head.next_gateway.get()) },
            runs,
            start,
            watermarks,
            live,
            uploads,
            covered: Epoch(head.covered.get()),
            tables,
        })
    }

    /// The head with a CRC of zero.
    fn head(&self) -> ManifestLayout {
        ManifestLayout {
            crc: U32::ZERO,
            version: MANIFEST_VERSION,
            reserved_a: 0,
            cell: self.cell.0.into(),
            epoch: self.epoch.0.into(),
            next_run: self.next.run.0.into(),
            next_gateway: self.next.gateway.0.into(),
            reserved_b: U16::ZERO,
            generation: self.generation.0.into(),
            runs: count(self.runs.len()),
            start: count(self.start.len()),
            watermarks: count(self.watermarks.len()),
            live: count(self.live.len()),
            uploads: count(self.uploads.len()),
            tables: count(self.tables.len()),
            covered: self.covered.0.into(),
        }
    }
}

fn count(items: usize) -> U32 {
    u32::try_from(items).expect("devices, gateways, zones and runs are numbered by 32 bits or fewer").into()
}

/// A counted list of fixed items; the count stands at `at`.
fn list<L, T>(
    reader: &mut Reader<'_>,
    at: usize,
    count: U32,
    field: &'static str,
    get: impl Fn(&L) -> T,
) -> Result<Vec<T>, DecodeError>
where
    L: FromBytes + KnownLayout + Immutable + Unaligned + 'static,
{
    let count = count.get() as usize;
    reader.check_count(at, count, size_of::<L>(), field)?;
    let mut items = Vec::with_capacity(count);
    for _ in 0..count {
        items.push(get(reader.fixed::<L>(field)?));
    }
    Ok(items)
}

fn write_run(run: &RunSummary, out: &mut Vec<u8>) {
    let head = RunSummaryLayout {
        run: run.run.0.into(),
        level: run.level,
        reserved: [0; 3],
        pieces: count(run.index.len()),
        entries: run.entries.into(),
        bytes: run.bytes.into(),
        min_epoch: run.min_epoch.0.into(),
        max_epoch: run.max_epoch.0.into(),
    };
    out.extend_from_slice(head.as_bytes());
    for piece in &run.index {
        let piece = IndexPieceLayout {
            frame_bytes: piece.frame_bytes.into(),
            replica_count: piece.places.len() as u8,
            reserved: [0; 3],
            places: PlaceLayout::pack(&piece.places),
        };
        out.extend_from_slice(piece.as_bytes());
    }
}

fn read_run(reader: &mut Reader<'_>) -> Result<RunSummary, DecodeError> {
    let at = reader.offset();
    let head: &RunSummaryLayout = reader.fixed("run")?;
    let pieces = head.pieces.get() as usize;
    reader.check_count(at + 12, pieces, size_of::<IndexPieceLayout>(), "pieces")?;
    let mut index = Vec::with_capacity(pieces);
    for _ in 0..pieces {
        let at = reader.offset();
        let piece: &IndexPieceLayout = reader.fixed("index piece")?;
        let count = check_count(piece.replica_count).map_err(|fault| reader.error_at(at + 4, "replica_count", fault))?;
        index.push(IndexPiece { places: PlaceLayout::unpack(&piece.places, count), frame_bytes: piece.frame_bytes.get() });
    }
    Ok(RunSummary {
        run: RunId(head.run.get()),
        level: head.level,
        entries: head.entries.get(),
        bytes: head.bytes.get(),
        min_epoch: Epoch(head.min_epoch.get()),
        max_epoch: Epoch(head.max_epoch.get()),
        index,
    })
}

fn write_live(live: &DeviceLive, out: &mut Vec<u8>) {
    let head = DeviceLiveLayout {
        device: live.device.0.into(),
        zones_per_share: live.zones_per_share.into(),
        newest: live.newest.0.into(),
        shares: count(live.shares.len()),
    };
    out.extend_from_slice(head.as_bytes());
    out.extend_from_slice(&live.shares);
}

fn read_live(reader: &mut Reader<'_>) -> Result<DeviceLive, DecodeError> {
    let at = reader.offset();
    let head: &DeviceLiveLayout = reader.fixed("live")?;
    let shares = head.shares.get();
    if shares > MAX_SHARES {
        let fault = Fault::OutOfRange { least: 0, most: MAX_SHARES.into(), found: shares.into() };
        return Err(reader.error_at(at + 16, "shares", fault));
    }
    Ok(DeviceLive {
        device: DeviceId(head.device.get()),
        newest: Activation(head.newest.get()),
        zones_per_share: head.zones_per_share.get(),
        shares: reader.take(shares as usize, "shares")?.to_vec(),
    })
}

fn write_table(table: &RecordedTable, out: &mut Vec<u8>) {
    let head = RecordedTableLayout { generation: table.generation.0.into(), devices: count(table.devices.len()) };
    out.extend_from_slice(head.as_bytes());
    for device in &table.devices {
        out.extend_from_slice(U32::new(device.0).as_bytes());
    }
}

fn read_table(reader: &mut Reader<'_>) -> Result<RecordedTable, DecodeError> {
    let at = reader.offset();
    let head: &RecordedTableLayout = reader.fixed("table")?;
    let devices = list(reader, at + 4, head.devices, "devices", |device: &U32| DeviceId(device.get()))?;
    Ok(RecordedTable { generation: Generation(head.generation.get()), devices })
}

impl LogPointLayout {
    fn new((device, position): (DeviceId, Position)) -> Self {
        LogPointLayout { device: device.0.into(), offset: position.offset.0.into(), activation: position.activation.0.into() }
    }

    fn get(&self) -> (DeviceId, Position) {
        let position = Position { activation: Activation(self.activation.get()), offset: ZoneOffset(self.offset.get()) };
        (DeviceId(self.device.get()), position)
    }
}

#[cfg(test)]
mod tests;
