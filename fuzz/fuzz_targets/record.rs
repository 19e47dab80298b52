//! `format::record::Record::decode`: no bytes make it panic, and what it accepts survives being written again; the attributes
//! inside are decoded too, as a reader would.
#![no_main]

use bytes::Bytes;
use format::attributes::Attributes;
use format::record::Record;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(record) = Record::decode(&Bytes::copy_from_slice(bytes)) else { return };
    let mut again = Vec::new();
    record.encode(&mut again);
    assert_eq!(again.len(), record.encoded_len());
    assert_eq!(Record::decode(&Bytes::from(again)).as_ref(), Ok(&record));
    // Either answer is fine for the key and for the attributes; a panic is not.
    let readable = record.name.key().is_ok() && Attributes::decode(record.attributes.clone()).is_ok();
    std::hint::black_box(readable);
});
