//! What stands on a volume when its store is opened: the newest superblock, the directory and the pages of its checkpoint, the journal behind it.

use std::collections::HashSet;
use std::sync::Arc;

use device::{Volume, VolumeError};
use disk::{AlignedBuf, BLOCK_BYTES, DiskErrorKind};
use env::Env;
use futures_util::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use wal::{Lsn, OpenOptions, Settling, Wal};

use super::State;
use super::directory::{Entry, decode_chunk};
use super::layout::{BLOCK, Layout, SUPERBLOCK_SLOTS, Span};
use super::limits::{JOURNAL_SEGMENTS, LOAD_READS};
use super::page::{PAGE_BLOCKS, Page};
use super::record::Record;
use super::recover::Replay;
use super::segments::segments;
use super::space::Space;
use super::superblock::Superblock;
use super::table::Table;
use crate::data::DataError;
use crate::ids::ExtentId;

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenStoreError {
    #[error("device {device}: {bytes} bytes are too few for files: their journal alone takes {journal}")]
    TooSmall { device: u32, bytes: u64, journal: u64 },
    #[error(
        "device {device}: the files can't be used, {what} is damaged: give the device up (`trilith device forget`) and restore from copies"
    )]
    Damaged { device: u32, what: String },
    #[error("the journal of the files can't be used: {0}")]
    Journal(#[from] wal::OpenError),
    #[error(transparent)]
    Volume(#[from] VolumeError),
    #[error(transparent)]
    Failed(DataError),
}

/// What was found.
pub struct Loaded {
    pub state: State,
    pub journal: Option<Wal>,
    pub settling: Arc<Settling>,
    /// Blocks whose page can't be read.
    pub lost_blocks: u64,
    /// Blocks of unanswered writes that are not there.
    pub fallen_back: u64,
}

pub fn check_layout(volume: &Volume, layout: &Layout) -> Result<(), OpenStoreError> {
    let units = layout.blocks / layout.unit_blocks;
    if units > u64::from(layout.fixed_units()) {
        return Ok(());
    }
    let journal = layout.fixed_blocks() * BLOCK;
    Err(OpenStoreError::TooSmall { device: volume.device().0, bytes: volume.byte_count(), journal })
}

pub async fn load(env: &Env, volume: &Volume, layout: Layout) -> Result<Loaded, OpenStoreError> {
    let settling = Arc::new(Settling::default());
    let Some(superblock) = find_superblock(volume, &layout).await? else {
        let space = Space::new(layout, volume.units());
        let state = state_of(Table::default(), space, None, Lsn::FIRST.0);
        return Ok(Loaded { state, journal: None, settling, lost_blocks: 0, fallen_back: 0 });
    };
    if superblock.segment_bytes != layout.segment_bytes {
        return Err(damaged(volume, format!("the superblock (a journal of segments of {} bytes)", superblock.segment_bytes)));
    }
    let (entries, mut saved) = read_directory(volume, &layout, &superblock).await?;
    let (table, lost_blocks) = read_pages(volume, &layout, entries, &mut saved).await?;
    let store = segments(volume, layout, &settling);
    let options = OpenOptions { keep_from: Lsn(superblock.keep_from), begin_at: Lsn::FIRST };
    let replay = Mutex::new(Replay::new(table, superblock.keep_from));
    let mut unreadable = None;
    let mut next_record = superblock.keep_from;
    let journal = Wal::open(env, store, options, &mut |lsn, bytes| {
        next_record = lsn.0 + 1;
        match Record::decode(bytes) {
            Ok(record) => replay.lock().push(lsn.0, record),
            Err(reason) => drop(unreadable.get_or_insert(format!("record {lsn} of the journal ({reason})"))),
        }
    })
    .await?;
    if let Some(what) = unreadable {
        return Err(damaged(volume, what));
    }
    let (table, fallen_back) = replay.into_inner().finish(volume).await?;
    let space = space_of(volume, layout, &table, &saved)?;
    settling.note_done(next_record);
    let state = State { saved, ..state_of(table, space, Some(superblock), next_record) };
    Ok(Loaded { state, journal: Some(journal), settling, lost_blocks, fallen_back })
}

fn state_of(table: Table, space: Space, superblock: Option<Superblock>, next_record: u64) -> State {
    State {
        table,
        space,
        flight: Default::default(),
        promised_blocks: 0,
        freed_blocks: 0,
        looked_at_record: next_record,
        last_write: next_record - 1,
        told_settled: 0,
        next_record,
        next_number: 1,
        superblock,
        saved: HashSet::new(),
        is_closed: false,
        failure: None,
    }
}

/// The newest superblock; none where nothing was ever begun.
async fn find_superblock(volume: &Volume, layout: &Layout) -> Result<Option<Superblock>, OpenStoreError> {
    let uuid = volume.device_uuid().0;
    let slots: Vec<Option<AlignedBuf>> =
        stream::iter(0..SUPERBLOCK_SLOTS).then(|slot| read_from_medium(volume, slot * BLOCK)).try_collect().await?;
    let whole = slots.iter().flatten().filter_map(|slot| Superblock::decode(slot, &uuid));
    let found = whole.max_by_key(|superblock| superblock.sequence);
    if found.is_some() {
        return Ok(found);
    }
    // The first superblock is durable before the journal is begun.
    let starts = (0..JOURNAL_SEGMENTS).map(|index| layout.segment_start(index));
    let firsts: Vec<AlignedBuf> =
        stream::iter(starts).then(|start| volume.read_medium(start, BLOCK_BYTES)).try_collect().await?;
    match firsts.iter().all(|block| block.iter().all(|byte| *byte == 0)) {
        true => Ok(None),
        false => Err(damaged(volume, "the superblock".to_owned())),
    }
}

/// The entries of a checkpoint, and the blocks of its directory.
async fn read_directory(
    volume: &Volume,
    layout: &Layout,
    superblock: &Superblock,
) -> Result<(Vec<Entry>, HashSet<u32>), OpenStoreError> {
    let broken = || damaged(volume, "the directory of the last checkpoint".to_owned());
    let mut parts: Vec<Vec<u8>> = Vec::new();
    let mut blocks = HashSet::new();
    let mut next = superblock.last_chunk;
    while let Some(span) = next {
        let is_within = u64::from(span.place) + u64::from(span.count) <= layout.blocks;
        if !is_within || !(span.place..span.end()).all(|place| blocks.insert(place)) {
            return Err(broken());
        }
        let chunk = volume.read_medium(span.offset(), span.bytes()).await?;
        let decoded = decode_chunk(&chunk, &volume.device_uuid().0, superblock.checkpoint);
        let (part, before) = decoded.ok_or_else(broken)?;
        parts.push(part.to_vec());
        next = before;
    }
    parts.reverse();
    let bytes = parts.concat();
    let entries = Some(bytes).filter(|bytes| bytes.len() as u64 == superblock.directory_bytes);
    Ok((entries.and_then(|bytes| Entry::decode_all(&bytes)).ok_or_else(broken)?, blocks))
}

/// The table as a checkpoint has it, and how many blocks are lost with pages that can't be read.
async fn read_pages(
    volume: &Volume,
    layout: &Layout,
    entries: Vec<Entry>,
    saved: &mut HashSet<u32>,
) -> Result<(Table, u64), OpenStoreError> {
    let mut table = Table::default();
    let mut wanted = Vec::new();
    for entry in &entries {
        let len = table.get(entry.extent).map_or(entry.len, |extent| extent.len.max(entry.len));
        table.load(entry.extent, len, []);
        wanted.extend(entry.pages.iter().map(|(index, place)| (entry.extent, *index, *place)));
    }
    let mut lost_blocks = 0;
    let reading = |(extent, index, place): (ExtentId, u32, u32)| async move {
        Ok::<_, VolumeError>((extent, index, place, read_page(volume, layout, extent, index, place).await?))
    };
    let mut pages = stream::iter(wanted).map(reading).buffer_unordered(LOAD_READS);
    while let Some((extent, index, place, found)) = pages.try_next().await? {
        let len = table.get(extent).map_or(0, |found| found.len);
        let page = match found {
            Some(page) => {
                saved.insert(place);
                page.saved_at(place)
            }
            None => {
                let first = u64::from(index) * PAGE_BLOCKS;
                lost_blocks += len.div_ceil(BLOCK).saturating_sub(first).min(PAGE_BLOCKS);
                tracing::error!(
                    device = volume.device().0,
                    ?extent,
                    index,
                    "a page of a file's places is lost: its content is damaged"
                );
                Page::lost()
            }
        };
        table.load(extent, len, [(index, page)]);
    }
    Ok((table, lost_blocks))
}

async fn read_page(
    volume: &Volume,
    layout: &Layout,
    extent: ExtentId,
    index: u32,
    place: u32,
) -> Result<Option<Page>, VolumeError> {
    if u64::from(place) >= layout.blocks {
        return Ok(None);
    }
    let block = read_from_medium(volume, u64::from(place) * BLOCK).await?;
    Ok(block.and_then(|block| Page::decode(&block, extent, index, &volume.device_uuid().0)))
}

/// A block of the volume past all caches; none where it can't be read.
async fn read_from_medium(volume: &Volume, at: u64) -> Result<Option<AlignedBuf>, VolumeError> {
    match volume.read_medium(at, BLOCK_BYTES).await {
        Ok(block) => Ok(Some(block)),
        Err(VolumeError::Disk { cause, .. }) if cause.kind == DiskErrorKind::Failed => Ok(None),
        Err(error) => Err(error),
    }
}

/// All blocks that nothing names are free.
fn space_of(volume: &Volume, layout: Layout, table: &Table, saved: &HashSet<u32>) -> Result<Space, OpenStoreError> {
    let mut space = Space::new(layout, volume.units());
    for (id, extent) in table.extents() {
        for (block, mapped) in extent.blocks() {
            if !space.claim(mapped.place) {
                return Err(damaged(volume, format!("the place {} of block {block} of {id:?}", mapped.place)));
            }
        }
    }
    for place in saved {
        if !space.claim(*place) {
            return Err(damaged(volume, format!("the place {place} of a page")));
        }
    }
    Ok(space)
}

pub fn damaged(volume: &Volume, what: String) -> OpenStoreError {
    OpenStoreError::Damaged { device: volume.device().0, what }
}

/// A block of the volume; none where it can't be read.
pub async fn read_block(volume: &Volume, place: u32) -> Result<Option<AlignedBuf>, VolumeError> {
    match volume.read(Span { place, count: 1 }.offset(), BLOCK_BYTES).await {
        Ok(block) => Ok(Some(block)),
        Err(VolumeError::Disk { cause, .. }) if cause.kind == DiskErrorKind::Failed => Ok(None),
        Err(error) => Err(error),
    }
}
