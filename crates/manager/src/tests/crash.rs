//! The power goes at every operation of the log, with the state's store left at any point since its last persist.
//!
//! The model is the list of commands that were proposed, folded by the state machine alone. After each restart the manager must
//! hold the fold of a prefix of it that includes every command that was answered. As in the tests of `wal`, what is wrong is
//! returned, so that a lying disk can prove that it would be noticed.

use std::sync::Arc;
use std::time::Duration;

use disk::{CompletionOrder, SimDisk, SimOptions};
use env::Env;
use kv::{Kv, MemoryKv};
use parking_lot::Mutex;
use wal::RegionStore;

use super::equivalence::fold;
use super::workload::random_command;
use crate::{Command, Manager, OpenError};

const SEGMENT_BYTES: u64 = 16 * 1024;
const SEGMENT_COUNT: usize = 4;
const STEPS_PER_ROUND: u64 = 14;
const OPERATION_TIME: Duration = Duration::from_millis(1);

/// Runs of the same test with `TRILITH_SOAK=1`.
const SOAK_FACTOR: u64 = 50;

#[derive(Default)]
struct Ledger {
    proposed: Vec<Command>,
    answered: usize,
}

impl Ledger {
    fn all_answered(&mut self) {
        self.answered = self.proposed.len();
    }
}

async fn open(env: &Env, disk: &SimDisk, kv: &Arc<MemoryKv>) -> Result<Manager, OpenError> {
    let store = RegionStore::new(Arc::new(disk.clone()), 0, SEGMENT_BYTES, SEGMENT_COUNT);
    Manager::open_on(env, Arc::new(store), Arc::clone(kv) as Arc<dyn Kv>).await
}

/// What is wrong with the state after a restart, if anything. Forgets what never came through.
fn check(manager: &Manager, ledger: &mut Ledger) -> Result<(), String> {
    let state = manager.snapshot();
    let applied = state.applied().0 as usize;
    if applied < ledger.answered || applied > ledger.proposed.len() {
        let (answered, proposed) = (ledger.answered, ledger.proposed.len());
        return Err(format!("{answered} commands answered, {proposed} proposed, {applied} came back"));
    }
    ledger.proposed.truncate(applied);
    ledger.answered = applied;
    if *state != fold(&ledger.proposed) {
        return Err(format!("the state after {applied} commands is another one"));
    }
    Ok(())
}

async fn work(env: &Env, disk: &SimDisk, kv: &Arc<MemoryKv>, ledger: &Mutex<Ledger>) -> Result<(), String> {
    let manager = open(env, disk, kv).await.map_err(|error| error.to_string())?;
    check(&manager, &mut ledger.lock())?;
    for _ in 0..STEPS_PER_ROUND {
        let commands = [random_command(env), random_command(env), random_command(env)];
        let [one, two, three] = commands.clone().map(|command| manager.propose(command));
        let outcome = if env.random_below(2) == 0 {
            ledger.lock().proposed.extend_from_slice(&commands[..1]);
            one.await
        } else {
            ledger.lock().proposed.extend_from_slice(&commands);
            // Biased: polled in this order, so numbered in this order. They share a write.
            let outcomes = tokio::join!(biased; one, two, three);
            outcomes.0.and(outcomes.1).and(outcomes.2)
        };
        outcome.map_err(|error| error.to_string())?;
        ledger.lock().all_answered();
        if env.random_below(4) == 0 {
            manager.persist().await.map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Four rounds on one disk, with the power cut `cut` operations into each. Returns whether it went in the first.
fn crash_repeatedly(seed: u64, cut: u64, lies: bool) -> Result<bool, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let env = Env::simulated(seed);
        let size_bytes = SEGMENT_BYTES * SEGMENT_COUNT as u64;
        let options = SimOptions { seed, size_bytes, capacity_bytes: Some(size_bytes), ..SimOptions::default() };
        let mut disk = SimDisk::new(&env, options);
        disk.set_order(CompletionOrder::Timed(OPERATION_TIME));
        disk.set_ignores_flush(lies);
        let mut kv = Arc::new(MemoryKv::new());
        let ledger = Mutex::new(Ledger::default());
        let mut first = None;
        for _ in 0..4 {
            disk.power_cut_after(cut);
            let power_goes = async {
                while !disk.power_is_cut() {
                    env.sleep(OPERATION_TIME).await;
                }
            };
            tokio::select! {
                biased;
                () = power_goes => {}
                outcome = work(&env, &disk, &kv, &ledger) => outcome?,
            }
            first.get_or_insert(disk.power_is_cut());
            let survivors = env.random_below(kv.pending_batches() as u64 + 1) as usize;
            kv = Arc::new(kv.crash_keeping(survivors));
            disk = disk.restart();
        }
        let manager = open(&env, &disk, &kv).await.map_err(|error| error.to_string())?;
        check(&manager, &mut ledger.lock())?;
        Ok(first == Some(true))
    })
}

#[test]
fn every_answered_command_survives_a_power_cut_at_every_operation() {
    let seeds = if std::env::var_os("TRILITH_SOAK").is_some() { 40 * SOAK_FACTOR } else { 40 };
    for seed in 0..seeds {
        let mut cut = 0;
        while crash_repeatedly(seed, cut, false).unwrap_or_else(|wrong| panic!("seed {seed}, cut after {cut}: {wrong}")) {
            cut += 1;
        }
        assert!(cut > STEPS_PER_ROUND, "seed {seed}: the power went only {cut} times, so little was tested");
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
