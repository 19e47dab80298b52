//! `format::zone_header`: no bytes make it panic, and what it accepts is of the zone that was asked for and survives being
//! written again.
#![no_main]

use crc_fast::crc32_iscsi;
use format::zone_header::{ZONE_DATA_START, ZoneHeader};
use libfuzzer_sys::fuzz_target;
use types::limits::BLOCK_BYTES;
use types::{DeviceUuid, ZoneIndex};

const DEVICE: DeviceUuid = DeviceUuid([7; 16]);
const ZONE: ZoneIndex = ZoneIndex(5);
const RECORD_BYTES: usize = 512;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    // The fuzzer's bytes are the copies of a header, one after the other, each with magic and checksum put right.
    let mut area = vec![0; ZONE_DATA_START as usize];
    for (copy, given) in area.chunks_exact_mut(BLOCK_BYTES).zip(bytes.chunks(RECORD_BYTES)) {
        copy[..given.len()].copy_from_slice(given);
        copy[4..8].copy_from_slice(b"TzZh");
        let crc = crc32_iscsi(&copy[4..RECORD_BYTES]);
        copy[..4].copy_from_slice(&crc.to_le_bytes());
    }
    check(&area);
});

fn check(area: &[u8]) {
    if let Ok(header) = ZoneHeader::decode(area, DEVICE, ZONE) {
        assert!(header.device_uuid == DEVICE && header.zone == ZONE, "a header of another zone passed");
        let mut again = vec![0; ZONE_DATA_START as usize];
        header.encode(&mut again);
        assert_eq!(ZoneHeader::decode(&again, DEVICE, ZONE).as_ref(), Ok(&header));
    }
}
