use super::*;
use proptest::prelude::*;

fn lent(zone: u32, unit: u32, activation: u64) -> LentUnit {
    LentUnit { zone: ZoneIndex(zone), owner: VolumeOwner::Chunks, unit, activation: Activation(activation) }
}

#[test]
fn golden() {
    let bytes = encode(&[lent(3, 0, 7), lent(0xfffe, 0x0102_0304, 0x1122_3344_5566_7788)]);
    let expected = [
        &[2, 0, 0, 0, 0, 0, 0, 0][..],
        &[3, 0, 1, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0],
        &[0xfe, 0xff, 1, 0, 4, 3, 2, 1, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11],
    ];
    assert_eq!(bytes, expected.concat());
    assert_eq!(decode(&bytes).expect("its own bytes").len(), 2);
}

#[test]
fn each_owner_has_a_number_and_a_name_of_its_own() {
    let owners = VolumeOwner::ALL.map(|owner| (owner as u8, owner.name()));
    assert_eq!(owners, [(1, "chunks"), (2, "images"), (3, "files"), (4, "volume-engine")]);
    let table = VolumeOwner::ALL.map(|owner| LentUnit { owner, ..lent(u32::from(owner as u8), 0, 5) });
    assert_eq!(decode(&encode(&table)).expect("its own bytes"), table);
}

#[test]
fn what_is_no_table_is_refused() {
    let good = encode(&[lent(1, 0, 5), lent(2, 1, 6)]);
    let fault = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        let error = decode(&bytes).expect_err("refused");
        (error.field, error.offset)
    };
    assert_eq!(fault(0, 3), ("count", 0), "an entry too few");
    assert_eq!(fault(0, 1), ("end", 24), "an entry too many");
    assert_eq!(fault(4, 1), ("reserved", 4));
    assert_eq!(fault(10, 9), ("owner", 10));
    assert_eq!(fault(11, 1), ("reserved", 11));
    assert_eq!(fault(24, 1), ("zone", 24), "the same zone twice");
    assert_eq!(fault(28, 0), ("unit", 28), "the same unit twice");
    assert!(decode(&good[..7]).is_err());
}

proptest! {
    #[test]
    fn a_table_survives_being_written(zones in proptest::collection::btree_map(0_u32..1 << 16, any::<u64>(), 0..64)) {
        let units: Vec<LentUnit> = zones.into_iter().enumerate().map(|(unit, (zone, at))| lent(zone, unit as u32, at)).collect();
        prop_assert_eq!(decode(&encode(&units)).expect("its own bytes"), units);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..128)) {
        if let Ok(units) = decode(&bytes) {
            prop_assert_eq!(encode(&units), bytes);
        }
    }
}
