//! What requests cost, at once and one after another, with their callers and without.

use std::time::Duration;

use bytes::Bytes;
use disk::{CompletionOrder, Fault, FaultRule, Operation};
use futures_util::future::join_all;

use super::support::{BLOCK, Rig, bytes, idle, poll};
use crate::data::{DataError, DataPartition, Extents};

#[tokio::test(start_paused = true)]
async fn a_write_of_content_is_one_write_of_it_and_one_of_the_journal() {
    let rig = Rig::new(1).await;
    let extent = rig.create().await;
    rig.append(extent, 0, &bytes(1, 0, BLOCK)).await;
    // The journal of a small device begins a segment with each third frame, and with each one write more.
    let counts = || {
        let segments = rig.store.usage().journal_live_segments;
        let stats = rig.device.stats();
        (stats.volume_writes.get() - segments, stats.volume_written_bytes.get() - segments * 4096)
    };
    let mut offset = BLOCK;
    for len in [BLOCK, 32 * BLOCK, 256 * BLOCK] {
        let before = counts();
        rig.append(extent, offset, &bytes(1, offset, len)).await;
        let pieces = if len > BLOCK * 32 { 2 } else { 1 };
        assert_eq!(counts().0 - before.0, 2 * pieces, "an append of {len} bytes at {offset}");
        offset += len;
    }
    for (offset, len) in [(0, BLOCK), (4 * BLOCK, BLOCK), (3 * BLOCK, 16 * BLOCK)] {
        let before = counts();
        rig.overwrite(extent, offset, &bytes(2, offset, len)).await;
        assert_eq!(counts(), (before.0 + 2, before.1 + len as u64 + 4096), "an overwrite of {len} bytes at {offset}");
    }
    let stats = rig.store.stats();
    assert_eq!((stats.partial_reads, stats.reads), (0, 0));
    assert_eq!((stats.writes, stats.journal_records), (8, 9));
}

#[tokio::test(start_paused = true)]
async fn appends_in_turn_stand_side_by_side_and_are_read_at_once() {
    let rig = Rig::new(2).await;
    let extent = rig.create().await;
    let content = bytes(1, 0, 240 * BLOCK);
    for offset in (0..content.len()).step_by(24 * BLOCK) {
        rig.append(extent, offset, &content[offset..offset + 24 * BLOCK]).await;
    }
    let before = rig.device.stats().volume_reads.get();
    rig.expect(extent, 0, &content).await;
    assert_eq!(rig.device.stats().volume_reads.get() - before, 1);
}

#[tokio::test(start_paused = true)]
async fn appends_to_several_extents_at_once_share_writes_of_the_journal() {
    let rig = Rig::new(3).await;
    let mut extents = Vec::new();
    for _ in 0..32 {
        extents.push(rig.create().await);
    }
    rig.disk.set_order(CompletionOrder::Timed(Duration::from_millis(3)));
    let before = rig.device.stats().volume_writes.get();
    let data = Bytes::from(bytes(1, 0, BLOCK));
    let appends = extents.iter().map(|extent| rig.store.append(*extent, 0, data.clone()));
    assert!(join_all(appends).await.into_iter().all(|outcome| outcome == Ok(())));
    let journal = rig.device.stats().volume_writes.get() - before - 32;
    assert!((1..=8).contains(&journal), "{journal} writes of the journal for 32 appends");
    let rig = rig.crash().await;
    for extent in extents {
        rig.expect(extent, 0, &data).await;
    }
}

