use proptest::prelude::*;

use super::{ChunkPage, ChunkRow, MAX_PAGE_ROWS};
use crate::chunk_block::Era;
use crate::chunk_id::{ChunkNonce, ChunkNumber, ShardId};
use crate::chunk_place::ChunkPlaces;
use crate::chunk_place::tests::{any_places, place};

pub fn any_row() -> impl Strategy<Value = ChunkRow> {
    let numbers = (any::<(u64, u64, u32)>(), 0_u32..1 << 24);
    (numbers, any_wanted_places()).prop_map(|(((number, nonce, era), bytes), (places, wanted))| ChunkRow {
        number: ChunkNumber(number),
        nonce: ChunkNonce(nonce),
        places,
        bytes,
        wanted,
        era: Era(era),
    })
}

/// Places, and as many copies that are wanted, or more.
pub fn any_wanted_places() -> impl Strategy<Value = (ChunkPlaces, u8)> {
    any_places().prop_flat_map(|places| (Just(places), places.as_slice().len() as u8..=3))
}

fn row(number: u64) -> ChunkRow {
    let places = ChunkPlaces::new(&[place(1, 2)]).expect("one");
    ChunkRow { number: ChunkNumber(number), nonce: ChunkNonce(3), places, bytes: 4, wanted: 3, era: Era(5) }
}

fn page(rows: impl IntoIterator<Item = ChunkRow>, last: u64) -> ChunkPage {
    let mut page = ChunkPage::new(ShardId(1), ChunkNumber(2), ChunkNumber(0), ChunkNumber(last));
    rows.into_iter().for_each(|row| page.push(row));
    page
}

#[test]
fn golden() {
    let hex: String = page([row(6)], 9).encode().iter().map(|byte| format!("{byte:02x}")).collect();
    let head = "0200000001000000020000000000000000000000000000000900000000000000";
    assert_eq!(hex, format!("{head}060000000000000003000000000000000200000400fcffffffffffffffffff3f0400000305000000"));
}

#[test]
fn a_row_is_found_by_its_number() {
    let page = page([row(1), row(4), row(9)], 9);
    assert_eq!(page.row(ChunkNumber(4)), Some(&row(4)));
    assert_eq!(page.row(ChunkNumber(5)), None);
}

#[test]
fn rows_out_of_order_or_out_of_range_or_too_many_are_refused() {
    let good = page([row(1), row(4)], 9).encode();
    assert!(ChunkPage::decode(&good).is_ok());
    for number in [0_u8, 1, 10] {
        let mut bad = good.clone();
        bad[72] = number;
        assert!(ChunkPage::decode(&bad).is_err(), "{number} after 1, up to 9");
    }
    let mut full = page((0..MAX_PAGE_ROWS as u64).map(row), u64::MAX).encode();
    assert!(full.len() <= 64 * 1024);
    assert!(ChunkPage::decode(&full).is_ok());
    row(1 << 40).write(&mut full);
    assert!(ChunkPage::decode(&full).is_err());
}

proptest! {
    #[test]
    fn round_trip(mut rows in prop::collection::vec(any_row(), 0..5)) {
        rows.sort_by_key(|row| row.number);
        rows.dedup_by_key(|row| row.number);
        let page = page(rows, u64::MAX);
        prop_assert_eq!(ChunkPage::decode(&page.encode()), Ok(page));
    }

    #[test]
    fn what_is_accepted_is_written_the_same(mut bytes in prop::collection::vec(any::<u8>(), 4..200)) {
        bytes[..4].copy_from_slice(&[super::CHUNK_PAGE_VERSION, 0, 0, 0]);
        if let Ok(read) = ChunkPage::decode(&bytes) {
            prop_assert_eq!(read.encode(), bytes);
        }
    }
}
