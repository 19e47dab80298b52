//! `format::attributes::Attributes::decode`: no bytes make it panic, and what it accepts survives being written again.
#![no_main]

use bytes::Bytes;
use format::attributes::Attributes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(attributes) = Attributes::decode(Bytes::copy_from_slice(bytes)) {
        let again = attributes.to_bytes();
        assert_eq!(again.len(), attributes.encoded_len());
        // An area at the limit that lacks the fields that are always written grows beyond it.
        if attributes.check_length().is_ok() {
            assert_eq!(Attributes::decode(again).as_ref(), Ok(&attributes));
        }
    }
});
