//! A start: superblock, dump, log, and what the machine makes of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use ::engine::EngineError;
use bytes::Bytes;
use device::Volume;
use disk::{AlignedBuf, BLOCK_BYTES};
use env::Env;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use types::DeviceUuid;

use super::founding::{FIRST_OPSEQ, give_back_all};
use super::{Founding, State, log_place, refusal};
use crate::blocks::{LogicalVolume, Way};
use crate::content::{Content, Extent, VolumeIndex};
use crate::dump::decode_chunk;
use crate::limits::{LOAD_READS, LOG_SEGMENTS, MAX_VOLUMES};
use crate::log::{LogPlace, PgLog, Volumes};
use crate::name::Opseq;
use crate::pg::Pg;
use crate::record::Record;
use crate::replay::Replay;
use crate::space::Space;
use crate::superblock::{SUPERBLOCK_SLOTS, Superblock};

/// What was found.
pub struct Loaded {
    pub volumes: Arc<Volumes>,
    pub obstacle: Option<EngineError>,
    pub state: State,
    pub log: Option<PgLog>,
    pub revoked: Vec<Opseq>,
}

pub async fn load(env: &Env, devices: Vec<Volume>, founding: &Founding) -> Loaded {
    let volumes: Vec<LogicalVolume> = devices.iter().cloned().map(LogicalVolume::from).collect();
    let all = volumes.iter().cloned().map(Some).collect();
    let loaded = match find_home(&volumes).await {
        Ok(Some((home, superblock))) => load_founded(env, &volumes, (home, &devices[home]), superblock).await,
        Ok(None) => check_unfounded(&volumes, founding).await.map(|()| unfounded(volumes)),
        Err(error) => Err(error),
    };
    loaded.unwrap_or_else(|obstacle| {
        let state = state_of(Pg::new(Vec::new(), None, FIRST_OPSEQ), None);
        let volumes = Arc::new(Volumes { all, settling: Default::default() });
        Loaded { volumes, obstacle: Some(obstacle), state, log: None, revoked: Vec::new() }
    })
}

fn state_of(pg: Pg, superblock: Option<Superblock>) -> State {
    // What was replayed gets a mark of its own.
    let last_content = Opseq(pg.next().0 - 1);
    State { pg, superblock, last_content, told_settled: Opseq(0), is_closed: false, failure: None }
}

fn corrupt(volume: &LogicalVolume, what: &str) -> EngineError {
    let device = volume.device();
    let detail = format!(
        "device {device}: {what} of the volume buckets is damaged: give the device up (`trilith device forget`) and restore from copies"
    );
    EngineError::Corrupt { detail }
}

/// A volume, with the blocks of its units. The slots of a superblock are never content, on any volume: only the home volume has something there.
fn space_of(volume: &LogicalVolume, fixed_blocks: u64) -> Space {
    let unit_blocks = volume.unit_bytes() / BLOCK_BYTES as u64;
    let mut space = Space::new(unit_blocks, volume.byte_count() / BLOCK_BYTES as u64, fixed_blocks);
    volume.units().into_iter().for_each(|unit| space.add_unit(unit));
    space
}

fn unfounded(volumes: Vec<LogicalVolume>) -> Loaded {
    let spaces = volumes.iter().map(|volume| Some(space_of(volume, SUPERBLOCK_SLOTS))).collect();
    let state = state_of(Pg::new(spaces, None, FIRST_OPSEQ), None);
    let all = volumes.into_iter().map(Some).collect();
    let volumes = Arc::new(Volumes { all, settling: Default::default() });
    Loaded { volumes, obstacle: None, state, log: None, revoked: Vec::new() }
}

