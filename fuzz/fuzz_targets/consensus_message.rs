//! Requests and answers of consensus: no bytes from a peer make decoding them panic, and what is accepted survives being written again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| consensus::fuzz::message(bytes));
