//! The fences' record.

use std::collections::BTreeMap;
use std::time::Duration;

use disk::CompletionOrder;
use format::chunk_fences::MAX_FENCED_SHARDS;
use format::chunk_id::{ChunkNumber, ShardId};
use futures_util::future::join_all;

use super::support::{Rig, try_open};
use crate::blocks::error::WriteError;
use crate::blocks::fences::{FenceTable, Fences};
use crate::message::{NodeRefusal, Resolved};

fn resolved(puts: u64, moves: u64) -> Resolved {
    Resolved { puts: ChunkNumber(puts), moves }
}

/// What the next process finds.
async fn found(rig: &Rig) -> FenceTable {
    let device = super::support::open_device(&rig.env, &rig.disk.crash()).await;
    crate::blocks::load::load(&device.volume(device::VolumeOwner::Chunks), 1).await.expect("loads").fences
}

#[tokio::test(start_paused = true)]
async fn fences_only_grow_and_what_is_durable_is_not_written_again() {
    let rig = Rig::new(1).await;
    let fences = &rig.store.inner.fences;
    assert!(fences.raise(ShardId(3), resolved(5, 0)).await.expect("writes"));
    assert!(!fences.raise(ShardId(3), resolved(4, 0)).await.expect("nothing to do"));
    assert!(fences.raise(ShardId(3), resolved(4, 2)).await.expect("writes"));
    assert!(fences.raise(ShardId(9), resolved(1, 1)).await.expect("writes"));
    assert_eq!(found(&rig).await, BTreeMap::from([(ShardId(3), resolved(5, 2)), (ShardId(9), resolved(1, 1))]));
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_at_once_goes_into_one_write() {
    let rig = Rig::new(2).await;
    rig.disk.set_order(CompletionOrder::Timed(Duration::from_millis(5)));
    let fences = &rig.store.inner.fences;
    let raised = join_all((1..=50).map(|shard| fences.raise(ShardId(shard), resolved(u64::from(shard), 0)))).await;
    let writes = raised.into_iter().filter(|result| *result.as_ref().expect("writes")).count();
    assert!(writes <= 2, "{writes} writes: the first one, and one for all that came meanwhile");
    assert_eq!(found(&rig).await.len(), 50);
}

#[tokio::test(start_paused = true)]
async fn a_cut_leaves_all_fences_that_were_answered() {
    for cut in 0..6 {
        let rig = Rig::new(cut).await;
        let fences = &rig.store.inner.fences;
        rig.disk.power_cut_after(cut);
        let mut answered = 0;
        while tokio::time::timeout(Duration::from_secs(1), fences.raise(ShardId(1), resolved(answered + 1, 0))).await.is_ok() {
            answered += 1;
        }
        let puts = found(&rig).await.get(&ShardId(1)).map_or(0, |fence| fence.puts.0);
        assert!(puts == answered || puts == answered + 1, "{puts} of {answered}");
        assert_eq!(answered, cut);
    }
}

#[tokio::test(start_paused = true)]
async fn more_shards_than_the_record_holds_are_refused() {
    let rig = Rig::new(3).await;
    let table: FenceTable = (0..MAX_FENCED_SHARDS as u32).map(|shard| (ShardId(shard), resolved(1, 1))).collect();
    let fences = Fences::new(rig.device.volume(device::VolumeOwner::Chunks), table, None);
    let error = fences.raise(ShardId(u32::MAX), resolved(1, 1)).await.expect_err("one too many");
    assert!(matches!(error, WriteError::TooManyShards));
    assert_eq!(error.refusal(), NodeRefusal::Full);
    assert!(fences.raise(ShardId(5), resolved(2, 1)).await.expect("a shard that is there"));
    let rig = try_open(&rig.env, &rig.disk.crash()).await.expect("opens");
    assert_eq!(found(&rig).await.len(), MAX_FENCED_SHARDS);
}
