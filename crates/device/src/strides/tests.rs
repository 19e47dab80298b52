use super::{HeaderIn, Strides};

const COUNT: u32 = 40;
const ALL: [Strides; 3] = [
    Strides { first_byte: 1 << 20, stride_bytes: (4 << 20) + (32 << 10), header_bytes: 32 << 10 },
    Strides { first_byte: 0, stride_bytes: (4 << 20) + (8 << 10), header_bytes: 8 << 10 },
    Strides { first_byte: 4096, stride_bytes: 12 << 10, header_bytes: 8 << 10 },
];
const UNITS: [u64; 4] = [8 << 10, 56 << 10, 4 << 20, (64 << 20) - 8192];

#[test]
fn a_volume_has_the_blocks_that_fit() {
    for strides in ALL {
        let bytes = |blocks: u32| strides.block_start(blocks);
        assert_eq!([0, strides.first_byte, bytes(1) - 1, bytes(1)].map(|bytes| strides.block_count(bytes)), [0, 0, 0, 1]);
        assert_eq!(strides.block_count(bytes(1_000_000)), 1_000_000);
    }
}

/// The bytes of a range that lie in a unit.
fn bytes_in(unit: u32, unit_bytes: u64, start: u64, len: u64) -> u64 {
    let (from, to) = (u64::from(unit) * unit_bytes, (u64::from(unit) + 1) * unit_bytes);
    (start + len).min(to).saturating_sub(start.max(from))
}

#[test]
fn units_and_blocks_know_each_other() {
    for (strides, unit_bytes) in ALL.iter().flat_map(|strides| UNITS.map(|unit_bytes| (strides, unit_bytes))) {
        let last = *strides.units_of(COUNT - 1, unit_bytes).end();
        for (unit, block) in (0..=last).flat_map(|unit| (0..COUNT).map(move |block| (unit, block))) {
            let stands = bytes_in(unit, unit_bytes, strides.block_start(block), strides.stride_bytes) > 0;
            assert_eq!(strides.units_of(block, unit_bytes).contains(&unit), stands, "{strides:?}: block {block}, unit {unit}");
            assert_eq!(
                strides.blocks_of(unit, unit_bytes, COUNT).contains(&block),
                stands,
                "{strides:?}: block {block}, unit {unit}"
            );
        }
        assert_eq!(strides.blocks_of(last + 1, unit_bytes, COUNT), COUNT..COUNT, "there are no more");
    }
}

#[test]
fn a_header_is_in_a_unit_as_its_bytes_are() {
    let mut parts = 0;
    for (strides, unit_bytes) in ALL.iter().flat_map(|strides| UNITS.map(|unit_bytes| (strides, unit_bytes))) {
        if unit_bytes < strides.header_bytes {
            continue;
        }
        let last = *strides.units_of(COUNT - 1, unit_bytes).end();
        for (unit, block) in (0..=last).flat_map(|unit| (0..COUNT).map(move |block| (unit, block))) {
            let inside = bytes_in(unit, unit_bytes, strides.block_start(block), strides.header_bytes);
            let expected = match inside {
                0 => HeaderIn::Nothing,
                bytes if bytes == strides.header_bytes => HeaderIn::All,
                _ => HeaderIn::Part,
            };
            parts += u32::from(expected == HeaderIn::Part);
            assert_eq!(strides.header_in(unit, unit_bytes, block), expected, "{strides:?}: block {block}, unit {unit}");
        }
    }
    assert!(parts > 10, "{parts} headers stand in two units");
}
