//! What stands on a device when its store is opened.
//!
//! Space that a volume gets holds zeros. So a header that is neither zeros nor believed is damage, and so are zeros beside a later one than a
//! block's first: the first header of a block has one entry, which is whole or not there, and later ones leave the other slot. Only blocks are
//! looked at that stand in units with space.

use std::collections::BTreeSet;

use device::{Volume, VolumeError};
use disk::{AlignedBuf, BLOCK_BYTES, DiskErrorKind};
use format::chunk_block::{BlockHeader, CopyState};
use format::chunk_fences::{ChunkFences, FENCES_SLOT_BYTES, FENCES_SLOTS};
use futures_util::future::try_join;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::error::BlocksError;
use super::fences::{self, FenceTable};
use super::layout::{STRIDES, slot_start};
use super::limits::LOAD_READS;

/// Of the first header of a block.
const FIRST_SERIAL: u64 = 1;

pub struct Loaded {
    pub headers: Vec<BlockHeader>,
    pub fences: FenceTable,
    /// Of the newest fences; none if none were ever written.
    pub sequence: Option<u64>,
    /// Blocks without a header that can be believed, though something stands where it should be.
    pub damaged: BTreeSet<u32>,
    /// Those that have been condemned since.
    pub condemned: BTreeSet<u32>,
    /// Blocks with space, in which nothing is.
    pub vacant: BTreeSet<u32>,
    /// Blocks of which one slot was torn or damaged, so that the other counts.
    pub fallen_back: u64,
}

/// One slot of a block's header.
enum Slot {
    Zeros,
    Believed(BlockHeader),
    Damaged,
}

/// A block's header.
enum Found {
    Nothing,
    Header {
        header: BlockHeader,
        has_fallen_back: bool,
    },
    Damaged,
    /// In both slots, so that nothing that was before can come back.
    Condemned,
}

pub async fn load(volume: &Volume, block_count: u32) -> Result<Loaded, BlocksError> {
    let fences = newest_fences(volume).await?;
    let mut loaded = Loaded {
        headers: Vec::new(),
        fences: fences.as_ref().map(fences::table_of).unwrap_or_default(),
        sequence: fences.as_ref().map(|record| record.sequence),
        damaged: BTreeSet::new(),
        condemned: BTreeSet::new(),
        vacant: BTreeSet::new(),
        fallen_back: 0,
    };
    let unit_bytes = volume.unit_bytes();
    let lent: BTreeSet<u32> =
        volume.units().into_iter().flat_map(|unit| STRIDES.blocks_of(unit, unit_bytes, block_count)).collect();
    let blocks = stream::iter(lent).map(|block| async move { Ok::<_, VolumeError>((block, find(volume, block).await?)) });
    let mut blocks = blocks.buffer_unordered(LOAD_READS);
    while let Some((block, found)) = blocks.try_next().await? {
        match found {
            Found::Nothing => drop(loaded.vacant.insert(block)),
            Found::Header { header, has_fallen_back } => {
                loaded.fallen_back += u64::from(has_fallen_back);
                if header.entries.is_empty() {
                    loaded.vacant.insert(block);
                }
                loaded.headers.push(header);
            }
            Found::Damaged => drop(loaded.damaged.insert(block)),
            Found::Condemned => drop(loaded.condemned.insert(block)),
        }
    }
    // They are written before the first block is used.
    let known = loaded.headers.first().map(|header| header.block).or_else(|| loaded.condemned.first().copied());
    if let (None, Some(block)) = (&fences, known) {
        return Err(BlocksError::FencesLost { device: volume.device(), block });
    }
    if loaded.fallen_back > 0 {
        let (device, blocks) = (volume.device().0, loaded.fallen_back);
        tracing::info!(
            device,
            blocks,
            "headers of blocks were torn or have rotted: those before them count, until other copies tell more"
        );
    }
    for block in &loaded.damaged {
        tracing::error!(device = volume.device().0, block, "no header of a block can be believed: the block is left alone");
    }
    Ok(loaded)
}

