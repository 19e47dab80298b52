//! Appends, zones in order, reuse.

use std::sync::Arc;

use disk::{CompletionOrder, Disk, Fault, FaultRule, Operation};
use env::Env;
use format::frame::frame_bytes;
use types::Activation;

use super::support::{Answers, append, check_read, fresh, landed, now, open, quiet, walked};
use crate::{AppendClass, AppendError, LogVector, ReadError, ResetError, Tried, ZoneState};

#[tokio::test(start_paused = true)]
async fn a_small_append_is_one_durable_write_and_is_read_back() {
    let env = Env::simulated(1);
    let (disk, device) = fresh(&env, 16);
    landed(&device, AppendClass::Data, 0, 100);
    let before = disk.stats();
    let appended = landed(&device, AppendClass::Data, 1, 4300);
    let after = disk.stats();
    assert_eq!((after.writes - before.writes, after.flushes - before.flushes), (1, 0));
    assert_eq!(after.durable_writes - before.durable_writes, 1);
    assert_eq!(appended.frame_bytes, frame_bytes(8, 4300));

    let mut buf = vec![0; appended.frame_bytes];
    let before = disk.stats();
    let tried = device.try_read(appended.place, &mut buf).expect("reads");
    assert!(matches!(tried, Tried::Frame(view) if view.class == 5), "{tried:?}");
    let after = disk.stats();
    assert_eq!((after.reads - before.reads, after.cache_hits - before.cache_hits), (0, 1));
    assert_eq!(
        device.try_read(appended.place, &mut buf[..100]).expect("reads"),
        Tried::Longer { needed: appended.frame_bytes }
    );
    check_read(&device, 1, &appended);
}

#[tokio::test(start_paused = true)]
async fn appends_together_are_one_write() {
    let env = Env::simulated(2);
    let (disk, device) = fresh(&env, 16);
    landed(&device, AppendClass::Data, 0, 100);
    for order in [CompletionOrder::Inline, CompletionOrder::Stepped] {
        disk.set_order(order);
        let (before, answers) = (disk.stats().writes, Arc::new(Answers::default()));
        device.append_together(|| {
            for number in 1..=9 {
                append(&device, AppendClass::Data, number, 300, &answers).expect("starts");
            }
            append(&device, AppendClass::Tombstone, 10, 100, &answers).expect("starts");
            assert_eq!(disk.stats().writes, before, "more may come");
        });
        disk.run_until_idle();
        assert_eq!(disk.stats().writes - before, 2, "one for each class");
        assert_eq!(answers.landed().len(), 10);
    }
    disk.set_order(CompletionOrder::Inline);
    // What is too much for one batch does not wait, and afterwards nothing is held.
    let answers = Arc::new(Answers::default());
    let before = disk.stats().writes;
    device.append_together(|| {
        for number in 1..=40 {
            append(&device, AppendClass::Data, number, 4000, &answers).expect("starts");
        }
        assert!(disk.stats().writes > before);
    });
    landed(&device, AppendClass::Data, 41, 100);
    assert_eq!(answers.landed().len(), 40);
}

#[tokio::test(start_paused = true)]
async fn what_queues_during_a_write_goes_with_the_next_one() {
    let env = Env::simulated(2);
    let (disk, device) = fresh(&env, 16);
    landed(&device, AppendClass::Data, 0, 100);
    disk.set_order(CompletionOrder::Stepped);
    let before = disk.stats().writes;
    let answers = Arc::new(Answers::default());
    for number in 1..=9 {
        append(&device, AppendClass::Data, number, 300, &answers).expect("starts");
    }
    assert_eq!(disk.stats().writes - before, 1, "one write is in flight, the rest waits for it");
    disk.run_until_idle();
    assert_eq!(disk.stats().writes - before, 2);
    assert_eq!(device.stats().batches.get(), 3);
    let places: Vec<u64> = answers.landed().values().map(|appended| appended.place.offset.bytes()).collect();
    assert_eq!(places.len(), 9);
    // Within a batch frames stand unit by unit; only the batch is padded to a block (RFD 2, decision 23).
    assert_eq!(places[2] - places[1], frame_bytes(8, 300) as u64);
    disk.set_order(CompletionOrder::Inline);
    let (found, damaged) = walked(&device, &LogVector::START);
    assert_eq!((found.len(), damaged.len()), (10, 0));
}

