//! What each path asks of a simulated disk, against what the paper's tables imply; and that what was acknowledged is there, also after a power cut.

use super::bluestore::{BlueStore, Layout};
use super::in_place::{self, InPlace};
use super::map::{self, BLOCK, OBJECT_BYTES, Object, Part, Place, Size, Strategy};
use super::path::{Cost, WritePath, content};
use super::record::{BadRecord, Record};
use super::repeats::deviation;
use super::schemes::{self, LENGTH, PATHS, SCHEMES};
use super::{Experiment, FaststoreArgs, strategies};
use crate::random::Random;
use bytes::Bytes;
use disk::{BLOCK_BYTES, Disk, SimDisk, SimOptions};
use env::Env;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::Token;

const KIB: u32 = 1 << 10;

fn on_runtime(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
}

fn env() -> Env {
    Env::real_with_cores(1)
}

fn sim(bytes: u64, seed: u64) -> SimDisk {
    SimDisk::new(&env(), SimOptions { size_bytes: bytes, capacity_bytes: Some(bytes), seed, ..SimOptions::default() })
}

fn layout(unit_bytes: u32, batch: usize) -> Layout {
    Layout { unit_bytes, units: (8 * OBJECT_BYTES) / unit_bytes, segment_bytes: 16 << 20, batch }
}

async fn bluestore(disk: &SimDisk, layout: Layout) -> BlueStore {
    BlueStore::open(Arc::new(disk.clone()), &env(), layout).await.unwrap()
}

async fn new_bluestore(unit_bytes: u32, batch: usize) -> BlueStore {
    let layout = layout(unit_bytes, batch);
    bluestore(&sim(layout.device_bytes(), 1), layout).await
}

async fn prepared(objects: u32) -> SimDisk {
    let disk = sim(in_place::device_bytes(objects), 1);
    let any: Arc<dyn Disk> = Arc::new(disk.clone());
    in_place::prepare(&any, &env(), objects).await.unwrap();
    disk
}

async fn image(disk: &SimDisk, objects: u32, token: u64) -> InPlace {
    InPlace::open(Arc::new(disk.clone()), &env(), objects, Token(token)).await.unwrap()
}

/// So many writes and KiB, some of them durable at once, flushes, reads and KiB.
fn cost(writes: (u64, u64), durable_writes: u64, flushes: u64, reads: (u64, u64)) -> Cost {
    let bytes = |kib: u64| kib << 10;
    Cost {
        writes: writes.0,
        write_bytes: bytes(writes.1),
        durable_writes,
        flushes,
        reads: reads.0,
        read_bytes: bytes(reads.1),
        zeroings: 0,
    }
}

/// Until the acknowledgement, and later.
async fn costs(path: &mut impl WritePath, scheme: usize) -> Vec<(Cost, Cost)> {
    let rows = schemes::count(path, PATHS[0], &SCHEMES[scheme], 2, 7).await.unwrap();
    rows.iter().map(|row| (row.counted.acknowledged, row.counted.later)).collect()
}

#[test]
fn the_baseline_does_what_table_2_says() {
    on_runtime(async {
        let rows = strategies::paper_rows(&mut new_bluestore(64 * KIB, 1).await, 3).await.unwrap();
        for (row, found) in strategies::PAPER.iter().zip(&rows) {
            assert_eq!(schemes::strategies(&found.steps), row.strategies, "row {}", row.name);
        }
        let ranges: Vec<_> =
            rows.iter().map(|row| row.steps.iter().map(|step| step.range.clone()).collect::<Vec<_>>()).collect();
        assert_eq!(ranges[1], vec![Part { range: 0..64 * KIB, size: Size::Big }.range]);
        assert_eq!(ranges[3], [32 * KIB..64 * KIB, 64 * KIB..96 * KIB]);
        assert_eq!(ranges[5], [31 * KIB..64 * KIB, 64 * KIB..95 * KIB]);
    });
}

