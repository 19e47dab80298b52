//! Numbers in as few bytes as they need (LEB128).

/// Bits of a number beyond which there are none.
const MAX_SHIFT: u32 = 63;

pub fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The number with which `bytes` begin, which they lose. None if there is none.
#[inline]
pub fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(number);
        }
        shift += 7;
        if shift > MAX_SHIFT {
            return None;
        }
    }
}

/// The first bytes, which `bytes` lose. None if there are fewer.
pub fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}
