use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use consensus::Term;
use env::Instant;
use format::chunk_block::{ChunkVersion, Era};
use format::chunk_command::{ChunkCommand, Registration};
use format::chunk_id::ChunkNumber;
use format::chunk_page::{ChunkPage, ChunkRow};
use types::DeviceId;

use super::lost_copies;
use crate::leader::{Leader, Order};
use crate::maintenance::{MaintenanceUnit, PageRef};
use crate::message::{LiveCopy, NodeAnswer};
use crate::placement::PlacerChoice;
use crate::publisher::Begins;
use crate::units::leading::Leading;
use crate::units::leading::fixture::{CHUNKS, registration_of, unit, unit_of};

fn empty_page(unit: &MaintenanceUnit, at: PageRef) -> Arc<ChunkPage> {
    Arc::new(ChunkPage::new(unit.shard(), at.id.number, at.range.first, at.range.last))
}

fn leading(unit: &MaintenanceUnit) -> Leading {
    let pages: BTreeMap<ChunkNumber, Arc<ChunkPage>> = unit.pages().map(|at| (at.id.number, empty_page(unit, at))).collect();
    let entries = unit.lookup_entries(&pages).expect("all pages are there");
    let (leader, _) = Leader::begin(unit, entries, Begins::with(1), 1, &BTreeSet::new()).expect("a small table");
    Leading::new(Instant::from_nanos(0), Term(1), leader, PlacerChoice::default())
}

#[test]
fn pages_are_healed_before_chunks() {
    let mut unit = unit_of(2);
    // The row of a chunk that stands beside the lost page.
    let page = unit.pages().next().expect("a page");
    let Registration { nonce, bytes, places, wanted, .. } = registration_of(0, 2);
    let rows = vec![ChunkRow { number: page.range.first, nonce, places, bytes, wanted, era: Era::first(2) }];
    let mut leading = leading(&unit);
    unit.apply(&ChunkCommand::Touch { page: page.id.number, rows }).answer.expect("the page is the current one");
    [0, 2].into_iter().for_each(|device| assert!(leading.leader.lose(DeviceId(device))));
    let copies: Vec<u64> = lost_copies(&unit, leading.leader.lost()).map(|(id, _)| id.number.0).collect();
    assert_eq!(copies, [CHUNKS, CHUNKS + 1, CHUNKS + 2, 0]);
}

/// Its relocation would never end: nothing that was freed afterwards would come back, and at last there would be no relocations at all.
#[test]
fn what_has_no_copy_left_is_not_relocated() {
    let unit = unit_of(2);
    let mut leading = leading(&unit);
    let mut lost_with = |device| {
        leading.leader.lose(DeviceId(device));
        lost_copies(&unit, leading.leader.lost()).map(|(id, _)| id.number.0).collect::<Vec<u64>>()
    };
    assert_eq!(lost_with(2), [CHUNKS]);
    assert_eq!(lost_with(3), [CHUNKS + 1], "the first one is gone with this device");
    assert_eq!(lost_with(0), [CHUNKS + 2]);
    assert_eq!(lost_with(1), [0_u64; 0]);
}

/// Its header has fallen back to the one before its era was raised: modifications would be refused there for ever.
#[test]
fn a_copy_of_former_places_is_missing() {
    let unit = unit_of(2);
    let mut leading = leading(&unit);
    let (id, places) = unit.index().next().expect("a page");
    let live = |era| {
        let (version, capacity, content) = (ChunkVersion::default(), 100, None);
        NodeAnswer::Live(LiveCopy { version, era: Era(era), capacity, is_settled: false, content })
    };
    let place = places.as_slice()[0];
    for era in [3, 4] {
        leading.audited(id, place, Era(3), &live(era));
        assert!(leading.ailing_chunks().is_empty(), "a relocation may have begun since");
    }
    leading.audited(id, place, Era(3), &live(2));
    assert!(leading.ailing_chunks().contains(&id));
}

/// The audit goes on behind a page that can't be read, and comes back to it.
#[test]
fn the_audit_passes_over_pages_that_cannot_be_read() {
    let unit = unit();
    let mut leading = leading(&unit);
    let pages: Vec<PageRef> = unit.pages().collect();
    let unread = BTreeSet::from([pages[0].id.number]);
    assert_eq!(leading.audit(&unit, &BTreeSet::new()), Err(pages[0]), "it is to be read first");
    assert_eq!(leading.audit(&unit, &unread), Ok(Vec::<Order>::new()));
    assert_eq!(leading.audit(&unit, &unread), Err(pages[1]));
    for page in &pages[1..] {
        leading.audit_goes_on_with(empty_page(&unit, *page));
        leading.audit(&unit, &unread).expect("it was read");
    }
    // The last one finds that there is nothing left.
    let behind: usize = (0..=pages.len()).map(|_| leading.audit(&unit, &unread).map_or(0, |orders| orders.len())).sum();
    assert_eq!(behind, pages.len(), "the pages' own copies");
    assert_eq!(leading.audit(&unit, &BTreeSet::new()), Err(pages[0]));
}