#[tokio::test(start_paused = true)]
async fn zones_advance_in_order_and_every_frame_is_found() {
    let env = Env::simulated(3);
    let (_, device) = fresh(&env, 32);
    let mut appended = Vec::new();
    for number in 0..60 {
        let class = [AppendClass::Data, AppendClass::Tombstone, AppendClass::Relocation, AppendClass::Meta];
        let class = class[number as usize % 4];
        appended.push((class, landed(&device, class, number, 3000 + 37 * number as usize)));
    }
    for stream in [crate::ZoneStream::Ordered, crate::ZoneStream::Relocated, crate::ZoneStream::Meta] {
        let of_stream = appended.iter().filter(|(class, _)| class.stream() == stream);
        let positions: Vec<_> = of_stream.map(|(_, appended)| appended.position).collect();
        assert!(positions.is_sorted(), "positions of {stream:?} ascend: {positions:?}");
    }
    let zones = device.zones();
    assert!(zones.iter().filter(|zone| zone.state == Some(ZoneState::Finished)).count() >= 3);
    for (number, (_, appended)) in appended.iter().enumerate() {
        check_read(&device, number as u64, appended);
    }
    let (found, damaged) = walked(&device, &LogVector::START);
    assert_eq!((found.len(), damaged.len()), (60, 0));
    for (number, (_, appended)) in appended.iter().enumerate() {
        assert_eq!(found[&(number as u64)], *appended);
    }
}

#[tokio::test(start_paused = true)]
async fn a_floor_bounds_what_is_appended_after_it_and_hides_what_was_before() {
    let env = Env::simulated(4);
    let (_, device) = fresh(&env, 32);
    for number in 0..20 {
        let class = AppendClass::ALL[number as usize % 4];
        landed(&device, class, number, 3000);
    }
    let floor = device.log_floor();
    for number in 20..50 {
        let class = AppendClass::ALL[number as usize % 4];
        let appended = landed(&device, class, number, 3000);
        assert!(appended.position >= floor.of(Some(class.stream())), "{class:?} {appended:?} {floor:?}");
    }
    let (found, _) = walked(&device, &floor);
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), (20..50).collect::<Vec<_>>());
    // After a restart the floor lies above everything.
    let device_floor = device.log_floor();
    assert!(
        found
            .values()
            .all(|appended| appended.position < device_floor.ordered.max(device_floor.meta).max(device_floor.relocated))
    );
}

#[tokio::test(start_paused = true)]
async fn reset_zones_are_used_again_and_old_frames_never_pass() {
    let env = Env::simulated(5);
    let (mut disk, mut device) = fresh(&env, 8);
    let mut number = 0;
    let mut activations = Vec::new();
    for round in 0..12 {
        let mut appended = Vec::new();
        for _ in 0..20 {
            appended.push((number, landed(&device, AppendClass::Data, number, 4000)));
            number += 1;
        }
        activations.extend(appended.iter().map(|(_, appended)| appended.position.activation));
        now(device.finish_open_zones()).expect("the disk answers").expect("finishes");
        if round % 3 == 2 {
            drop(device);
            disk = disk.restart();
            device = open(&disk, &env, quiet());
        }
        for zone in device.zones() {
            if zone.state == Some(ZoneState::Finished) {
                now(device.reset(zone.zone)).expect("the disk answers").expect("resets");
            }
        }
        for (_, appended) in appended {
            let error = now(device.read(appended.place, 100)).expect("the disk answers").expect_err("reset");
            assert!(matches!(error, ReadError::Stale { .. }), "{error}");
        }
        assert_eq!(walked(&device, &LogVector::START), Default::default());
    }
    assert!(activations.is_sorted(), "{activations:?}");
    assert!(activations.last() > Some(&Activation(20)), "zones went round several times: {activations:?}");
}

