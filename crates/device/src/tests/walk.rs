//! Walks over zones larger than one read, with holes and unreadable ranges; several cores at once.

use std::collections::BTreeMap;
use std::sync::Arc;

use disk::{Disk, Fault, FaultRule, FileDisk, OpenOptions, Operation, SimDisk, SimOptions};
use env::Env;
use types::limits::BLOCK_BYTES;
use types::{Place, ZoneIndex, ZoneOffset};

use super::support::{
    Answers, FIRST_ZONE, Seeded, append, check_read, disk_offset, fresh, landed, now, open, options, quiet, walked,
};
use crate::limits::WALK_CHUNK_BYTES;
use crate::{AppendClass, Device, FormatOptions, LogVector, ReadError, WalkEvent};

const LARGE_ZONE_BYTES: u64 = 6 << 20;

fn large_zones(env: &Env, seed: u64) -> (SimDisk, Device) {
    let capacity_bytes = Some(FIRST_ZONE + 8 * LARGE_ZONE_BYTES);
    let disk = SimDisk::new(env, SimOptions { seed, capacity_bytes, ..SimOptions::default() });
    let options = FormatOptions { zone_bytes: Some(LARGE_ZONE_BYTES), ..options() };
    now(Device::format(&disk, env, &options)).expect("the disk answers").expect("formats");
    let device = open(&disk, env, quiet());
    (disk, device)
}

