use proptest::prelude::*;
use types::{BlobId, DeviceUuid, ImageEpoch, ImageId, Layer, LayerOf, Pieces, Token};

use super::{BlobHeader, BlobState, HEADER_BYTES};

fn header() -> BlobHeader {
    BlobHeader {
        device_uuid: DeviceUuid([0x11; 16]),
        block: 0x0203,
        serial: 6,
        state: BlobState::Whole,
        id: BlobId { image: ImageId(0x0405), index: 7, layer: Layer(8) },
        token: Token(9),
        epoch: ImageEpoch(10),
        owned: Pieces(0xff),
        data: Pieces(0x0f),
        parent: Some(LayerOf { image: ImageId(11), layer: Layer(12) }),
    }
}

#[test]
fn golden() {
    let expected = concat!(
        "5414d67b",
        "54624864",
        "01010000",
        "03020000",
        "11111111111111111111111111111111",
        "0600000000000000",
        "0504000000000000",
        "07000000",
        "08000000",
        "0900000000000000",
        "0a00000000000000",
        "ff00000000000000",
        "0f00000000000000",
        "0b00000000000000",
        "0c000000",
        "00000000000000000000000000000000000000000000000000000000",
    );
    let found: String = header().encode().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(found, expected);
}

#[test]
fn what_can_not_be_is_refused() {
    let sealed = |change: fn(&mut [u8])| {
        let mut bytes = header().encode();
        change(&mut bytes);
        let crc = crc_fast::crc32_iscsi(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        BlobHeader::decode(&bytes).map(|_| ()).map_err(|error| error.field)
    };
    assert_eq!(sealed(|_| ()), Ok(()));
    assert_eq!(sealed(|bytes| bytes[4] = 0), Err("magic"));
    assert_eq!(sealed(|bytes| bytes[8] = 2), Err("version"));
    assert_eq!(sealed(|bytes| bytes[9] = 3), Err("state"));
    assert_eq!(sealed(|bytes| bytes[9] = 0), Err("image"));
    assert_eq!(sealed(|bytes| bytes[81] = 1), Err("data"));
    assert_eq!(sealed(|bytes| bytes[127] = 1), Err("reserved"));
    let mut torn = header().encode();
    torn[72] ^= 1;
    assert_eq!(BlobHeader::decode(&torn).unwrap_err().field, "crc");
}

proptest! {
    #[test]
    fn round_trip(block: u32, serial: u64, image in 1u64.., index: u32, layer: u32, token: u64, epoch: u64, owned: u64, data: u64) {
        let header = BlobHeader {
            block,
            serial,
            id: BlobId { image: ImageId(image), index, layer: Layer(layer) },
            token: Token(token),
            epoch: ImageEpoch(epoch),
            owned: Pieces(owned),
            data: Pieces(owned & data),
            parent: None,
            ..header()
        };
        prop_assert_eq!(BlobHeader::decode(&header.encode()).unwrap(), header);
    }

    #[test]
    fn garbage_is_refused(bytes in proptest::collection::vec(any::<u8>(), 0..2 * HEADER_BYTES)) {
        prop_assert!(BlobHeader::decode(&bytes).is_err());
    }
}
