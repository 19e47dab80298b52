use std::collections::BTreeMap;

use proptest::prelude::*;
use types::Token;

use super::{FenceKey, FenceKind, FencesError, decode, encode};

#[test]
fn golden() {
    let bytes = encode(&[
        (FenceKey { kind: FenceKind::Gateway, scope: 0x0102 }, Token(9)),
        (FenceKey { kind: FenceKind::Image, scope: 3 }, Token(0x0a0b)),
    ]);
    let expected = concat!(
        "54726946",
        "01000000",
        "02000000",
        "00000000",
        "0100000000000000",
        "0201000000000000",
        "0900000000000000",
        "0300000000000000",
        "0300000000000000",
        "0b0a000000000000",
    );
    assert_eq!(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), expected);
}

#[test]
fn what_is_no_table_is_refused() {
    let good = encode(&[
        (FenceKey { kind: FenceKind::Gateway, scope: 1 }, Token(1)),
        (FenceKey { kind: FenceKind::Gateway, scope: 2 }, Token(1)),
    ]);
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        decode(&bytes)
    };
    assert_eq!(changed(0, 0), Err(FencesError::NotFences));
    assert_eq!(changed(4, 2), Err(FencesError::Version { found: 2 }));
    assert_eq!(changed(8, 3), Err(FencesError::Length { count: 3, found: 64 }));
    assert_eq!(changed(16, 9), Err(FencesError::Kind { found: 9 }));
    assert_eq!(changed(24, 2), Err(FencesError::Unsorted { index: 1 }));
    assert_eq!(decode(&good[..63]), Err(FencesError::Length { count: 2, found: 63 }));
    assert_eq!(decode(&[]), Err(FencesError::NotFences));
}

fn kinds() -> impl Strategy<Value = FenceKind> {
    prop_oneof![
        Just(FenceKind::Gateway),
        Just(FenceKind::PlacementGroup),
        Just(FenceKind::Image),
        Just(FenceKind::Shard),
        Just(FenceKind::DataPartition)
    ]
}

proptest! {
    #[test]
    fn round_trip(fences in proptest::collection::btree_map((kinds(), any::<u64>()), any::<u64>(), 0..50)) {
        let fences: BTreeMap<(FenceKind, u64), u64> = fences;
        let table: Vec<(FenceKey, Token)> =
            fences.into_iter().map(|((kind, scope), token)| (FenceKey { kind, scope }, Token(token))).collect();
        prop_assert_eq!(decode(&encode(&table)), Ok(table));
    }
}