#[tokio::test(start_paused = true)]
async fn frames_across_the_reads_of_a_walk_are_found_whole() {
    for seed in 0..6 {
        let env = Env::simulated(seed);
        let (_, device) = large_zones(&env, seed);
        let mut seeded = Seeded(seed);
        let mut appended = BTreeMap::new();
        let mut bytes = 0;
        for number in 0.. {
            let most = [500, 200_000, 2_500_000][seeded.below(3) as usize];
            let len = seeded.below(most) as usize;
            bytes += len;
            if bytes > 16 << 20 {
                break;
            }
            appended.insert(number, landed(&device, AppendClass::Data, number, len));
        }
        let straddling = appended.values().filter(|appended| {
            let start = appended.place.offset.bytes();
            start / WALK_CHUNK_BYTES as u64 != (start + appended.frame_bytes as u64) / WALK_CHUNK_BYTES as u64
        });
        assert!(straddling.count() >= 2, "seed {seed}: some frames lie in two reads or three");
        let (found, damaged) = walked(&device, &LogVector::START);
        assert_eq!(damaged, Vec::<String>::new(), "seed {seed}");
        assert_eq!(found, appended, "seed {seed}");
        for (number, appended) in appended {
            check_read(&device, number, &appended);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_walk_over_a_range_that_is_all_bad_is_not_slowed_by_every_block() {
    let env = Env::simulated(4);
    let (disk, device) = large_zones(&env, 4);
    let frames: Vec<_> = (0..50).map(|number| landed(&device, AppendClass::Data, number, 100_000)).collect();
    let bad = FIRST_ZONE + u64::from(frames[0].place.zone.0) * LARGE_ZONE_BYTES + WALK_CHUNK_BYTES as u64;
    disk.add_rule(FaultRule::always_in(bad..bad + WALK_CHUNK_BYTES as u64, Operation::Read, Fault::Fail));
    let before = disk.stats().failures;
    let (found, reports) = walked(&device, &LogVector::START);
    assert_eq!(reports.len(), 1, "one range: {reports:?}");
    assert!(!found.is_empty() && found.len() < 50);
    assert!(disk.stats().failures - before < 300, "{}", disk.stats().failures - before);
}

/// A refusal says nothing about the medium.
#[tokio::test(start_paused = true)]
async fn a_read_that_a_busy_disk_refuses_is_no_damage() {
    let env = Env::simulated(4);
    let (disk, device) = large_zones(&env, 4);
    let frames: Vec<_> = (0..50).map(|number| landed(&device, AppendClass::Data, number, 100_000)).collect();
    let zone = frames[0].place.zone;
    // The second and third read, which are in flight at once, and the second again.
    let refuse =
        || disk.add_rule(FaultRule { operation: Operation::Read, range: None, skip: 1, times: 3, fault: Fault::Overload });
    let before = disk.stats().failures;
    refuse();
    let mut walk = device.walk(&LogVector::START, true);
    let mut found = 0;
    while let Some(event) = walk.next().await {
        assert!(matches!(event, WalkEvent::Frame(_)), "{event:?}");
        found += 1;
    }
    assert_eq!(found, 50);

    now(device.finish_open_zones()).expect("the disk answers").expect("finishes");
    refuse();
    let report = device.scrub(zone, 0).await.expect("a zone");
    assert!(!report.is_suspicious(), "{report:?}");
    assert_eq!(report.whole.len(), 50);
    assert_eq!(disk.stats().failures - before, 6);
}

/// With one beside it that the disk can't read.
#[tokio::test(start_paused = true)]
async fn a_piece_of_a_bad_read_is_waited_for_too() {
    let env = Env::simulated(4);
    let (disk, device) = large_zones(&env, 4);
    let frames: Vec<_> = (0..50).map(|number| landed(&device, AppendClass::Data, number, 100_000)).collect();
    let bad = disk_offset_large(&frames[30]) + 5000;
    for (times, fault) in [(1, Fault::Fail), (4, Fault::Overload), (u64::MAX, Fault::Fail)] {
        disk.add_rule(FaultRule { operation: Operation::Read, range: Some(bad..bad + 1), skip: 0, times, fault });
    }
    let mut walk = device.walk(&LogVector::START, true);
    let (mut found, mut unread) = (0, 0);
    while let Some(event) = walk.next().await {
        match event {
            WalkEvent::Frame(_) => found += 1,
            WalkEvent::Unreadable { bytes, .. } => unread += bytes,
            WalkEvent::Damaged { .. } => {}
        }
    }
    assert_eq!((found, unread), (49, BLOCK_BYTES as u64), "one block of one frame");
}

#[tokio::test(start_paused = true)]
async fn a_walk_goes_on_behind_what_the_disk_can_not_read() {
    let env = Env::simulated(1);
    let (disk, device) = large_zones(&env, 1);
    let frames: Vec<_> = (0..50).map(|number| landed(&device, AppendClass::Data, number, 100_000)).collect();
    let bad = FIRST_ZONE + u64::from(frames[0].place.zone.0) * LARGE_ZONE_BYTES + WALK_CHUNK_BYTES as u64 + 5000;
    disk.add_rule(FaultRule::always_in(bad..bad + 1, Operation::Read, Fault::Fail));
    let (found, reports) = walked(&device, &LogVector::START);
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(reports[0].starts_with("Unreadable") && reports[0].contains("bytes: 4096"), "{reports:?}");
    for (number, appended) in frames.iter().enumerate() {
        let start = appended.place.offset.bytes();
        let block = (WALK_CHUNK_BYTES + BLOCK_BYTES) as u64;
        let touches = start < block + BLOCK_BYTES as u64 && start + appended.frame_bytes as u64 > block;
        assert_eq!(found.contains_key(&(number as u64)), !touches, "frame {number}");
    }
    // A single read shows what the disk said.
    let lost = frames.iter().find(|appended| {
        let from = disk_offset_large(appended);
        (from..from + appended.frame_bytes as u64).contains(&bad)
    });
    let error = now(device.read(lost.expect("one").place, 100_200)).expect("the disk answers").expect_err("unreadable");
    assert!(matches!(error, ReadError::Disk(_)), "{error}");
}

fn disk_offset_large(appended: &crate::Appended) -> u64 {
    FIRST_ZONE + u64::from(appended.place.zone.0) * LARGE_ZONE_BYTES + appended.place.offset.bytes()
}

#[tokio::test(start_paused = true)]
async fn a_walk_does_not_stop_at_holes() {
    let env = Env::simulated(2);
    let (disk, device) = fresh(&env, 16);
    let first = landed(&device, AppendClass::Data, 0, 100);
    // Lost without a word: a hole of several blocks where frames 1 to 3 should be.
    for _ in 1..=3 {
        disk.add_rule(FaultRule::next(Operation::Write, Fault::Lose));
    }
    let frames: Vec<_> = (1..=6).map(|number| landed(&device, AppendClass::Data, number, 6000)).collect();
    let (found, damaged) = walked(&device, &LogVector::START);
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), [0, 4, 5, 6]);
    assert!(damaged.is_empty(), "{damaged:?}");
    let hole = now(device.read(frames[0].place, 100)).expect("the disk answers").expect_err("a hole");
    assert!(matches!(hole, ReadError::Corrupt { .. }), "{hole}");
    // Also after a restart that has to find the zone's end itself.
    let device = open(&disk.crash(), &env, quiet());
    let (found, _) = walked(&device, &LogVector::START);
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), [0, 4, 5, 6]);
    check_read(&device, 0, &first);
}

