//! `logstore::Batch::decode`: no bytes of another gateway make it panic, and what it accepts survives being written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use logstore::Batch;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(batch) = Batch::decode(bytes) {
        assert_eq!(Batch::decode(&batch.encode()).as_ref(), Ok(&batch));
    }
});
