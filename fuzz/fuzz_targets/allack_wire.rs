//! Records of a meta server and messages between members: no bytes make decoding or replaying them panic, and what is accepted survives being
//! written again.
#![no_main]

use allack::{Message, Record, Replay};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

const VERSION: u8 = 1;

fuzz_target!(|bodies: Vec<Vec<u8>>| {
    let mut replay = Replay::default();
    for body in bodies {
        // The version and the reserved bytes put right: every other byte is the fuzzer's.
        let mut sound = body.clone();
        for (at, byte) in [(0, VERSION), (2, 0), (3, 0)] {
            sound.iter_mut().skip(at).take(1).for_each(|place| *place = byte);
        }
        for bytes in [Bytes::from(body), Bytes::from(sound)] {
            if let Ok(record) = Record::decode(&bytes) {
                assert_eq!(record.encode(), bytes);
                replay.apply(&record.change);
            }
            if let Ok(message) = Message::decode(&bytes) {
                assert_eq!(message.encode(), bytes);
            }
        }
    }
    if let Ok(saved) = replay.finish() {
        assert!(saved.log.last() >= saved.log.base(), "a log that ends before it begins");
    }
});