#[tokio::test(start_paused = true)]
async fn places_that_can_not_be_are_refused() {
    let env = Env::simulated(3);
    let (_, device) = fresh(&env, 16);
    let good = landed(&device, AppendClass::Data, 0, 100).place;
    let wrong = [
        Place { device: types::DeviceId(8), ..good },
        Place { zone: ZoneIndex(16), ..good },
        Place { offset: ZoneOffset(0), ..good },
        Place { offset: ZoneOffset(1 << 20), ..good },
    ];
    for place in wrong {
        let error = now(device.read(place, 100)).expect("no disk in it").expect_err("nowhere");
        assert!(matches!(error, ReadError::NoSuchPlace { .. }), "{error}");
    }
    let never = Place { zone: ZoneIndex(9), ..good };
    let error = now(device.read(never, 100)).expect("no disk in it").expect_err("empty");
    assert!(matches!(error, ReadError::Stale { .. }), "{error}");
    assert_eq!(super::support::disk_offset(&landed(&device, AppendClass::Data, 1, 1)) % 4096, 0);
    assert_eq!(disk_offset(&landed(&device, AppendClass::Data, 2, 1)) % 4096, 0);
}

/// Appends from several threads, each its own core, and checks that every frame is where its answer says.
fn append_from_cores(device: &Device, cores: usize, each: u64) {
    let answers: Vec<Arc<Answers>> = (0..cores).map(|_| Arc::new(Answers::default())).collect();
    std::thread::scope(|scope| {
        for (core, answers) in answers.iter().enumerate() {
            scope.spawn(move || {
                env::set_core_index(core);
                let mut seeded = Seeded(core as u64);
                for index in 0..each {
                    let number = core as u64 * 1_000_000 + index;
                    let class = AppendClass::ALL[seeded.below(4) as usize];
                    let len = seeded.below(3000) as usize;
                    while append(device, class, number, len, answers).is_err() {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    while answers.iter().map(|answers| answers.len() as u64).sum::<u64>() < cores as u64 * each {
        std::thread::yield_now();
    }
    let landed: BTreeMap<_, _> = answers.iter().flat_map(|answers| answers.landed()).collect();
    assert_eq!(landed.len() as u64, cores as u64 * each);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    runtime.block_on(async {
        let mut walk = device.walk(&LogVector::START, true);
        let mut found = BTreeMap::new();
        while let Some(event) = walk.next().await {
            let crate::WalkEvent::Frame(frame) = event else { panic!("{event:?}") };
            let number = super::support::number_of(frame.engine_header());
            let appended = crate::Appended { place: frame.place, position: frame.position, frame_bytes: frame.bytes.len() };
            found.insert(number, appended);
        }
        assert_eq!(found, landed);
    });
}

#[test]
fn several_cores_append_at_once_on_a_simulated_disk() {
    let env = Env::real_with_cores(4);
    let disk = SimDisk::new(&env, SimOptions { capacity_bytes: Some(FIRST_ZONE + 64 * (1 << 20)), ..SimOptions::default() });
    let options = FormatOptions { zone_bytes: Some(1 << 20), ..options() };
    now(Device::format(&disk, &env, &options)).expect("the disk answers").expect("formats");
    append_from_cores(&open(&disk, &env, quiet()), 4, 1500);
}

#[test]
fn several_cores_append_at_once_on_a_file() {
    let env = Env::real_with_cores(2);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("device");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    let open_options =
        OpenOptions { create: true, capacity_bytes: Some(FIRST_ZONE + 32 * (1 << 20)), ..OpenOptions::default() };
    let config = crate::DeviceConfig { prewrite_zones: 2, ..quiet() };
    let device = runtime.block_on(async {
        let disk = FileDisk::open(&path, &open_options).expect("opens");
        let options = FormatOptions { zone_bytes: Some(1 << 20), ..options() };
        Device::format(&disk, &env, &options).await.expect("formats");
        Device::open(Arc::new(disk), &env, config.clone()).await.expect("opens")
    });
    append_from_cores(&device, 2, 1000);
    let before = runtime.block_on(async {
        device.seal().await.expect("seals");
        device.zones()
    });
    drop(device);
    let device = runtime.block_on(async {
        let disk = FileDisk::open_waiting(&env, &path, &open_options, std::time::Duration::from_secs(10)).await;
        Device::open(Arc::new(disk.expect("opens")), &env, quiet()).await.expect("opens")
    });
    assert_eq!(device.zones().len(), before.len());
    let found = runtime.block_on(async {
        let mut walk = device.walk(&LogVector::START, true);
        while walk.next().await.is_some() {}
        walk.frames()
    });
    assert_eq!(found, 2000);
}
