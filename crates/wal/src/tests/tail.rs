//! Records that are kept in the tail: what a killed process leaves, and what a power cut leaves.

use std::sync::Arc;
use std::time::Duration;

use disk::{CompletionOrder, Disk, SimDisk};
use env::Env;
use parking_lot::Mutex;

use super::crash::{Ledger, OPERATION_TIME, check, payload, seeds};
use super::{Records, new_disk, store_on};
use crate::{KEPT_DELAY, Lsn, MIN_TAIL_BYTES, OpenError, OpenOptions, SimTail, Tail, Wal};

const APPENDERS: u64 = 3;
const RECORDS_PER_APPENDER: u64 = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Kill,
    PowerCut,
}

async fn open(env: &Env, disk: &SimDisk, tail: &SimTail, keep_from: Lsn) -> Result<(Wal, Records), OpenError> {
    let mut records = Records::new();
    let options = OpenOptions { keep_from, ..OpenOptions::default() };
    let tail: Arc<dyn Tail> = Arc::new(tail.clone());
    let mut take = |lsn, payload: &[u8]| records.push((lsn, payload.to_vec()));
    let wal = Wal::open_keeping(env, store_on(disk), Some(tail), options, &mut take).await?;
    assert!(wal.begin_keeping());
    Ok((wal, records))
}

/// What has been promised.
#[derive(Default)]
struct Promises {
    ledger: Ledger,
    /// The last record that was kept, by this process or, until the log is open, by one before it. A power cut takes it.
    kept: u64,
}

async fn appender(env: Env, wal: Wal, promises: Arc<Mutex<Promises>>) {
    for _ in 0..RECORDS_PER_APPENDER {
        let (room, may_wait) = (wal.reserve(16 * 1024).await.unwrap(), env.random_below(4) > 0);
        let pending = {
            let mut promises = promises.lock();
            promises.ledger.serial += 1;
            let bytes = payload(&env, promises.ledger.serial);
            let pending = if may_wait { room.append_kept(bytes.clone()) } else { room.append(bytes.clone()) }.unwrap();
            promises.ledger.handed_over.insert(pending.lsn().0, bytes);
            if pending.is_kept() {
                promises.kept = pending.lsn().0;
            }
            pending
        };
        if pending.is_kept() && env.random_below(3) == 0 {
            let kept = promises.lock().kept;
            wal.settle().await.unwrap();
            let mut promises = promises.lock();
            promises.ledger.acknowledged = promises.ledger.acknowledged.max(kept);
        } else if !pending.is_kept() {
            let lsn = pending.await.unwrap().0;
            let mut promises = promises.lock();
            promises.ledger.acknowledged = promises.ledger.acknowledged.max(lsn);
        }
        let mut promises = promises.lock();
        let behind = env.random_below(6);
        let ledger = &mut promises.ledger;
        ledger.keep_from = ledger.keep_from.max((ledger.acknowledged + 1).saturating_sub(behind).max(1));
        wal.truncate_before(Lsn(ledger.keep_from));
    }
}

/// Opens the log, checks it, and appends until the process ends, after so many operations of the disk. Whether all was appended before.
async fn round(
    env: &Env,
    (disk, tail): (&SimDisk, &SimTail),
    promises: &Arc<Mutex<Promises>>,
    (end, after): (End, u64),
) -> Result<bool, String> {
    let ends_at = disk.mutations() + after;
    if end == End::PowerCut {
        disk.power_cut_after(after);
    }
    let ends = async {
        while !disk.power_is_cut() && (end == End::PowerCut || disk.mutations() < ends_at) {
            env.sleep(OPERATION_TIME / 4).await;
        }
    };
    let work = async {
        let keep_from = Lsn(promises.lock().ledger.keep_from);
        let (wal, records) = open(env, disk, tail, keep_from).await.map_err(|error| error.to_string())?;
        {
            let mut promises = promises.lock();
            check(&promises.ledger, &records)?;
            let last = keep_from.0 + records.len() as u64 - 1;
            if last < promises.kept {
                return Err(format!("record {} was kept; the log ends at {last}", promises.kept));
            }
            promises.ledger.handed_over = records.into_iter().map(|(lsn, bytes)| (lsn.0, bytes)).collect();
            promises.ledger.acknowledged = wal.durable_lsn().0;
            promises.kept = wal.durable_lsn().0;
        }
        let tasks: Vec<_> =
            (0..APPENDERS).map(|_| env.spawn(appender(env.clone(), wal.clone(), Arc::clone(promises)))).collect();
        for task in tasks {
            task.await.unwrap();
        }
        Ok(())
    };
    tokio::select! {
        biased;
        () = ends => Ok(false),
        finished = work => finished.map(|()| true),
    }
}

/// Some rounds on one disk. Whether the process was ended in the first.
fn end_repeatedly(seed: u64, after: u64, tail_loses: bool) -> Result<bool, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let env = Env::simulated(seed);
        let mut disk = new_disk(&env, seed);
        disk.set_order(CompletionOrder::Timed(OPERATION_TIME));
        let mut tail = SimTail::new(MIN_TAIL_BYTES);
        let ledger = Ledger { keep_from: 1, ..Ledger::default() };
        let mut promises = Arc::new(Mutex::new(Promises { ledger, kept: 0 }));
        let mut first = None;
        for number in 0..4 {
            let end = if (seed + number).is_multiple_of(2) { End::Kill } else { End::PowerCut };
            let is_done = round(&env, (&disk, &tail), &promises, (end, after)).await?;
            first.get_or_insert(!is_done);
            // What is left of this process promises nothing to the next one.
            let ended = std::mem::take(&mut *promises.lock());
            let kept = if end == End::Kill { ended.kept } else { 0 };
            (disk, tail) = match end {
                End::Kill if tail_loses => (disk.restart(), tail.crash(&env)),
                End::Kill => (disk.restart(), tail.restart()),
                End::PowerCut => (disk.crash(), tail.crash(&env)),
            };
            promises = Arc::new(Mutex::new(Promises { ledger: ended.ledger, kept }));
        }
        let ended = std::mem::take(&mut *promises.lock());
        let keep_from = Lsn(ended.ledger.keep_from);
        let (_, records) = open(&env, &disk, &tail, keep_from).await.map_err(|error| error.to_string())?;
        check(&ended.ledger, &records)?;
        Ok(first == Some(true))
    })
}

