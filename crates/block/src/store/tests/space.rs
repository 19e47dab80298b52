//! Units of the volume: taken, given back, and taken again.

use device::{SyncMode, VolumeOwner};
use format::blob_header::BLOB_STRIDE_BYTES;
use futures_util::future::join_all;
use types::DeviceId;

use super::support::{BLOCKS, Rig, UNIT_BYTES, fill, holder, id, idle, new, poll};
use crate::stores::{BlobAt, Change, StoreError};

const FULL: StoreError = StoreError::NoSpace(DeviceId(7));

async fn fill_up(rig: &Rig) -> Vec<BlobAt> {
    let one = holder(3, 10);
    rig.enter(one).await;
    let mut made = Vec::new();
    for index in 0.. {
        match rig.store.create(one, new(id(3, index)), fill(id(3, index), 0..1, 1)).await {
            Ok(block) => made.push(BlobAt { block, id: id(3, index) }),
            Err(error) => {
                assert_eq!(error, FULL);
                break;
            }
        }
    }
    made
}

#[tokio::test(start_paused = true)]
async fn blobs_get_the_lowest_blocks_until_the_device_is_full() {
    let rig = Rig::new(1).await;
    assert_eq!((rig.lent_units(), rig.store.room()), (0, BLOCKS));
    let made = fill_up(&rig).await;
    assert_eq!(made.iter().map(|at| at.block).collect::<Vec<_>>(), (0..BLOCKS).collect::<Vec<_>>());
    assert_eq!((rig.lent_units(), rig.store.room()), (4, 0));
    let one = holder(3, 10);
    for block in [5, 2] {
        rig.free(one, made[block]).await;
    }
    for (index, block) in [(50, 2), (51, 5)] {
        assert_eq!(rig.create(one, id(3, index), fill(id(3, index), 0..1, 2)).await.block, block);
    }
    assert_eq!(rig.store.create(one, new(id(3, 52)), Change::default()).await, Err(FULL));
    assert!(!rig.store.is_stuck());
    let rig = rig.crash().await;
    assert_eq!(rig.rows(3).len() as u32, BLOCKS);
    for row in rig.rows(3) {
        rig.expect_piece(row.at, 0, if row.at.id.index >= 50 { 2 } else { 1 }).await;
    }
    rig.enter(one).await;
    assert_eq!(rig.store.create(one, new(id(3, 52)), Change::default()).await, Err(FULL));
}

#[tokio::test(start_paused = true)]
async fn many_at_once_share_the_blocks() {
    let rig = Rig::new(2).await;
    let one = holder(3, 10);
    rig.enter(one).await;
    rig.disk.set_order(disk::CompletionOrder::Timed(std::time::Duration::from_millis(3)));
    let making = (0..BLOCKS + 3).map(|index| rig.store.create(one, new(id(3, index)), fill(id(3, index), 0..2, 1)));
    let answers = join_all(making).await;
    let mut blocks: Vec<u32> = answers.iter().filter_map(|answer| answer.clone().ok()).collect();
    blocks.sort_unstable();
    assert_eq!(blocks, (0..BLOCKS).collect::<Vec<_>>());
    assert_eq!(answers.iter().filter(|answer| **answer == Err(FULL)).count(), 3);
    let rig = rig.crash().await;
    for row in rig.rows(3) {
        rig.expect_piece(row.at, 1, 1).await;
    }
}

