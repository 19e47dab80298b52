//! Disks that fail, and file systems that are full.

use disk::{Disk, Fault, FaultRule, Operation};
use types::DeviceId;

use super::support::{Rig, fill, holder, id, new, overwrite, pieces};
use crate::stores::{Admission, Change, StoreError};

/// The first, second or third write of a change fails, whole or torn: what was durable before still counts, and nothing is written any more.
#[tokio::test(start_paused = true)]
async fn a_write_that_fails_is_not_answered_as_done_and_memory_does_not_claim_it() {
    for (skip, fault) in (0..3).flat_map(|skip| [(skip, Fault::Fail), (skip, Fault::FailTorn)]) {
        let rig = Rig::new(1).await;
        let (one, next) = (holder(3, 10), holder(3, 11));
        rig.enter(one).await;
        let at = rig.create(one, id(3, 0), fill(id(3, 0), 0..2, 1)).await;
        rig.enter(next).await;
        rig.disk.add_rule(FaultRule { skip, ..FaultRule::next(Operation::Write, fault) });
        let failed = rig.store.change(next, at, fill(at.id, 5..6, 2)).await;
        assert!(matches!(failed, Err(StoreError::Failed(_))), "{skip}: {failed:?}");
        let row = rig.rows(3)[0];
        assert_eq!((row.data, row.token), (pieces(0..2), if skip == 0 { one.token } else { next.token }));
        assert!(rig.store.is_stuck());
        let before = rig.disk.stats().writes;
        for refused in [
            rig.store.change(next, at, overwrite(at.id, 0, 4096, 3)).await,
            rig.store.create(next, new(id(3, 1)), fill(id(3, 1), 0..1, 1)).await.map(drop),
            rig.store.free(next, at).await,
            rig.store.flush().await,
        ] {
            assert!(matches!(refused, Err(StoreError::Failed(_))), "{refused:?}");
        }
        assert_eq!(rig.disk.stats().writes, before, "nothing is tried any more");
        rig.expect_piece(at, 1, 1).await;
        let rig = rig.crash().await;
        rig.expect_piece(at, 1, 1).await;
        let row = rig.rows(3)[0];
        if row.data.contains(5) {
            rig.expect_piece(at, 5, 2).await;
        }
        rig.enter(next).await;
        rig.change(next, at, fill(at.id, 5..6, 4)).await;
        rig.expect_piece(at, 5, 4).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_waits_behind_a_header_that_fails_is_refused_too() {
    let rig = Rig::new(2).await;
    let one = holder(3, 10);
    rig.enter(one).await;
    let at = rig.create(one, id(3, 0), Change::default()).await;
    rig.disk.set_order(disk::CompletionOrder::Timed(std::time::Duration::from_millis(2)));
    let place = rig.slot_place(0, 0);
    rig.disk.add_rule(FaultRule::always_in(place..place + 8192, Operation::Write, Fault::Fail));
    let asking = (0..6).map(|piece| rig.store.change(one, at, fill(at.id, piece..piece + 1, 1)));
    let answers = futures_util::future::join_all(asking).await;
    assert!(answers.iter().all(|answer| matches!(answer, Err(StoreError::Failed(_)))), "{answers:?}");
    assert!(rig.rows(3)[0].data.is_empty());
    // Nothing is under way any more.
    rig.enter(Admission { session: 1, ..one }).await;
    rig.store.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_blob_whose_content_or_header_could_not_be_written_is_not_there_after_a_start() {
    for skip in 0..2 {
        let rig = Rig::new(3).await;
        let one = holder(3, 10);
        rig.enter(one).await;
        let at = rig.create(one, id(3, 0), fill(id(3, 0), 0..1, 1)).await;
        rig.disk.add_rule(FaultRule { skip, ..FaultRule::next(Operation::Write, Fault::Fail) });
        let failed = rig.store.create(one, new(id(3, 1)), fill(id(3, 1), 0..1, 1)).await;
        assert!(matches!(failed, Err(StoreError::Failed(_))), "{failed:?}");
        // Of a header it is not known here.
        assert_eq!(rig.rows(3).len(), 1 + skip as usize);
        let rig = rig.crash().await;
        assert_eq!(rig.rows(3).len(), 1);
        rig.enter(one).await;
        assert_eq!(rig.create(one, id(3, 1), fill(id(3, 1), 0..1, 2)).await.block, 1);
        rig.expect_piece(at, 0, 1).await;
    }
}

/// The header of the first attempt stands on the medium, though its write was answered with an error.
#[tokio::test(start_paused = true)]
async fn a_blob_in_doubt_is_told_and_is_not_made_anew() {
    let rig = Rig::new(3).await;
    let one = holder(3, 10);
    rig.enter(one).await;
    rig.create(one, id(3, 0), fill(id(3, 0), 0..1, 1)).await;
    rig.disk.add_rule(FaultRule { skip: 1, ..FaultRule::next(Operation::Write, Fault::Fail) });
    rig.store.create(one, new(id(3, 1)), fill(id(3, 1), 0..1, 1)).await.unwrap_err();
    rig.enter(Admission { session: 1, ..one }).await;
    let at = rig.rows(3)[1].at;
    assert_eq!(at.id, id(3, 1));
    let again = Admission { session: 1, ..one };
    for refused in [
        rig.store.create(again, new(id(3, 1)), fill(id(3, 1), 0..1, 2)).await.map(drop),
        rig.store.change(again, at, overwrite(at.id, 0, 4096, 3)).await,
        rig.store.free(again, at).await,
        rig.store.read(Some(again), at, 0, 4096).await.map(drop),
    ] {
        assert!(matches!(&refused, Err(StoreError::Failed(reason)) if reason.contains("not known")), "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_free_that_fails_leaves_the_blob() {
    let rig = Rig::new(4).await;
    let one = holder(3, 10);
    rig.enter(one).await;
    let at = rig.create(one, id(3, 0), fill(id(3, 0), 0..1, 1)).await;
    rig.disk.add_rule(FaultRule::next(Operation::Write, Fault::Fail));
    assert!(matches!(rig.store.free(one, at).await, Err(StoreError::Failed(_))));
    rig.expect_piece(at, 0, 1).await;
    let rig = rig.crash().await;
    rig.enter(one).await;
    rig.free(one, at).await;
    assert_eq!(rig.crash().await.rows(3), []);
}

/// No room for a unit ends only the request that needs it.
#[tokio::test(start_paused = true)]
async fn a_full_file_system_refuses_new_units_and_nothing_else() {
    let rig = Rig::new(5).await;
    let one = holder(3, 10);
    rig.enter(one).await;
    let at = rig.create(one, id(3, 0), fill(id(3, 0), 0..1, 1)).await;
    rig.create(one, id(3, 1), Change::default()).await;
    // Units get zones from the end of the file.
    rig.disk.set_space_limit(Some(format::superblock::FIRST_REGION_BYTE));
    let full = rig.store.create(one, new(id(3, 2)), Change::default()).await;
    assert_eq!(full, Err(StoreError::NoSpace(DeviceId(7))));
    assert!(!rig.store.is_stuck());
    rig.disk.set_space_limit(None);
    rig.change(one, at, fill(at.id, 0..3, 2)).await;
    rig.env.sleep(device::limits::ALLOCATION_RETRY).await;
    let made = rig.create(one, id(3, 2), fill(id(3, 2), 0..1, 3)).await;
    let rig = rig.crash().await;
    rig.expect_piece(at, 2, 2).await;
    rig.expect_piece(made, 0, 3).await;
}

/// A write that the file system has no room for ends nothing but itself.
#[tokio::test(start_paused = true)]
async fn a_write_that_finds_the_file_system_full_ends_only_its_request() {
    for touches in [0..2, 5..6] {
        let rig = Rig::new(6).await;
        let one = holder(3, 10);
        rig.enter(one).await;
        let at = rig.create(one, id(3, 0), fill(id(3, 0), 0..2, 1)).await;
        rig.disk.set_space_limit(Some(format::superblock::FIRST_REGION_BYTE));
        let full = rig.store.change(one, at, fill(at.id, touches.clone(), 2)).await;
        assert_eq!(full, Err(StoreError::NoSpace(DeviceId(7))));
        assert_eq!(rig.store.free(one, at).await, Err(StoreError::NoSpace(DeviceId(7))));
        assert_eq!(rig.rows(3)[0].data, pieces(0..2));
        rig.disk.set_space_limit(None);
        rig.change(one, at, fill(at.id, touches.clone(), 3)).await;
        let rig = rig.crash().await;
        rig.expect_piece(at, touches.start, 3).await;
    }
}

#[tokio::test(start_paused = true)]
async fn content_that_cannot_be_read_is_a_failure() {
    let rig = Rig::new(7).await;
    let one = holder(3, 10);
    rig.enter(one).await;
    let at = rig.create(one, id(3, 0), fill(id(3, 0), 0..2, 1)).await;
    let place = rig.slot_place(0, 2);
    rig.disk.add_rule(FaultRule::always_in(place..place + 4096, Operation::Read, Fault::Fail));
    assert!(matches!(rig.read_piece(at, 0).await, Err(StoreError::Failed(_))));
    rig.expect_piece(at, 1, 1).await;
    rig.free(one, at).await;
}