async fn newest_fences(volume: &Volume) -> Result<Option<ChunkFences>, VolumeError> {
    let mut newest: Option<ChunkFences> = None;
    for slot in 0..FENCES_SLOTS {
        let offset = slot * FENCES_SLOT_BYTES;
        let Some(bytes) = read(volume, offset, FENCES_SLOT_BYTES as usize).await? else { continue };
        // A slot that can't be believed was torn while it was written, or was never written: the other one counts.
        let Ok(record) = ChunkFences::decode(&bytes) else { continue };
        let is_newer = newest.as_ref().is_none_or(|known| known.sequence < record.sequence);
        if is_newer && fences::is_own(&record, volume.device_uuid(), offset) {
            newest = Some(record);
        }
    }
    Ok(newest)
}

/// The newest header of a block.
async fn find(volume: &Volume, block: u32) -> Result<Found, VolumeError> {
    let (first, second) = try_join(read_slot(volume, block, 0), read_slot(volume, block, 1)).await?;
    Ok(match (first, second) {
        (Slot::Zeros, Slot::Zeros) => Found::Nothing,
        (Slot::Believed(first), Slot::Believed(second)) if first.is_condemned && second.is_condemned => Found::Condemned,
        // It was being condemned when the power went.
        (Slot::Believed(header), _) | (_, Slot::Believed(header)) if header.is_condemned => Found::Damaged,
        (Slot::Believed(first), Slot::Believed(second)) => {
            let header = if first.serial > second.serial { first } else { second };
            Found::Header { header, has_fallen_back: false }
        }
        // A block's first header has nothing beside it. Zeros where the second one was look the same: no start can tell.
        (Slot::Believed(header), Slot::Zeros) | (Slot::Zeros, Slot::Believed(header)) if header.serial <= FIRST_SERIAL => {
            Found::Header { header, has_fallen_back: false }
        }
        // Beside a later one there was another: zeros are damage there.
        (Slot::Believed(header), Slot::Damaged | Slot::Zeros) | (Slot::Damaged | Slot::Zeros, Slot::Believed(header)) => {
            Found::Header { header: doubted(header), has_fallen_back: true }
        }
        (Slot::Damaged, Slot::Damaged | Slot::Zeros) | (Slot::Zeros, Slot::Damaged) => Found::Damaged,
    })
}

/// The header of a block that counts now, if one can be believed that does not condemn it.
pub async fn believed(volume: &Volume, block: u32) -> Result<Option<BlockHeader>, VolumeError> {
    match find(volume, block).await? {
        Found::Header { header, .. } => Ok(Some(header)),
        Found::Nothing | Found::Damaged | Found::Condemned => Ok(None),
    }
}

/// A header that may not be the newest: the other slot was torn, or what was newer has rotted there. So nothing counts as settled, and whoever reads
/// a copy asks the others; so does the unit's leader, which is told of these copies. Each header says so from now on: the next one is written to the slot that
/// is damaged now, which is all that there is to tell by.
fn doubted(mut header: BlockHeader) -> BlockHeader {
    for entry in &mut header.entries {
        entry.is_settled = false;
        entry.is_doubted = matches!(entry.state, CopyState::Live | CopyState::Overwriting);
    }
    header
}

async fn read_slot(volume: &Volume, block: u32, slot: u64) -> Result<Slot, VolumeError> {
    let start = slot_start(block, slot);
    let Some(bytes) = read(volume, start, BLOCK_BYTES).await? else { return Ok(Slot::Damaged) };
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(Slot::Zeros);
    }
    let encoded = BlockHeader::encoded_bytes(&bytes).unwrap_or(0);
    let whole = match encoded > BLOCK_BYTES {
        true => read(volume, start, encoded.next_multiple_of(BLOCK_BYTES)).await?,
        false => Some(bytes),
    };
    let header = whole.and_then(|bytes| BlockHeader::decode(&bytes).ok());
    let is_own =
        |header: &BlockHeader| header.device_uuid == volume.device_uuid() && header.block == block && header.slot() == slot;
    Ok(header.filter(is_own).map_or(Slot::Damaged, Slot::Believed))
}

/// Reads from the medium; none where that has failed.
async fn read(volume: &Volume, offset: u64, len: usize) -> Result<Option<AlignedBuf>, VolumeError> {
    match volume.read_medium(offset, len).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(VolumeError::Disk { cause, .. }) if cause.kind == DiskErrorKind::Failed => {
            tracing::error!(device = volume.device().0, offset, error = %cause, "a part of the volume can't be read");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