/// What images need no more, others may have, and images again.
#[tokio::test(start_paused = true)]
async fn units_in_which_nothing_is_go_back_and_are_taken_again() {
    let mut rig = Rig::new(3).await;
    let one = holder(3, 10);
    for round in 0..3 {
        let made = fill_up(&rig).await;
        // Block 2 stands in the units 0 and 1; 4 and 5 in 1, 2 and 3 … in units 2 and 3 as well.
        for at in made.iter().filter(|at| at.block != 2) {
            rig.free(one, *at).await;
        }
        if round == 1 {
            rig = rig.crash().await;
            rig.enter(one).await;
        }
        rig.store.inner.return_vacant().await;
        assert_eq!(rig.lent_units(), 2, "those of block 2");
        rig.expect_piece(made[2], 0, 1).await;
        rig = rig.crash().await;
        assert_eq!(rig.store.stats().headers_fallen_back, 0);
        rig.expect_piece(made[2], 0, 1).await;
        rig.enter(one).await;
        let again = rig.create(one, id(3, 70), fill(id(3, 70), 3..4, 5)).await;
        assert_eq!(again.block, 0);
        for at in [again, made[2]] {
            rig.free(one, at).await;
        }
        rig.store.inner.return_vacant().await;
        assert_eq!((rig.lent_units(), rig.store.room()), (0, BLOCKS));
        if round == 1 {
            rig = rig.crash().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn space_goes_back_by_itself_and_not_while_a_blob_is_being_made() {
    let rig = Rig::new(4).await;
    let one = holder(3, 10);
    rig.enter(one).await;
    let at = rig.create(one, id(3, 0), fill(id(3, 0), 0..1, 1)).await;
    rig.free(one, at).await;
    let returning = rig.store.return_space();
    let making = async {
        rig.disk.set_order(disk::CompletionOrder::Timed(std::time::Duration::from_millis(3)));
        for index in 1..40 {
            let at = rig.create(one, id(3, index), fill(id(3, index), 0..1, 1)).await;
            rig.env.sleep(std::time::Duration::from_millis(u64::from(index) * 17)).await;
            rig.expect_piece(at, 0, 1).await;
            rig.free(one, at).await;
        }
        rig.env.sleep(std::time::Duration::from_secs(11)).await;
        assert_eq!(rig.lent_units(), 0);
    };
    tokio::select! {
        () = returning => unreachable!("it never ends"),
        () = making => {}
    }
}

/// A return that is given up by its caller goes on, and nothing is made in the unit meanwhile.
#[tokio::test(start_paused = true)]
async fn a_return_without_its_caller_ends_before_the_space_is_used() {
    let rig = Rig::new(5).await;
    let one = holder(3, 10);
    rig.enter(one).await;
    let at = rig.create(one, id(3, 0), fill(id(3, 0), 0..1, 1)).await;
    rig.free(one, at).await;
    rig.disk.set_order(disk::CompletionOrder::Timed(std::time::Duration::from_millis(3)));
    let mut returning = Box::pin(rig.store.inner.return_vacant());
    assert!(poll(&mut returning).is_none());
    drop(returning);
    let at = rig.create(one, id(3, 1), fill(id(3, 1), 0..1, 2)).await;
    let rig = rig.crash().await;
    rig.expect_piece(at, 0, 2).await;
}

/// The unit goes back only when another volume has its zone: nothing is made in it until then.
#[tokio::test(start_paused = true)]
async fn a_return_that_waits_for_another_volume_keeps_its_unit_from_use() {
    let rig = Rig::new(7).await;
    let one = holder(3, 10);
    rig.enter(one).await;
    let at = rig.create(one, id(3, 0), fill(id(3, 0), 0..1, 1)).await;
    rig.free(one, at).await;
    rig.disk.set_order(disk::CompletionOrder::Stepped);
    let chunks = rig.device.volume(VolumeOwner::Chunks);
    let mut lending = Box::pin(chunks.reserve(0, 4096));
    let mut returning = Box::pin(rig.store.inner.return_vacant());
    let mut making = Box::pin(rig.store.create(one, new(id(3, 1)), fill(id(3, 1), 0..1, 2)));
    assert!(poll(&mut lending).is_none() && poll(&mut returning).is_none() && poll(&mut making).is_none());
    idle().await;
    assert_eq!(rig.lent_units(), 1, "its return has not begun");
    drop((lending, returning));
    let block = loop {
        rig.disk.step();
        idle().await;
        if let Some(made) = poll(&mut making) {
            break made.expect("there is space");
        }
    };
    while rig.disk.step() {
        idle().await;
    }
    let rig = rig.crash().await;
    rig.expect_piece(BlobAt { block, id: id(3, 1) }, 0, 2).await;
}

/// A header in two units keeps both, once it was written.
#[tokio::test(start_paused = true)]
async fn a_header_in_two_units_is_never_torn_apart() {
    // The header of block 1 has one slot in each of the units 0 and 1.
    let unit_bytes = BLOB_STRIDE_BYTES + 4096;
    assert!(unit_bytes < UNIT_BYTES);
    let mut rig = Rig::with(6, unit_bytes, SyncMode::Always).await;
    let one = holder(3, 10);
    rig.enter(one).await;
    let first = rig.create(one, id(3, 0), fill(id(3, 0), 0..1, 1)).await;
    assert_eq!((first.block, rig.lent_units()), (0, 1));
    rig.free(one, first).await;
    rig.store.inner.return_vacant().await;
    assert_eq!(rig.lent_units(), 0, "nothing was ever written to it");
    let first = rig.create(one, id(3, 0), fill(id(3, 0), 0..1, 1)).await;
    let second = rig.create(one, id(3, 1), fill(id(3, 1), 0..1, 1)).await;
    assert_eq!((second.block, rig.lent_units()), (1, 2));
    rig.change(one, second, fill(id(3, 1), 1..2, 1)).await;
    rig.free(one, first).await;
    rig.free(one, second).await;
    rig.store.inner.return_vacant().await;
    assert_eq!(rig.lent_units(), 2);
    rig = rig.crash().await;
    assert_eq!((rig.store.stats().headers_fallen_back, rig.store.stats().blocks_damaged), (0, 0));
    rig.enter(one).await;
    let again = rig.create(one, id(3, 2), fill(id(3, 2), 0..1, 3)).await;
    let beside = rig.create(one, id(3, 3), fill(id(3, 3), 0..1, 3)).await;
    rig = rig.crash().await;
    rig.expect_piece(again, 0, 3).await;
    rig.expect_piece(beside, 0, 3).await;
}
