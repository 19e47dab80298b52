//! `format::superblock::notes`: no bytes make it panic, and it never hands out more bytes than it was given.
#![no_main]

use crc_fast::crc32_iscsi;
use format::superblock::notes::{NOTES_DATA_START, NotesHeader, NotesKind};
use libfuzzer_sys::fuzz_target;
use types::DeviceUuid;

const DEVICE: DeviceUuid = DeviceUuid([7; 16]);
const HEADER_BYTES: usize = 64;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    if bytes.len() < HEADER_BYTES {
        return;
    }
    let mut sealed = bytes.to_vec();
    sealed[4..8].copy_from_slice(b"TriN");
    sealed[24..40].copy_from_slice(&DEVICE.0);
    let crc = crc32_iscsi(&sealed[4..HEADER_BYTES]);
    sealed[..4].copy_from_slice(&crc.to_le_bytes());
    check(&sealed);
});

fn check(bytes: &[u8]) {
    for kind in NotesKind::ALL {
        let Ok(header) = NotesHeader::decode(bytes, kind, DEVICE) else { continue };
        assert!(header.length as usize <= kind.max_bytes());
        let after_block = bytes.get(NOTES_DATA_START..).unwrap_or_default();
        if let Ok(notes) = header.bytes(after_block) {
            assert_eq!(notes.len(), header.length as usize);
        }
    }
}
