//! The content of copies, compared by sums.

use futures_util::{StreamExt, stream};
use manager::ImageRecord;
use types::limits::BLOCK_BYTES;
use types::{PIECE_BYTES, PIECES_PER_BLOB, Pieces};

use super::finding::Difference;
use super::image::{Blobs, Copy, Counted, may_be_unfinished, was_closed};
use super::{Finding, Report};
use crate::store::summing::sums_of;
use crate::stores::BlockSum;

/// Blobs whose copies are compared at once: each is read into 4 MiB of memory.
const COMPARED_AT_ONCE: usize = 4;

/// What a comparison found, and how many bytes it read.
type Compared = (Vec<Finding>, u64);

/// Compares the copies of each blob that has several that count.
pub(super) async fn check(record: &ImageRecord, blobs: &Blobs<'_>, report: &mut Report) {
    let several = blobs.counted(record).into_iter().filter(|blob| blob.copies.len() > 1);
    let mut compared = stream::iter(several).map(|blob| compare(record, blob)).buffered(COMPARED_AT_ONCE);
    while let Some((findings, bytes)) = compared.next().await {
        report.compared_bytes += bytes;
        findings.into_iter().for_each(|finding| report.add(finding));
    }
}

/// The first copy that can be read is what the others are held against.
async fn compare(record: &ImageRecord, blob: Counted<'_>) -> Compared {
    let id = blob.id;
    let (_, data) = blob.pieces();
    let mut findings = Vec::new();
    let mut bytes = 0;
    let mut first: Option<(Copy<'_>, Vec<BlockSum>)> = None;
    for copy in blob.copies {
        let device = copy.volume.device();
        let sums = match sums_of(copy.volume, copy.block, data).await {
            Ok(sums) => sums,
            Err(error) => {
                findings.push(Finding::Unreadable { id, device, reason: error.to_string() });
                continue;
            }
        };
        bytes += (sums.len() * BLOCK_BYTES) as u64;
        let Some((other, others)) = &first else {
            first = Some((copy, sums));
            continue;
        };
        if let Some(difference) = difference(data, (other, others), (&copy, &sums)) {
            // A piece of an ended layer may have got what it reads as anyway.
            let is_same = difference.blocks == 0 && !was_closed(record);
            let may_be = is_same || may_be_unfinished(record, id.layer);
            findings.push(Finding::Different { id, devices: [other.volume.device(), device], difference, may_be });
        }
    }
    (findings, bytes)
}

/// In what two copies differ; `data` are the pieces that were summed.
fn difference(data: Pieces, one: (&Copy<'_>, &[BlockSum]), other: (&Copy<'_>, &[BlockSum])) -> Option<Difference> {
    let unequal = |one: Pieces, other: Pieces| (one & !other) | (other & !one);
    let ((one, sums), (other, others)) = (one, other);
    let pieces = unequal(one.head.owned, other.head.owned) | unequal(one.head.data, other.head.data);
    let mut differing = (0..sums.len()).filter(|at| sums[*at] != others[*at]);
    let first = differing.next();
    let blocks = differing.count() as u32 + u32::from(first.is_some());
    let is_equal = pieces.is_empty() && blocks == 0;
    (!is_equal).then(|| Difference { pieces: pieces.count(), blocks, first: first.map(|at| byte_of(data, at)) })
}

/// Where a block of the pieces stands in its blob.
fn byte_of(data: Pieces, block: usize) -> u32 {
    let per_piece = PIECE_BYTES as usize / BLOCK_BYTES;
    let piece = (0..PIECES_PER_BLOB).filter(|piece| data.contains(*piece)).nth(block / per_piece);
    piece.expect("each block is of a piece") * PIECE_BYTES + (block % per_piece * BLOCK_BYTES) as u32
}
