//! Trees of several levels, as objects of many GiB have them: here with short lists.

use super::history::{Value, whole};
use super::script::Script;
use super::support::{Rig, key, records, simulate};
use crate::LogStore;
use crate::large::read_tree;
use disk::{Disk, SimDisk};
use engine::{CompletePart, Condition, Content, ObjectEngine, PartContent, StagedChunks, UploadRef};
use format::attributes::{Attributes, Checksum, ChecksumAlgorithm, ChecksumType};
use format::part_table::PartTable;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{DeviceId, ZoneIndex};

const ZONE_BYTES: u64 = 128 * 1024;
const CHUNK: usize = 1000;

async fn rig(devices: u32, refs_per_list: usize, greedy: bool) -> Rig {
    let mut rig = Rig::new(1, devices, 40, ZONE_BYTES).await;
    rig.config.refs_per_list = refs_per_list;
    rig.config.collect_below_free_percent = if greedy { 100 } else { 0 };
    rig
}

async fn stage(store: &LogStore, staged: &mut StagedChunks, value: &Value) {
    for start in (0..value.bytes.len()).step_by(CHUNK) {
        store.stage_chunk(staged, value.bytes.slice(start..value.bytes.len().min(start + CHUNK))).await.unwrap();
    }
}

async fn put(script: &mut Script, store: &LogStore, name: &str, length: usize) -> Value {
    let value = script.history.value(length);
    let mut staged = store.stage(&key(name), None);
    stage(store, &mut staged, &value).await;
    store.commit(&key(name), staged, value.attributes(), Condition::None).await.unwrap();
    let register = script.history.objects.entry(name.to_owned()).or_default();
    register.begin(Some(value.clone()));
    register.acknowledged();
    value
}

/// Bytes of chunks and nodes in each zone that live trees name: what the counts of a quiet store are.
pub async fn named(store: &LogStore) -> BTreeMap<(DeviceId, ZoneIndex), u64> {
    let mut named = BTreeMap::new();
    for (_, known) in records(store).await.into_iter().filter(|(_, known)| known.is_live() && known.large) {
        let frame = store.inner.read_copies(&known).await.unwrap().unwrap();
        let tree = read_tree(&store.inner, &frame.payload, frame.record.tree_height).await.unwrap();
        for chunk in tree.all() {
            for place in chunk.places.as_slice() {
                *named.entry((place.device, place.zone)).or_default() +=
                    u64::from(crate::read::chunk_frame_bytes(chunk.payload_bytes));
            }
        }
    }
    named
}

pub fn counted(store: &LogStore) -> BTreeMap<(DeviceId, ZoneIndex), u64> {
    let targets = &store.inner.targets;
    let zones = targets.devices().flat_map(|device| device.zones().into_iter().map(|info| (device.id(), info.zone)));
    zones.map(|at| (at, targets.live_chunk_bytes(at.0, at.1))).filter(|(_, bytes)| *bytes > 0).collect()
}

#[test]
fn every_range_of_a_tree_of_any_height_is_read_right() {
    simulate(async {
        for refs_per_list in [3, 4, 5] {
            for chunks in [1, 2, 3, 5, 9, 17, 27] {
                let rig = rig(1, refs_per_list, false).await;
                let mut script = Script::default();
                let store = rig.open().await;
                let value = put(&mut script, &store, "deep", chunks * CHUNK - 300).await;
                let found = store.open(&key("deep")).await.unwrap();
                let Content::Chunked(reader) = found.content else { panic!("it is large") };
                // From the end to the beginning, and then on from it.
                let length = value.bytes.len();
                for start in (0..length).step_by(350).rev().chain((0..length).step_by(700)) {
                    let end = length.min(start + 450);
                    let read = reader.read(start as u64..end as u64).await.unwrap();
                    assert!(!read.is_empty() && read == value.bytes[start..start + read.len()], "{start} of {length}");
                }
                script.judge(&store).await;
            }
        }
    });
}

/// Reading on reads each node once, however many there are.
#[test]
fn passing_nodes_reads_none_of_them_again() {
    simulate(async {
        let rig = rig(1, 4, false).await;
        let mut script = Script::default();
        let store = rig.open().await;
        let chunks = 64;
        put(&mut script, &store, "deep", chunks * CHUNK).await;
        let found = store.open(&key("deep")).await.unwrap();
        let reads_of = |disk: &SimDisk| disk.stats().reads + disk.stats().cache_hits;
        let reads = || rig.disks.iter().map(reads_of).sum::<u64>();
        let before = reads();
        drop(whole(found.content, found.info.length).await.unwrap());
        // The chunks, and with each list of four of them the two nodes above it.
        let most = chunks as u64 + chunks as u64 / 4 * 2;
        assert!(reads() - before <= most, "{} reads", reads() - before);
    });
}

/// Chunks and nodes are moved away from under an object; the nodes that it had are garbage then.
#[test]
fn collection_moves_chunks_and_nodes() {
    simulate(async {
        for devices in [1, 3] {
            let mut rig = rig(devices, 3, true).await;
            let mut script = Script::default();
            let store = rig.open().await;
            store.inner.background.stop().await;
            put(&mut script, &store, "deep", 13 * CHUNK).await;
            put(&mut script, &store, "flat", 2 * CHUNK).await;
            for round in 0..4 {
                assert_eq!(counted(&store), named(&store).await, "{devices} devices, round {round}");
                for device in store.inner.targets.devices() {
                    device.finish_open_zones().await.unwrap();
                }
                store.inner.checkpoint().await.unwrap();
                let collected = store.inner.collect().await.unwrap();
                assert!(collected.zones > 0, "{collected:?}");
                script.judge(&store).await;
            }
            drop(store);
            rig.crash();
            script.judge(&rig.open().await).await;
        }
    });
}

