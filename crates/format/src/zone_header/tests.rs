use proptest::prelude::*;
use types::limits::BLOCK_BYTES;
use types::{Activation, DeviceUuid, ZoneIndex, ZoneOffset};

use super::{ZONE_DATA_START, ZoneHeader, ZoneHeaderError, ZoneNonce, ZoneState, ZoneStream, frame_seed, zone_nonce};
use crate::superblock::DeviceSecret;

const UUID: DeviceUuid = DeviceUuid([0x11; 16]);

fn header(activation: u64, state: ZoneState) -> ZoneHeader {
    ZoneHeader {
        device_uuid: UUID,
        zone: ZoneIndex(3),
        activation: Activation(activation),
        state,
        stream: Some(ZoneStream::Ordered),
        nonce: ZoneNonce([0x22; 16]),
        end: ZoneOffset(0x1234),
        changed_ms: 0x5566,
    }
}

fn encoded(header: &ZoneHeader) -> Vec<u8> {
    let mut area = vec![0xee; ZONE_DATA_START as usize];
    header.encode(&mut area);
    area
}

#[test]
fn golden() {
    let area = encoded(&header(9, ZoneState::Finished));
    let expected = concat!(
        "88bcc3d4",
        "547a5a68",
        "01020100",
        "03000000",
        "11111111111111111111111111111111",
        "0900000000000000",
        "22222222222222222222222222222222",
        "34120000",
        "00000000",
        "6655000000000000",
    );
    assert_eq!(area[..72].iter().map(|byte| format!("{byte:02x}")).collect::<String>(), expected);
    assert!(area[72..BLOCK_BYTES].iter().all(|byte| *byte == 0));
    assert_eq!(area[..BLOCK_BYTES], area[BLOCK_BYTES..]);
}

#[test]
fn golden_derivations() {
    let nonce = zone_nonce(&DeviceSecret([7; 16]), ZoneIndex(1), Activation(2));
    assert_eq!(nonce.0.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), "4fb5386dee499c9c58f3b30fd5c4e492");
    assert_eq!(frame_seed(UUID, &nonce), 0xe65e02364f57a6c6);
    assert_ne!(nonce, zone_nonce(&DeviceSecret([7; 16]), ZoneIndex(1), Activation(3)));
    assert_ne!(nonce, zone_nonce(&DeviceSecret([7; 16]), ZoneIndex(2), Activation(2)));
    assert_ne!(nonce, zone_nonce(&DeviceSecret([8; 16]), ZoneIndex(1), Activation(2)));
}

#[test]
fn the_newer_copy_counts() {
    let older_to_newer =
        [header(9, ZoneState::Open), header(9, ZoneState::Finished), header(9, ZoneState::Free), header(10, ZoneState::Open)];
    for pair in older_to_newer.windows(2) {
        let (old, new) = (encoded(&pair[0]), encoded(&pair[1]));
        let first = [&new[..BLOCK_BYTES], &old[BLOCK_BYTES..]].concat();
        let second = [&old[..BLOCK_BYTES], &new[BLOCK_BYTES..]].concat();
        assert_eq!(ZoneHeader::decode(&first, UUID, ZoneIndex(3)), Ok(pair[1]));
        assert_eq!(ZoneHeader::decode(&second, UUID, ZoneIndex(3)), Ok(pair[1]));
    }
}

#[test]
fn one_damaged_copy_is_survived_and_two_are_told() {
    let written = header(9, ZoneState::Open);
    let mut area = encoded(&written);
    area[40] ^= 1;
    assert_eq!(ZoneHeader::decode(&area, UUID, ZoneIndex(3)), Ok(written));
    area[BLOCK_BYTES + 41] ^= 1;
    let error = ZoneHeader::decode(&area, UUID, ZoneIndex(3)).expect_err("both are damaged");
    assert!(matches!(error, ZoneHeaderError::Crc { .. }), "{error}");
    assert_eq!(ZoneHeader::decode(&[0; 8192], UUID, ZoneIndex(3)), Err(ZoneHeaderError::Absent));
}

#[test]
fn a_header_of_another_zone_or_device_is_refused() {
    let area = encoded(&header(9, ZoneState::Open));
    for (uuid, zone) in [(UUID, ZoneIndex(4)), (DeviceUuid([1; 16]), ZoneIndex(3))] {
        let error = ZoneHeader::decode(&area, uuid, zone).expect_err("elsewhere");
        assert!(matches!(error, ZoneHeaderError::Misplaced { .. }), "{error}");
    }
}

proptest! {
    #[test]
    fn round_trip(
        zone: u32, activation in 1u64.., nonce: [u8; 16], uuid: [u8; 16], end: u32, changed_ms: u64,
        state in prop_oneof![Just(ZoneState::Open), Just(ZoneState::Finished), Just(ZoneState::Free)],
        stream in prop_oneof![Just(ZoneStream::Ordered), Just(ZoneStream::Relocated), Just(ZoneStream::Meta)],
    ) {
        let written = ZoneHeader {
            device_uuid: DeviceUuid(uuid),
            zone: ZoneIndex(zone),
            activation: Activation(activation),
            state,
            stream: Some(stream),
            nonce: ZoneNonce(nonce),
            end: ZoneOffset(end),
            changed_ms,
        };
        prop_assert_eq!(ZoneHeader::decode(&encoded(&written), DeviceUuid(uuid), ZoneIndex(zone)), Ok(written));
    }
}
