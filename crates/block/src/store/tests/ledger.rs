//! What blobs should be: a simple model, and seeded requests.

use std::collections::BTreeMap;

use disk::SECTOR_BYTES;
use model::choice::{Choose, Seeded};
use types::limits::BLOCK_BYTES;
use types::{BlobId, PIECE_BYTES, PIECES_PER_BLOB, Pieces};

use super::support::{Rig, fill, id, overwrite, pieces, stamped, version_of};
use crate::stores::{BlobRow, Change};

pub const BLOBS: usize = 6;
/// Pieces that are used, so that they meet.
pub const USED: u32 = 5;

pub fn id_of(blob: usize) -> BlobId {
    id(3 + blob as u64 / 3, blob as u32 % 3)
}

/// What a blob is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    pub owned: Pieces,
    pub data: Pieces,
    /// Of each block of the device that was written.
    versions: BTreeMap<u32, u64>,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Of a blob that is there, or is made.
    Change(Change),
    Free,
}

pub fn after(before: Option<&Content>, act: &Act) -> Option<Content> {
    let Act::Change(change) = act else { return None };
    let mut content = before.cloned().unwrap_or_default();
    content.owned = (content.owned | change.filled | change.zeroed) & !change.dropped;
    content.data = (content.data | change.filled) & !change.zeroed & !change.dropped;
    let first = change.offset / BLOCK_BYTES as u32;
    for (block, bytes) in (first..).zip(change.content.chunks(BLOCK_BYTES)) {
        content.versions.insert(block, version_of(bytes));
    }
    Some(content)
}

/// A request that is valid.
pub fn choose(choose: &mut Seeded, blob: usize, before: Option<&Content>, version: u64) -> Act {
    let id = id_of(blob);
    let first = choose.below(USED as usize) as u32;
    let end = first + 1 + choose.below((USED - first) as usize) as u32;
    let data = before.map_or(Pieces::NONE, |content| content.data);
    let bits = |zeroed, dropped| Act::Change(Change { zeroed, dropped, ..Change::default() });
    match choose.below(10) {
        0 if before.is_some() => Act::Free,
        1 => bits(pieces(first..end), Pieces::NONE),
        2 => bits(Pieces::NONE, pieces(first..end)),
        3..6 if data.contains(first) => {
            let skipped = choose.below(8) as u32 * BLOCK_BYTES as u32;
            Act::Change(overwrite(id, first * PIECE_BYTES + skipped, (1 + choose.below(8)) * BLOCK_BYTES, version))
        }
        _ => Act::Change(fill(id, first..end, version)),
    }
}

/// What is wrong with a blob that is as one of two models say, piece by piece; empty if nothing is.
pub async fn judge(rig: &Rig, row: &BlobRow, allowed: &[&Content]) -> Vec<String> {
    let mut wrong = Vec::new();
    for piece in 0..PIECES_PER_BLOB {
        let kind = |owned: Pieces, data: Pieces| (owned.contains(piece), data.contains(piece));
        let found = kind(row.owned, row.data);
        if !allowed.iter().any(|content| kind(content.owned, content.data) == found) {
            wrong.push(format!("piece {piece} of {} is {found:?}, (owned, data)", row.at.id));
        }
        if !found.1 {
            continue;
        }
        let bytes = match rig.read_piece(row.at, piece).await {
            Ok(bytes) => bytes,
            Err(error) => {
                wrong.push(format!("piece {piece} of {}: {error}", row.at.id));
                continue;
            }
        };
        let contents: Vec<&&Content> = allowed.iter().filter(|content| content.data.contains(piece)).collect();
        for (number, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
            let at = piece * PIECE_BYTES + (number * SECTOR_BYTES) as u32;
            let version = version_of(sector);
            let is_allowed = contents.iter().any(|content| content.versions.get(&(at / BLOCK_BYTES as u32)) == Some(&version));
            if !is_allowed || stamped(row.at.id, at, SECTOR_BYTES, version) != sector {
                wrong.push(format!("byte {at} of {} has version {version}, of {allowed:?}", row.at.id));
            }
        }
    }
    wrong
}
