//! What each request does.

use bytes::Bytes;
use disk::{Fault, FaultOdds, FaultRule, Operation};
use format::blob_header::BlobState;
use types::{BLOB_BYTES, ImageId, LayerOf, PIECE_BYTES, Pieces};

use super::support::{Rig, fill, holder, id, idle, new, overwrite, pieces, poll, stamped};
use crate::store::ImageUse;
use crate::stores::{BlobAt, Change, NewBlob, StoreError};

#[tokio::test(start_paused = true)]
async fn a_blob_is_made_and_changed_and_found_by_the_next_process() {
    let mut rig = Rig::new(1).await;
    let (one, mine) = (holder(3, 10), id(3, 77));
    assert_eq!(rig.enter(one).await, []);
    let parent = Some(LayerOf { image: ImageId(2), layer: types::Layer(5) });
    let blob = NewBlob { id: mine, state: BlobState::Partial, parent };
    let block = rig.store.create(one, blob, fill(mine, 2..4, 1)).await.expect("there is space");
    let at = BlobAt { block, id: mine };
    assert_eq!(block, 0);
    rig.change(one, at, fill(mine, 63..64, 2)).await;
    rig.change(one, at, overwrite(mine, 2 * PIECE_BYTES + 4096, 8192, 3)).await;
    rig.change(one, at, Change { zeroed: pieces(10..12), ..Change::default() }).await;
    for _ in 0..2 {
        rig.store.complete(one, at).await.expect("again as well");
    }
    for _ in 0..2 {
        let rows = rig.enter(one).await;
        assert_eq!((rows.len(), rows[0].at, rows[0].state, rows[0].parent), (1, at, BlobState::Whole, parent));
        assert_eq!((rows[0].token, rows[0].epoch), (one.token, one.epoch));
        assert_eq!(rows[0].data, pieces(2..4) | pieces(63..64));
        assert_eq!(rows[0].owned, rows[0].data | pieces(10..12));
        assert_eq!(rig.store.images(), [ImageUse { image: ImageId(3), blocks: 1, pieces: 3 }]);
        rig.expect_piece(at, 3, 1).await;
        rig.expect_piece(at, 63, 2).await;
        let read = rig.store.read(Some(one), at, 2 * PIECE_BYTES, 16_384).await.expect("reads");
        let expected = [(0, 4096, 1), (4096, 8192, 3), (12_288, 4096, 1)];
        let expected = expected.map(|(at, len, version)| stamped(mine, 2 * PIECE_BYTES + at, len, version)).concat();
        assert!(read == expected);
        rig = rig.crash().await;
    }
}

#[tokio::test(start_paused = true)]
async fn pieces_that_are_zeros_or_dropped_have_no_content() {
    let rig = Rig::new(2).await;
    let (one, mine) = (holder(3, 10), id(3, 0));
    rig.enter(one).await;
    let at = rig.create(one, mine, fill(mine, 0..4, 1)).await;
    rig.change(one, at, Change { zeroed: pieces(0..1), dropped: pieces(1..2), ..Change::default() }).await;
    let row = rig.rows(3)[0];
    assert_eq!((row.owned, row.data), (pieces(0..1) | pieces(2..4), pieces(2..4)));
    for piece in [0, 1, 4] {
        assert!(matches!(rig.read_piece(at, piece).await, Err(StoreError::Invalid(_))), "piece {piece}");
    }
    let across = rig.store.read(None, at, PIECE_BYTES, 2 * PIECE_BYTES).await;
    assert!(matches!(across, Err(StoreError::Invalid(_))));
    let part = overwrite(mine, 0, 4096, 2);
    let refused = rig.store.change(one, at, part.clone()).await;
    assert!(matches!(refused, Err(StoreError::Invalid(_))), "it would show the former content");
    rig.change(one, at, fill(mine, 0..1, 3)).await;
    rig.change(one, at, part).await;
    let rig = rig.crash().await;
    let row = rig.rows(3)[0];
    assert_eq!((row.owned, row.data), (pieces(0..1) | pieces(2..4), pieces(0..1) | pieces(2..4)));
    assert!(rig.read_piece(at, 0).await.expect("reads")[4096..] == stamped(mine, 4096, PIECE_BYTES as usize - 4096, 3));
}

