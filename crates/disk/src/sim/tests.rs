mod against_model;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use env::Env;

use crate::{
    AlignedBuf, BLOCK_BYTES, CompletionOrder, Disk, DiskError, DiskErrorKind, DiskExt, Durability, Fault, FaultOdds, FaultRule,
    Operation, ReadMode, Request, SECTOR_BYTES, SimDisk, SimOptions,
};

const BLOCK: u64 = BLOCK_BYTES as u64;

fn disk_with(seed: u64, order: CompletionOrder) -> SimDisk {
    let options = SimOptions { seed, size_bytes: 64 * BLOCK, order, ..SimOptions::default() };
    SimDisk::new(&Env::simulated(seed), options)
}

fn disk(seed: u64) -> SimDisk {
    disk_with(seed, CompletionOrder::Inline)
}

fn filled(byte: u8) -> AlignedBuf {
    AlignedBuf::copy_of(&[byte; BLOCK_BYTES])
}

async fn put(disk: &SimDisk, block: u64, byte: u8, durability: Durability) -> Result<(), DiskError> {
    disk.write(block * BLOCK, filled(byte), durability).await.map(drop)
}

async fn get(disk: &SimDisk, block: u64) -> Result<u8, DiskError> {
    let read = disk.read(block * BLOCK, BLOCK_BYTES, ReadMode::Direct).await?;
    assert!(read.iter().all(|byte| *byte == read[0]), "the block is torn");
    Ok(read[0])
}

/// Submits a write and counts its answer.
fn submit(disk: &SimDisk, block: u64, byte: u8, durability: Durability, answers: &Arc<AtomicUsize>) {
    let answers = answers.clone();
    let request = Request::Write { offset: block * BLOCK, buf: filled(byte), durability };
    disk.submit(
        request,
        Box::new(move |_| {
            answers.fetch_add(1, Ordering::SeqCst);
        }),
    );
}

#[tokio::test]
async fn a_crash_loses_keeps_tears_and_reorders_volatile_writes_and_never_durable_ones() {
    let (mut none, mut both, mut only_first, mut only_second, mut torn) = (0, 0, 0, 0, 0);
    for seed in 0..400 {
        let disk = disk(seed);
        put(&disk, 0, 1, Durability::Durable).await.expect("write");
        put(&disk, 1, 1, Durability::Volatile).await.expect("write");
        disk.flush().await.expect("flush");
        put(&disk, 2, 5, Durability::Volatile).await.expect("write");
        put(&disk, 3, 6, Durability::Volatile).await.expect("write");
        let survivor = disk.crash();
        assert_eq!(get(&survivor, 0).await.expect("read"), 1, "seed {seed}");
        assert_eq!(get(&survivor, 1).await.expect("read"), 1, "seed {seed}");
        let sectors = survivor.peek(2 * BLOCK, 2 * BLOCK_BYTES);
        let kept = |block: usize, byte: u8| {
            let sectors = sectors[block * BLOCK_BYTES..][..BLOCK_BYTES].chunks(SECTOR_BYTES);
            sectors.filter(|sector| sector.iter().all(|found| *found == byte)).count()
        };
        match (kept(0, 5), kept(1, 6)) {
            (0, 0) => none += 1,
            (8, 8) => both += 1,
            (8, 0) => only_first += 1,
            (0, 8) => only_second += 1,
            _ => torn += 1,
        }
    }
    for (count, what) in [(none, "none"), (both, "both"), (only_first, "first"), (only_second, "second"), (torn, "torn")] {
        assert!(count > 10, "{what}: {count} of 400");
    }
}

#[tokio::test]
async fn a_durable_write_ends_older_volatile_bytes_of_its_sectors() {
    for seed in 0..100 {
        let disk = disk(seed);
        put(&disk, 0, 1, Durability::Volatile).await.expect("write");
        put(&disk, 0, 2, Durability::Durable).await.expect("write");
        assert_eq!(get(&disk.crash(), 0).await.expect("read"), 2, "seed {seed}");
    }
}

