use super::{FRAME_HEADER_BYTES, FrameError, FrameHeader, FrameKind, MAX_PAYLOAD_BYTES, crc};
use proptest::prelude::{any, prop_assert_eq, proptest};

fn kinds(draw: u8) -> FrameKind {
    [FrameKind::Hello, FrameKind::Request, FrameKind::Response, FrameKind::Refusal, FrameKind::EarlyRefusal][draw as usize % 5]
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(kind in any::<u8>(), id in any::<u64>(), budget in any::<u32>(), payload in any::<Vec<u8>>()) {
        let header = FrameHeader::new(kinds(kind), id, budget, &payload);
        prop_assert_eq!(FrameHeader::decode(&header.encode()), Ok(header));
        prop_assert_eq!(header.check(&payload), Ok(()));
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    let payload = b"sixteen bytes...".to_vec();
    let header = FrameHeader::new(FrameKind::Request, 7, 250, &payload);
    for bit in 0..FRAME_HEADER_BYTES * 8 {
        let mut bytes = header.encode();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(FrameHeader::decode(&bytes).is_err(), "bit {bit} of the header");
    }
    for bit in 0..payload.len() * 8 {
        let mut payload = payload.clone();
        payload[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(header.check(&payload), Err(FrameError::PayloadChecksum { .. })), "bit {bit} of the payload");
    }
}

/// A header with a good checksum over bad fields.
fn forged(change: impl Fn(&mut [u8; FRAME_HEADER_BYTES])) -> Result<FrameHeader, FrameError> {
    let mut bytes = FrameHeader::new(FrameKind::Request, 7, 250, b"").encode();
    change(&mut bytes);
    let own = crc(&bytes[..28]);
    bytes[28..].copy_from_slice(&own.to_le_bytes());
    FrameHeader::decode(&bytes)
}

#[test]
fn fields_are_checked_even_under_a_good_checksum() {
    assert_eq!(forged(|bytes| bytes[4] = 9), Err(FrameError::Kind { found: 9 }));
    assert_eq!(forged(|bytes| bytes[6] = 1), Err(FrameError::Reserved { found: [0, 1, 0] }));
    let long = MAX_PAYLOAD_BYTES as u32 + 1;
    let too_long = forged(|bytes| bytes[16..20].copy_from_slice(&long.to_le_bytes()));
    assert_eq!(too_long, Err(FrameError::Length { found: long, most: MAX_PAYLOAD_BYTES as u32 }));
    assert_eq!(forged(|bytes| bytes[0] = b'X'), Err(FrameError::Magic { found: *b"XRN1" }));
}

#[test]
fn the_layout_is_fixed() {
    let bytes = FrameHeader::new(FrameKind::Request, 0x0102, 0x0304, b"123456789").encode();
    assert_eq!(&bytes[..24], b"TRN1\x02\0\0\0\x02\x01\0\0\0\0\0\0\x09\0\0\0\x04\x03\0\0");
    assert_eq!(bytes[24..28], 0xe306_9283u32.to_le_bytes(), "the check value of CRC-32C");
}