/// Data to free blocks and a flush, then 4 KiB of log; or data and 4 KiB in the log, and the data again in place.
#[test]
fn the_baseline_writes_data_and_log() {
    on_runtime(async {
        let nothing = Cost::default();
        let big = (cost((2, 68), 1, 1, (0, 0)), nothing);
        assert_eq!(costs(&mut new_bluestore(64 * KIB, 64).await, 0).await, [big; 5]);
        let small = (cost((3, 68), 1, 1, (0, 0)), nothing);
        assert_eq!(costs(&mut new_bluestore(64 * KIB, 64).await, 1).await, [small; 5]);
        let later = cost((1, 68), 0, 1, (0, 0));
        // Nothing stands yet in the block before 32 KiB when the second write comes.
        let second = (cost((1, 72), 1, 0, (1, 4)), later);
        let others = (cost((1, 72), 1, 0, (2, 8)), later);
        let expected = [small, second, others, others, others];
        assert_eq!(costs(&mut new_bluestore(64 * KIB, 64).await, 2).await, expected);
    });
}

/// One durable write of the data; edges are read; a first touch writes whole pieces and a header.
#[test]
fn in_place_an_overwrite_is_one_write() {
    on_runtime(async {
        let nothing = Cost::default();
        let overwrite = (cost((1, 64), 1, 0, (0, 0)), nothing);
        let first = (cost((2, 68), 2, 0, (0, 0)), nothing);
        assert_eq!(
            costs(&mut image(&prepared(2).await, 2, 2).await, 0).await,
            [first, overwrite, overwrite, overwrite, overwrite]
        );
        let first = (cost((2, 132), 2, 0, (0, 0)), nothing);
        assert_eq!(
            costs(&mut image(&prepared(2).await, 2, 2).await, 1).await,
            [first, overwrite, overwrite, overwrite, overwrite]
        );
        let unaligned = (cost((1, 68), 1, 0, (2, 8)), nothing);
        assert_eq!(
            costs(&mut image(&prepared(2).await, 2, 2).await, 2).await,
            [first, unaligned, unaligned, unaligned, unaligned]
        );
    });
}

/// A copy takes as much space as what it replaces, and what is replaced is free again.
#[test]
fn copies_release_what_they_replace() {
    on_runtime(async {
        let mut path = new_bluestore(16 * KIB, 1).await;
        let all = path.free_units();
        path.write(0, 0, content(1, 64 * KIB)).await.unwrap();
        assert_eq!(path.free_units(), all - 4);
        path.write(0, 0, content(2, 64 * KIB)).await.unwrap();
        assert_eq!(path.free_units(), all - 4);
        // A part of a unit: the rest stays where it is.
        path.write(0, 4 * KIB, content(3, 4 * KIB)).await.unwrap();
        assert_eq!(path.free_units(), all - 5);
        path.write(0, 0, content(4, 16 * KIB)).await.unwrap();
        assert_eq!(path.free_units(), all - 4);
    });
}

/// Deferred data is only in the log until there is enough of it, is read from there, and comes back from there.
#[test]
fn deferred_writes_wait_for_a_batch_and_outlive_a_power_cut() {
    on_runtime(async {
        let layout = layout(64 * KIB, 3);
        let disk = sim(layout.device_bytes(), 5);
        let mut path = bluestore(&disk, layout).await;
        path.write(0, 0, content(1, LENGTH)).await.unwrap();
        let mut expected = content(1, LENGTH).to_vec();
        for (number, offset) in [(2, 512), (3, 20 * KIB + 512)] {
            let data = content(number, KIB);
            expected[offset as usize..(offset + KIB) as usize].copy_from_slice(&data);
            path.write(0, offset, data).await.unwrap();
        }
        assert_eq!(path.deferred(), 2);
        assert_eq!(path.read(0, 0..LENGTH).await.unwrap(), expected);
        let disk = disk.crash();
        let path = bluestore(&disk, layout).await;
        assert_eq!(path.deferred(), 0, "brought to its place when the log was read");
        assert_eq!(path.read(0, 0..LENGTH).await.unwrap(), expected);
    });
}

