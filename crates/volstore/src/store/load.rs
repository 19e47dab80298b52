//! A primary's start: superblock, dump, entries of the log, and what the machine makes of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use ::engine::EngineError;
use bytes::Bytes;
use disk::{AlignedBuf, BLOCK_BYTES};
use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::founding::FIRST_OPSEQ;
use super::{State, refusal};
use crate::blocks::Way;
use crate::content::{Content, Extent};
use crate::dump::decode_chunk;
use crate::limits::{LOAD_READS, LOGICAL_UNIT_BYTES};
use crate::medium::Medium;
use crate::mirror::Mirror;
use crate::name::Opseq;
use crate::pg::Pg;
use crate::record::Record;
use crate::replay::Replay;
use crate::space::Space;
use crate::superblock::{SUPERBLOCK_SLOTS, Superblock};

/// What was found.
pub struct Loaded {
    pub medium: Medium,
    pub state: State,
    /// Mutations whose content is not there.
    pub revoked: Vec<Opseq>,
}

/// A group's state, from its volume and the entries of its log. All copies that count have the superblock of this node's copy behind it: another copy may have
/// had one whose dump is not whole everywhere. A group without an entry has no superblock.
///
/// Nothing is written before the superblock's dump is read and the log is known to go on behind it. A slot that has rotted leaves the superblock before, whose
/// dump and entries may be gone: then another member opens the group with its own.
pub async fn load(volume: Mirror, entries: Vec<(Opseq, Bytes)>, next: Opseq) -> Result<Loaded, EngineError> {
    let medium = Medium::new(volume);
    let volume = &medium.volume;
    let found = find_superblock(volume).await?;
    if found.is_none() && next != FIRST_OPSEQ {
        return Err(corrupt(volume, "the superblock (its copy on this node has none)"));
    }
    let keep_from = found.as_ref().map_or(FIRST_OPSEQ, |found| Opseq(found.keep_from));
    let mut pg = Pg::new(space_of(volume), keep_from);
    let dump = match &found {
        Some(found) => load_dump(volume, found, &mut pg).await?,
        None => Vec::new(),
    };
    let needed = entries_behind(keep_from, entries, next).map_err(|what| corrupt(volume, &what))?;
    let mut replay = Replay::default();
    for (opseq, bytes) in needed {
        let record = Record::decode(&bytes);
        replay.push(opseq, record.map_err(|reason| corrupt(volume, &format!("entry {} of the log ({reason})", opseq.0)))?);
    }
    let superblock = found.map(|found| Superblock { sequence: found.sequence + 1, ..found });
    if let Some(superblock) = &superblock {
        medium.put_superblock(superblock).await.map_err(|error| refusal(&error))?;
    }
    let missing = missing_content(&medium, &replay).await?;
    replay.finish(&mut pg, &missing);
    if let Err(Extent { first, count }) = pg.claim_all(dump) {
        return Err(corrupt(volume, &format!("the owner of {count} blocks from {first} on")));
    }
    if pg.next() != next {
        return Err(corrupt(volume, &format!("the log (entry {} comes next, and {} is expected)", next.0, pg.next().0)));
    }
    medium.note_done(pg.floor());
    // What was replayed gets a mark of its own.
    let last_content = Opseq(pg.next().0 - 1);
    let state = State { pg, superblock, last_content, told_settled: Opseq(0), is_closed: false, failure: None };
    Ok(Loaded { medium, state, revoked: missing.into_iter().collect() })
}

/// The entries that a superblock needs; what is wrong if the log does not have all of them.
fn entries_behind(keep_from: Opseq, entries: Vec<(Opseq, Bytes)>, next: Opseq) -> Result<Vec<(Opseq, Bytes)>, String> {
    let needed: Vec<(Opseq, Bytes)> = entries.into_iter().filter(|(opseq, _)| *opseq >= keep_from).collect();
    let first = needed.first().map_or(next, |(opseq, _)| *opseq);
    if first != keep_from {
        return Err(format!("the superblock or the log (it begins with entry {}, and {} is needed)", first.0, keep_from.0));
    }
    Ok(needed)
}

fn corrupt(volume: &Mirror, what: &str) -> EngineError {
    let (device, group) = (volume.device(), volume.group());
    let detail = format!(
        "device {device}: {what} of placement group {group} of volume buckets is damaged: give the device up (`trilith device forget`) and restore from copies"
    );
    EngineError::Corrupt { detail }
}

/// The volume's blocks, with those of its units. The slots of the superblock are never content.
fn space_of(volume: &Mirror) -> Space {
    let block = BLOCK_BYTES as u64;
    let mut space = Space::new(LOGICAL_UNIT_BYTES / block, volume.byte_count() / block, SUPERBLOCK_SLOTS);
    volume.units().into_iter().for_each(|unit| space.add_unit(unit));
    space
}

/// The newest superblock of this node's copy.
async fn find_superblock(volume: &Mirror) -> Result<Option<Superblock>, EngineError> {
    let mut newest: Option<Superblock> = None;
    for slot in 0..SUPERBLOCK_SLOTS {
        let Some(block) = read_from_medium(volume, slot * BLOCK_BYTES as u64).await? else { continue };
        let decoded = Superblock::decode(&block, &volume.uuid());
        newest = decoded.into_iter().chain(newest).max_by_key(|superblock| superblock.sequence);
    }
    Ok(newest)
}

/// A block past all caches; none where it can't be read.
async fn read_from_medium(volume: &Mirror, at: u64) -> Result<Option<AlignedBuf>, EngineError> {
    match volume.read(0, at, BLOCK_BYTES, Way::Medium).await {
        Ok(block) => Ok(Some(block)),
        Err(error) if error.is_bad_block() => Ok(None),
        Err(error) => Err(refusal(&error)),
    }
}

/// Loads the dump that the superblock names; its blocks.
async fn load_dump(volume: &Mirror, superblock: &Superblock, pg: &mut Pg) -> Result<Vec<Extent>, EngineError> {
    let broken = || corrupt(volume, "the last dump");
    let (mut parts, mut extents, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    let mut next = superblock.last_chunk;
    while let Some(place) = next {
        let extent = Extent { first: place.first, count: place.count };
        if extent.range().end * BLOCK_BYTES as u64 > volume.byte_count() || !seen.insert(place.first) {
            return Err(broken());
        }
        let chunk = volume.read(0, extent.offset(), extent.bytes(), Way::Medium).await.map_err(|error| refusal(&error))?;
        let decoded = decode_chunk(&chunk, &volume.uuid().0, superblock.dump);
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
async fn missing_content(medium: &Medium, replay: &Replay) -> Result<BTreeSet<Opseq>, EngineError> {
    let doubts: Vec<(Opseq, Arc<Content>)> = replay.doubts().map(|(opseq, content)| (opseq, content.clone())).collect();
    let looking = |(opseq, content): (Opseq, Arc<Content>)| async move {
        for piece in &content.pieces {
            if !medium.ensure_piece(piece).await? {
                return Ok(Some(opseq));
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

    #[test]
    fn a_log_that_begins_behind_what_the_superblock_needs_is_refused() {
        let behind = |opseqs: std::ops::Range<u64>, next| {
            let entries = opseqs.map(|opseq| (Opseq(opseq), Bytes::new())).collect();
            entries_behind(Opseq(5), entries, Opseq(next)).map(|needed| needed.len())
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
