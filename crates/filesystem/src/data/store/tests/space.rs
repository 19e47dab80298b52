//! Space: taken when it is needed, given back when nothing is in it, and enough of it left to give back.

use std::time::Duration;

use bytes::Bytes;
use device::{SyncMode, VolumeOwner};
use disk::CompletionOrder;
use futures_util::future::join_all;

use super::support::{BLOCK, Rig, UNIT_BYTES, bytes};
use crate::data::store::limits::JOURNAL_SEGMENTS;
use crate::data::{DataError, DataPartition, Extents};
use crate::ids::ExtentId;

/// Units of the superblock and the journal.
const FIXED_UNITS: usize = 1;
const PIECE: usize = 256 * BLOCK;

#[tokio::test(start_paused = true)]
async fn a_store_without_extents_takes_no_space_and_makes_no_writes() {
    let rig = Rig::new(1).await;
    rig.maintain().await;
    let rig = rig.restart().await;
    let none = ExtentId { partition: 1, term: 1, number: 1 };
    assert_eq!(rig.store.append(none, 0, Bytes::from_static(b"x")).await, Err(DataError::NoExtent(none)));
    assert_eq!(rig.store.remove(none).await, Ok(()));
    assert_eq!((rig.lent_units(), rig.device.stats().volume_writes.get()), (0, 0));
    rig.create().await;
    assert!(rig.lent_units() > 0);
}

#[tokio::test(start_paused = true)]
async fn space_of_removed_and_punched_extents_is_seen_to_leave_the_device() {
    let rig = Rig::new(2).await;
    let room = rig.store.room();
    let (large, small) = (rig.create().await, rig.create().await);
    for part in 0..6 {
        rig.append(large, part * PIECE, &bytes(1, part * PIECE, PIECE)).await;
    }
    rig.append(small, 0, &bytes(1, 0, 40 * BLOCK)).await;
    let used = rig.store.room();
    assert!(room.free_bytes - used.free_bytes >= (6 * PIECE + 40 * BLOCK) as u64);
    let full = rig.lent_units();
    assert!(full >= 6 + FIXED_UNITS, "{full} units");
    rig.checkpoint().await;
    rig.punch(large, 0, 3 * PIECE).await;
    // The second look finds that nothing was asked since the first.
    rig.maintain().await;
    rig.maintain().await;
    let after_punch = rig.lent_units();
    assert!(after_punch < full, "{after_punch} of {full} units");
    assert!(rig.store.room().free_bytes >= used.free_bytes + 3 * PIECE as u64);
    rig.store.remove(large).await.expect("removes");
    rig.store.remove(small).await.expect("removes");
    rig.maintain().await;
    rig.maintain().await;
    assert_eq!(rig.lent_units(), FIXED_UNITS);
    let rig = rig.crash().await;
    assert_eq!((rig.lent_units(), rig.store.usage().content_bytes), (FIXED_UNITS, 0));
    let again = rig.create().await;
    rig.append(again, 0, &bytes(2, 0, PIECE)).await;
    rig.expect(again, 0, &bytes(2, 0, PIECE)).await;
}

/// A page that stands alone in a high unit does not keep it.
#[tokio::test(start_paused = true)]
async fn pages_move_down_so_that_units_get_empty() {
    let rig = Rig::new(6).await;
    let (large, small) = (rig.create().await, rig.create().await);
    rig.append(large, 0, &bytes(1, 0, 6 * PIECE)).await;
    rig.append(small, 0, &bytes(2, 0, BLOCK)).await;
    rig.checkpoint().await;
    rig.store.remove(large).await.expect("removes");
    // What is left of it goes back from the highest unit on, except for what appends need.
    rig.overwrite(small, 0, &bytes(3, 0, BLOCK)).await;
    rig.checkpoint().await;
    for _ in 0..3 {
        rig.checkpoint().await;
        rig.maintain().await;
    }
    let highest = rig.store.inner.state.lock().saved.iter().max().copied().expect("a checkpoint has blocks");
    assert!(u64::from(highest) * 4096 < UNIT_BYTES, "block {highest}");
    assert!(rig.lent_units() <= 5, "{} units", rig.lent_units());
    rig.crash().await.expect(small, 0, &bytes(3, 0, BLOCK)).await;
}