#[test]
fn a_full_batch_is_brought_to_its_place_with_one_flush() {
    on_runtime(async {
        let mut path = new_bluestore(64 * KIB, 2).await;
        path.write(0, 0, content(1, LENGTH)).await.unwrap();
        let before = path.disk().stats();
        path.write(0, 512, content(2, KIB)).await.unwrap();
        assert_eq!(Cost::between(&before, &path.disk().stats()), cost((1, 8), 1, 0, (1, 4)));
        path.write(0, 8 * KIB + 512, content(3, KIB)).await.unwrap();
        // Of both writes: a block read, a block and 4 KiB of log; then two blocks in place.
        assert_eq!(Cost::between(&before, &path.disk().stats()), cost((4, 24), 2, 1, (2, 8)));
        assert_eq!(path.deferred(), 0);
    });
}

/// What objects hold, as bytes.
type Expected = BTreeMap<u32, Vec<u8>>;

async fn random_write(path: &mut impl WritePath, expected: &mut Expected, random: &mut Random) {
    const SECTOR: u64 = 512;
    let (object, reach) = (random.below(3) as u32, 160 * 1024 / SECTOR);
    let alignment = [1, 8, 32, 128][random.below(4) as usize];
    let start = random.below(reach) / alignment * alignment;
    let count = (random.below(reach) / alignment * alignment).max(alignment);
    let (at, data) = ((start * SECTOR) as u32, content(random.next_u64(), (count * SECTOR) as u32));
    let bytes = expected.entry(object).or_insert_with(|| vec![0; 512 << 10]);
    bytes[at as usize..at as usize + data.len()].copy_from_slice(&data);
    path.write(object, at, data).await.unwrap();
}

async fn check(path: &impl WritePath, expected: &Expected, context: &str) {
    for (object, bytes) in expected {
        let found = path.read(*object, 0..bytes.len() as u32).await.unwrap();
        let differs = found.iter().zip(bytes).position(|(found, expected)| found != expected);
        assert_eq!(differs, None, "{context}: object {object}");
    }
}

#[test]
fn the_baseline_keeps_what_it_acknowledged() {
    on_runtime(async {
        for (seed, unit_bytes) in (0..12).zip([4 * KIB, 16 * KIB, 64 * KIB].into_iter().cycle()) {
            let layout = layout(unit_bytes, 3);
            let mut disk = sim(layout.device_bytes(), seed);
            let (mut random, mut expected) = (Random::new(seed, 0), Expected::new());
            for start in 0..4 {
                let mut path = bluestore(&disk, layout).await;
                let context = format!("seed {seed}, units of {unit_bytes}, start {start}");
                check(&path, &expected, &context).await;
                for _ in 0..12 {
                    random_write(&mut path, &mut expected, &mut random).await;
                }
                check(&path, &expected, &context).await;
                disk = disk.crash();
            }
        }
    });
}

/// The test above would see it if nothing became durable.
#[test]
fn a_disk_that_lies_about_flushes_loses_what_was_acknowledged() {
    on_runtime(async {
        let layout = layout(64 * KIB, 3);
        let disk = sim(layout.device_bytes(), 3);
        let mut path = bluestore(&disk, layout).await;
        disk.set_ignores_flush(true);
        let expected = content(1, LENGTH);
        path.write(0, 0, expected.clone()).await.unwrap();
        let kept = match BlueStore::open(Arc::new(disk.crash()), &env(), layout).await {
            Ok(path) => path.read(0, 0..LENGTH).await.unwrap() == expected,
            Err(_) => false,
        };
        assert!(!kept);
    });
}

#[test]
fn an_image_keeps_what_it_acknowledged() {
    on_runtime(async {
        let mut disk = prepared(3).await;
        let (mut random, mut expected) = (Random::new(9, 0), Expected::new());
        for token in 2..5 {
            let mut path = image(&disk, 3, token).await;
            check(&path, &expected, &format!("token {token}")).await;
            for _ in 0..12 {
                random_write(&mut path, &mut expected, &mut random).await;
            }
            disk = disk.crash();
        }
        check(&image(&disk, 3, 5).await, &expected, "at the end").await;
    });
}