/// No superblock was found. Units without one are of a founding that was cut short, unless something stands in them.
async fn check_unfounded(volumes: &[LogicalVolume], founding: &Founding) -> Result<(), EngineError> {
    if volumes.iter().all(|volume| volume.units().is_empty()) {
        return Ok(());
    }
    (founding.check)().map_err(|reason| EngineError::DeviceMissing { reason })?;
    for volume in volumes.iter().filter(|volume| !volume.units().is_empty()) {
        let place = log_place(volume);
        for index in 0..LOG_SEGMENTS {
            let start = place.segment_start(index);
            let block = volume.read(0, start, BLOCK_BYTES, Way::Medium).await.map_err(|error| refusal(&error))?;
            if block.iter().any(|byte| *byte != 0) {
                return Err(corrupt(volume, "the superblock"));
            }
        }
    }
    for volume in volumes {
        give_back_all(volume).await;
    }
    Ok(())
}

/// The home volume and its newest superblock.
async fn find_home(volumes: &[LogicalVolume]) -> Result<Option<(usize, Superblock)>, EngineError> {
    let mut found = None;
    for (index, volume) in volumes.iter().enumerate() {
        let mut newest: Option<Superblock> = None;
        for slot in 0..SUPERBLOCK_SLOTS {
            let Some(block) = read_from_medium(volume, slot * BLOCK_BYTES as u64).await? else { continue };
            let decoded = Superblock::decode(&block, &volume.uuid());
            newest = decoded.into_iter().chain(newest).max_by_key(|superblock| superblock.sequence);
        }
        let Some(superblock) = newest else { continue };
        if found.replace((index, superblock)).is_some() {
            return Err(corrupt(volume, "the superblock (another device has one, too)"));
        }
    }
    Ok(found)
}

/// A block past all caches; none where it can't be read.
async fn read_from_medium(volume: &LogicalVolume, at: u64) -> Result<Option<AlignedBuf>, EngineError> {
    match volume.read(0, at, BLOCK_BYTES, Way::Medium).await {
        Ok(block) => Ok(Some(block)),
        Err(error) if error.is_bad_block() => Ok(None),
        Err(error) => Err(refusal(&error)),
    }
}

/// `home`: which volume it is, and the device that it is on.
async fn load_founded(
    env: &Env,
    volumes: &[LogicalVolume],
    (home_at, device): (usize, &Volume),
    superblock: Superblock,
) -> Result<Loaded, EngineError> {
    let home = &volumes[home_at];
    let place = LogPlace { segment_bytes: superblock.segment_bytes };
    let (superblock, all) = with_new_devices(home, volumes, superblock).await?;
    let home_index = superblock.volumes.iter().position(|uuid| *uuid == home.uuid());
    let home_index = VolumeIndex(home_index.ok_or_else(|| corrupt(home, "the table of devices"))? as u16);
    let spaces = all.iter().enumerate().map(|(index, volume)| {
        let fixed_blocks = if index == usize::from(home_index.0) { place.fixed_blocks() } else { SUPERBLOCK_SLOTS };
        volume.as_ref().map(|volume| space_of(volume, fixed_blocks))
    });
    let mut pg = Pg::new(spaces.collect(), Some(home_index), Opseq(superblock.keep_from));
    let dump = load_dump(home, home_index, &superblock, &mut pg).await?;
    let volumes = Arc::new(Volumes { all, settling: Default::default() });
    let mut replay = Replay::default();
    let mut unreadable = None;
    let mut take_in = |opseq: Opseq, bytes: &[u8]| match Record::decode(bytes) {
        Ok(record) => replay.push(opseq, record),
        Err(reason) => drop(unreadable.get_or_insert(format!("record {} of the log ({reason})", opseq.0))),
    };
    let keep_from = Opseq(superblock.keep_from);
    let opened = PgLog::open(env, volumes.clone(), device.clone(), place, keep_from, &mut take_in).await;
    let log = opened.map_err(|error| corrupt(home, &format!("the log ({error})")))?;
    if let Some(what) = unreadable {
        return Err(corrupt(home, &what));
    }
    let revoked = finish(home, &volumes, &mut pg, replay, dump).await?;
    Ok(Loaded { volumes, obstacle: None, state: state_of(pg, Some(superblock)), log: Some(log), revoked })
}

