//! Lower-case hexadecimal, as it stands in entity tags and version ids.

use std::fmt;

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Writes sixteen bytes as 32 digits in one call: entity tags are written once for every listed name.
pub(crate) fn write(f: &mut fmt::Formatter<'_>, bytes: &[u8; 16]) -> fmt::Result {
    let mut text = [0u8; 32];
    for (pair, byte) in text.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    f.write_str(std::str::from_utf8(&text).expect("digits are ASCII"))
}

/// Reads exactly 32 lower-case digits.
pub(crate) fn parse(text: &[u8]) -> Option<[u8; 16]> {
    if text.len() != 32 {
        return None;
    }
    let mut bytes = [0u8; 16];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}
