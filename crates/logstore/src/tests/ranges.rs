//! Ranges of large objects: right bytes, for the price of the blocks that hold them.

use super::faults::frames;
use super::support::{Rig, attributes, key, simulate};
use crate::LogStore;
use bytes::Bytes;
use disk::{Disk, Fault, FaultOdds, FaultRule, Operation};
use engine::{Condition, Content, ContentReader, EngineError, ObjectEngine};
use format::frame::header_bytes;
use format::record::RecordKind;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;
use types::limits::{BLOCK_BYTES, CHUNK_BYTES};
use types::{DeviceId, Place};

const ZONE_BYTES: u64 = 8 * 1024 * 1024;

/// Bytes that differ from block to block.
fn content(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    for (number, block) in (0u64..).zip(bytes.chunks_mut(256)) {
        let mark = (number + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
        let len = block.len();
        block.copy_from_slice(&mark.repeat(32)[..len]);
    }
    bytes
}

async fn put(store: &LogStore, content: &[u8], chunk_bytes: usize) {
    let mut staged = store.stage(&key("large"), None);
    for chunk in content.chunks(chunk_bytes) {
        store.stage_chunk(&mut staged, Bytes::copy_from_slice(chunk)).await.unwrap();
    }
    store.commit(&key("large"), staged, attributes(&content[..content.len().min(64)]), Condition::None).await.unwrap();
}

async fn open(store: &LogStore) -> Box<dyn ContentReader> {
    match store.open(&key("large")).await.unwrap().content {
        Content::Chunked(reader) => reader,
        Content::Whole(_) => panic!("large objects are read by ranges"),
    }
}

async fn read(reader: &dyn ContentReader, range: Range<usize>) -> Result<Vec<u8>, EngineError> {
    let mut bytes = Vec::new();
    while bytes.len() < range.len() {
        let piece = reader.read((range.start + bytes.len()) as u64..range.end as u64).await?;
        assert!(!piece.is_empty() && piece.len() <= range.len() - bytes.len(), "{} bytes for {range:?}", piece.len());
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// Requests and bytes that the disks have read; with caches that miss, all of them.
fn read_so_far(rig: &Rig) -> (u64, u64) {
    let stats = rig.disks.iter().map(|disk| disk.stats());
    stats.fold((0, 0), |(reads, bytes), stats| (reads + stats.reads, bytes + stats.read_bytes))
}

fn miss_caches(rig: &Rig, in_a_million: u32) {
    rig.disks.iter().for_each(|disk| disk.set_odds(FaultOdds { cache_miss: in_a_million, ..FaultOdds::default() }));
}

#[test]
fn a_short_range_of_a_long_object_reads_a_few_blocks() {
    simulate(async {
        let rig = Rig::new(1, 1, 30, ZONE_BYTES).await;
        let store = rig.open().await;
        let whole = content(100 * CHUNK_BYTES, 1);
        put(&store, &whole, CHUNK_BYTES).await;
        miss_caches(&rig, 1_000_000);
        let block = BLOCK_BYTES as u64;
        for start in [0, 50 * CHUNK_BYTES, 70 * CHUNK_BYTES + 100 * BLOCK_BYTES, 99 * CHUNK_BYTES + 33 * BLOCK_BYTES + 5] {
            let (requests, bytes) = read_so_far(&rig);
            let reader = open(&store).await;
            let opened = read_so_far(&rig);
            assert!(opened.1 - bytes <= block, "the descriptor: {} bytes", opened.1 - bytes);
            let range = start..start + BLOCK_BYTES;
            assert!(read(reader.as_ref(), range.clone()).await.unwrap() == whole[range]);
            let after = read_so_far(&rig);
            // The header with its checksums, and one block, or two if the range lies across.
            assert!(after.1 - opened.1 <= 3 * block, "{start}: {} bytes", after.1 - opened.1);
            assert!(after.0 - requests <= 3, "{start}: {} requests", after.0 - requests);
        }
        // A whole chunk is one read, as ever.
        let reader = open(&store).await;
        let before = read_so_far(&rig);
        let range = 7 * CHUNK_BYTES..8 * CHUNK_BYTES;
        assert!(read(reader.as_ref(), range.clone()).await.unwrap() == whole[range]);
        let after = read_so_far(&rig);
        assert_eq!(after.0 - before.0, 1);
    });
}

/// Where the chunks of the only object are, by device.
async fn chunks(rig: &Rig) -> BTreeMap<DeviceId, Vec<Place>> {
    let mut chunks: BTreeMap<DeviceId, Vec<Place>> = BTreeMap::new();
    for frame in frames(rig).await {
        if frame.kind == RecordKind::Chunk {
            chunks.entry(frame.place.device).or_default().push(frame.place);
        }
    }
    chunks
}

/// Rot within one payload block of a chunk.
fn rot_block(rig: &Rig, chunk: &Place, chunk_bytes: usize, block: usize) {
    // A chunk's own header has neither name nor attributes.
    let payload_at = chunk.offset.bytes() + header_bytes(crate::read::CHUNK_HEADER_BYTES, chunk_bytes) as u64;
    let zone_at = format::superblock::FIRST_REGION_BYTE + chunk.zone.0 as u64 * ZONE_BYTES;
    let within = (block * BLOCK_BYTES + BLOCK_BYTES / 2) as u64;
    rig.disks[chunk.device.0 as usize - 1].corrupt_at_rest(zone_at + payload_at + within, 1);
}

#[test]
fn rot_in_the_range_is_answered_by_another_copy_and_rot_beside_it_by_any() {
    simulate(async {
        const BLOCKS: usize = 20;
        const BAD: usize = 11;
        for devices in [1, 3] {
            let rig = Rig::new(7, devices, 12, ZONE_BYTES).await;
            let whole = content(6 * BLOCKS * BLOCK_BYTES, 2);
            let chunk_bytes = BLOCKS * BLOCK_BYTES;
            let store = rig.open().await;
            put(&store, &whole, chunk_bytes).await;
            let reader = open(&store).await;
            let chunks = chunks(&rig).await;
            assert_eq!(chunks.values().map(Vec::len).collect::<Vec<_>>(), vec![6; devices as usize]);
            for (rotten, places) in (1..).zip(chunks.values()) {
                places.iter().for_each(|place| rot_block(&rig, place, chunk_bytes, BAD));
                let metrics = || (store.stats().failed_copies.get(), store.stats().repaired_reads.get());
                let before = metrics();
                for start in (0..whole.len()).step_by(chunk_bytes) {
                    for beside in [0..BAD, BAD - 1..BAD, BAD + 1..BAD + 2, BAD + 1..BLOCKS] {
                        let range = start + beside.start * BLOCK_BYTES..start + beside.end * BLOCK_BYTES;
                        assert!(read(reader.as_ref(), range.clone()).await.unwrap() == whole[range.clone()], "{range:?}");
                    }
                }
                assert_eq!(metrics(), before, "nothing is wrong where nothing is");
                for start in (0..whole.len()).step_by(chunk_bytes) {
                    let range = start + BAD * BLOCK_BYTES + 1..start + BAD * BLOCK_BYTES + 2;
                    match read(reader.as_ref(), range.clone()).await {
                        Ok(bytes) => assert!(rotten < devices && bytes == whole[range]),
                        Err(EngineError::Corrupt { .. }) => assert_eq!(rotten, devices),
                        Err(error) => panic!("{range:?}: {error}"),
                    }
                }
                let (failed, repaired) = metrics();
                assert!(failed > before.0, "{rotten} of {devices}: the rot is counted");
                assert_eq!(repaired > before.1, rotten < devices, "{rotten} of {devices}");
            }
        }
    });
}

#[derive(Clone, Debug)]
struct Case {
    length: usize,
    chunk_bytes: usize,
    cache_misses: u32,
    /// A device whose every read is wrong.
    liar: Option<usize>,
    cuts: Vec<(usize, usize)>,
}

fn cases() -> impl Strategy<Value = Case> {
    let cuts = prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..20);
    let misses = prop::sample::select(vec![0u32, 500_000, 1_000_000]);
    let cut = |length: usize, cuts: Vec<(prop::sample::Index, prop::sample::Index)>| {
        cuts.iter().map(|(a, b)| (a.index(length), b.index(length))).collect()
    };
    (1usize..300_000, 5000usize..120_000, misses, prop::option::of(0usize..3), cuts).prop_map(
        move |(length, chunk_bytes, cache_misses, liar, cuts)| Case {
            length,
            chunk_bytes,
            cache_misses,
            liar,
            cuts: cut(length, cuts),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn random_ranges_are_what_was_written(case in cases()) {
        simulate(async {
            let rig = Rig::new(3, 3, 12, ZONE_BYTES).await;
            let store = rig.open().await;
            let whole = content(case.length, 3);
            put(&store, &whole, case.chunk_bytes).await;
            let reader = open(&store).await;
            miss_caches(&rig, case.cache_misses);
            if let Some(liar) = case.liar {
                rig.disks[liar].add_rule(FaultRule::always_in(0..u64::MAX, Operation::Read, Fault::Corrupt));
            }
            for (a, b) in &case.cuts {
                let range = *a.min(b)..*a.max(b) + 1;
                let bytes = read(reader.as_ref(), range.clone()).await.unwrap();
                assert!(bytes == whole[range.clone()], "{range:?} of {case:?}");
            }
        });
    }
}
