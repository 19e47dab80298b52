use std::collections::BTreeSet;

use env::Instant;
use format::chunk_command::PageRange;
use format::chunk_id::{ChunkId, ChunkNumber};
use format::chunk_page::MAX_PAGE_ROWS;
use format::chunk_place::{BlockPlace, ChunkPlaces};
use types::DeviceId;

use super::PageWork;
use crate::limits::PAGE_REST;
use crate::maintenance::PageRef;

fn page() -> PageRef {
    let places: Vec<BlockPlace> = (0..3).filter_map(|device| BlockPlace::new(DeviceId(device), 7)).collect();
    let range = PageRange { first: ChunkNumber(1), last: ChunkNumber(2) };
    PageRef { id: ChunkId::default(), places: ChunkPlaces::new(&places).expect("three"), range }
}

/// Else each of a unit's pages whose first copy is out of reach costs a leader its patience before it begins.
#[test]
fn devices_that_did_not_answer_are_asked_last() {
    let work = PageWork::new(5);
    let order = || work.in_order(page()).iter().map(|place| place.device().0).collect::<Vec<u32>>();
    assert_eq!(order(), [0, 1, 2]);
    work.note_silence(DeviceId(0), true);
    assert_eq!(order(), [1, 2, 0]);
    work.note_silence(DeviceId(1), true);
    assert_eq!(order(), [2, 0, 1]);
    work.note_silence(DeviceId(0), false);
    assert_eq!(order(), [0, 2, 1]);
}

#[test]
fn a_page_that_could_not_be_read_rests() {
    let work = PageWork::new(5);
    let began = Instant::from_nanos(0);
    work.unread.lock().insert(ChunkNumber(9), began);
    assert_eq!(work.unread(began), BTreeSet::from([ChunkNumber(9)]));
    assert_eq!(work.unread(began + PAGE_REST), BTreeSet::new());
}

#[test]
fn a_page_gets_rows_but_no_more_than_it_can_have() {
    assert_eq!([0, 5, usize::MAX].map(|rows| PageWork::new(rows).rows), [1, 5, MAX_PAGE_ROWS]);
}
