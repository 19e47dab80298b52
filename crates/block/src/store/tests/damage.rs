//! Headers that rot.

use disk::{Fault, FaultRule, Operation};

use super::support::{Rig, fill, holder, id, new, pieces};
use crate::stores::{BlobAt, Change, StoreError};

/// Two blobs, of which the first one's header was written three times: slot 1, 0, 1.
async fn used() -> (Rig, BlobAt, BlobAt) {
    let rig = Rig::new(1).await;
    let one = holder(3, 10);
    rig.enter(one).await;
    let at = rig.create(one, id(3, 0), fill(id(3, 0), 0..1, 1)).await;
    let other = rig.create(one, id(3, 1), fill(id(3, 1), 0..1, 1)).await;
    rig.change(one, at, fill(id(3, 0), 1..2, 1)).await;
    rig.change(one, at, fill(id(3, 0), 2..3, 1)).await;
    (rig, at, other)
}

fn ruin(rig: &Rig, block: u32, slot: u64) {
    (0..200).for_each(|_| rig.disk.corrupt_at_rest(rig.slot_place(block, slot), 512));
}

fn zero(rig: &Rig, block: u32, slot: u64) {
    let write =
        disk::DiskExt::write(&rig.disk, rig.slot_place(block, slot), disk::AlignedBuf::zeroed(4096), disk::Durability::Durable);
    super::support::poll(&mut Box::pin(write)).expect("answers").expect("writes");
}

#[tokio::test(start_paused = true)]
async fn the_header_before_counts_where_one_is_lost_and_the_lost_slot_is_written_next() {
    for is_zeroed in [false, true] {
        let (rig, at, _) = used().await;
        if is_zeroed {
            zero(&rig, at.block, 1)
        } else {
            ruin(&rig, at.block, 1)
        };
        let rig = rig.crash().await;
        assert_eq!((rig.store.stats().headers_fallen_back, rig.store.stats().blocks_damaged), (1, 0));
        assert_eq!(rig.rows(3)[0].data, pieces(0..2));
        rig.enter(holder(3, 10)).await;
        rig.change(holder(3, 10), at, fill(at.id, 7..8, 2)).await;
        let rig = rig.crash().await;
        assert_eq!(rig.store.stats().headers_fallen_back, 0);
        assert_eq!(rig.rows(3)[0].data, pieces(0..2) | pieces(7..8));
    }
}

#[tokio::test(start_paused = true)]
async fn an_older_slot_that_is_lost_changes_nothing() {
    let (rig, at, _) = used().await;
    ruin(&rig, at.block, 0);
    let rig = rig.crash().await;
    assert_eq!(rig.store.stats().headers_fallen_back, 1);
    assert_eq!(rig.rows(3)[0].data, pieces(0..3));
}

#[tokio::test(start_paused = true)]
async fn a_block_without_a_header_is_left_alone() {
    let (rig, at, other) = used().await;
    ruin(&rig, at.block, 0);
    ruin(&rig, at.block, 1);
    let before = rig.disk.peek(rig.slot_place(at.block, 0), 8192);
    let rig = rig.crash().await;
    assert_eq!(rig.store.stats().blocks_damaged, 1);
    let one = holder(3, 10);
    assert_eq!(rig.enter(one).await.iter().map(|row| row.at).collect::<Vec<_>>(), [other]);
    assert!(matches!(rig.read_piece(at, 0).await, Err(StoreError::Failed(_))));
    assert!(matches!(rig.store.change(one, at, Change::default()).await, Err(StoreError::Failed(_))));
    assert!(matches!(rig.store.free(one, at).await, Err(StoreError::Failed(_))));
    // The blob can be made elsewhere; the block and its unit stay as they are.
    assert_eq!(rig.create(one, at.id, fill(at.id, 0..1, 2)).await.block, 2);
    rig.free(one, other).await;
    rig.store.inner.return_vacant().await;
    assert_eq!(rig.lent_units(), 2);
    assert!(rig.disk.peek(rig.slot_place(at.block, 0), 8192) == before);
    assert!(rig.store.create(one, new(id(3, 7)), Change::default()).await.is_ok_and(|block| block == 1));
}

/// A block's first header that is lost can't be told from damage.
#[tokio::test(start_paused = true)]
async fn a_first_header_that_is_lost_is_damage() {
    let (rig, _, other) = used().await;
    ruin(&rig, other.block, 1);
    let rig = rig.crash().await;
    assert_eq!(rig.store.stats().blocks_damaged, 1);
}

/// The header that freed a block rots, so that its former blob seems to be there, beside the present one.
#[tokio::test(start_paused = true)]
async fn a_blob_that_seems_to_have_two_blocks_has_the_better_one() {
    let rig = Rig::new(2).await;
    let one = holder(3, 10);
    rig.enter(one).await;
    let former = rig.create(one, id(3, 0), fill(id(3, 0), 0..1, 1)).await;
    let keeper = rig.create(one, id(3, 1), Change::default()).await;
    rig.free(one, former).await;
    let blocker = rig.create(one, id(3, 2), Change::default()).await;
    let present = rig.create(one, id(3, 0), fill(id(3, 0), 0..1, 2)).await;
    assert_eq!([former, keeper, blocker, present].map(|at| at.block), [0, 1, 0, 2]);
    rig.free(one, blocker).await;
    // Serial 1: the former blob; 2: free; 3: the blocker; 4: free. Slot 1 is made to say what it said first.
    let mut header = rig.store.inner.state.lock().table.head(0);
    header.id = id(3, 0);
    header.state = format::blob_header::BlobState::Whole;
    header.serial = 3;
    rig.store.inner.put_header(0, &header).await.expect("writes");
    ruin(&rig, 0, 0);
    let rig = rig.crash().await;
    assert_eq!((rig.store.stats().blocks_damaged, rig.store.stats().headers_fallen_back), (1, 1));
    let rows = rig.enter(one).await;
    assert_eq!(rows.iter().map(|row| row.at).collect::<Vec<_>>(), [present, keeper]);
    rig.expect_piece(present, 0, 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_header_of_another_block_is_not_believed() {
    let (rig, at, other) = used().await;
    let header = rig.disk.peek(rig.slot_place(at.block, 1), 4096);
    let buf = disk::AlignedBuf::copy_of(&header);
    let write = disk::DiskExt::write(&rig.disk, rig.slot_place(other.block, 1), buf, disk::Durability::Durable);
    write.await.expect("writes");
    let rig = rig.crash().await;
    assert_eq!(rig.store.stats().blocks_damaged, 1);
    assert_eq!(rig.rows(3).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_header_that_cannot_be_read_leaves_the_other_slot() {
    let (rig, at, _) = used().await;
    let disk = rig.disk.restart();
    let place = rig.slot_place(at.block, 1);
    disk.add_rule(FaultRule::always_in(place..place + 4096, Operation::Read, Fault::Fail));
    let rig = rig.on(&disk).await;
    assert_eq!(rig.store.stats().headers_fallen_back, 1);
    assert_eq!(rig.rows(3)[0].data, pieces(0..2));
}
