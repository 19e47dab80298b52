//! The power goes at every operation, again and again on the same disk.
//!
//! A round runs several appenders at once until the power goes. The next round finds what the disk kept, checks it against what
//! was handed over and what was acknowledged, and goes on from there. The harness returns what it finds wrong instead of
//! panicking, so that the same harness can prove on a lying disk that it would notice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use disk::{CompletionOrder, SimDisk};
use env::Env;
use parking_lot::Mutex;

use super::{Records, new_disk, open_from};
use crate::{Lsn, OpenError, Wal};

const APPENDERS: u64 = 3;
const RECORDS_PER_APPENDER: u64 = 8;

/// Runs of the same test with `TRILITH_SOAK=1`.
const SOAK_FACTOR: u64 = 50;

/// The longest that an operation takes on the simulated disk.
pub(super) const OPERATION_TIME: Duration = Duration::from_millis(1);

/// What the owner of the log knows, and what a crash does not take from the tests.
#[derive(Default)]
pub(super) struct Ledger {
    /// Every record by the number it was given in the round that is running.
    pub(super) handed_over: BTreeMap<u64, Vec<u8>>,
    pub(super) acknowledged: u64,
    /// What the owner has given up, durably.
    pub(super) keep_from: u64,
    /// Makes every payload different from all others.
    pub(super) serial: u64,
}

/// A record of seeded length that begins with its serial number.
pub(super) fn payload(env: &Env, serial: u64) -> Vec<u8> {
    let length = match env.random_below(4) {
        0 => 8,
        1 => 8 + env.random_below(300),
        2 => 8 + env.random_below(5_000),
        _ => 8 + env.random_below(14_000),
    };
    let mut bytes: Vec<u8> = (0..length).map(|index| (index as u8).wrapping_mul(31).wrapping_add(serial as u8)).collect();
    bytes[..8].copy_from_slice(&serial.to_le_bytes());
    bytes
}

async fn appender(env: Env, wal: Wal, ledger: Arc<Mutex<Ledger>>) {
    for _ in 0..RECORDS_PER_APPENDER {
        let room = wal.reserve(16 * 1024).await.unwrap();
        let pending = {
            let mut ledger = ledger.lock();
            ledger.serial += 1;
            let bytes = payload(&env, ledger.serial);
            let pending = room.append(bytes.clone()).unwrap();
            ledger.handed_over.insert(pending.lsn().0, bytes);
            pending
        };
        let lsn = pending.await.unwrap().0;
        let mut ledger = ledger.lock();
        ledger.acknowledged = ledger.acknowledged.max(lsn);
        // Never more than nine records of 14,000 bytes: four of the eight segments.
        let behind = env.random_below(6);
        ledger.keep_from = ledger.keep_from.max((ledger.acknowledged + 1).saturating_sub(behind).max(1));
        wal.truncate_before(Lsn(ledger.keep_from));
    }
}

/// What is wrong with the records that came back, if anything.
pub(super) fn check(ledger: &Ledger, records: &Records) -> Result<(), String> {
    for (record, expected) in records.iter().zip(ledger.keep_from..) {
        if record.0.0 != expected {
            return Err(format!("record {} came where {expected} should", record.0));
        }
        match ledger.handed_over.get(&expected) {
            Some(bytes) if *bytes == record.1 => {}
            Some(_) => return Err(format!("record {expected} came back with other bytes")),
            None => return Err(format!("record {expected} was invented")),
        }
    }
    let last = ledger.keep_from + records.len() as u64 - 1;
    if last < ledger.acknowledged {
        return Err(format!("record {} was acknowledged; the log ends at {last}", ledger.acknowledged));
    }
    Ok(())
}

/// Opens the log on `disk`, checks it and appends until the power goes after `cut` more operations, or all is written.
/// Returns the disk that the next process finds, and whether the power went.
async fn round(env: &Env, disk: SimDisk, ledger: &Arc<Mutex<Ledger>>, cut: u64) -> Result<(SimDisk, bool), String> {
    let power_goes = async {
        while !disk.power_is_cut() {
            env.sleep(OPERATION_TIME).await;
        }
    };
    disk.power_cut_after(cut);
    let work = async {
        let keep_from = Lsn(ledger.lock().keep_from);
        let (wal, records) = open_from(env, &disk, keep_from).await?;
        {
            let mut ledger = ledger.lock();
            let checked = check(&ledger, &records);
            ledger.handed_over = records.into_iter().map(|(lsn, bytes)| (lsn.0, bytes)).collect();
            ledger.acknowledged = wal.durable_lsn().0;
            if let Err(wrong) = checked {
                return Ok(Err(wrong));
            }
        }
        let tasks: Vec<_> = (0..APPENDERS).map(|_| env.spawn(appender(env.clone(), wal.clone(), Arc::clone(ledger)))).collect();
        for task in tasks {
            task.await.unwrap();
        }
        Ok::<_, OpenError>(Ok(()))
    };
    tokio::select! {
        biased;
        () = power_goes => {}
        finished = work => finished.map_err(|error| error.to_string())??,
    }
    let went = disk.power_is_cut();
    Ok((disk.restart(), went))
}

