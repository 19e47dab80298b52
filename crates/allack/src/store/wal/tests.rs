//! The store on a simulated disk: what was acknowledged comes back after a power cut, for all groups, also when the log has gone around.

use std::sync::Arc;

use ::wal::RegionStore;
use disk::{SimDisk, SimOptions};
use types::ViewNumber;

use super::*;
use crate::id::Position;
use crate::log::Entry;
use crate::store::MemoryStore;

const SEGMENT_BYTES: u64 = 32 * 1024;
const SEGMENTS: usize = 8;
const LIMITS: LogLimits = LogLimits { entries: 64, bytes: 16 * 1024 };

fn new_disk(env: &Env, seed: u64) -> SimDisk {
    let size_bytes = SEGMENT_BYTES * SEGMENTS as u64;
    SimDisk::new(env, SimOptions { seed, size_bytes, capacity_bytes: Some(size_bytes), ..SimOptions::default() })
}

async fn open(env: &Env, disk: &SimDisk, keep_from: Lsn) -> Result<(WalStore, BTreeMap<GroupId, Saved>), StoreError> {
    let region = Arc::new(RegionStore::new(Arc::new(disk.clone()), 0, SEGMENT_BYTES, SEGMENTS));
    WalStore::open(env, region, SEGMENTS, keep_from, &LIMITS).await
}

fn entries(group: u32, first: u64, count: u64) -> Record {
    let entry = |opseq| {
        let position = Position { view: ViewNumber(1), opseq: OpSeq(opseq) };
        Entry { position, payload: Bytes::from(vec![opseq as u8; 200]) }
    };
    Record { group: GroupId(group), change: Change::Entries((first..first + count).map(entry).collect()) }
}

fn base(group: u32, opseq: u64) -> Record {
    Record { group: GroupId(group), change: Change::Base(Position { view: ViewNumber(1), opseq: OpSeq(opseq) }) }
}

fn lasts(saved: &BTreeMap<GroupId, Saved>) -> Vec<(u32, u64, u64)> {
    saved.iter().map(|(group, saved)| (group.0, saved.log.base().opseq.0, saved.log.last().opseq.0)).collect()
}

#[tokio::test(start_paused = true)]
async fn groups_share_writes_and_come_back_after_a_power_cut() {
    let env = Env::simulated(1);
    let disk = new_disk(&env, 1);
    let (store, saved) = open(&env, &disk, Lsn::FIRST).await.expect("a new log");
    assert_eq!(saved, BTreeMap::new());
    let promise = Record { group: GroupId(1), change: Change::Promise(ViewNumber(4)) };
    let first = store.queue(&[promise.clone(), entries(1, 1, 3)]).await.expect("queued");
    let second = store.queue(&[entries(2, 1, 2)]).await.expect("queued");
    first.await.expect("durable");
    second.await.expect("durable");
    // Queued, and not waited for: it may come back, or not.
    let never = store.queue(&[entries(2, 3, 1)]).await.expect("queued");
    disk.power_cut();
    drop((store, never));
    let disk = disk.restart();
    let (_, saved) = open(&env, &disk, Lsn::FIRST).await.expect("the log");
    assert_eq!(saved[&GroupId(1)].promised, ViewNumber(4));
    assert_eq!(lasts(&saved)[0], (1, 0, 3));
    assert!([(2, 0, 2), (2, 0, 3)].contains(&lasts(&saved)[1]), "{:?}", lasts(&saved));

    let mut twin = MemoryStore::default();
    for record in [promise, entries(1, 1, 3), entries(2, 1, 2), entries(2, 3, 1)] {
        twin.queue(&record);
    }
    twin.persist(3);
    twin.crash(0);
    assert_eq!(lasts(&twin.recover().expect("its records")), [(1, 0, 3), (2, 0, 2)], "the twin loses what was not persisted");
}

#[tokio::test(start_paused = true)]
async fn a_quiet_group_survives_that_the_log_goes_around() {
    let env = Env::simulated(2);
    let disk = new_disk(&env, 2);
    let (store, _) = open(&env, &disk, Lsn::FIRST).await.expect("a new log");
    store.queue(&[entries(1, 1, 5), base(1, 2)]).await.expect("queued").await.expect("durable");
    let mut keep_from = Lsn::FIRST;
    let mut first = 1;
    // Four times as much as the log has room for.
    for _ in 0..4 * SEGMENT_BYTES * SEGMENTS as u64 / 4096 {
        store.queue(&[entries(2, first, 16), base(2, first + 11)]).await.expect("queued").await.expect("durable");
        first += 16;
        while store.is_crowded() {
            keep_from = store.tidy().await.expect("said again").expect("something can be given up");
            store.give_up_before(keep_from);
        }
    }
    assert!(keep_from > Lsn(100), "the log has gone around");
    drop(store);
    let (store, saved) = open(&env, &disk, keep_from).await.expect("the log");
    assert_eq!(lasts(&saved), [(1, 2, 5), (2, first - 5, first - 1)]);
    assert_eq!(store.max_groups(), 6, "half of the log for the bounds of each");
    for group in 3..=6 {
        drop(store.queue(&[entries(group, 1, 1)]).await.expect("there is room"));
    }
    assert!(matches!(store.queue(&[entries(7, 1, 1)]).await, Err(StoreError::TooManyGroups { most: 6 })));
}