/// What is in doubt is looked at, and all that is there has its blocks. The mutations whose content is not there.
async fn finish(
    home: &LogicalVolume,
    volumes: &Volumes,
    pg: &mut Pg,
    replay: Replay,
    dump: Vec<Extent>,
) -> Result<Vec<Opseq>, EngineError> {
    let missing = missing_content(volumes, &replay).await?;
    replay.finish(pg, &missing);
    if let Err(Extent { volume, first, count }) = pg.claim_all(dump) {
        let what = format!("the owner of {count} blocks from {first} on of volume {}", volume.0);
        return Err(corrupt(home, &what));
    }
    volumes.note_done(pg.floor());
    Ok(missing.into_iter().collect())
}

/// A group's store, from its volume and the entries of its log. All copies that count have the superblock of this node's copy behind it: another copy may have
/// had one whose dump is not whole everywhere.
///
/// Nothing is written before the superblock's dump is read and the log is known to go on behind it. A slot that has rotted leaves the superblock before, whose
/// dump and entries may be gone: then another member opens the group with its own.
pub async fn load_group(
    home: LogicalVolume,
    log: PgLog,
    entries: Vec<(Opseq, Bytes)>,
    next: Opseq,
) -> Result<Loaded, EngineError> {
    let volumes = Arc::new(Volumes { all: vec![Some(home.clone())], settling: Default::default() });
    let home_index = VolumeIndex(0);
    let found = find_home(std::slice::from_ref(&home)).await?.map(|(_, superblock)| superblock);
    let superblock = match found {
        Some(found) => Superblock { sequence: found.sequence + 1, ..found },
        None if next == FIRST_OPSEQ => {
            home.reserve(0, home.unit_bytes()).await.map_err(|error| refusal(&error))?;
            Superblock::first(0, vec![home.uuid()])
        }
        None => return Err(corrupt(&home, "the superblock (its copy on this node has none)")),
    };
    let space = Some(space_of(&home, SUPERBLOCK_SLOTS));
    let mut pg = Pg::new(vec![space], Some(home_index), Opseq(superblock.keep_from));
    let dump = load_dump(&home, home_index, &superblock, &mut pg).await?;
    let needed = entries_behind(&superblock, entries, next).map_err(|what| corrupt(&home, &what))?;
    let mut replay = Replay::default();
    for (opseq, bytes) in needed {
        let record = Record::decode(&bytes);
        replay.push(opseq, record.map_err(|reason| corrupt(&home, &format!("entry {} of the log ({reason})", opseq.0)))?);
    }
    let offset = superblock.slot() * BLOCK_BYTES as u64;
    home.write(offset, superblock.encode(&home.uuid())).await.map_err(|error| refusal(&error))?;
    home.flush().await.map_err(|error| refusal(&error))?;
    log.note_opened(Opseq(superblock.keep_from)).await;
    let revoked = finish(&home, &volumes, &mut pg, replay, dump).await?;
    if pg.next() != next {
        return Err(corrupt(&home, &format!("the log (entry {} comes next, and {} is expected)", next.0, pg.next().0)));
    }
    Ok(Loaded { volumes, obstacle: None, state: state_of(pg, Some(superblock)), log: Some(log), revoked })
}

/// The entries that a superblock needs; what is wrong if the log does not have all of them.
fn entries_behind(superblock: &Superblock, entries: Vec<(Opseq, Bytes)>, next: Opseq) -> Result<Vec<(Opseq, Bytes)>, String> {
    let needed: Vec<(Opseq, Bytes)> = entries.into_iter().filter(|(opseq, _)| opseq.0 >= superblock.keep_from).collect();
    let first = needed.first().map_or(next, |(opseq, _)| *opseq);
    if first.0 != superblock.keep_from {
        return Err(format!("the log (it begins with entry {}, and {} is needed)", first.0, superblock.keep_from));
    }
    Ok(needed)
}

