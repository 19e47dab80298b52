//! What stands on a device when its store is opened.
//!
//! Space that a volume gets holds zeros. So a header that is neither zeros nor believed is damage, and so are zeros beside a later one than a
//! block's first: the first header of a block is whole or not there, and later ones leave the other slot. Only blocks are looked at that stand
//! in units with space.

use std::collections::{BTreeMap, BTreeSet};

use device::{Volume, VolumeError};
use disk::{AlignedBuf, BLOCK_BYTES, DiskErrorKind};
use format::blob_header::{BlobHeader, BlobState};
use futures_util::future::try_join;
use futures_util::{StreamExt, TryStreamExt, stream};
use types::BlobId;

use super::layout::{STRIDES, slot_start};
use super::limits::LOAD_READS;
use super::table::Head;

/// Of the first header of a block.
const FIRST_SERIAL: u64 = 1;

#[derive(Default)]
pub struct Loaded {
    pub heads: Vec<(u32, Head)>,
    /// Blocks without a header that can be believed, though something stands where it should be.
    pub damaged: BTreeSet<u32>,
    /// Those of them whose blob another block has as well.
    pub doubles: BTreeMap<u32, BlobId>,
    /// Blocks of which something stands in units with space.
    pub lent: BTreeSet<u32>,
    /// Blocks of which one slot was torn or damaged, so that the other counts.
    pub fallen_back: BTreeSet<u32>,
}

/// One slot of a block's header.
enum Slot {
    Zeros,
    Believed(BlobHeader),
    Damaged,
}

/// A block's header.
#[derive(Clone, Copy)]
enum Found {
    Nothing,
    Head { head: Head, has_fallen_back: bool },
    Damaged,
}

pub async fn load(volume: &Volume, block_count: u32) -> Result<Loaded, VolumeError> {
    let unit_bytes = volume.unit_bytes();
    let blocks_of = |unit| STRIDES.blocks_of(unit, unit_bytes, block_count);
    let mut loaded = Loaded { lent: volume.units().into_iter().flat_map(blocks_of).collect(), ..Loaded::default() };
    let finding = |block: u32| async move { Ok::<_, VolumeError>((block, find(volume, block).await?)) };
    let mut blocks = stream::iter(loaded.lent.clone()).map(finding).buffer_unordered(LOAD_READS);
    let mut found: Vec<(u32, Head, bool)> = Vec::new();
    while let Some((block, what)) = blocks.try_next().await? {
        match what {
            Found::Nothing => {}
            Found::Head { head, has_fallen_back } => found.push((block, head, has_fallen_back)),
            Found::Damaged => drop(loaded.damaged.insert(block)),
        }
    }
    loaded.fallen_back = found.iter().filter(|(_, _, has_fallen_back)| *has_fallen_back).map(|(block, _, _)| *block).collect();
    loaded.doubles = doubles(&found);
    loaded.damaged.extend(loaded.doubles.keys());
    let counted = found.into_iter().map(|(block, head, _)| (block, head));
    loaded.heads = counted.filter(|(block, _)| !loaded.doubles.contains_key(block)).collect();
    report(volume, &loaded);
    Ok(loaded)
}

/// Blocks whose blob another block has as well: a header of one of them has rotted, and the one before it counts again. The better one counts.
fn doubles(found: &[(u32, Head, bool)]) -> BTreeMap<u32, BlobId> {
    let mut best: BTreeMap<BlobId, (u32, Head, bool)> = BTreeMap::new();
    let mut doubles = BTreeMap::new();
    for candidate in found.iter().filter(|(_, head, _)| head.state != BlobState::Free) {
        let rank = |(block, head, has_fallen_back): &(u32, Head, bool)| (!has_fallen_back, head.epoch, head.token, *block);
        match best.get_mut(&candidate.1.id) {
            None => drop(best.insert(candidate.1.id, *candidate)),
            Some(known) if rank(known) < rank(candidate) => {
                let (block, head, _) = std::mem::replace(known, *candidate);
                doubles.insert(block, head.id);
            }
            Some(_) => drop(doubles.insert(candidate.0, candidate.1.id)),
        }
    }
    doubles
}

fn report(volume: &Volume, loaded: &Loaded) {
    let device = volume.device().0;
    if !loaded.fallen_back.is_empty() {
        let blocks = loaded.fallen_back.len();
        tracing::warn!(device, blocks, "headers of blobs were torn or have rotted: those before them count");
    }
    for block in &loaded.damaged {
        tracing::error!(device, block, "no header of a block can be believed: the block is left alone");
    }
}

/// The newest header of a block.
async fn find(volume: &Volume, block: u32) -> Result<Found, VolumeError> {
    let (first, second) = try_join(read_slot(volume, block, 0), read_slot(volume, block, 1)).await?;
    let found = |header: &BlobHeader, has_fallen_back| Found::Head { head: Head::of(header), has_fallen_back };
    Ok(match (first, second) {
        (Slot::Zeros, Slot::Zeros) => Found::Nothing,
        (Slot::Believed(first), Slot::Believed(second)) => {
            found(if first.serial > second.serial { &first } else { &second }, false)
        }
        // A block's first header has nothing beside it. Zeros where the second one was look the same: no start can tell.
        (Slot::Believed(header), Slot::Zeros) | (Slot::Zeros, Slot::Believed(header)) => {
            found(&header, header.serial > FIRST_SERIAL)
        }
        (Slot::Believed(header), Slot::Damaged) | (Slot::Damaged, Slot::Believed(header)) => found(&header, true),
        (Slot::Damaged, Slot::Damaged | Slot::Zeros) | (Slot::Zeros, Slot::Damaged) => Found::Damaged,
    })
}

async fn read_slot(volume: &Volume, block: u32, slot: u64) -> Result<Slot, VolumeError> {
    let Some(bytes) = read(volume, slot_start(block, slot)).await? else { return Ok(Slot::Damaged) };
    if bytes.iter().all(|byte| *byte == 0) {
        return Ok(Slot::Zeros);
    }
    let is_own =
        |header: &BlobHeader| header.device_uuid == volume.device_uuid() && header.block == block && header.slot() == slot;
    Ok(BlobHeader::decode(&bytes).ok().filter(is_own).map_or(Slot::Damaged, Slot::Believed))
}

/// Reads a slot from the medium; none where that has failed.
async fn read(volume: &Volume, offset: u64) -> Result<Option<AlignedBuf>, VolumeError> {
    match volume.read_medium(offset, BLOCK_BYTES).await {
        Ok(bytes) => Ok(Some(bytes)),
        Err(VolumeError::Disk { cause, .. }) if cause.kind == DiskErrorKind::Failed => {
            tracing::error!(device = volume.device().0, offset, error = %cause, "a part of the volume can't be read");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
