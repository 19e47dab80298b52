//! `net::FrameHeader::decode`: no bytes make it panic, and what it accepts is, byte for byte, what would be written for it;
//! a payload passes only with the header that was made for it.
#![no_main]

use crc_fast::{CrcAlgorithm, checksum};
use libfuzzer_sys::fuzz_target;
use net::{FRAME_HEADER_BYTES, FrameHeader, MAX_PAYLOAD_BYTES};

const MAGIC: &[u8; 4] = b"TRN1";
const CRC_OFFSET: usize = 28;

fuzz_target!(|bytes: &[u8]| {
    let Some((header, payload)) = bytes.split_first_chunk::<FRAME_HEADER_BYTES>() else { return };
    check(header, payload);
    let mut sealed = *header;
    sealed[..4].copy_from_slice(MAGIC);
    let crc = checksum(CrcAlgorithm::Crc32Iscsi, &sealed[..CRC_OFFSET]) as u32;
    sealed[CRC_OFFSET..].copy_from_slice(&crc.to_le_bytes());
    check(&sealed, payload);
});

fn check(bytes: &[u8; FRAME_HEADER_BYTES], payload: &[u8]) {
    let Ok(header) = FrameHeader::decode(bytes) else { return };
    assert!(header.payload_bytes as usize <= MAX_PAYLOAD_BYTES);
    assert_eq!(header.encode(), *bytes);
    let made_for_it = FrameHeader::new(header.kind, header.id, header.budget_ms, payload);
    assert_eq!(made_for_it.check(payload), Ok(()));
    if header.check(payload).is_ok() {
        assert_eq!(header.payload_crc, made_for_it.payload_crc);
    }
}