#[tokio::test(start_paused = true)]
async fn only_finished_zones_are_reset() {
    let env = Env::simulated(6);
    let (_, device) = fresh(&env, 8);
    let appended = landed(&device, AppendClass::Data, 1, 100);
    for zone in [appended.place.zone, types::ZoneIndex(7)] {
        let error = now(device.reset(zone)).expect("the disk answers").expect_err("not finished");
        assert!(matches!(error, ResetError::NotFinished { .. }), "{error}");
    }
    let error = now(device.reset(types::ZoneIndex(8))).expect("the disk answers").expect_err("no such zone");
    assert!(matches!(error, ResetError::NoSuchZone { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn large_frames_go_alone_and_in_parallel() {
    let env = Env::simulated(7);
    let (disk, device) = fresh(&env, 32);
    landed(&device, AppendClass::Data, 0, 100);
    disk.set_order(CompletionOrder::Stepped);
    let answers = Arc::new(Answers::default());
    // The batch limit of such small zones is a quarter of a zone.
    for number in 1..=2 {
        append(&device, AppendClass::Data, number, 20_000, &answers).expect("starts");
    }
    assert_eq!(disk.in_flight(), 3, "two frames and the activation of the next zone");
    for number in 3..=40 {
        append(&device, AppendClass::Data, number, 20_000, &answers).expect("starts");
    }
    disk.run_until_idle();
    assert_eq!(answers.landed().len(), 40);
    disk.set_order(CompletionOrder::Inline);
    for (number, appended) in answers.landed() {
        check_read(&device, number, &appended);
    }
    let most = device.max_frame_bytes();
    let error = append(&device, AppendClass::Data, 41, most, &answers).expect_err("too large");
    assert!(matches!(error, AppendError::TooLarge { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn queues_are_bounded() {
    let env = Env::simulated(8);
    let (disk, device) = fresh(&env, 32);
    landed(&device, AppendClass::Data, 0, 100);
    disk.set_order(CompletionOrder::Stepped);
    let answers = Arc::new(Answers::default());
    for len in [3000, 20_000] {
        let mut number = 1_000_000 * len as u64;
        let busy = loop {
            number += 1;
            assert!(number % 1_000_000 < 10_000, "the queue has no end");
            if let Err(error) = append(&device, AppendClass::Data, number, len, &answers) {
                break error;
            }
        };
        assert!(matches!(busy, AppendError::Busy { .. }), "{busy}");
    }
    disk.run_until_idle();
    append(&device, AppendClass::Meta, 1, 3000, &answers).expect("another class has its own queue");
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_is_of_unknown_outcome_and_ends_all_writing() {
    let env = Env::simulated(9);
    let (disk, device) = fresh(&env, 16);
    let before = landed(&device, AppendClass::Data, 0, 100);
    disk.set_order(CompletionOrder::Stepped);
    disk.add_rule(FaultRule::next(Operation::Write, Fault::FailTorn));
    let answers = Arc::new(Answers::default());
    for number in 1..=3 {
        append(&device, AppendClass::Data, number, 300, &answers).expect("starts");
    }
    disk.run_until_idle();
    let first = answers.get(1).expect("answered").expect_err("failed");
    assert!(matches!(first, AppendError::OutcomeUnknown { .. }) && !first.is_certain(), "{first}");
    for number in 2..=3 {
        let later = answers.get(number).expect("answered").expect_err("never submitted");
        assert!(matches!(later, AppendError::Poisoned { .. }) && later.is_certain(), "{later}");
    }
    let refused = append(&device, AppendClass::Meta, 4, 300, &answers).expect_err("poisoned");
    assert!(matches!(refused, AppendError::Poisoned { .. }), "{refused}");
    disk.set_order(CompletionOrder::Inline);
    check_read(&device, 0, &before);
}

#[tokio::test(start_paused = true)]
async fn a_failed_activation_fails_what_waits_for_it() {
    let env = Env::simulated(10);
    let (disk, device) = fresh(&env, 16);
    disk.add_rule(FaultRule::next(Operation::Write, Fault::Fail));
    let answers = Arc::new(Answers::default());
    append(&device, AppendClass::Data, 1, 300, &answers).expect("starts");
    let error = answers.get(1).expect("answered").expect_err("failed");
    assert!(matches!(error, AppendError::Poisoned { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_kept_until_the_moment_of_submission() {
    let env = Env::simulated(11);
    let (disk, device) = fresh(&env, 16);
    landed(&device, AppendClass::Data, 0, 100);
    disk.set_order(CompletionOrder::Stepped);
    let answers = Arc::new(Answers::default());
    append(&device, AppendClass::Data, 1, 300, &answers).expect("starts");
    for (number, wait_ms) in [(2u64, 5), (3, 50)] {
        let header = number.to_le_bytes();
        let order = crate::AppendOrder {
            done: answers.clone(),
            token: number,
            deadline: Some(env.now() + std::time::Duration::from_millis(wait_ms)),
            ticket: None,
        };
        let bytes = super::support::payload(number, 300);
        let compose = |slot: &mut [u8]| format::frame::compose(slot, 5, types::CellId(2), &header, &[&bytes]);
        device.append_order(AppendClass::Data, frame_bytes(8, 300), compose, order).expect("starts");
    }
    tokio::time::advance(std::time::Duration::from_millis(20)).await;
    disk.run_until_idle();
    let late = answers.get(2).expect("answered").expect_err("late");
    assert!(matches!(late, AppendError::DeadlinePassed), "{late}");
    disk.set_order(CompletionOrder::Inline);
    let (found, damaged) = walked(&device, &LogVector::START);
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), [0, 1, 3]);
    assert_eq!(damaged, Vec::<String>::new());
}

/// Who walks the log then finds one that does not change any more.
#[tokio::test(start_paused = true)]
async fn finishing_waits_for_frames_of_zones_that_were_full_before() {
    let env = Env::simulated(13);
    let (disk, device) = fresh(&env, 16);
    let first = landed(&device, AppendClass::Data, 0, 100);
    disk.add_rule(FaultRule::next(Operation::Write, Fault::Hold));
    let answers = Arc::new(Answers::default());
    append(&device, AppendClass::Data, 1, 20_000, &answers).expect("starts");
    assert!(answers.get(1).is_none(), "the disk holds it");
    for number in 2..=4 {
        append(&device, AppendClass::Data, number, 20_000, &answers).expect("starts");
    }
    let last = answers.get(4).expect("answered").expect("lands");
    assert_ne!(last.place.zone, first.place.zone, "the first zone is full and finished");
    let mut finishing = Box::pin(device.finish_open_zones());
    assert!(now(&mut finishing).is_none(), "a frame is under way");
    assert_eq!(disk.release(), 1);
    now(finishing).expect("the disk has answered").expect("finishes");
    assert_eq!(answers.get(1).expect("answered").expect("lands").place.zone, first.place.zone);
}

#[tokio::test(start_paused = true)]
async fn sealing_finishes_open_zones_and_refuses_what_comes_later() {
    let env = Env::simulated(13);
    let (disk, device) = fresh(&env, 16);
    let appended = landed(&device, AppendClass::Data, 1, 100);
    now(device.seal()).expect("the disk answers").expect("seals");
    assert!(device.zones().iter().all(|zone| zone.state != Some(ZoneState::Open)));
    let answers = Arc::new(Answers::default());
    let error = append(&device, AppendClass::Data, 2, 100, &answers).expect_err("sealed");
    assert!(matches!(error, AppendError::Sealed { .. }), "{error}");
    check_read(&device, 1, &appended);
    let again = open(&disk.restart(), &env, quiet());
    check_read(&again, 1, &appended);
}