/// Some rounds on one disk, with the power cut `cut` operations into each. Returns whether it went in the first.
fn crash_repeatedly(seed: u64, cut: u64, lies: bool) -> Result<bool, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let env = Env::simulated(seed);
        let mut disk = new_disk(&env, seed);
        disk.set_order(CompletionOrder::Timed(OPERATION_TIME));
        disk.set_ignores_flush(lies);
        let ledger = Arc::new(Mutex::new(Ledger { keep_from: 1, ..Ledger::default() }));
        let mut first = None;
        for _ in 0..4 {
            let (next, went) = round(&env, disk, &ledger, cut).await?;
            disk = next;
            first.get_or_insert(went);
        }
        let keep_from = Lsn(ledger.lock().keep_from);
        let (_, records) = open_from(&env, &disk, keep_from).await.map_err(|error| error.to_string())?;
        check(&ledger.lock(), &records)?;
        Ok(first == Some(true))
    })
}

pub(super) fn seeds(count: u64) -> std::ops::Range<u64> {
    0..if std::env::var_os("TRILITH_SOAK").is_some() { count * SOAK_FACTOR } else { count }
}

#[test]
fn every_acknowledged_record_survives_a_power_cut_at_every_operation() {
    for seed in seeds(100) {
        let mut cut = 0;
        while crash_repeatedly(seed, cut, false).unwrap_or_else(|wrong| panic!("seed {seed}, cut after {cut}: {wrong}")) {
            cut += 1;
        }
        assert!(cut > 10, "seed {seed}: the power went only {cut} times, so nothing was tested");
    }
}

#[test]
fn the_same_test_fails_on_a_disk_that_ignores_flushes() {
    let mut noticed = 0;
    for seed in 0..4 {
        for cut in 4..14 {
            noticed += u32::from(crash_repeatedly(seed, cut, true).is_err());
        }
    }
    assert!(noticed > 20, "only {noticed} of 40 lying disks were noticed");
}

/// A process that is killed leaves its last write on its way: on the medium, in the device's cache, or nowhere.
#[tokio::test]
async fn what_recovery_has_shown_survives_the_next_power_cut() {
    let env = Env::simulated(1);
    let mut shown = 0;
    for seed in seeds(40) {
        let disk = new_disk(&env, seed);
        let (wal, _) = open_from(&env, &disk, Lsn::FIRST).await.unwrap();
        disk.set_order(CompletionOrder::Stepped);
        let _unanswered = wal.reserve(9).await.unwrap().append(vec![7; 9]).unwrap();
        while disk.in_flight() == 0 {
            tokio::task::yield_now().await;
        }
        let disk = disk.restart();
        disk.set_order(CompletionOrder::Inline);
        let (_, before) = open_from(&env, &disk, Lsn::FIRST).await.unwrap();
        let (_, after) = open_from(&env, &disk.crash(), Lsn::FIRST).await.unwrap();
        assert_eq!(before, after, "seed {seed}");
        shown += before.len();
    }
    assert!(shown > 0, "no write that was on its way had reached the device");
}

#[test]
fn a_seed_replays() {
    let trace = |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let env = Env::simulated(seed);
            let disk = new_disk(&env, seed);
            disk.set_order(CompletionOrder::Timed(OPERATION_TIME));
            let ledger = Arc::new(Mutex::new(Ledger { keep_from: 1, ..Ledger::default() }));
            let (disk, _) = round(&env, disk, &ledger, 9).await.unwrap();
            disk.peek(0, super::SEGMENT_COUNT * super::SEGMENT_BYTES as usize)
        })
    };
    assert!(trace(7) == trace(7), "the same seed left different disks");
    assert!(trace(7) != trace(8));
}