#[tokio::test(start_paused = true)]
async fn what_is_made_twice_has_one_block_and_both_changes() {
    let rig = Rig::new(3).await;
    let (one, mine) = (holder(3, 10), id(3, 0));
    rig.enter(one).await;
    let changes = (0..4).map(|piece| rig.store.create(one, new(mine), fill(mine, piece..piece + 1, 1)));
    let blocks = futures_util::future::join_all(changes).await;
    assert_eq!(blocks, [Ok(0), Ok(0), Ok(0), Ok(0)]);
    assert_eq!(rig.create(one, mine, Change::default()).await.block, 0);
    assert_eq!(rig.rows(3)[0].data, pieces(0..4));
    let other = rig.create(one, id(3, 1), Change::default()).await;
    assert_eq!(other.block, 1);
}

#[tokio::test(start_paused = true)]
async fn what_no_holder_should_ask_is_invalid_and_changes_nothing() {
    let rig = Rig::new(4).await;
    let (one, mine) = (holder(3, 10), id(3, 0));
    rig.enter(one).await;
    let at = rig.create(one, mine, fill(mine, 0..2, 1)).await;
    let before = (rig.rows(3), rig.disk.mutations());
    let content = |offset, len| Change { offset, content: Bytes::from(vec![1; len]), ..Change::default() };
    let bits = |filled, zeroed, dropped| Change { filled, zeroed, dropped, ..Change::default() };
    let (some, none) = (pieces(0..1), Pieces::NONE);
    let wrong = [
        content(1, 4096),
        content(0, 100),
        content(BLOB_BYTES, 4096),
        content(BLOB_BYTES - 4096, 8192),
        content(u32::MAX - 4095, 4096),
        // No content stands there.
        content(2 * PIECE_BYTES, 4096),
        content(PIECE_BYTES, 2 * PIECE_BYTES as usize),
        bits(some, some, none),
        bits(some, none, some),
        bits(none, some, some),
        bits(pieces(5..6), none, none),
        Change { filled: pieces(2..4), ..content(2 * PIECE_BYTES, 2 * PIECE_BYTES as usize - 4096) },
        Change { zeroed: some, ..content(0, 4096) },
        Change { dropped: some, ..content(0, 4096) },
    ];
    for change in wrong {
        let refused = rig.store.change(one, at, change.clone()).await;
        assert!(matches!(refused, Err(StoreError::Invalid(_))), "{change:?}: {refused:?}");
        let refused = rig.store.create(one, new(id(3, 9)), change.clone()).await;
        assert!(matches!(refused, Err(StoreError::Invalid(_))), "{change:?}: {refused:?}");
    }
    for (offset, length) in [(0, 0), (1, 4096), (0, 5), (BLOB_BYTES, 4096), (0, u32::MAX), (u32::MAX - 4095, 4096)] {
        let refused = rig.store.read(None, at, offset, length).await;
        assert!(matches!(refused, Err(StoreError::Invalid(_))), "{length} at {offset}: {refused:?}");
    }
    let free = NewBlob { state: BlobState::Free, ..new(id(3, 9)) };
    assert!(matches!(rig.store.create(one, free, Change::default()).await, Err(StoreError::Invalid(_))));
    assert!(matches!(rig.store.create(one, new(id(4, 9)), Change::default()).await, Err(StoreError::Invalid(_))));
    let other = BlobAt { id: id(4, 0), ..at };
    assert!(matches!(rig.store.change(one, other, Change::default()).await, Err(StoreError::Invalid(_))));
    for nowhere in [BlobAt { block: 1, ..at }, BlobAt { block: u32::MAX, ..at }, BlobAt { id: id(3, 1), ..at }] {
        assert_eq!(rig.store.change(one, nowhere, Change::default()).await, Err(StoreError::Absent));
        assert_eq!(rig.store.complete(one, nowhere).await, Err(StoreError::Absent));
        assert_eq!(rig.store.free(one, nowhere).await, Err(StoreError::Absent));
        assert_eq!(rig.store.read(Some(one), nowhere, 0, 4096).await, Err(StoreError::Absent));
    }
    assert_eq!(before, (rig.rows(3), rig.disk.mutations()));
    assert!(rig.store.stats().refused > 40, "{:?}", rig.store.stats());
}