/// The chunks of parts go over to the object; what the object leaves out goes with its part.
#[test]
fn counts_follow_chunks_from_parts_to_the_object() {
    simulate(async {
        let rig = rig(3, 3, false).await;
        let mut script = Script::default();
        let store = rig.open().await;
        let id = store.create_upload(&key("joined"), Default::default()).await.unwrap();
        let upload = UploadRef { key: key("joined"), upload: id };
        let mut parts = Vec::new();
        for (number, length) in [(1, 5 * CHUNK), (2, CHUNK / 2), (3, 7 * CHUNK), (4, 3 * CHUNK)] {
            let value = script.history.value(length);
            let content = match length < CHUNK {
                true => PartContent::Whole(smallvec::smallvec![value.bytes.clone()]),
                false => {
                    let mut staged = store.stage(&upload.key, Some((id, number)));
                    stage(&store, &mut staged, &value).await;
                    PartContent::Staged(staged)
                }
            };
            let part = store.put_part(&upload, number, value.attributes(), content).await.unwrap();
            parts.push(CompletePart { number, order: part.order });
            assert_eq!(counted(&store), named(&store).await, "part {number}");
        }
        // Without the third.
        parts.remove(2);
        store.complete(&upload, parts, Default::default(), Condition::None).await.unwrap();
        rig.env.sleep(Duration::from_secs(5)).await;
        assert_eq!(counted(&store), named(&store).await);
        store.delete(&key("joined"), Condition::None).await.unwrap();
        // The background looks around on its own.
        rig.env.sleep(Duration::from_secs(5)).await;
        assert_eq!(counted(&store), BTreeMap::new());
    });
}

/// Makes an object of these parts, each with a checksum; its part table.
async fn join(script: &mut Script, store: &LogStore, name: &str, lengths: &[usize]) -> PartTable {
    let id = store.create_upload(&key(name), Default::default()).await.unwrap();
    let upload = UploadRef { key: key(name), upload: id };
    let (mut parts, mut table) = (Vec::new(), Vec::new());
    for (number, length) in (1..).zip(lengths) {
        let value = script.history.value(*length);
        let checksum = Checksum::new(ChecksumAlgorithm::Crc32, ChecksumType::FullObject, &u32::from(number).to_be_bytes());
        let mut staged = store.stage(&upload.key, Some((id, number)));
        stage(store, &mut staged, &value).await;
        let attributes = Attributes { checksum, ..value.attributes() };
        let part = store.put_part(&upload, number, attributes, PartContent::Staged(staged)).await.unwrap();
        parts.push(CompletePart { number, order: part.order });
        table.push((*length as u64, checksum));
    }
    store.complete(&upload, parts, Default::default(), Condition::None).await.unwrap();
    PartTable::of(&table)
}

async fn parts_of(store: &LogStore, name: &str) -> Option<PartTable> {
    let Content::Chunked(reader) = store.open(&key(name)).await.unwrap().content else { panic!("it is large") };
    reader.parts().cloned()
}

/// Whatever writes a list of chunks anew keeps what stands behind it: the table of the parts.
#[test]
fn parts_outlive_repair_collection_tags_and_crashes() {
    simulate(async {
        let mut rig = rig(3, 3, true).await;
        let mut script = Script::default();
        let store = rig.open_forgetting(&[DeviceId(3)]).await;
        let table = join(&mut script, &store, "deep", &[5 * CHUNK, 3 * CHUNK, 7 * CHUNK]).await;
        let flat = join(&mut script, &store, "flat", &[CHUNK, CHUNK / 2]).await;
        let must_be = async |store: &LogStore, case: &str| {
            assert_eq!(parts_of(store, "deep").await.as_ref(), Some(&table), "{case}");
            assert_eq!(parts_of(store, "flat").await.as_ref(), Some(&flat), "{case}");
        };
        must_be(&store, "completed").await;
        drop(store);
        rig.crash();
        let store = rig.open().await;
        must_be(&store, "after a crash").await;
        store.inner.background.want_repair();
        rig.env.sleep(Duration::from_secs(20)).await;
        assert!(store.stats().added_copies.get() >= 2, "{}", store.stats().added_copies.get());
        must_be(&store, "with a third copy").await;
        store.inner.background.stop().await;
        for device in store.inner.targets.devices() {
            device.finish_open_zones().await.unwrap();
        }
        store.inner.checkpoint().await.unwrap();
        let moved_before = store.stats().relocated_bytes.get();
        assert!(store.inner.collect().await.unwrap().zones > 0);
        assert!(store.stats().relocated_bytes.get() > moved_before);
        must_be(&store, "collected").await;
        store.set_tags(&key("deep"), vec![("a".into(), "1".into())]).await.unwrap();
        must_be(&store, "with tags").await;
        drop(store);
        rig.crash();
        must_be(&rig.open().await, "after another crash").await;
    });
}
