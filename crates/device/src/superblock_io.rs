//! Superblocks and notes on the disk.

use disk::{AlignedBuf, Disk, DiskError, DiskErrorKind, DiskExt, Durability, ReadMode};
use env::Env;
use format::superblock::notes::{NOTES_DATA_START, NotesHeader, NotesKind};
use format::superblock::{DeviceSecret, FIRST_REGION_BYTE, Region, SUPERBLOCK_BYTES, Superblock, SuperblockError, ZoneRegion};
use types::DeviceUuid;
use types::limits::BLOCK_BYTES;

use crate::config::FormatOptions;
use crate::error::{FormatError, NotesIoError, OpenError};
use crate::geometry::{Geometry, MAX_ZONE_BYTES};
use crate::limits::{DEFAULT_ZONE_BYTES, LEAST_DEFAULT_ZONE_BYTES, MAX_ZONES, MIN_ZONE_BYTES, MIN_ZONES, WANTED_ZONES};
use crate::reused;

/// Makes a device of a disk: new identity, new secret, no zone ever used. Old zones need no erasing: their headers and frames
/// belong to another device. What stood there before is marked as none of ours.
pub(crate) async fn format(disk: &dyn Disk, env: &Env, options: &FormatOptions) -> Result<Superblock, FormatError> {
    if !options.overwrite
        && let Ok(found) = newest(disk).await?
    {
        let device = disk.describe();
        return Err(FormatError::Occupied { device, found: found.device_uuid, cluster: found.cluster });
    }
    let regions = vec![Region::Zone(zone_region(disk, options)?)];
    let (mut uuid, mut secret) = ([0; 16], [0; 16]);
    env.fill_random(&mut uuid);
    env.fill_random(&mut secret);
    let superblock = Superblock {
        sequence: 1,
        cluster: options.cluster,
        device_uuid: DeviceUuid(uuid),
        device: options.device,
        cell: options.cell,
        created_ms: env.wall_clock_ms(),
        secret: DeviceSecret(secret),
        regions,
    };
    disk.allocate(0, FIRST_REGION_BYTE).await?;
    let geometry = superblock.zone_region().and_then(Geometry::new).expect("the region was checked");
    reused::mark_zones(disk, env, &superblock, geometry).await?;
    // Both slots: what an earlier device left in the other one must not be newer.
    for sequence in [0, 1] {
        write(disk, &Superblock { sequence, ..superblock.clone() }).await?;
    }
    Ok(superblock)
}

/// The superblock in force.
pub(crate) async fn identify(disk: &dyn Disk) -> Result<Superblock, OpenError> {
    newest(disk).await?.map_err(|cause| OpenError::Superblock { device: disk.describe(), cause })
}

/// The superblock in force, after checking that its copies are all there; lost ones are written again.
pub(crate) async fn load(disk: &dyn Disk) -> Result<Superblock, OpenError> {
    let superblock = identify(disk).await?;
    for offset in superblock.write_offsets() {
        if read_copy(disk, offset).await?.as_ref() != Ok(&superblock) {
            tracing::warn!(device = superblock.device.0, offset, "a copy of the superblock was lost; writing it again");
            write_copy(disk, &superblock, offset).await?;
        }
    }
    Ok(superblock)
}

/// The newest notes of a kind with their sequence number; none if there never were any. A slot in a bad sector counts as one that was torn: the
/// next notes go to it, which gives the disk the chance to put another sector in its place. Alone it is an error: what it held is gone.
pub(crate) async fn read_notes(
    disk: &dyn Disk,
    device_uuid: DeviceUuid,
    kind: NotesKind,
) -> Result<Option<(u64, Vec<u8>)>, NotesIoError> {
    let mut found: Option<(u64, Vec<u8>)> = None;
    let mut unread = None;
    for sequence in [0, 1] {
        match read_slot(disk, device_uuid, kind, kind.slot_offset(sequence)).await {
            Ok(Some(notes)) if found.as_ref().is_none_or(|(known, _)| *known < notes.0) => found = Some(notes),
            Ok(_) => {}
            // A file that a power cut has left shorter than its zones' start was never written to there.
            Err(error) if error.kind == DiskErrorKind::OutOfRange => {}
            Err(error) if error.kind == DiskErrorKind::Failed => {
                tracing::error!(device = %disk.describe(), ?kind, %error, "one of two slots of notes can't be read");
                unread = Some(error);
            }
            Err(error) => return Err(error.into()),
        }
    }
    match (found, unread) {
        (None, Some(error)) => Err(error.into()),
        (found, _) => Ok(found),
    }
}

