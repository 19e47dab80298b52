//! The baselines keep what they acknowledge: on a simulated disk, over compactions, restarts and power cuts. And the experiments run.

mod experiments;

use super::baseline::Layout;
use super::baseline::haystack::Haystack;
use super::baseline::tectonic::Tectonic;
use super::load::content;
use super::subject::Subject;
use disk::{CompletionOrder, Disk, SimDisk, SimOptions};
use env::Env;
use kv::{Kv, MemoryKv};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Volumes of 256 KiB: a few objects make a full one.
const LAYOUT: Layout =
    Layout { log_segment_bytes: 64 << 10, slot_bytes: 256 << 10, slots: 8, open_volumes: 2, garbage_share: 0.3 };
const PATIENCE: Duration = Duration::from_secs(600);

/// A disk, and the ordered stores that a process leaves.
struct Rig {
    env: Env,
    disk: SimDisk,
    kvs: [Arc<MemoryKv>; 3],
}

impl Rig {
    async fn new(seed: u64) -> Rig {
        let env = Env::simulated(seed);
        let bytes = LAYOUT.device_bytes();
        let options = SimOptions { seed, size_bytes: bytes, capacity_bytes: Some(bytes), ..SimOptions::default() };
        let disk = SimDisk::new(&env, options);
        LAYOUT.clear(&disk).await.expect("clears");
        Rig { env, disk, kvs: std::array::from_fn(|_| Arc::default()) }
    }

    /// The power goes, if it has not; what the next process finds.
    fn crash(&self) -> Rig {
        let disk = self.disk.crash();
        disk.set_order(CompletionOrder::Inline);
        Rig { env: self.env.clone(), disk, kvs: std::array::from_fn(|at| Arc::new(self.kvs[at].crash())) }
    }

    fn disk(&self) -> Arc<dyn Disk> {
        Arc::new(self.disk.clone())
    }

    async fn haystack(&self) -> Haystack {
        Haystack::open(&self.env, self.disk(), LAYOUT, self.kvs[0].clone()).await.expect("it opens")
    }

    async fn tectonic(&self) -> Tectonic {
        let kvs = std::array::from_fn(|at| self.kvs[at].clone() as Arc<dyn Kv>);
        Tectonic::open(&self.env, self.disk(), LAYOUT, kvs).await.expect("it opens")
    }
}

/// Lengths around those of blocks, and one of several.
fn length(number: u64) -> usize {
    [1, 4000, 4064, 4096, 9000, 30_000][number as usize % 6]
}

async fn put(subject: &dyn Subject, number: u64) {
    subject.put(number, content(number, length(number))).await.expect("puts");
}

async fn check(subject: &dyn Subject, there: &BTreeSet<u64>, all: u64) {
    for number in 1..=all {
        match subject.get(number).await {
            Ok(found) => assert!(there.contains(&number) && found == content(number, length(number)), "object {number}"),
            Err(error) => assert!(!there.contains(&number), "object {number}: {error:#}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_needle_comes_back_after_a_power_cut() {
    let rig = Rig::new(1).await;
    let store = rig.haystack().await;
    let mut there = BTreeSet::new();
    for number in 1..=12 {
        put(&store, number).await;
        there.insert(number);
    }
    for number in [3, 8] {
        store.delete(number).await.expect("deletes");
        there.remove(&number);
    }
    check(&store, &there, 12).await;
    let rig = rig.crash();
    let store = rig.haystack().await;
    check(&store, &there, 12).await;
    // Keys of before are not given again.
    put(&store, 13).await;
    there.insert(13);
    check(&rig.crash().haystack().await, &there, 13).await;
}

#[tokio::test(start_paused = true)]
async fn layers_come_back_after_a_power_cut() {
    let rig = Rig::new(2).await;
    let store = rig.tectonic().await;
    for number in 1..=12 {
        put(&store, number).await;
    }
    store.delete(5).await.expect("deletes");
    let there = (1..=12).filter(|number| *number != 5).collect();
    check(&store, &there, 12).await;
    check(&rig.crash().tectonic().await, &there, 12).await;
}

/// What is known after a workload: objects that are there, and the one whose operation was not answered.
struct Known {
    there: BTreeSet<u64>,
    unsure: Option<u64>,
}

/// Puts objects and deletes most of them, so that volumes are compacted, until all are put or the power is gone.
async fn churn(store: &Haystack, all: u64) -> Known {
    let mut there = BTreeSet::new();
    for number in 1..=all {
        let bytes = content(number, length(number));
        let Ok(done) = tokio::time::timeout(PATIENCE, store.put(number, bytes)).await else {
            return Known { there, unsure: Some(number) };
        };
        done.expect("it is put");
        there.insert(number);
        let old = number.saturating_sub(60);
        let most = if there.len() > 90 { there.first().copied() } else { None };
        let Some(gone) = most.or((old % 7 != 0).then_some(old)).filter(|gone| there.contains(gone)) else { continue };
        there.remove(&gone);
        let Ok(done) = tokio::time::timeout(PATIENCE, store.delete(gone)).await else {
            return Known { there, unsure: Some(gone) };
        };
        done.expect("it is deleted");
    }
    Known { there, unsure: None }
}

/// Far more is put than the disk has room for; the compaction wins it back.
#[tokio::test(start_paused = true)]
async fn compaction_keeps_what_lives() {
    let rig = Rig::new(3).await;
    let store = rig.haystack().await;
    rig.disk.set_order(CompletionOrder::Timed(Duration::from_millis(3)));
    let all = 1200;
    let known = churn(&store, all).await;
    let moved = store.moved_bytes();
    assert!(moved > LAYOUT.slot_bytes, "compactions have moved {moved} bytes");
    check(&store, &known.there, all).await;
    check(&rig.crash().haystack().await, &known.there, all).await;
}

/// What was answered is there, what was not is there as a whole or not at all.
#[tokio::test(start_paused = true)]
async fn power_cuts_lose_nothing_that_was_answered() {
    let (mut cuts, mut moved, all) = (0, 0, 300);
    for seed in 0..40 {
        let rig = Rig::new(seed).await;
        let store = rig.haystack().await;
        rig.disk.set_order(CompletionOrder::Timed(Duration::from_millis(3)));
        rig.disk.power_cut_after(seed * 43);
        let mut known = churn(&store, all).await;
        cuts += usize::from(rig.disk.power_is_cut());
        moved += store.moved_bytes();
        let store = rig.crash().haystack().await;
        if let Some(number) = known.unsure {
            match store.get(number).await {
                Ok(_) => drop(known.there.insert(number)),
                // A delete that was cut short may have left the name without its needle.
                Err(error) => {
                    let reason = error.to_string();
                    assert!(
                        ["no such name", "needle is not there"].iter().any(|end| reason.ends_with(end)),
                        "seed {seed}: {error:#}"
                    );
                }
            }
        }
        check(&store, &known.there, all).await;
    }
    assert!(cuts > 20, "{cuts} cuts");
    assert!(moved > LAYOUT.slot_bytes, "compactions have moved {moved} bytes");
}
