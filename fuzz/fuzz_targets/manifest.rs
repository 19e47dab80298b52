//! `format::manifest::Manifest::decode`: no bytes make it panic, whether or not their checksum is right, and what it accepts
//! survives being written again.
#![no_main]

use crc_fast::crc32_iscsi;
use format::manifest::Manifest;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    if bytes.len() < 4 {
        return;
    }
    let mut sealed = bytes.to_vec();
    let crc = crc32_iscsi(&sealed[4..]);
    sealed[..4].copy_from_slice(&crc.to_le_bytes());
    check(&sealed);
});

fn check(bytes: &[u8]) {
    if let Ok(manifest) = Manifest::decode(bytes) {
        assert_eq!(Manifest::decode(&manifest.encode()).as_ref(), Ok(&manifest));
    }
}
