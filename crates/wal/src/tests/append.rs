//! Group commit, limits, reuse of segments, failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use disk::{CompletionOrder, Disk, Fault, FaultRule, Operation, SimDisk};
use env::Env;

use super::{SEGMENT_BYTES, SEGMENT_COUNT, new_disk, open, open_from, store_on};
use crate::{
    AppendError, Failure, Lsn, OpenError, OpenOptions, RegionStore, Segment, SegmentStore, StoreError, StoreFuture, Wal,
};

fn start(env: &Env) -> SimDisk {
    new_disk(env, 1)
}

/// Lets the writer's task run until it waits for the disk or ends.
async fn settle() {
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_was_appended_comes_back() {
    let env = Env::simulated(1);
    let disk = start(&env);
    let (wal, records) = open(&env, &disk).await.unwrap();
    assert_eq!(records, []);
    assert_eq!(wal.durable_lsn(), Lsn(0));
    assert_eq!(wal.append(b"one".to_vec()).await.unwrap(), Lsn(1));
    assert_eq!(wal.append(Vec::new()).await.unwrap(), Lsn(2));
    let longest = vec![7; wal.max_record_bytes()];
    assert_eq!(wal.append(longest.clone()).await.unwrap(), Lsn(3));
    assert_eq!(wal.durable_lsn(), Lsn(3));
    let disk = disk.crash();
    let (wal, records) = open(&env, &disk).await.unwrap();
    assert_eq!(records, [(Lsn(1), b"one".to_vec()), (Lsn(2), Vec::new()), (Lsn(3), longest)]);
    assert_eq!(wal.append(b"four".to_vec()).await.unwrap(), Lsn(4));
    let (_, records) = open_from(&env, &disk.crash(), Lsn(4)).await.unwrap();
    assert_eq!(records, [(Lsn(4), b"four".to_vec())]);
}

#[tokio::test]
async fn what_queues_up_during_a_write_goes_into_the_next() {
    let env = Env::simulated(1);
    let disk = start(&env);
    let (wal, _) = open(&env, &disk).await.unwrap();
    let writes_before = disk.stats().writes;
    disk.set_order(CompletionOrder::Stepped);
    let mut pending = Vec::new();
    for number in 0..10u8 {
        let record = wal.reserve(1).await.unwrap().append(vec![number]).unwrap();
        assert_eq!(record.lsn(), Lsn(u64::from(number) + 1));
        pending.push(record);
        settle().await;
    }
    assert_eq!(disk.stats().writes - writes_before, 1, "only the first is on its way");
    assert_eq!(disk.in_flight(), 1);
    assert!(disk.step());
    settle().await;
    assert_eq!(wal.durable_lsn(), Lsn(1));
    assert_eq!(disk.stats().writes - writes_before, 2, "the other nine share a write");
    assert!(disk.step());
    for (record, lsn) in pending.into_iter().zip(1..) {
        assert_eq!(record.await.unwrap(), Lsn(lsn));
    }
    disk.set_order(CompletionOrder::Inline);
    let (_, records) = open(&env, &disk.crash()).await.unwrap();
    assert_eq!(records.len(), 10);
}

#[tokio::test]
async fn a_dropped_future_stops_nobody() {
    let env = Env::simulated(1);
    let disk = start(&env);
    let (wal, _) = open(&env, &disk).await.unwrap();
    disk.set_order(CompletionOrder::Stepped);
    drop(wal.reserve(1).await.unwrap().append(vec![1]).unwrap());
    settle().await;
    let second = wal.reserve(1).await.unwrap().append(vec![2]).unwrap();
    settle().await;
    assert!(disk.step());
    settle().await;
    assert!(disk.step());
    assert_eq!(second.await.unwrap(), Lsn(2));
}

#[tokio::test]
async fn a_record_too_long_is_refused_and_harms_nothing() {
    let env = Env::simulated(1);
    let disk = start(&env);
    let (wal, _) = open(&env, &disk).await.unwrap();
    let found = wal.max_record_bytes() + 1;
    let refused = wal.append(vec![0; found]).await;
    assert!(matches!(refused, Err(AppendError::RecordLength { found: length, most }) if length == found && most == found - 1));
    let refused = wal.reserve(3).await.unwrap().append(vec![0; 4]);
    assert!(matches!(refused, Err(AppendError::RecordLength { found: 4, most: 3 })));
    assert_eq!(wal.append(vec![1]).await.unwrap(), Lsn(1));
}

/// Appends `count` records of 3,000 bytes, giving up all before the newest as it goes.
async fn cycle(wal: &Wal, count: u64) {
    for _ in 0..count {
        let lsn = wal.append(vec![5; 3_000]).await.unwrap();
        wal.truncate_before(lsn);
    }
}

#[tokio::test]
async fn segments_are_reused_and_their_old_records_never_pass() {
    let env = Env::simulated(1);
    let disk = start(&env);
    let (wal, _) = open(&env, &disk).await.unwrap();
    // Seven frames a segment: many rounds over the segments, of whose old frames every block is still full.
    cycle(&wal, 200).await;
    assert_eq!(wal.segment_count(), SEGMENT_COUNT);
    assert!(wal.first_lsn() >= Lsn(194), "{}", wal.first_lsn());
    let disk = disk.crash();
    let (wal, records) = open_from(&env, &disk, Lsn(200)).await.unwrap();
    assert_eq!(records, [(Lsn(200), vec![5; 3_000])]);
    assert_eq!(wal.append(vec![6]).await.unwrap(), Lsn(201));
    let (_, records) = open_from(&env, &disk.crash(), Lsn(202)).await.unwrap();
    assert_eq!(records, []);
}

#[tokio::test]
async fn only_whole_segments_are_given_up() {
    let env = Env::simulated(1);
    let disk = start(&env);
    let (wal, _) = open(&env, &disk).await.unwrap();
    for _ in 0..20 {
        wal.append(vec![5; 3_000]).await.unwrap();
    }
    // Seven records a segment: 1 to 7, 8 to 14, and the rest.
    for (given_up, first) in [(1, 1), (7, 1), (8, 8), (14, 8), (15, 15), (21, 15), (99, 15)] {
        wal.truncate_before(Lsn(given_up));
        assert_eq!(wal.first_lsn(), Lsn(first), "records before {given_up} are given up");
    }
}

#[tokio::test]
async fn a_log_that_lost_what_its_owner_needs_is_not_opened() {
    let env = Env::simulated(1);
    let disk = start(&env);
    let lost = open_from(&env, &disk, Lsn(5)).await.err().unwrap();
    assert!(matches!(lost, OpenError::Missing { needed: Lsn(5), .. }), "{lost}");
    let (wal, _) = open(&env, &disk).await.unwrap();
    cycle(&wal, 80).await;
    let disk = disk.crash();
    let late = open_from(&env, &disk, Lsn(3)).await.err().unwrap();
    assert!(matches!(late, OpenError::Missing { needed: Lsn(3), first, .. } if first > Lsn(3)), "{late}");
    let short = open_from(&env, &disk, Lsn(82)).await.err().unwrap();
    assert!(matches!(short, OpenError::Missing { needed: Lsn(82), last: Lsn(80), .. }), "{short}");
    assert_eq!(open_from(&env, &disk, Lsn(81)).await.unwrap().1, []);
}

#[tokio::test]
async fn a_failed_write_ends_the_log_for_everybody() {
    let env = Env::simulated(1);
    let disk = start(&env);
    let (wal, _) = open(&env, &disk).await.unwrap();
    assert_eq!(wal.append(vec![1]).await.unwrap(), Lsn(1));
    disk.add_rule(FaultRule::next(Operation::Write, Fault::FailTorn));
    disk.set_order(CompletionOrder::Stepped);
    let failing = wal.reserve(1).await.unwrap().append(vec![2]).unwrap();
    settle().await;
    let queued = wal.reserve(1).await.unwrap().append(vec![3]).unwrap();
    assert!(disk.step());
    for record in [failing, queued] {
        let error = record.await.unwrap_err();
        assert!(matches!(&error, AppendError::Poisoned(failure) if matches!(**failure, Failure::Disk(_))), "{error}");
    }
    assert!(matches!(wal.append(vec![4]).await, Err(AppendError::Poisoned(_))));
    disk.set_order(CompletionOrder::Inline);
    let disk = disk.crash();
    let (_, records) = open(&env, &disk).await.unwrap();
    assert_eq!(records[0], (Lsn(1), vec![1]));
    assert!(records.len() <= 2, "the queued record was never written");
}

/// A store on a file system that is full for a while.
struct Full {
    room: Arc<dyn SegmentStore>,
    failures: AtomicUsize,
    /// What the tries end with.
    error: fn() -> std::io::Error,
}

impl SegmentStore for Full {
    fn segment_bytes(&self) -> u64 {
        self.room.segment_bytes()
    }

    fn segments(&self) -> StoreFuture<'_, Vec<Segment>> {
        Box::pin(async { Ok(self.room.segments().await?.split_off(SEGMENT_COUNT - 2)) })
    }

    fn create(&self) -> StoreFuture<'_, Segment> {
        Box::pin(async {
            if self.failures.fetch_sub(1, Ordering::Relaxed) > 0 {
                let cause = Box::new((self.error)());
                return Err(StoreError { attempt: "prepare segment", path: "log".into(), cause });
            }
            Ok(self.room.segments().await?.swap_remove(0))
        })
    }
}

