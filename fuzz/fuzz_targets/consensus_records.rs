//! The records of the consensus log: no bytes make decoding or replaying them panic, and a group that replay accepts is whole.
#![no_main]

use libfuzzer_sys::fuzz_target;

const RECORD_VERSION: u8 = 1;

fuzz_target!(|bodies: Vec<Vec<u8>>| {
    // The version put right: every other byte is the fuzzer's.
    let records: Vec<Vec<u8>> = bodies.iter().map(|body| [&[RECORD_VERSION], &body[..]].concat()).collect();
    consensus::fuzz::records(&records);
    consensus::fuzz::records(&bodies);
});