/// Fills the device; the extents and how many bytes each has.
async fn fill(rig: &Rig) -> Vec<(ExtentId, usize)> {
    let mut made = Vec::new();
    loop {
        let Ok(extent) = rig.store.create(Bytes::new()).await else { return made };
        let (mut len, mut step) = (0, 8 * BLOCK);
        while len < 2 * PIECE {
            match rig.store.append(extent, len as u64, bytes(1, len, step).into()).await {
                Ok(()) => len += step,
                Err(error) if step > BLOCK => {
                    assert_eq!(error, DataError::Full);
                    step = BLOCK;
                }
                Err(error) => {
                    assert_eq!(error, DataError::Full);
                    made.push((extent, len));
                    return made;
                }
            }
        }
        made.push((extent, len));
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_device_refuses_appends_and_still_overwrites_punches_and_removes() {
    let rig = Rig::new(3).await;
    let made = fill(&rig).await;
    assert!(made.len() > 3, "{} extents", made.len());
    assert!(rig.store.room().free_bytes < 10 * BLOCK as u64, "{:?}", rig.store.room());
    assert_eq!(rig.store.create(Bytes::new()).await, Err(DataError::Full));
    let mut contents: Vec<Vec<u8>> = made.iter().map(|(_, len)| bytes(1, 0, *len)).collect();
    for ((extent, len), content) in made.iter().zip(&mut contents) {
        for version in 2..6 {
            let at = len / 6 * version as usize / BLOCK * BLOCK;
            let data = bytes(version, at, BLOCK.min(len - at));
            rig.overwrite(*extent, at, &data).await;
            content[at..at + data.len()].copy_from_slice(&data);
        }
    }
    // Large overwrites at once, more than there are blocks left for them.
    rig.disk.set_order(CompletionOrder::Timed(Duration::from_millis(3)));
    let overwrites =
        made.iter().take(8).map(|(extent, len)| rig.store.overwrite(*extent, 0, bytes(9, 0, PIECE.min(*len)).into()));
    for outcome in join_all(overwrites).await {
        assert_eq!(outcome, Ok(()));
    }
    rig.disk.set_order(CompletionOrder::Inline);
    for ((extent, len), content) in made.iter().zip(&mut contents).take(8) {
        let data = bytes(9, 0, PIECE.min(*len));
        content[..data.len()].copy_from_slice(&data);
        rig.expect(*extent, 0, content).await;
    }
    rig.checkpoint().await;
    let rig = rig.crash().await;
    for ((extent, _), content) in made.iter().zip(&contents) {
        rig.expect(*extent, 0, content).await;
    }
    let (last, last_len) = *made.last().expect("some were made");
    rig.punch(made[0].0, 0, PIECE).await;
    rig.store.remove(made[1].0).await.expect("removes");
    rig.append(last, last_len, &bytes(1, last_len, 2 * PIECE)).await;
    rig.expect(last, last_len, &bytes(1, last_len, 2 * PIECE)).await;
}

#[tokio::test(start_paused = true)]
async fn other_owners_get_what_files_give_back_and_the_other_way_round() {
    let rig = Rig::new(4).await;
    let made = fill(&rig).await;
    let images = rig.device.volume(VolumeOwner::Images);
    assert!(images.reserve(0, UNIT_BYTES).await.is_err(), "the device is full");
    for (extent, _) in &made[..made.len() / 2] {
        rig.store.remove(*extent).await.expect("removes");
    }
    rig.checkpoint().await;
    rig.maintain().await;
    images.reserve(0, UNIT_BYTES).await.expect("there is space");
    images.give_back(0).await.expect("gives back");
    let extent = rig.create().await;
    rig.append(extent, 0, &bytes(5, 0, 3 * PIECE)).await;
}

/// Far more records than the journal holds, at once, with checkpoints under way.
#[tokio::test(start_paused = true)]
async fn the_journal_is_cut_while_requests_go_on() {
    for sync in [SyncMode::Always, SyncMode::Off] {
        let rig = Rig::with(5, sync).await;
        rig.disk.set_order(CompletionOrder::Timed(Duration::from_millis(2)));
        let mut extents = Vec::new();
        for _ in 0..8 {
            let extent = rig.create().await;
            rig.append(extent, 0, &bytes(0, 0, 16 * BLOCK)).await;
            extents.push(extent);
        }
        for version in 1..60 {
            let block = version as usize % 16;
            let writes = extents.iter().map(|extent| {
                let offset = block * BLOCK;
                rig.store.overwrite(*extent, offset as u64, bytes(version, offset, BLOCK).into())
            });
            assert!(join_all(writes).await.into_iter().all(|outcome| outcome == Ok(())));
        }
        let stats = rig.store.stats();
        assert!(stats.checkpoints >= 2, "{stats:?}");
        assert!(rig.store.usage().journal_live_segments < JOURNAL_SEGMENTS as u64);
        rig.store.inner.volume.flush().await.expect("flushes");
        let rig = rig.crash().await;
        for extent in extents {
            for block in 0..16 {
                let version = (1..60).filter(|version| version % 16 == block).max().expect("it was written");
                let offset = block as usize * BLOCK;
                rig.expect(extent, offset, &bytes(version, offset, BLOCK)).await;
            }
        }
    }
}
