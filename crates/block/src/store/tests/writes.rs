//! What changes cost.

use futures_util::future::join_all;
use types::{BLOB_BYTES, PIECE_BYTES};

use super::support::{Rig, fill, holder, id, idle, overwrite, pieces, poll, stamped};
use crate::store::limits::{MAX_REQUEST_BYTES, MAX_REQUESTS};
use crate::stores::{Admission, Change};

#[tokio::test(start_paused = true)]
async fn a_steady_overwrite_is_one_write_of_its_content_and_no_task() {
    let rig = Rig::new(1).await;
    let (one, mine) = (holder(3, 10), id(3, 0));
    rig.enter(one).await;
    let at = rig.create(one, mine, fill(mine, 0..4, 1)).await;
    let (before, volume, mutations) = (rig.store.stats(), rig.device.stats().volume_writes.get(), rig.disk.mutations());
    let shapes = [(0, 4096), (PIECE_BYTES - 4096, 8192), (0, 4 * PIECE_BYTES as usize), (8192, 65_536)];
    let bytes: usize = shapes.iter().map(|(_, len)| len).sum();
    for (version, (offset, len)) in (2..).zip(shapes) {
        // Pieces that are filled have content already.
        let change = Change { filled: pieces(0..1), ..overwrite(mine, offset, len, version) };
        let mut changing = Box::pin(rig.store.change(one, at, change));
        assert_eq!(poll(&mut changing), Some(Ok(())), "no task has to run for it");
    }
    let after = rig.store.stats();
    assert_eq!((after.writes - before.writes, after.header_writes), (4, before.header_writes));
    assert_eq!(after.written_bytes - before.written_bytes, bytes as u64);
    assert_eq!(rig.device.stats().volume_writes.get() - volume, 4);
    assert_eq!(rig.disk.mutations() - mutations, 4);
    let rig = rig.crash().await;
    let read = rig.store.read(None, at, 0, 8192).await.expect("reads");
    assert!(read == stamped(mine, 0, 8192, 4));
}

#[tokio::test(start_paused = true)]
async fn a_holder_announces_itself_once_in_each_blob() {
    let rig = Rig::new(2).await;
    let (one, mine) = (holder(3, 10), id(3, 0));
    rig.enter(one).await;
    let at = rig.create(one, mine, fill(mine, 0..4, 1)).await;
    let next = holder(3, 11);
    rig.enter(next).await;
    let before = rig.store.stats().header_writes;
    for version in 2..5 {
        rig.change(next, at, overwrite(mine, 0, 4096, version)).await;
    }
    assert_eq!(rig.store.stats().header_writes, before + 1);
    let last = Admission { epoch: types::ImageEpoch(2), ..next };
    // Many at once need one header.
    let changes = (0..4).map(|piece| rig.store.change(last, at, overwrite(mine, piece * PIECE_BYTES, 4096, 9)));
    assert!(join_all(changes).await.into_iter().all(|outcome| outcome == Ok(())));
    assert_eq!(rig.store.stats().header_writes, before + 2);
    rig.change(last, at, Change { zeroed: pieces(0..1), ..Change::default() }).await;
    assert_eq!(rig.store.stats().header_writes, before + 3);
}

#[tokio::test(start_paused = true)]
async fn first_touches_at_once_share_writes_of_the_header() {
    let rig = Rig::new(3).await;
    let (one, mine) = (holder(3, 10), id(3, 0));
    rig.enter(one).await;
    let at = rig.create(one, mine, Change::default()).await;
    rig.disk.set_order(disk::CompletionOrder::Timed(std::time::Duration::from_millis(3)));
    let before = rig.store.stats();
    let changes = (0..64).map(|piece| rig.store.change(one, at, fill(mine, piece..piece + 1, 7)));
    assert!(join_all(changes).await.into_iter().all(|outcome| outcome == Ok(())));
    let after = rig.store.stats();
    assert_eq!(after.writes - before.writes, 64);
    let headers = after.header_writes - before.header_writes;
    assert!((1..=16).contains(&headers), "{headers} writes of the header for 64 pieces");
    let rig = rig.crash().await;
    for piece in 0..64 {
        rig.expect_piece(at, piece, 7).await;
    }
}

