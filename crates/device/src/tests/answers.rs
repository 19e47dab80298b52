//! What is known of a disk that does not answer, and of one that refuses notes.

use std::sync::Arc;
use std::time::Duration;

use disk::{Fault, FaultRule, Operation};
use env::Env;
use futures_util::future::join_all;

use super::support::{Answers, append, format, fresh, landed, now, open, quiet};
use crate::limits::HANG_TIME;
use crate::{AppendClass, AppendError, NotesKind, VolumeOwner};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn the_oldest_write_tells_how_long_a_disk_owes_an_answer() {
    let env = Env::simulated(1);
    let (disk, device) = fresh(&env, 16);
    landed(&device, AppendClass::Data, 0, 100);
    env.sleep(10 * SECOND).await;
    assert_eq!(device.owes_answer_for(), Duration::ZERO, "nothing is under way");
    disk.hang();
    let answers = Arc::new(Answers::default());
    append(&device, AppendClass::Data, 1, 100, &answers).unwrap();
    env.sleep(2 * SECOND).await;
    append(&device, AppendClass::Meta, 2, 100, &answers).unwrap();
    assert_eq!((device.owes_answer_for(), device.hangs()), (2 * SECOND, false));
    env.sleep(HANG_TIME - 2 * SECOND).await;
    assert_eq!((device.owes_answer_for(), device.hangs()), (HANG_TIME, true));
    // Others that end don't hide it.
    disk.let_go();
    disk.add_rule(FaultRule::next(Operation::Write, Fault::Hold));
    append(&device, AppendClass::Data, 3, 100, &answers).unwrap();
    for number in 4..9 {
        env.sleep(SECOND).await;
        landed(&device, AppendClass::Relocation, number, 100);
    }
    assert_eq!((device.owes_answer_for(), device.hangs()), (5 * SECOND, true));
    disk.let_go();
    assert_eq!((device.owes_answer_for(), device.hangs()), (Duration::ZERO, false));
    assert_eq!(answers.landed().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_hang_can_be_waited_for() {
    let env = Env::simulated(5);
    let (disk, device) = fresh(&env, 16);
    let mut hung = Box::pin(device.hung());
    tokio::select! {
        biased;
        () = &mut hung => panic!("nothing is under way"),
        () = env.sleep(10 * SECOND) => {}
    }
    disk.hang();
    append(&device, AppendClass::Data, 0, 100, &Arc::new(Answers::default())).unwrap();
    hung.await;
    assert!(device.hangs());
    disk.let_go();
}

#[tokio::test(start_paused = true)]
async fn reads_tell_it_only_when_none_of_them_ends() {
    let env = Env::simulated(2);
    let (disk, device) = fresh(&env, 16);
    let place = landed(&device, AppendClass::Data, 0, 100).place;
    let reads = |count: u64| {
        disk.add_rule(FaultRule { times: count, ..FaultRule::next(Operation::Read, Fault::Hold) });
        disk.set_odds(disk::FaultOdds { cache_miss: 1_000_000, ..Default::default() });
        join_all((0..count).map(|_| device.read(place, 4096)))
    };
    let mut stuck = Box::pin(reads(1));
    assert!(futures_util::poll!(&mut stuck).is_pending());
    env.sleep(HANG_TIME - SECOND).await;
    // One that ends: the other may have to wait for its turn.
    now(device.read(place, 4096)).expect("the disk answers").unwrap();
    assert_eq!(device.owes_answer_for(), Duration::ZERO);
    env.sleep(HANG_TIME).await;
    assert_eq!((device.owes_answer_for(), device.hangs()), (HANG_TIME, true));
    disk.let_go();
    stuck.await.into_iter().for_each(|read| drop(read.unwrap()));
    assert_eq!(device.owes_answer_for(), Duration::ZERO);
    // A pause without any is no wait.
    env.sleep(HANG_TIME).await;
    let mut stuck = Box::pin(reads(2));
    assert!(futures_util::poll!(&mut stuck).is_pending());
    assert_eq!(device.owes_answer_for(), Duration::ZERO);
}

/// All that a device asks of its disk counts, not only frames.
#[tokio::test(start_paused = true)]
async fn notes_and_blocks_of_the_volume_tell_it_too() {
    for kind in ["notes", "volume"] {
        let env = Env::simulated(3);
        let disk = super::support::disk_with(&env, 3, 32);
        super::support::format(&disk, &env);
        let device = open(&disk, &env, quiet());
        let volume = device.volume(VolumeOwner::Chunks);
        now(volume.reserve(0, 4096)).expect("the disk answers").expect("there is space");
        disk.hang();
        let mut writing: std::pin::Pin<Box<dyn Future<Output = bool>>> = match kind {
            "notes" => Box::pin(async { device.write_notes(NotesKind::Fences, b"fences").await.is_ok() }),
            _ => Box::pin(async { volume.write(0, disk::AlignedBuf::zeroed(4096)).await.is_ok() }),
        };
        assert!(futures_util::poll!(&mut writing).is_pending());
        env.sleep(HANG_TIME).await;
        assert!(device.hangs(), "{kind}");
        // Notes are read before they are written the first time.
        disk.let_go();
        assert!(writing.await, "{kind}");
        assert!(!device.hangs(), "{kind}");
    }
}

/// The disk takes no write after it: a device that does not say so stays in the table, and no fence can be raised on it.
#[tokio::test(start_paused = true)]
async fn notes_that_can_not_be_written_end_all_writing() {
    for kind in NotesKind::ALL {
        let env = Env::simulated(4);
        let disk = super::support::disk_with(&env, 4, 16);
        format(&disk, &env);
        let device = open(&disk, &env, quiet());
        now(device.write_notes(kind, b"before")).expect("the disk answers").unwrap();
        assert!(device.poisoned_by().is_none());
        disk.add_rule(FaultRule::next(Operation::Write, Fault::Fail));
        now(device.write_notes(kind, b"after")).expect("the disk answers").expect_err("it fails");
        assert!(device.poisoned_by().is_some(), "{kind:?}");
        let refused = append(&device, AppendClass::Data, 1, 100, &Arc::default());
        assert!(matches!(refused, Err(AppendError::Poisoned { .. })), "{refused:?}");
        let found = now(device.notes(kind)).expect("the disk answers").expect("reads");
        assert_eq!(found.as_deref(), Some(&b"before"[..]));
    }
}

#[tokio::test(start_paused = true)]
async fn notes_that_find_no_space_harm_nobody() {
    let env = Env::simulated(5);
    let (disk, device) = fresh(&env, 16);
    disk.set_space_limit(Some(0));
    now(device.write_notes(NotesKind::Fences, b"fences")).expect("the disk answers").expect_err("it is full");
    assert!(device.poisoned_by().is_none());
    disk.set_space_limit(None);
    now(device.write_notes(NotesKind::Fences, b"fences")).expect("the disk answers").unwrap();
}
