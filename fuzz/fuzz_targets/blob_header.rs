//! `format::blob_header::BlobHeader::decode`: no bytes make it panic, and what it accepts survives being written again.
#![no_main]

use crc_fast::crc32_iscsi;
use format::blob_header::BlobHeader;
use libfuzzer_sys::fuzz_target;

const HEADER_BYTES: usize = 128;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    // The same bytes with magic and checksum put right.
    let mut header = [0; HEADER_BYTES];
    let given = bytes.len().min(HEADER_BYTES);
    header[..given].copy_from_slice(&bytes[..given]);
    header[4..8].copy_from_slice(b"TbHd");
    let crc = crc32_iscsi(&header[4..]);
    header[..4].copy_from_slice(&crc.to_le_bytes());
    check(&header);
});

fn check(bytes: &[u8]) {
    if let Ok(read) = BlobHeader::decode(bytes) {
        assert!(read.owned.covers(read.data), "content of pieces that are not owned");
        assert_eq!(BlobHeader::decode(&read.encode()).as_ref(), Ok(&read));
    }
}
