//! `ludo::Lookup::from_snapshot`: no bytes make it panic, and what it accepts can be looked up in and written again.
//!
//! The first byte of an input says whether the right checksum is put behind the rest: else no input would get further.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ludo::{Lookup, Reader, ValueWords};

fuzz_target!(|input: &[u8]| {
    let Some((seal, bytes)) = input.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if *seal != 0 {
        bytes.extend_from_slice(&crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &bytes).to_le_bytes()[..4]);
    }
    let Ok(mut lookup) = Lookup::from_snapshot(&bytes) else {
        // The same bytes as a classifier for a structure that exists.
        let shape = ludo::Shape::new(10, 8, 0).expect("valid");
        let maintenance = ludo::Maintenance::<u8>::new(ludo::Config { key_bytes: 8, shape, seed: 1 });
        let mut lookup = Lookup::from_snapshot(&maintenance.lookup().snapshot()).expect("a snapshot can be read");
        assert!(lookup.renew_from(&bytes).is_err() || lookup.generation() == 1);
        return;
    };
    assert_eq!(lookup.snapshot(), bytes);
    let mut reader: Reader<ValueWords> = lookup.reader().expect("the widest type");
    for number in 0..100_u64 {
        reader.get(&number.to_le_bytes());
    }
    let Some(value) = reader.get(b"key") else { return };
    assert_eq!(lookup.exchange(b"key", value, ValueWords::default()), Ok(ludo::Exchanged::Done));
    assert_eq!(reader.get(b"key"), Some(ValueWords::default()));
});
