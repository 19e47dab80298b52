//! Tokens and sessions: one holder at a time.

use types::{ImageEpoch, Token};

use super::support::{Rig, fill, holder, id, idle, new, overwrite, poll, stamped};
use crate::stores::{Admission, Change, StoreError};

#[tokio::test(start_paused = true)]
async fn only_the_newest_pair_is_admitted() {
    let rig = Rig::new(1).await;
    let one = holder(3, 10);
    let later = Admission { session: 1, ..one };
    let next = Admission { token: Token(11), ..one };
    let mine = id(3, 0);
    let ask = async |admission: Admission| rig.store.create(admission, new(mine), Change::default()).await;
    assert_eq!(ask(one).await, Err(StoreError::Unknown));
    rig.enter(one).await;
    assert_eq!(ask(one).await, Ok(0));
    assert_eq!(ask(later).await, Err(StoreError::Unknown), "it has not entered");
    assert_eq!(ask(holder(3, 9)).await, Err(StoreError::Superseded));
    rig.enter(later).await;
    assert_eq!(ask(one).await, Err(StoreError::Superseded));
    assert_eq!(rig.store.enter(one).await, Err(StoreError::Superseded));
    assert_eq!(ask(later).await, Ok(0));
    // A greater token counts, whatever its session.
    rig.enter(next).await;
    assert_eq!(ask(later).await, Err(StoreError::Superseded));
    assert_eq!(rig.enter(next).await.len(), 1, "again");
    let other = holder(4, 5);
    rig.enter(other).await;
    assert_eq!(ask(next).await, Ok(0), "images do not meet");
    let at = crate::stores::BlobAt { block: 0, id: mine };
    for refused in [
        rig.store.change(one, at, Change::default()).await,
        rig.store.complete(one, at).await,
        rig.store.free(one, at).await,
        rig.store.read(Some(one), at, 0, 4096).await.map(drop),
    ] {
        assert_eq!(refused, Err(StoreError::Superseded));
    }
    // After a start no holder is known.
    let rig = rig.crash().await;
    assert_eq!(rig.store.change(next, at, Change::default()).await, Err(StoreError::Unknown));
    rig.enter(next).await;
    rig.change(next, at, Change::default()).await;
}

#[tokio::test(start_paused = true)]
async fn a_new_holder_has_the_image_when_writes_of_the_one_before_have_ended_though_it_is_gone() {
    for with_header in [false, true] {
        let rig = Rig::new(2).await;
        let (one, mine) = (holder(3, 10), id(3, 0));
        rig.enter(one).await;
        let at = rig.create(one, mine, fill(mine, 0..2, 1)).await;
        let change = if with_header { fill(mine, 2..3, 2) } else { overwrite(mine, 0, 8192, 2) };
        rig.disk.set_order(disk::CompletionOrder::Stepped);
        let mut writing = Box::pin(rig.store.change(one, at, change));
        assert!(poll(&mut writing).is_none());
        drop(writing);
        let mut entering = Box::pin(rig.store.enter(holder(3, 11)));
        assert!(poll(&mut entering).is_none());
        idle().await;
        assert!(poll(&mut entering).is_none(), "the write is under way");
        let late = rig.store.change(one, at, overwrite(mine, 0, 4096, 3)).await;
        assert_eq!(late, Err(StoreError::Superseded), "nothing new begins");
        let mut other = Box::pin(rig.store.enter(holder(4, 1)));
        assert!(poll(&mut other).is_some(), "another image does not wait");
        while rig.disk.step() {
            idle().await;
        }
        let rows = entering.await.expect("enters");
        assert_eq!(rows[0].data.contains(2), with_header);
        let rig = rig.crash().await;
        if with_header {
            rig.expect_piece(at, 2, 2).await;
        } else {
            let read = rig.store.read(None, at, 0, 8192).await.expect("reads");
            assert!(read == stamped(mine, 0, 8192, 2));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_waits_to_enter_gives_way_to_a_later_one() {
    let rig = Rig::new(3).await;
    let (one, mine) = (holder(3, 10), id(3, 0));
    rig.enter(one).await;
    let at = rig.create(one, mine, fill(mine, 0..1, 1)).await;
    rig.disk.set_order(disk::CompletionOrder::Stepped);
    let mut writing = Box::pin(rig.store.change(one, at, overwrite(mine, 0, 4096, 2)));
    assert!(poll(&mut writing).is_none());
    let mut second = Box::pin(rig.store.enter(holder(3, 11)));
    let mut third = Box::pin(rig.store.enter(holder(3, 12)));
    assert!(poll(&mut second).is_none() && poll(&mut third).is_none());
    rig.disk.run_until_idle();
    assert_eq!(writing.await, Ok(()), "what was begun ends well");
    assert_eq!(second.await, Err(StoreError::Superseded));
    assert_eq!(third.await.expect("enters").len(), 1);
}

/// Before a byte is changed, the header says which holder may have changed it; the epoch never goes back.
#[tokio::test(start_paused = true)]
async fn intent_stands_on_the_medium_before_the_first_change() {
    let mut rig = Rig::new(4).await;
    let (one, mine) = (holder(3, 10), id(3, 0));
    rig.enter(one).await;
    let at = rig.create(one, mine, fill(mine, 0..2, 1)).await;
    let next = Admission { token: Token(11), epoch: ImageEpoch(5), ..one };
    let later = Admission { epoch: ImageEpoch(6), ..next };
    for (number, admission) in [next, later].into_iter().enumerate() {
        let version = number as u64 + 2;
        rig.enter(admission).await;
        rig.disk.power_cut_after(1);
        let cut = super::support::patient(rig.store.change(admission, at, overwrite(mine, 0, 4096, version))).await;
        assert_eq!(cut, None);
        rig = rig.crash().await;
        let row = rig.rows(3)[0];
        assert_eq!((row.token, row.epoch), (admission.token, admission.epoch));
    }
    rig.enter(next).await;
    let before = rig.store.stats();
    rig.change(next, at, overwrite(mine, 0, 4096, 9)).await;
    assert_eq!(rig.rows(3)[0].epoch, later.epoch, "an older epoch is no news");
    assert_eq!(rig.store.stats().header_writes, before.header_writes);
    // Without content and pieces a change only announces.
    let last = Admission { epoch: ImageEpoch(7), ..next };
    rig.change(last, at, Change::default()).await;
    let rig = rig.crash().await;
    assert_eq!(rig.rows(3)[0].epoch, last.epoch);
}