/// The volumes by the superblock's table. Devices that are not in it get numbers, which are durable before they are used.
async fn with_new_devices(
    home: &LogicalVolume,
    volumes: &[LogicalVolume],
    mut superblock: Superblock,
) -> Result<(Superblock, Vec<Option<LogicalVolume>>), EngineError> {
    let known = superblock.volumes.len();
    for volume in volumes {
        let uuid: DeviceUuid = volume.uuid();
        if !superblock.volumes.contains(&uuid) && superblock.volumes.len() < MAX_VOLUMES {
            superblock.volumes.push(uuid);
        }
    }
    if superblock.volumes.len() > known {
        superblock.sequence += 1;
        let offset = superblock.slot() * BLOCK_BYTES as u64;
        home.write(offset, superblock.encode(&home.uuid())).await.map_err(|error| refusal(&error))?;
        home.flush().await.map_err(|error| refusal(&error))?;
    }
    let find = |uuid: &DeviceUuid| volumes.iter().find(|volume| volume.uuid() == *uuid).cloned();
    let all = superblock.volumes.iter().map(find).collect();
    Ok((superblock, all))
}

/// Loads the dump that the superblock names; its blocks.
async fn load_dump(
    home: &LogicalVolume,
    home_index: VolumeIndex,
    superblock: &Superblock,
    pg: &mut Pg,
) -> Result<Vec<Extent>, EngineError> {
    let broken = || corrupt(home, "the last dump");
    let (mut parts, mut extents, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    let mut next = superblock.last_chunk;
    while let Some(place) = next {
        let extent = Extent { volume: home_index, first: place.first, count: place.count };
        if extent.range().end * BLOCK_BYTES as u64 > home.byte_count() || !seen.insert(place.first) {
            return Err(broken());
        }
        let chunk = home.read(0, extent.offset(), extent.bytes(), Way::Medium).await.map_err(|error| refusal(&error))?;
        let decoded = decode_chunk(&chunk, &home.uuid().0, superblock.dump);
        let (rows, before) = decoded.ok_or_else(broken)?;
        parts.push(rows.to_vec());
        extents.push(extent);
        next = before;
    }
    parts.reverse();
    let rows = parts.concat();
    if rows.len() as u64 != superblock.dump_bytes {
        return Err(broken());
    }
    pg.load_rows(&rows).ok_or_else(broken)?;
    Ok(extents)
}

/// Mutations in doubt whose bytes are not there.
async fn missing_content(volumes: &Volumes, replay: &Replay) -> Result<BTreeSet<Opseq>, EngineError> {
    let doubts: Vec<(Opseq, Arc<Content>)> = replay.doubts().map(|(opseq, content)| (opseq, content.clone())).collect();
    let looking = |(opseq, content): (Opseq, Arc<Content>)| async move {
        for piece in &content.pieces {
            match volumes.ensure_piece(piece).await {
                Ok(true) => {}
                Ok(false) => return Ok(Some(opseq)),
                // It can't be told. A read says what is the matter.
                Err(EngineError::DeviceMissing { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok::<_, EngineError>(None)
    };
    let missing: Vec<Option<Opseq>> = stream::iter(doubts).map(looking).buffer_unordered(LOAD_READS).try_collect().await?;
    Ok(missing.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::entries_behind;
    use crate::name::Opseq;
    use crate::superblock::Superblock;

    #[test]
    fn a_log_that_begins_behind_what_the_superblock_needs_is_refused() {
        let superblock = Superblock { keep_from: 5, ..Superblock::first(0, Vec::new()) };
        let behind = |opseqs: std::ops::Range<u64>, next| {
            let entries = opseqs.map(|opseq| (Opseq(opseq), Bytes::new())).collect();
            entries_behind(&superblock, entries, Opseq(next)).map(|needed| needed.len())
        };
        assert_eq!(behind(3..8, 8), Ok(3));
        assert_eq!(behind(5..8, 8), Ok(3));
        assert_eq!(behind(3..5, 5), Ok(0));
        assert_eq!(behind(0..0, 5), Ok(0), "all was given up, and nothing came after");
        behind(6..8, 8).expect_err("entry 5 is missing");
        behind(0..0, 8).expect_err("entries 5 to 7 are missing");
        behind(1..3, 3).expect_err("entries 3 and 4 are missing");
    }
}