#[tokio::test]
async fn a_disk_that_ignores_flushes_is_found_out_by_a_crash() {
    let mut losses = 0;
    for seed in 0..50 {
        let disk = disk(seed);
        disk.set_ignores_flush(true);
        put(&disk, 0, 1, Durability::Durable).await.expect("acknowledged");
        disk.flush().await.expect("acknowledged");
        losses += usize::from(disk.crash().peek(0, BLOCK_BYTES) != [1; BLOCK_BYTES]);
    }
    assert!(losses > 10, "{losses} of 50");
}

#[tokio::test]
async fn growth_that_was_not_flushed_may_be_lost_but_covers_what_survives() {
    let mut sizes = std::collections::BTreeSet::new();
    for seed in 0..100 {
        let disk = SimDisk::new(&Env::simulated(seed), SimOptions { seed, ..SimOptions::default() });
        put(&disk, 0, 1, Durability::Durable).await.expect("write");
        put(&disk, 3, 2, Durability::Volatile).await.expect("write");
        let survivor = disk.crash();
        let size = survivor.size_bytes();
        assert!((BLOCK..=4 * BLOCK).contains(&size), "seed {seed}");
        if size < 4 * BLOCK {
            assert_eq!(survivor.peek(3 * BLOCK, BLOCK_BYTES), [0; BLOCK_BYTES]);
        }
        sizes.insert(size);
    }
    assert!(sizes.len() > 1);
}