#[test]
fn writes_are_cut_at_units() {
    let cut = |range| map::parts(range, 64 * KIB).into_iter().map(|part| (part.range, part.size)).collect::<Vec<_>>();
    assert_eq!(cut(0..64 * KIB), [(0..64 * KIB, Size::Big)]);
    assert_eq!(cut(KIB..2 * KIB), [(KIB..2 * KIB, Size::Small)]);
    assert_eq!(cut(63 * KIB..64 * KIB), [(63 * KIB..64 * KIB, Size::Small)]);
    assert_eq!(cut(31 * KIB..95 * KIB), [(31 * KIB..64 * KIB, Size::Small), (64 * KIB..95 * KIB, Size::Small)]);
    let ends = [(32 * KIB..64 * KIB, Size::Small), (64 * KIB..192 * KIB, Size::Big), (192 * KIB..193 * KIB, Size::Small)];
    assert_eq!(cut(32 * KIB..193 * KIB), ends);
}

#[test]
fn strategies_follow_from_what_is_there() {
    let small = |range| Part { range, size: Size::Small };
    let mut object = Object::default();
    assert_eq!(object.strategy(&small(512..1024), 64 * KIB), Strategy::New);
    assert_eq!(object.put(0, 7, 0b1), Vec::<u32>::new());
    assert_eq!(object.strategy(&small(512..1024), 64 * KIB), Strategy::Rmw);
    assert_eq!(object.strategy(&small(0..BLOCK), 64 * KIB), Strategy::Cow);
    assert_eq!(object.strategy(&small(BLOCK..BLOCK + 512), 64 * KIB), Strategy::New, "a block of the unit that holds nothing");
    assert_eq!(object.strategy(&Part { range: 0..64 * KIB, size: Size::Big }, 64 * KIB), Strategy::Cow);
    assert_eq!((object.find(0, 0), object.find(0, 1), object.any_place(0)), (Some(7), None, Some(7)));
    assert_eq!(object.put(0, 8, 0b11), [7]);
    assert_eq!((object.used(0), object.find(0, 0)), (0b11, Some(8)));
    assert_eq!(map::mask(&small(4 * KIB..256 * KIB), 0, 256 * KIB), u64::MAX - 1);
}

#[test]
fn records_come_back_and_cut_ones_are_refused() {
    let places = vec![Place { unit: 3, used: 5 }, Place { unit: 9, used: u64::MAX }];
    let patches = BTreeMap::from([(4, Bytes::from(vec![1; BLOCK_BYTES])), (9, Bytes::from(vec![2; BLOCK_BYTES]))]);
    let record = Record { applied: 17, object: 2, units: vec![(0, places), (5, Vec::new())], patches };
    let bytes = record.encode();
    assert_eq!(Record::decode(&bytes).unwrap(), record);
    for length in (0..bytes.len()).step_by(7) {
        assert_eq!(Record::decode(&bytes[..length]).unwrap_err(), BadRecord, "{length} bytes");
    }
    assert_eq!(Record::decode(&[&bytes[..], &[0]].concat()).unwrap_err(), BadRecord);
}

#[test]
fn deviations_are_those_of_the_values() {
    assert_eq!(deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), (5.0, 2.0));
    assert_eq!(deviation(&[3.0]), (3.0, 0.0));
}

#[test]
fn every_experiment_leaves_its_tables() {
    let folder = tempfile::tempdir().unwrap();
    let (out, work) = (folder.path().join("out"), folder.path().join("work"));
    let args = FaststoreArgs { out: out.clone(), work: work.clone(), only: Vec::new(), quick: true, seed: 1 };
    assert_eq!(args.experiments(), [Experiment::Schemes, Experiment::Strategies, Experiment::Repeats]);
    super::run(&args).unwrap();
    for (name, rows) in [("table1", 60), ("table2", 24), ("table2-sizes", 160), ("fig5", 30), ("table4", 10)] {
        let data = std::fs::read_to_string(out.join(format!("{name}.csv"))).unwrap();
        assert_eq!(data.lines().count(), rows + 1, "{name}: {data}");
        assert!(std::fs::read_to_string(out.join(format!("{name}.md"))).unwrap().contains("Provisional"));
    }
    for plot in ["fig5-bluestore.svg", "fig5-in-place.svg"] {
        assert_eq!(std::fs::read_to_string(out.join(plot)).unwrap().matches("<polyline").count(), 3);
    }
    assert_eq!(std::fs::read_dir(&work).unwrap().count(), 0, "what was made is removed");
}
