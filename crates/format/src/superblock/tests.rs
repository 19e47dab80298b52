use proptest::prelude::*;
use types::{CellId, ClusterId, DeviceId, DeviceUuid};

use super::{DeviceSecret, Region, SUPERBLOCK_BYTES, Superblock, SuperblockError, ZoneRegion};

fn superblock() -> Superblock {
    Superblock {
        sequence: 3,
        cluster: ClusterId([0x11; 16]),
        device_uuid: DeviceUuid([0x22; 16]),
        device: DeviceId(7),
        cell: CellId(2),
        created_ms: 0x5566,
        secret: DeviceSecret([0x33; 16]),
        regions: vec![Region::Zone(ZoneRegion { first_byte: 8 << 20, zone_bytes: 64 << 20, zone_count: 100 })],
    }
}

#[test]
fn golden() {
    let expected = concat!(
        "6b44cf2c",
        "5472695375706572",
        "01000000",
        "0300000000000000",
        "11111111111111111111111111111111",
        "22222222222222222222222222222222",
        "07000000",
        "02000000",
        "0000000000000000",
        "6655000000000000",
        "33333333333333333333333333333333",
        "00100000",
        "01000000",
        "000000000000000000000000000000000000000000000000",
        "01000000",
        "00000000",
        "0000800000000000",
        "0000000400000000",
        "64000000",
    );
    let bytes = superblock().encode();
    assert_eq!(bytes[..156].iter().map(|byte| format!("{byte:02x}")).collect::<String>(), expected);
    assert!(bytes[156..].iter().all(|byte| *byte == 0));
}

#[test]
fn a_region_of_an_unknown_kind_is_refused() {
    let mut bytes = superblock().encode();
    bytes[128] = 3;
    let crc = crc_fast::crc32_iscsi(&bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    let expected = SuperblockError::Geometry { block_bytes: 4096, region_count: 1, kind: 3 };
    assert_eq!(Superblock::decode(&bytes), Err(expected));
}

#[test]
fn every_damaged_byte_is_noticed() {
    let good = superblock().encode();
    for at in 0..SUPERBLOCK_BYTES {
        let mut bytes = good;
        bytes[at] ^= 0x10;
        assert!(Superblock::decode(&bytes).is_err(), "byte {at}");
    }
}

#[test]
fn slots_alternate() {
    let first = superblock();
    let second = Superblock { sequence: 4, ..first.clone() };
    assert!(first.write_offsets().iter().all(|offset| !second.write_offsets().contains(offset)));
    assert_eq!(Superblock::read_offsets().count(), 4);
}

#[test]
fn zeros_are_no_device() {
    assert_eq!(Superblock::decode(&[0; SUPERBLOCK_BYTES]), Err(SuperblockError::Absent));
}

#[test]
fn the_secret_is_not_printed() {
    let text = format!("{:?}", superblock());
    assert!(!text.contains("51, 51") && !text.contains("3333"), "0x33 is 51: {text}");
}

proptest! {
    #[test]
    fn round_trip(
        sequence: u64, cluster: [u8; 16], uuid: [u8; 16], device: u32, cell: u16, created_ms: u64, secret: [u8; 16],
        regions in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<u32>()), 0..=super::MAX_REGIONS),
    ) {
        let written = Superblock {
            sequence,
            cluster: ClusterId(cluster),
            device_uuid: DeviceUuid(uuid),
            device: DeviceId(device),
            cell: CellId(cell),
            created_ms,
            secret: DeviceSecret(secret),
            regions: regions
                .into_iter()
                .map(|(first_byte, zone_bytes, zone_count)| Region::Zone(ZoneRegion { first_byte, zone_bytes, zone_count }))
                .collect(),
        };
        prop_assert_eq!(Superblock::decode(&written.encode()), Ok(written));
    }
}