/// What a slot holds. One that can't be believed was torn while it was written, or was never written: the other one counts.
async fn read_slot(
    disk: &dyn Disk,
    device_uuid: DeviceUuid,
    kind: NotesKind,
    offset: u64,
) -> Result<Option<(u64, Vec<u8>)>, DiskError> {
    let block = disk.read(offset, NOTES_DATA_START, ReadMode::Direct).await?;
    let Ok(header) = NotesHeader::decode(&block, kind, device_uuid) else { return Ok(None) };
    let len = (header.length as usize).next_multiple_of(BLOCK_BYTES).max(BLOCK_BYTES);
    let after = disk.read(offset + NOTES_DATA_START as u64, len, ReadMode::Direct).await?;
    Ok(header.bytes(&after).ok().map(|bytes| (header.sequence, bytes.to_vec())))
}

/// Writes notes durably under the next sequence number.
pub(crate) async fn write_notes(
    disk: &dyn Disk,
    device_uuid: DeviceUuid,
    kind: NotesKind,
    sequence: u64,
    bytes: &[u8],
) -> Result<(), NotesIoError> {
    if bytes.len() > kind.max_bytes() {
        return Err(NotesIoError::TooLong { found: bytes.len(), most: kind.max_bytes() });
    }
    let mut slot = AlignedBuf::zeroed(NOTES_DATA_START + bytes.len().next_multiple_of(BLOCK_BYTES));
    let used = NotesHeader::encode_slot(kind, device_uuid, sequence, bytes, &mut slot);
    slot.truncate(used);
    disk.write(kind.slot_offset(sequence), slot, Durability::Durable).await?;
    Ok(())
}

fn zone_region(disk: &dyn Disk, options: &FormatOptions) -> Result<ZoneRegion, FormatError> {
    let device = disk.describe();
    let capacity = match (options.capacity_bytes, disk.capacity_bytes()) {
        (Some(wanted), Some(most)) => wanted.min(most),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => return Err(FormatError::NoCapacity { device }),
    };
    let room = capacity.saturating_sub(FIRST_REGION_BYTE);
    let zone_bytes = options.zone_bytes.unwrap_or_else(|| {
        let mut zone_bytes = DEFAULT_ZONE_BYTES;
        while room / zone_bytes < u64::from(WANTED_ZONES) && zone_bytes > LEAST_DEFAULT_ZONE_BYTES {
            zone_bytes /= 2;
        }
        while room / zone_bytes > u64::from(MAX_ZONES) {
            zone_bytes *= 2;
        }
        zone_bytes
    });
    let in_limits = (MIN_ZONE_BYTES..=MAX_ZONE_BYTES).contains(&zone_bytes);
    if !in_limits || !zone_bytes.is_multiple_of(BLOCK_BYTES as u64) {
        return Err(FormatError::ZoneBytes { zone_bytes, least: MIN_ZONE_BYTES, most: MAX_ZONE_BYTES });
    }
    let zones = room / zone_bytes;
    let least = MIN_ZONES;
    if zones < u64::from(least) {
        return Err(FormatError::TooSmall { device, zones, zone_bytes, least });
    }
    Ok(ZoneRegion { first_byte: FIRST_REGION_BYTE, zone_bytes, zone_count: zones.min(u64::from(MAX_ZONES)) as u32 })
}

async fn newest(disk: &dyn Disk) -> Result<Result<Superblock, SuperblockError>, DiskError> {
    let mut newest: Result<Superblock, SuperblockError> = Err(SuperblockError::Absent);
    for offset in Superblock::read_offsets() {
        match (read_copy(disk, offset).await?, &newest) {
            (Ok(copy), Ok(known)) if copy.sequence <= known.sequence => {}
            (Ok(copy), _) => newest = Ok(copy),
            // A damaged copy says more than an absent one.
            (Err(error), Err(SuperblockError::Absent)) => newest = Err(error),
            (Err(_), _) => {}
        }
    }
    Ok(newest)
}

async fn read_copy(disk: &dyn Disk, offset: u64) -> Result<Result<Superblock, SuperblockError>, DiskError> {
    match disk.read(offset, SUPERBLOCK_BYTES, ReadMode::Direct).await {
        Ok(bytes) => Ok(Superblock::decode(&bytes)),
        // A file that is too short holds no copy there, and a bad sector loses one copy only.
        Err(error) if matches!(error.kind, DiskErrorKind::OutOfRange | DiskErrorKind::Failed) => {
            Ok(Err(SuperblockError::Absent))
        }
        Err(error) => Err(error),
    }
}

async fn write(disk: &dyn Disk, superblock: &Superblock) -> Result<(), DiskError> {
    for offset in superblock.write_offsets() {
        write_copy(disk, superblock, offset).await?;
    }
    Ok(())
}

async fn write_copy(disk: &dyn Disk, superblock: &Superblock, offset: u64) -> Result<(), DiskError> {
    disk.write(offset, AlignedBuf::copy_of(&superblock.encode()), Durability::Durable).await.map(drop)
}
