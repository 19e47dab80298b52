//! A slot of the consensus log's base: no block makes decoding it panic, whether or not its checksum is right, and what is accepted
//! survives being written again.
#![no_main]

use crc_fast::{CrcAlgorithm, checksum};
use libfuzzer_sys::fuzz_target;
use types::limits::BLOCK_BYTES;

const MAGIC: &[u8; 8] = b"TRILCNB\0";

fuzz_target!(|bytes: &[u8]| {
    let mut block = bytes.to_vec();
    block.resize(BLOCK_BYTES, 0);
    consensus::fuzz::base_slot(&block);
    block[..8].copy_from_slice(MAGIC);
    block[12..16].fill(0);
    let crc = checksum(CrcAlgorithm::Crc32Iscsi, &block) as u32;
    block[12..16].copy_from_slice(&crc.to_le_bytes());
    consensus::fuzz::base_slot(&block);
});
