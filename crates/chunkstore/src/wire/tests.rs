mod golden;
mod refused;
mod round_trip;

use bytes::Bytes;

use super::{Message, WireError, decode, encode};

/// What a message's bytes are, with spaces between fields; and that no other bytes near them are a message.
fn stands_as<M: Message + PartialEq + std::fmt::Debug>(message: &M, expected: &str) {
    let bytes = encode(message);
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, expected.replace(' ', ""), "{message:?}");
    survives(message);
}

/// A message comes back as it was; parts of one, and more than one, are none.
fn survives<M: Message + PartialEq + std::fmt::Debug>(message: &M) {
    let bytes = encode(message);
    assert_eq!(decode::<M>(&bytes).as_ref(), Ok(message));
    for length in 0..bytes.len() {
        let part = decode::<M>(&bytes.slice(..length));
        assert!(part.is_err(), "{length} bytes of {message:?}: {part:?}");
    }
    let longer = decode::<M>(&Bytes::from([&bytes[..], &[0]].concat()));
    assert!(longer.is_err(), "{longer:?}");
}

/// Why bytes are no message.
fn refused<M: Message + std::fmt::Debug>(bytes: impl Into<Bytes>) -> WireError {
    decode::<M>(&bytes.into()).expect_err("no message")
}