#[test]
fn kept_records_survive_a_kill_and_a_power_cut_leaves_a_prefix_at_every_operation() {
    for seed in seeds(60) {
        let mut after = 0;
        while end_repeatedly(seed, after, false).unwrap_or_else(|wrong| panic!("seed {seed}, after {after}: {wrong}")) {
            after += 1;
        }
        assert!(after > 5, "seed {seed}: the process ended only {after} times");
    }
}

#[test]
fn the_same_test_fails_with_a_tail_that_does_not_outlive_the_process() {
    let outcomes = (0..8).flat_map(|seed| (4..12).map(move |after| end_repeatedly(seed, after, true)));
    let noticed = outcomes.filter(Result::is_err).count();
    assert!(noticed > 10, "only {noticed} of 64 were noticed");
}

/// A log with a tail on a disk whose writes wait, and room for its records.
async fn held(seed: u64) -> (Env, SimDisk, SimTail, Wal) {
    let env = Env::simulated(seed);
    let (disk, tail) = (new_disk(&env, seed), SimTail::new(MIN_TAIL_BYTES));
    let (wal, _) = open(&env, &disk, &tail, Lsn::FIRST).await.unwrap();
    disk.set_order(CompletionOrder::Stepped);
    (env, disk, tail, wal)
}

async fn keep(wal: &Wal, payload: Vec<u8>) -> bool {
    wal.reserve(payload.len()).await.unwrap().append_kept(payload).unwrap().is_kept()
}

#[tokio::test(start_paused = true)]
async fn kept_records_are_written_together_in_time_or_when_something_waits() {
    let (env, disk, _, wal) = held(1).await;
    disk.set_order(CompletionOrder::Inline);
    let before = disk.stats().writes;
    for number in 0..50_u8 {
        assert!(keep(&wal, vec![number]).await);
    }
    assert_eq!((disk.stats().writes, wal.durable_lsn()), (before, Lsn(0)));
    env.sleep(KEPT_DELAY + Duration::from_millis(2)).await;
    assert_eq!((disk.stats().writes, wal.durable_lsn()), (before + 1, Lsn(50)));
    assert!(keep(&wal, vec![1]).await);
    let begun = env.now();
    wal.settle().await.unwrap();
    assert_eq!((wal.durable_lsn(), env.now()), (Lsn(51), begun));
    assert!(keep(&wal, vec![1]).await);
    wal.append(vec![2]).await.unwrap();
    assert_eq!((wal.durable_lsn(), env.now()), (Lsn(53), begun), "what is not kept makes all before it durable");
}

#[tokio::test]
async fn a_record_that_does_not_fit_keeps_none_behind_it_until_it_is_durable() {
    let (_env, disk, _, wal) = held(2).await;
    let mut kept = 0;
    while keep(&wal, vec![7; 20_000]).await {
        kept += 1;
    }
    assert_eq!(kept, 6, "of a tail of two of the longest records");
    assert!(!keep(&wal, vec![8]).await, "one before it is not kept");
    while wal.durable_lsn() < Lsn(8) {
        disk.run_until_idle();
        tokio::task::yield_now().await;
    }
    assert!(keep(&wal, vec![9]).await);
}

#[tokio::test]
async fn a_tail_that_fails_keeps_nothing_and_the_log_goes_on() {
    let (_env, disk, tail, wal) = held(3).await;
    disk.set_order(CompletionOrder::Inline);
    tail.set_fails(true);
    assert!(!keep(&wal, vec![1]).await);
    tail.set_fails(false);
    assert_eq!(wal.append(vec![2]).await.unwrap(), Lsn(2));
    assert!(!keep(&wal, vec![3]).await && !wal.begin_keeping());
}

/// After a power cut numbers are given again. A record of the tail that had one of them before is none of them.
#[tokio::test]
async fn records_of_an_earlier_start_never_pass() {
    let (env, disk, tail, wal) = held(4).await;
    for number in 1..=3_u8 {
        assert!(keep(&wal, vec![number; 9]).await);
    }
    // All of the tail was written back but the first record.
    let first = tail.read().unwrap();
    let left = tail.restart();
    left.write(4096, &[0; 64]).unwrap();
    left.flush().unwrap();
    assert_ne!(first, left.read().unwrap());
    let disk = disk.crash();
    disk.set_order(CompletionOrder::Inline);
    let (wal, records) = open(&env, &disk, &left, Lsn::FIRST).await.unwrap();
    assert_eq!(records, []);
    assert!(keep(&wal, vec![11; 9]).await, "the number of the record that was lost");
    let (_, records) = open(&env, &disk.restart(), &left.restart(), Lsn::FIRST).await.unwrap();
    assert_eq!(records, [(Lsn(1), vec![11; 9])]);
}
