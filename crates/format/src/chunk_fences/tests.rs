use std::collections::BTreeMap;

use crc_fast::crc32_iscsi;
use proptest::prelude::*;
use types::DeviceUuid;

use super::{ChunkFences, FENCES_AREA_BYTES, FENCES_SLOT_BYTES, MAX_FENCED_SHARDS, ShardFence};
use crate::chunk_id::{ChunkNumber, ShardId};

fn fence(shard: u32, puts: u64, moves: u64) -> ShardFence {
    ShardFence { shard: ShardId(shard), puts: ChunkNumber(puts), moves }
}

fn record(sequence: u64, fences: Vec<ShardFence>) -> ChunkFences {
    ChunkFences { device_uuid: DeviceUuid([0x11; 16]), sequence, fences }
}

/// The record with a changed byte and the checksum that belongs to it.
fn resealed(mut bytes: Vec<u8>, at: usize, value: u8) -> Vec<u8> {
    bytes[at] = value;
    let crc = crc32_iscsi(&bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn golden() {
    let bytes = record(7, vec![fence(2, 0x0102, 3), fence(9, u64::MAX, 0)]).encode();
    let expected = concat!(
        "d2763751",
        "5463466e",
        "01000000",
        "02000000",
        "11111111111111111111111111111111",
        "0700000000000000",
        "000000000000000000000000000000000000000000000000",
        "0200000000000000",
        "0201000000000000",
        "0300000000000000",
        "0900000000000000",
        "ffffffffffffffff",
        "0000000000000000",
    );
    assert_eq!(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), expected);
}

#[test]
fn slots_alternate_and_lie_in_the_area() {
    let offsets = [0, 1, 2].map(|sequence| record(sequence, Vec::new()).offset());
    assert_eq!(offsets, [0, FENCES_SLOT_BYTES, 0]);
    let full = record(1, (0..MAX_FENCED_SHARDS as u32).map(|shard| fence(shard, 1, 2)).collect());
    let bytes = full.encode();
    assert!(full.offset() + (bytes.len() as u64).next_multiple_of(4096) <= FENCES_AREA_BYTES, "{} bytes", bytes.len());
    assert_eq!(ChunkFences::decode(&bytes), Ok(full));
}

#[test]
fn every_damaged_byte_is_noticed() {
    let good = record(3, vec![fence(1, 2, 3), fence(4, 5, 6)]).encode();
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        assert!(ChunkFences::decode(&bytes).is_err(), "byte {at}");
    }
    for len in 0..good.len() {
        assert!(ChunkFences::decode(&good[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn contradictions_are_refused() {
    let good = record(3, vec![fence(1, 2, 3), fence(4, 5, 6)]).encode();
    let changes = [
        (4, 0, "magic"),
        (8, 0, "version"),
        (8, 2, "version"),
        (10, 1, "reserved"),
        (12, 3, "count"),
        (60, 1, "reserved"),
        (68, 1, "reserved"),
        (88, 1, "shard"),
        (88, 0, "shard"),
    ];
    for (at, value, field) in changes {
        let error = ChunkFences::decode(&resealed(good.clone(), at, value)).expect_err(field);
        assert_eq!(error.field, field, "byte {at} is {value}");
    }
    let mut many = record(3, Vec::new()).encode();
    many.resize(1 << 20, 0);
    let many = resealed(many, 13, 0x80);
    assert_eq!(ChunkFences::decode(&many).expect_err("more than the limit").field, "count");
}

proptest! {
    #[test]
    fn round_trip(
        uuid: [u8; 16], sequence: u64,
        fences in prop::collection::btree_map(any::<u32>(), any::<(u64, u64)>(), 0..50),
    ) {
        let fences: BTreeMap<u32, (u64, u64)> = fences;
        let fences = fences.into_iter().map(|(shard, (puts, moves))| fence(shard, puts, moves)).collect();
        let written = ChunkFences { device_uuid: DeviceUuid(uuid), sequence, fences };
        let mut bytes = written.encode();
        prop_assert_eq!(ChunkFences::decode(&bytes), Ok(written.clone()));
        bytes.resize(bytes.len().next_multiple_of(4096), 0);
        prop_assert_eq!(ChunkFences::decode(&bytes), Ok(written));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(ChunkFences::decode(&bytes).is_err(), "nobody guesses a checksum");
    }
}