/// Each of the requests at once finds what the one before it left; those of one range in the order of asking.
#[tokio::test(start_paused = true)]
async fn requests_of_one_extent_at_once_take_their_turns() {
    let rig = Rig::new(4).await;
    let extent = rig.create().await;
    rig.disk.set_order(CompletionOrder::Timed(Duration::from_millis(3)));
    let content = bytes(1, 0, 40 * 1000);
    let appends = (0..40).map(|part| {
        let data = Bytes::copy_from_slice(&content[part * 1000..][..1000]);
        rig.store.append(extent, part as u64 * 1000, data)
    });
    assert!(join_all(appends).await.into_iter().all(|outcome| outcome == Ok(())));
    rig.expect(extent, 0, &content).await;
    let overwrites = (0..40).map(|version| {
        // Ranges that overlap by half, and blocks in part.
        let offset = version * 500;
        rig.store.overwrite(extent, offset as u64, bytes(version as u64, offset, 1000).into())
    });
    let reads = (0..40).map(|part| rig.store.read(extent, part * 1000, 1000));
    let (written, read) = futures_util::future::join(join_all(overwrites), join_all(reads)).await;
    assert!(written.into_iter().all(|outcome| outcome == Ok(())));
    assert!(read.into_iter().all(|outcome| outcome.is_ok()));
    let mut expected = content;
    for version in 0..40 {
        expected[version * 500..][..1000].copy_from_slice(&bytes(version as u64, version * 500, 1000));
    }
    rig.expect(extent, 0, &expected).await;
    rig.crash().await.expect(extent, 0, &expected).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_begun_goes_on_without_its_caller() {
    let rig = Rig::new(5).await;
    let (extent, gone) = (rig.create().await, rig.create().await);
    rig.append(extent, 0, &bytes(1, 0, 2 * BLOCK)).await;
    rig.append(gone, 0, &bytes(1, 0, 2 * BLOCK)).await;
    rig.disk.set_order(CompletionOrder::Stepped);
    assert!(poll(&mut rig.store.overwrite(extent, 100, bytes(2, 100, BLOCK).into())).is_none());
    assert!(poll(&mut rig.store.append(extent, 2 * BLOCK as u64, bytes(2, 2 * BLOCK, 100).into())).is_none());
    assert!(poll(&mut rig.store.remove(gone)).is_none());
    let mut closing = Box::pin(rig.store.close());
    while poll(&mut closing).is_none() {
        idle().await;
        rig.disk.step();
    }
    assert!(matches!(rig.store.remove(extent).await, Err(DataError::Unavailable(_))), "a closed store takes no writes");
    let rig = rig.crash().await;
    rig.expect(extent, 100, &bytes(2, 100, BLOCK)).await;
    rig.expect(extent, 2 * BLOCK, &bytes(2, 2 * BLOCK, 100)).await;
    assert_eq!(rig.store.usage().extents, 1);
}

/// The write of the content or that of the record fails, whole or torn.
#[tokio::test(start_paused = true)]
async fn a_write_that_fails_is_not_answered_as_done_and_ends_all_writing() {
    for (skip, fault) in (0..2).flat_map(|skip| [(skip, Fault::Fail), (skip, Fault::FailTorn)]) {
        let rig = Rig::new(6).await;
        let extent = rig.create().await;
        let content = bytes(1, 0, 2 * BLOCK);
        rig.append(extent, 0, &content).await;
        rig.disk.add_rule(FaultRule { skip, ..FaultRule::next(Operation::Write, fault) });
        let failed = rig.store.overwrite(extent, 0, bytes(2, 0, BLOCK).into()).await;
        assert!(matches!(failed, Err(DataError::Unavailable(_))), "{skip}: {failed:?}");
        assert!(rig.store.is_stuck());
        rig.expect(extent, 0, &content).await;
        let refused = rig.store.append(extent, 2 * BLOCK as u64, bytes(2, 0, 10).into()).await;
        assert!(matches!(refused, Err(DataError::Unavailable(_))), "{refused:?}");
        assert!(matches!(rig.store.create(Bytes::new()).await, Err(DataError::Unavailable(_))));
        let rig = rig.crash().await;
        let found = rig.read(extent, 0, BLOCK).await.expect("reads");
        assert!(found == content[..BLOCK] || found == bytes(2, 0, BLOCK), "it is old or new");
        rig.overwrite(extent, 0, &bytes(3, 0, BLOCK)).await;
    }
}