#[tokio::test(start_paused = true)]
async fn a_freed_block_is_used_again_and_shows_nothing_of_before() {
    let mut rig = Rig::new(5).await;
    let (one, two) = (holder(3, 10), holder(4, 11));
    rig.enter(one).await;
    rig.enter(two).await;
    let at = rig.create(one, id(3, 0), fill(id(3, 0), 0..4, 1)).await;
    rig.free(one, at).await;
    assert_eq!(rig.store.free(one, at).await, Err(StoreError::Absent));
    assert_eq!(rig.read_piece(at, 0).await, Err(StoreError::Absent));
    rig = rig.crash().await;
    assert_eq!(rig.rows(3), []);
    assert_eq!(rig.store.stats().headers_fallen_back, 0);
    rig.enter(two).await;
    let next = rig.create(two, id(4, 5), fill(id(4, 5), 1..2, 1)).await;
    assert_eq!(next.block, at.block);
    rig = rig.crash().await;
    assert_eq!((rig.rows(3), rig.rows(4).len()), (vec![], 1));
    rig.expect_piece(next, 1, 1).await;
    assert!(matches!(rig.read_piece(next, 0).await, Err(StoreError::Invalid(_))), "the other's bytes stay hidden");
}

#[tokio::test(start_paused = true)]
async fn a_block_is_free_when_what_was_under_way_in_it_has_ended() {
    let rig = Rig::new(6).await;
    let (one, mine) = (holder(3, 10), id(3, 0));
    rig.enter(one).await;
    let at = rig.create(one, mine, fill(mine, 0..2, 1)).await;
    rig.disk.set_odds(FaultOdds { cache_miss: 1_000_000, ..FaultOdds::default() });
    rig.disk.add_rule(FaultRule::next(Operation::Read, Fault::Hold));
    let before = rig.store.stats().header_writes;
    let mut reading = Box::pin(rig.read_piece(at, 0));
    assert!(poll(&mut reading).is_none());
    let mut freeing = Box::pin(rig.store.free(one, at));
    let mut again = Box::pin(rig.store.create(one, new(mine), fill(mine, 5..6, 2)));
    assert!(poll(&mut freeing).is_none());
    idle().await;
    assert!(poll(&mut again).is_none(), "it waits for what becomes of the blob");
    assert_eq!((rig.store.stats().header_writes, rig.rows(3).len()), (before, 1), "nothing is written before the read ends");
    rig.disk.release();
    assert!(reading.await.expect("reads") == stamped(mine, 0, PIECE_BYTES as usize, 1));
    assert_eq!(freeing.await, Ok(()));
    assert_eq!(again.await, Ok(at.block));
    assert_eq!(rig.rows(3)[0].data, pieces(5..6));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_closed_ends_what_is_under_way_and_begins_nothing_that_writes() {
    let rig = Rig::new(7).await;
    let (one, mine) = (holder(3, 10), id(3, 0));
    rig.enter(one).await;
    let at = rig.create(one, mine, fill(mine, 0..2, 1)).await;
    rig.disk.set_order(disk::CompletionOrder::Stepped);
    let mut writing = Box::pin(rig.store.change(one, at, overwrite(mine, 0, 4096, 2)));
    assert!(poll(&mut writing).is_none());
    drop(writing);
    let mut closing = Box::pin(rig.store.close());
    assert!(poll(&mut closing).is_none());
    assert!(matches!(rig.store.change(one, at, overwrite(mine, 0, 4096, 3)).await, Err(StoreError::Failed(_))));
    assert!(matches!(rig.store.create(one, new(id(3, 1)), Change::default()).await, Err(StoreError::Failed(_))));
    assert!(matches!(rig.store.free(one, at).await, Err(StoreError::Failed(_))));
    rig.disk.run_until_idle();
    closing.await;
    rig.disk.set_order(disk::CompletionOrder::Inline);
    let read = rig.store.read(None, at, 0, 4096).await.expect("reads go on");
    assert!(read == stamped(mine, 0, 4096, 2));
}