#[tokio::test]
async fn the_power_goes_after_the_given_mutation() {
    for cut_after in 0..6u64 {
        let mut took_effect = 0;
        for seed in 0..20 {
            let disk = disk(seed);
            put(&disk, 60, 9, Durability::Durable).await.expect("before the count");
            disk.power_cut_after(cut_after);
            let answers = Arc::new(AtomicUsize::new(0));
            for block in 0..6 {
                submit(&disk, block, 7, Durability::Durable, &answers);
            }
            assert_eq!(answers.load(Ordering::SeqCst) as u64, cut_after, "seed {seed}");
            assert!(disk.power_is_cut());
            assert!(!disk.try_read_cached(0, &mut [0; 8]).expect("no answer"));
            let survivor = disk.restart();
            assert_eq!(survivor.mutations(), 0);
            for block in 0..cut_after {
                assert_eq!(get(&survivor, block).await.expect("read"), 7, "seed {seed}: block {block}");
            }
            took_effect += usize::from(survivor.peek(cut_after * BLOCK, BLOCK_BYTES) != [0; BLOCK_BYTES]);
            let after = survivor.peek((cut_after + 1) * BLOCK, BLOCK_BYTES);
            assert_eq!(after, [0; BLOCK_BYTES], "seed {seed}: a request after the cut took effect");
        }
        assert!((1..20).contains(&took_effect), "the one in flight took effect in {took_effect} of 20");
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_cut_nobody_gets_an_answer_until_the_disk_is_gone() {
    let disk = disk(3);
    disk.power_cut();
    let waiting = tokio::spawn({
        let disk = disk.clone();
        async move { disk.read(0, BLOCK_BYTES, ReadMode::Direct).await }
    });
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!(!waiting.is_finished());
    let _next = disk.restart();
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!(!waiting.is_finished());
}

/// Simulations of thousands of lives kept every one of them: who waits for an answer holds the disk that it asked.
#[test]
fn what_is_never_answered_goes_with_the_last_disk_of_its_medium() {
    let life = Arc::new(());
    let ask = |disk: &SimDisk| {
        let asker = (disk.clone(), life.clone());
        disk.submit(Request::Flush, Box::new(move |_| drop(asker)));
    };
    let first = disk(3);
    first.power_cut();
    ask(&first);
    let second = first.restart();
    ask(&first);
    second.power_cut();
    ask(&second);
    let third = second.restart();
    ask(&first);
    drop((first, second));
    assert_eq!(Arc::strong_count(&life), 5, "nobody who waits takes the end of a disk for an answer");
    drop(third);
    assert_eq!(Arc::strong_count(&life), 1);
}

#[tokio::test]
async fn a_request_left_unanswered_by_a_dropped_disk_is_abandoned() {
    let disk = disk(3);
    disk.power_cut();
    let (sender, receiver) = tokio::sync::oneshot::channel();
    disk.submit(Request::Flush, Box::new(move |completion| sender.send(completion).expect("nobody gave up")));
    drop(disk);
    assert!(receiver.await.is_err(), "dropped, not called");
}

#[tokio::test]
async fn a_process_that_ends_without_a_power_cut_leaves_everything() {
    let disk = disk_with(5, CompletionOrder::Stepped);
    let answers = Arc::new(AtomicUsize::new(0));
    submit(&disk, 0, 1, Durability::Volatile, &answers);
    disk.run_until_idle();
    submit(&disk, 1, 2, Durability::Volatile, &answers);
    let next = disk.restart();
    next.set_order(CompletionOrder::Inline);
    assert_eq!((get(&next, 0).await.expect("read"), get(&next, 1).await.expect("read")), (1, 2));
    assert_eq!(disk.run_until_idle(), 0);
    submit(&disk, 2, 3, Durability::Volatile, &answers);
    assert_eq!(answers.load(Ordering::SeqCst), 1, "the old handle answers nothing more");
    assert_eq!(get(&next, 2).await.expect("read"), 0, "nor does it write");
}

#[test]
fn stepped_requests_complete_in_seeded_order() {
    let order_of = |seed| {
        let disk = disk_with(seed, CompletionOrder::Stepped);
        let order = Arc::new(parking_lot::Mutex::new(Vec::new()));
        for block in 0..8u64 {
            let order = order.clone();
            let request = Request::Write { offset: block * BLOCK, buf: filled(1), durability: Durability::Volatile };
            disk.submit(request, Box::new(move |_| order.lock().push(block)));
        }
        assert_eq!((disk.in_flight(), disk.mutations()), (8, 0));
        assert!(disk.step());
        assert_eq!((disk.in_flight(), disk.mutations()), (7, 1));
        assert_eq!(disk.run_until_idle(), 7);
        assert!(!disk.step());
        std::mem::take(&mut *order.lock())
    };
    assert_eq!(order_of(1), order_of(1));
    assert_ne!(order_of(1), order_of(2));
}

#[tokio::test(start_paused = true)]
async fn timed_requests_take_time_and_overtake_each_other() {
    let env = Env::simulated(4);
    let options = SimOptions { seed: 4, size_bytes: 64 * BLOCK, ..SimOptions::default() };
    let disk = SimDisk::new(&env, SimOptions { order: CompletionOrder::Timed(Duration::from_millis(10)), ..options });
    let before = env.now();
    let order = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let writes: Vec<_> = (0..8)
        .map(|block| {
            let (disk, order) = (disk.clone(), order.clone());
            tokio::spawn(async move {
                put(&disk, block, 1, Durability::Durable).await.expect("write");
                order.lock().push(block);
            })
        })
        .collect();
    for write in writes {
        write.await.expect("task");
    }
    assert!((1..=12).contains(&((env.now() - before).as_millis())));
    assert!(!order.lock().is_sorted());
}

#[tokio::test(start_paused = true)]
async fn slow_requests_complete_after_their_time_or_when_released() {
    let env = Env::simulated(4);
    let disk = SimDisk::new(&env, SimOptions { size_bytes: 4 * BLOCK, ..SimOptions::default() });
    disk.add_rule(FaultRule::next(Operation::Write, Fault::Delay(Duration::from_secs(5))));
    let before = env.now();
    put(&disk, 0, 1, Durability::Durable).await.expect("write");
    assert!(env.now() - before >= Duration::from_secs(5));

    disk.add_rule(FaultRule::next(Operation::Write, Fault::Hold));
    let answers = Arc::new(AtomicUsize::new(0));
    submit(&disk, 1, 2, Durability::Durable, &answers);
    env.sleep(Duration::from_secs(3_600)).await;
    assert_eq!((answers.load(Ordering::SeqCst), disk.peek(BLOCK, 1)), (0, vec![0]));
    assert_eq!(disk.release(), 1);
    assert_eq!((answers.load(Ordering::SeqCst), disk.peek(BLOCK, 1)), (1, vec![2]));
}

#[tokio::test]
async fn rules_hit_where_and_when_they_say() {
    let disk = disk(1);
    disk.add_rule(FaultRule {
        operation: Operation::Write,
        range: Some(BLOCK..2 * BLOCK),
        skip: 1,
        times: 2,
        fault: Fault::Lose,
    });
    for byte in 1..=4 {
        put(&disk, 0, byte, Durability::Durable).await.expect("out of range");
        put(&disk, 1, byte, Durability::Durable).await.expect("acknowledged");
        let expected = [1, 1, 1, 4][usize::from(byte) - 1];
        assert_eq!((get(&disk, 0).await.expect("read"), get(&disk, 1).await.expect("read")), (byte, expected));
    }
}

#[tokio::test]
async fn honest_failures_are_reported_and_durable_ones_poison() {
    let disk = disk(1);
    disk.add_rule(FaultRule::always_in(0..BLOCK, Operation::Read, Fault::Fail));
    let failed = get(&disk, 0).await.expect_err("fails");
    assert_eq!((failed.kind, failed.operation, failed.offset), (DiskErrorKind::Failed, Operation::Read, 0));
    assert!(failed.to_string().contains("Input/output error"), "{failed}");
    assert!(disk.try_read_cached(100, &mut [0; 8]).is_err());
    assert!(disk.try_read_cached(BLOCK, &mut [0; 8]).expect("elsewhere"));

    disk.add_rule(FaultRule::next(Operation::Read, Fault::Overload));
    assert!(disk.try_read_cached(BLOCK, &mut [0; 8]).expect("it waits for nobody"));
    assert_eq!(get(&disk, 1).await.expect_err("refused").kind, DiskErrorKind::Overloaded);
    assert_eq!(get(&disk, 1).await.expect("the queue has room again"), 0);

    disk.add_rule(FaultRule::next(Operation::Write, Fault::Fail));
    assert_eq!(put(&disk, 1, 1, Durability::Volatile).await.expect_err("fails").kind, DiskErrorKind::Failed);
    put(&disk, 1, 1, Durability::Durable).await.expect("a volatile failure does not poison");

    disk.add_rule(FaultRule::next(Operation::Flush, Fault::Fail));
    assert_eq!(disk.flush().await.expect_err("fails").kind, DiskErrorKind::Failed);
    assert_eq!(disk.flush().await.expect_err("poisoned").kind, DiskErrorKind::Poisoned);
    assert_eq!(put(&disk, 1, 2, Durability::Volatile).await.expect_err("poisoned").kind, DiskErrorKind::Poisoned);
    assert_eq!(get(&disk, 1).await.expect("reads go on"), 1);
    put(&disk.restart(), 1, 3, Durability::Durable).await.expect("sound after a restart");
}

#[tokio::test]
async fn running_out_of_space_is_reported_and_does_not_poison() {
    let disk = disk(1);
    disk.set_space_limit(Some(2 * BLOCK));
    assert_eq!(put(&disk, 2, 1, Durability::Durable).await.expect_err("full").kind, DiskErrorKind::NoSpace);
    assert_eq!(disk.allocate(0, 3 * BLOCK).await.expect_err("full").kind, DiskErrorKind::NoSpace);
    put(&disk, 1, 1, Durability::Durable).await.expect("within");
}

#[tokio::test]
async fn lies_are_acknowledged_and_do_their_harm() {
    for seed in 0..50 {
        let disk = disk(seed);
        put(&disk, 0, 1, Durability::Durable).await.expect("write");
        let changed = |disk: &SimDisk, block: u64, byte: u8| {
            disk.peek(block * BLOCK, BLOCK_BYTES).iter().filter(|found| **found != byte).count()
        };
        disk.add_rule(FaultRule::next(Operation::Write, Fault::Tear));
        put(&disk, 0, 2, Durability::Durable).await.expect("acknowledged");
        let old = changed(&disk, 0, 2);
        assert!(old > 0 && old.is_multiple_of(SECTOR_BYTES), "seed {seed}: {old} bytes");

        disk.add_rule(FaultRule::next(Operation::Write, Fault::FailTorn));
        assert_eq!(put(&disk, 1, 2, Durability::Volatile).await.expect_err("fails").kind, DiskErrorKind::Failed);
        assert!(changed(&disk, 1, 2) > 0);

        disk.add_rule(FaultRule::next(Operation::Write, Fault::Corrupt));
        put(&disk, 2, 2, Durability::Durable).await.expect("acknowledged");
        assert!((1..=4).contains(&changed(&disk, 2, 2)), "seed {seed}");

        disk.add_rule(FaultRule::next(Operation::Read, Fault::Corrupt));
        let read = disk.read(3 * BLOCK, BLOCK_BYTES, ReadMode::Cached).await.expect("read");
        assert!(read.iter().any(|byte| *byte != 0), "seed {seed}");
        assert_eq!(get(&disk, 3).await.expect("the medium is sound"), 0);

        disk.add_rule(FaultRule::next(Operation::Write, Fault::Misdirect));
        put(&disk, 4, 77, Durability::Durable).await.expect("acknowledged");
        let whole = disk.peek(0, 64 * BLOCK_BYTES);
        let blocks = whole.chunks(BLOCK_BYTES).filter(|block| block.iter().all(|byte| *byte == 77)).count();
        assert_eq!(blocks, 1, "seed {seed}");
    }
}

#[tokio::test]
async fn corruption_at_rest_changes_every_sector_and_survives_a_flush() {
    let disk = disk(1);
    put(&disk, 0, 1, Durability::Durable).await.expect("write");
    put(&disk, 1, 2, Durability::Volatile).await.expect("write");
    disk.corrupt_at_rest(0, 2 * BLOCK);
    disk.flush().await.expect("flush");
    let survivor = disk.crash();
    let bytes = survivor.peek(0, 3 * BLOCK_BYTES);
    for (index, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
        let written = [1, 2, 0][index * SECTOR_BYTES / BLOCK_BYTES];
        let changed = sector.iter().filter(|byte| **byte != written).count();
        assert_eq!(changed, usize::from(index < 16), "sector {index}");
    }
}

#[tokio::test]
async fn the_same_seed_gives_the_same_storm() {
    async fn storm(seed: u64) -> (Vec<Option<DiskErrorKind>>, Vec<u8>) {
        let odds = FaultOdds {
            fail_read: 50_000,
            fail_write: 50_000,
            fail_torn_write: 50_000,
            lose_write: 50_000,
            tear_write: 50_000,
            misdirect_write: 50_000,
            corrupt_write: 50_000,
            corrupt_read: 50_000,
            cache_miss: 300_000,
            ..FaultOdds::default()
        };
        let disk = disk(seed);
        disk.set_odds(odds);
        let mut outcomes = Vec::new();
        for round in 0..300u64 {
            let written = put(&disk, round % 64, round as u8, Durability::Volatile).await;
            let read = disk.read_cached(round * 7 % 60 * BLOCK + 5, 100).await;
            outcomes.extend([written.err().map(|error| error.kind), read.err().map(|error| error.kind)]);
        }
        let (hits, misses) = (disk.stats().cache_hits, disk.stats().cache_misses);
        assert!(hits > 100 && misses > 50, "{hits} hits, {misses} misses");
        (outcomes, disk.crash().peek(0, 64 * BLOCK_BYTES))
    }
    let first = storm(9).await;
    assert_eq!(first, storm(9).await);
    assert_ne!(first, storm(10).await);
    assert!(first.0.iter().flatten().count() > 10);
}

#[tokio::test]
async fn a_disk_that_hangs_answers_nothing_until_it_is_let_go() {
    let disk = disk(1);
    put(&disk, 0, 1, Durability::Durable).await.unwrap();
    disk.hang();
    let answers = Arc::new(AtomicUsize::new(0));
    submit(&disk, 0, 2, Durability::Durable, &answers);
    let read = Request::Read { offset: 0, buf: AlignedBuf::for_read(BLOCK_BYTES), mode: ReadMode::Direct };
    let requests = [Request::Flush, Request::Allocate { offset: 0, len: BLOCK }, read];
    let ask = |request: Request| {
        let disk = disk.clone();
        tokio::spawn(async move { disk.ask(request).await })
    };
    let waiting = requests.map(ask);
    tokio::task::yield_now().await;
    assert_eq!((disk.in_flight(), answers.load(Ordering::SeqCst), disk.peek(0, 1)), (4, 0, vec![1]));
    assert_eq!(disk.let_go(), 4);
    for request in waiting {
        request.await.unwrap().unwrap();
    }
    assert_eq!((answers.load(Ordering::SeqCst), get(&disk, 0).await.unwrap()), (1, 2));
}
