//! What is durable when, in the modes that acknowledge before that.

use std::time::Duration;

use disk::{AlignedBuf, BLOCK_BYTES, Disk, DiskExt, Durability, Fault, FaultRule, Operation, SimDisk};
use env::Env;

use super::support::{check_read, disk_with, format, landed, now, open, quiet, walked};
use crate::{AppendClass, Device, DeviceConfig, LogVector, SyncMode};

/// No flush of its own comes in time.
const WEAK_MODES: [SyncMode; 2] = [SyncMode::Batch { flush_interval_ms: 10_000 }, SyncMode::Off];

fn open_in(sync: SyncMode, disk: &SimDisk, env: &Env) -> Device {
    open(disk, env, DeviceConfig { sync, ..quiet() })
}

fn fresh_in(sync: SyncMode, env: &Env, seed: u64) -> (SimDisk, Device) {
    let disk = disk_with(env, seed, 16);
    format(&disk, env);
    let device = open_in(sync, &disk, env);
    (disk, device)
}

#[tokio::test(start_paused = true)]
async fn sync_modes_flush_by_time_or_never() {
    for (sync, flushes_after_20_ms) in [(SyncMode::Batch { flush_interval_ms: 10 }, 1), (SyncMode::Off, 0)] {
        let env = Env::simulated(12);
        let disk = disk_with(&env, 12, 16);
        format(&disk, &env);
        let device = open_in(sync, &disk, &env);
        landed(&device, AppendClass::Data, 0, 100);
        let before = disk.stats();
        landed(&device, AppendClass::Data, 1, 100);
        assert_eq!(disk.stats().durable_writes, before.durable_writes, "acknowledged without being durable");
        tokio::time::sleep(Duration::from_millis(25)).await;
        assert_eq!(disk.stats().flushes - before.flushes, flushes_after_20_ms, "{sync:?}");
        let survivor = open(&disk.crash(), &env, quiet());
        let (found, _) = walked(&survivor, &LogVector::START);
        if flushes_after_20_ms > 0 {
            assert_eq!(found.len(), 2, "{sync:?}");
        }
    }
}

/// What names them is durable itself, on another disk.
#[tokio::test(start_paused = true)]
async fn checkpoints_and_copies_are_durable_in_every_mode() {
    for sync in WEAK_MODES {
        for seed in 0..10 {
            let env = Env::simulated(seed);
            let (disk, device) = fresh_in(sync, &env, seed);
            let before = disk.stats().durable_writes;
            landed(&device, AppendClass::Data, 0, 3000);
            let of_header = disk.stats().durable_writes - before;
            assert_eq!(of_header, 1, "the zone's header is durable, the data is not");
            let checkpoint = landed(&device, AppendClass::Meta, 1, 3000);
            let copy = landed(&device, AppendClass::Relocation, 2, 3000);
            let large = landed(&device, AppendClass::Meta, 3, 20_000);
            let survivor = open(&disk.crash(), &env, quiet());
            for (number, appended) in [(1, checkpoint), (2, copy), (3, large)] {
                check_read(&survivor, number, &appended);
            }
            let (found, _) = walked(&survivor, &LogVector::START);
            assert!([1, 2, 3].iter().all(|number| found.contains_key(number)), "{sync:?}, seed {seed}: {found:?}");
        }
    }
}

/// The flush that comes with a reset is of the zone's own device.
#[tokio::test(start_paused = true)]
async fn a_reset_never_outlives_the_copy_on_another_device() {
    for sync in WEAK_MODES {
        for seed in 0..10 {
            let env = Env::simulated(seed);
            let (_, from) = fresh_in(sync, &env, seed);
            let (disk, to) = fresh_in(sync, &env, seed + 100);
            let original = landed(&from, AppendClass::Data, 1, 3000);
            now(from.finish_open_zones()).expect("the disk answers").expect("finishes");
            let copy = landed(&to, AppendClass::Relocation, 1, 3000);
            now(from.reset(original.place.zone)).expect("the disk answers").expect("resets");
            check_read(&open(&disk.crash(), &env, quiet()), 1, &copy);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_reset_makes_durable_what_was_written_anew_before_it() {
    for sync in WEAK_MODES {
        for seed in 0..10 {
            let env = Env::simulated(seed);
            let (disk, device) = fresh_in(sync, &env, seed);
            let original = landed(&device, AppendClass::Data, 1, 3000);
            now(device.finish_open_zones()).expect("the disk answers").expect("finishes");
            let newer = landed(&device, AppendClass::Data, 2, 3000);
            now(device.reset(original.place.zone)).expect("the disk answers").expect("resets");
            check_read(&open(&disk.crash(), &env, quiet()), 2, &newer);
        }
    }
}

/// Another flush has taken note of what was written, and has not made it durable yet.
#[tokio::test(start_paused = true)]
async fn a_flush_waits_for_the_one_under_way_and_hears_how_it_ended() {
    for fails in [false, true] {
        let env = Env::simulated(1);
        let (disk, device) = fresh_in(SyncMode::Batch { flush_interval_ms: 10 }, &env, 1);
        landed(&device, AppendClass::Data, 1, 3000);
        disk.add_rule(FaultRule::next(Operation::Flush, Fault::Hold));
        tokio::time::sleep(Duration::from_millis(15)).await;
        assert_eq!(disk.in_flight(), 1, "the background's flush");
        let mut flush = Box::pin(device.flush());
        let mut seal = Box::pin(device.seal());
        assert!(now(&mut flush).is_none(), "nothing is durable yet");
        assert!(now(&mut seal).is_none(), "nothing is durable yet");
        if fails {
            // The held flush finds the disk poisoned.
            disk.add_rule(FaultRule::next(Operation::Write, Fault::Fail));
            let failed = disk.write(0, AlignedBuf::zeroed(BLOCK_BYTES), Durability::Durable);
            now(failed).expect("the disk answers").expect_err("it fails");
        }
        assert_eq!(disk.release(), 1);
        // The background hears of its flush, and lets the next one go.
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(flush.await.is_err(), fails);
        assert_eq!(seal.await.is_err(), fails);
    }
}

#[tokio::test(start_paused = true)]
async fn a_flush_that_was_given_up_is_done_again_by_the_next() {
    for seed in 0..10 {
        let env = Env::simulated(seed);
        let (disk, device) = fresh_in(SyncMode::Off, &env, seed);
        let appended = landed(&device, AppendClass::Data, 1, 3000);
        disk.add_rule(FaultRule::next(Operation::Flush, Fault::Hold));
        assert!(now(device.flush()).is_none(), "under way, and dropped");
        now(device.flush()).expect("the disk answers").expect("flushes");
        check_read(&open(&disk.crash(), &env, quiet()), 1, &appended);
    }
}