/// A caller that is gone ends nothing that was begun, of whatever steps it consists.
#[tokio::test(start_paused = true)]
async fn what_was_begun_goes_on_without_its_caller() {
    let rig = Rig::new(4).await;
    let one = holder(3, 10);
    rig.enter(one).await;
    let at = rig.create(one, id(3, 0), fill(id(3, 0), 0..2, 1)).await;
    let gone = rig.create(one, id(3, 1), fill(id(3, 1), 0..2, 1)).await;
    let next = holder(3, 11);
    rig.enter(next).await;
    rig.disk.set_order(disk::CompletionOrder::Stepped);
    assert!(poll(&mut Box::pin(rig.store.change(next, at, overwrite(at.id, 0, 4096, 2)))).is_none());
    assert!(poll(&mut Box::pin(rig.store.change(next, at, fill(at.id, 5..7, 2)))).is_none());
    assert!(poll(&mut Box::pin(rig.store.create(next, super::support::new(id(3, 2)), fill(id(3, 2), 0..1, 2)))).is_none());
    assert!(poll(&mut Box::pin(rig.store.free(next, gone))).is_none());
    let mut closing = Box::pin(rig.store.close());
    while poll(&mut closing).is_none() {
        idle().await;
        rig.disk.step();
    }
    let rig = rig.crash().await;
    let rows = rig.rows(3);
    assert_eq!(rows.iter().map(|row| row.at.id.index).collect::<Vec<_>>(), [0, 2]);
    assert_eq!(rows[0].data, pieces(0..2) | pieces(5..7));
    rig.expect_piece(at, 6, 2).await;
    rig.expect_piece(rows[1].at, 0, 2).await;
    let read = rig.store.read(None, at, 0, 8192).await.expect("reads");
    assert!(read == [stamped(at.id, 0, 4096, 2), stamped(at.id, 4096, 4096, 1)].concat());
}

#[tokio::test(start_paused = true)]
async fn more_than_may_be_under_way_waits_its_turn() {
    let rig = Rig::new(5).await;
    let (one, mine) = (holder(3, 10), id(3, 0));
    rig.enter(one).await;
    let at = rig.create(one, mine, fill(mine, 0..64, 1)).await;
    let (requests, bytes) = (&rig.store.inner.requests, &rig.store.inner.bytes);
    let all_but_one = requests.clone().acquire_many_owned(MAX_REQUESTS as u32 - 1).await.expect("open");
    rig.disk.set_order(disk::CompletionOrder::Stepped);
    let mut first = Box::pin(rig.store.change(one, at, overwrite(mine, 0, 4096, 2)));
    let mut second = Box::pin(rig.store.change(one, at, overwrite(mine, 4096, 4096, 2)));
    assert!(poll(&mut first).is_none() && poll(&mut second).is_none());
    assert_eq!((rig.disk.in_flight(), requests.available_permits()), (1, 0));
    // What has not begun is refused by a later session.
    rig.disk.run_until_idle();
    assert_eq!(first.await, Ok(()));
    rig.enter(Admission { session: 1, ..one }).await;
    assert_eq!(second.await, Err(crate::stores::StoreError::Superseded));
    drop(all_but_one);

    let one = Admission { session: 1, ..one };
    let blocks = (MAX_REQUEST_BYTES - BLOB_BYTES as usize) / 4096;
    let _all_but_a_blob = bytes.clone().acquire_many_owned(blocks as u32).await.expect("open");
    let mut first = Box::pin(rig.store.change(one, at, overwrite(mine, 0, BLOB_BYTES as usize, 3)));
    assert!(poll(&mut first).is_none());
    let mut second = Box::pin(rig.store.read(Some(one), at, 0, 4096));
    assert!(poll(&mut second).is_none());
    assert_eq!(bytes.available_permits(), 0);
    rig.disk.set_order(disk::CompletionOrder::Inline);
    rig.disk.run_until_idle();
    assert_eq!(first.await, Ok(()));
    assert!(second.await.expect("reads") == stamped(mine, 0, 4096, 3));
}