async fn fill_two_segments(wal: &Wal) {
    for _ in 0..2 * (SEGMENT_BYTES / 4096 - 1) {
        wal.append(vec![9; 3_000]).await.unwrap();
    }
}

fn no_space() -> std::io::Error {
    std::io::ErrorKind::StorageFull.into()
}

/// As the system says it (EMFILE, ENFILE, ENOMEM).
const WANTS: [fn() -> std::io::Error; 3] = [
    || std::io::Error::from_raw_os_error(24),
    || std::io::Error::from_raw_os_error(23),
    || std::io::Error::from_raw_os_error(12),
];

#[tokio::test(start_paused = true)]
async fn a_log_waits_for_room_in_its_file_system_and_for_descriptors() {
    for error in [no_space as fn() -> std::io::Error].into_iter().chain(WANTS) {
        let env = Env::simulated(1);
        let store = Arc::new(Full { room: store_on(&start(&env)), failures: AtomicUsize::new(3), error });
        let wal = Wal::open(&env, store.clone(), OpenOptions::default(), &mut |_, _| {}).await.unwrap();
        fill_two_segments(&wal).await;
        let (begun, full) = (env.now(), wal.durable_lsn());
        assert_eq!(wal.append(vec![1]).await.unwrap(), full.next(), "{}", error());
        assert!(env.now() - begun >= Duration::from_secs(3));
        assert_eq!(wal.segment_count(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_that_waits_for_room_takes_what_its_owner_gives_up_and_ends_with_it() {
    for gives_up in [true, false] {
        let env = Env::simulated(1);
        let store = Arc::new(Full { room: store_on(&start(&env)), failures: AtomicUsize::new(usize::MAX), error: no_space });
        let wal = Wal::open(&env, store, OpenOptions::default(), &mut |_, _| {}).await.unwrap();
        fill_two_segments(&wal).await;
        let waiting = wal.reserve(1).await.unwrap().append(vec![1]).unwrap();
        let queued = wal.reserve(1).await.unwrap().append(vec![2]).unwrap();
        env.sleep(Duration::from_secs(60)).await;
        assert!(wal.waits_for_room());
        if gives_up {
            wal.truncate_before(wal.durable_lsn());
            waiting.await.unwrap();
            queued.await.unwrap();
            assert!(!wal.waits_for_room());
        } else {
            wal.end("the base can't be written".to_owned());
            for record in [waiting, queued] {
                let error = record.await.unwrap_err();
                assert!(
                    matches!(&error, AppendError::Poisoned(failure) if failure.to_string().contains("the base")),
                    "{error}"
                );
            }
            assert!(wal.append(vec![3]).await.is_err());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_region_that_waits_takes_what_its_owner_gives_up() {
    let env = Env::simulated(1);
    let region = RegionStore::new(Arc::new(start(&env)), 0, SEGMENT_BYTES, SEGMENT_COUNT).waiting_when_full();
    let wal = Wal::open(&env, Arc::new(region), OpenOptions::default(), &mut |_, _| {}).await.unwrap();
    // Seven records a segment.
    for _ in 0..7 * SEGMENT_COUNT {
        wal.append(vec![5; 3_000]).await.unwrap();
    }
    let waiting = wal.reserve(3_000).await.unwrap().append(vec![6; 3_000]).unwrap();
    env.sleep(Duration::from_secs(60)).await;
    assert!(wal.waits_for_room());
    wal.truncate_before(wal.durable_lsn());
    waiting.await.unwrap();
    assert!(!wal.waits_for_room());
}

#[tokio::test]
async fn a_log_whose_owner_never_truncates_ends_with_an_error() {
    let env = Env::simulated(1);
    let disk = start(&env);
    let (wal, _) = open(&env, &disk).await.unwrap();
    let mut acknowledged = 0;
    let error = loop {
        match wal.append(vec![9; 3_000]).await {
            Ok(lsn) => acknowledged = lsn.0,
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, AppendError::Poisoned(failure) if matches!(**failure, Failure::Store(_))), "{error}");
    assert_eq!(acknowledged, (SEGMENT_BYTES / 4096 - 1) * SEGMENT_COUNT as u64);
    let (_, records) = open(&env, &disk.crash()).await.unwrap();
    assert_eq!(records.len() as u64, acknowledged);
}

#[test]
fn a_writer_that_dies_with_its_runtime_tells_those_who_wait() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (wal, pending) = runtime.block_on(async {
        let env = Env::simulated(1);
        let disk = start(&env);
        let (wal, _) = open(&env, &disk).await.unwrap();
        let pending = wal.reserve(1).await.unwrap().append(vec![1]).unwrap();
        (wal, pending)
    });
    drop(runtime);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let error = runtime.block_on(pending).unwrap_err();
    assert!(matches!(&error, AppendError::Poisoned(failure) if matches!(**failure, Failure::Abandoned)), "{error}");
    assert!(matches!(runtime.block_on(wal.append(vec![2])), Err(AppendError::Poisoned(_))));
}
