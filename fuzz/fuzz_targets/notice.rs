//! `format::notice::NoticeBatch::decode`: no bytes from a peer make it panic, and what it accepts survives being sent on.
#![no_main]

use format::notice::NoticeBatch;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(batch) = NoticeBatch::decode(bytes) {
        let mut again = Vec::new();
        batch.encode(&mut again);
        assert_eq!(NoticeBatch::decode(&again).as_ref(), Ok(&batch));
    }
});
