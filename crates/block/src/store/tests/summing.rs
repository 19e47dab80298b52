//! Sums, with which copies are compared.

use disk::{Fault, FaultRule, Operation};
use format::blob_header::BlobState;
use types::limits::BLOCK_BYTES;
use types::{PIECE_BYTES, Token};

use super::support::{Rig, fill, holder, id, new, overwrite, pieces};
use crate::stores::{Admission, BlobSums, BlockSum, Change, NewBlob, StoreError};

const BLOCKS_PER_PIECE: usize = PIECE_BYTES as usize / BLOCK_BYTES;

/// Of content of which each 4 KiB is summed.
fn sums_of(content: &[u8]) -> Vec<BlockSum> {
    let sum = |block: &[u8]| blake3::hash(block).as_bytes()[..16].try_into().expect("a half");
    content.chunks(BLOCK_BYTES).map(sum).collect()
}

#[tokio::test(start_paused = true)]
async fn each_block_of_each_piece_with_content_is_summed_in_order() {
    let rig = Rig::new(1).await;
    let (one, mine) = (holder(3, 10), id(3, 7));
    rig.enter(one).await;
    let at = rig.create(one, mine, fill(mine, 60..62, 1)).await;
    rig.change(one, at, fill(mine, 2..3, 2)).await;
    rig.change(one, at, Change { zeroed: pieces(10..12), ..Change::default() }).await;
    let BlobSums { row, sums } = rig.store.sums(one, mine).await.expect("sums");
    assert_eq!(row, rig.rows(3)[0]);
    let mut content = rig.read_piece(at, 2).await.expect("reads").to_vec();
    for piece in [60, 61] {
        content.extend_from_slice(&rig.read_piece(at, piece).await.expect("reads"));
    }
    assert_eq!(sums, sums_of(&content));
    // One block differs in its own sum alone.
    rig.change(one, at, overwrite(mine, 60 * PIECE_BYTES + 4096, 4096, 3)).await;
    let after = rig.store.sums(one, mine).await.expect("sums").sums;
    let differs: Vec<usize> = (0..sums.len()).filter(|block| sums[*block] != after[*block]).collect();
    assert_eq!(differs, [BLOCKS_PER_PIECE + 1]);
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_is_being_made_is_summed_and_one_without_content_has_no_sums() {
    let rig = Rig::new(2).await;
    let (one, part, empty) = (holder(3, 10), id(3, 0), id(3, 1));
    rig.enter(one).await;
    let blob = NewBlob { state: BlobState::Partial, ..new(part) };
    rig.store.create(one, blob, fill(part, 0..1, 1)).await.expect("there is space");
    let found = rig.store.sums(one, part).await.expect("sums");
    assert_eq!((found.row.state, found.sums.len()), (BlobState::Partial, BLOCKS_PER_PIECE));
    rig.create(one, empty, Change { zeroed: pieces(0..64), ..Change::default() }).await;
    assert_eq!(rig.store.sums(one, empty).await.expect("sums").sums, [] as [BlockSum; 0]);
}

#[tokio::test(start_paused = true)]
async fn only_the_holder_gets_sums_of_what_is_there_and_can_be_read() {
    let rig = Rig::new(3).await;
    let (one, mine) = (holder(3, 10), id(3, 0));
    assert_eq!(rig.store.sums(one, mine).await, Err(StoreError::Absent));
    rig.enter(one).await;
    rig.create(one, mine, fill(mine, 0..1, 1)).await;
    assert_eq!(rig.store.sums(one, id(3, 1)).await, Err(StoreError::Absent));
    let next = Admission { token: Token(11), ..one };
    assert_eq!(rig.store.sums(next, mine).await, Err(StoreError::Unknown));
    rig.enter(next).await;
    assert_eq!(rig.store.sums(one, mine).await, Err(StoreError::Superseded));
    rig.enter(holder(4, 5)).await;
    assert!(matches!(rig.store.sums(holder(4, 5), mine).await, Err(StoreError::Invalid(_))), "of another image");
    rig.disk.add_rule(FaultRule::next(Operation::Read, Fault::Fail));
    assert!(matches!(rig.store.sums(next, mine).await, Err(StoreError::Failed(_))));
    assert_eq!(rig.store.sums(next, mine).await.expect("sums").sums.len(), BLOCKS_PER_PIECE);
}
