//! Each copy is asked for once a day: whether it is there, and of which era (docs/rfd/0012, "Damage").

use std::collections::BTreeSet;
use std::sync::Arc;

use format::chunk_block::Era;
use format::chunk_id::{ChunkId, ChunkNumber};
use format::chunk_page::ChunkPage;
use format::chunk_place::{BlockPlace, ChunkPlaces};

use super::Leading;
use crate::leader::{Errand, Order};
use crate::limits::{AUDIT_PERIOD, STOCK_AGE};
use crate::maintenance::{MaintenanceUnit, PageRef};
use crate::message::{NodeAnswer, NodeRequest, ToNode};

/// How far an audit is.
#[derive(Debug, Default)]
pub(super) struct Auditing {
    /// It goes on here.
    next: ChunkNumber,
    /// The page in which it does.
    page: Option<Arc<ChunkPage>>,
}

impl Leading {
    pub fn audit_goes_on_with(&mut self, page: Arc<ChunkPage>) {
        self.auditing.page = Some(page);
    }

    /// Asks nodes whether some further copies are there: all within [`AUDIT_PERIOD`]. The page that must be read first, if there is one. What
    /// stands in pages that can't be read is passed over, until the next time.
    pub fn audit(&mut self, unit: &MaintenanceUnit, unread: &BTreeSet<ChunkNumber>) -> Result<Vec<Order>, PageRef> {
        let rounds = (AUDIT_PERIOD.as_millis() / STOCK_AGE.as_millis()) as u64;
        let count = unit.chunks().div_ceil(rounds) as usize;
        let from = self.auditing.next;
        let page = unit.page_from(from);
        // Up to here it is looked now.
        let (bound, read) = match page {
            None => (ChunkNumber(u64::MAX), None),
            Some(page) if from < page.range.first => (ChunkNumber(page.range.first.0 - 1), None),
            Some(page) => {
                let read = self.auditing.page.as_deref().filter(|read| read.page == page.id.number);
                if read.is_none() && !unread.contains(&page.id.number) {
                    return Err(page);
                }
                (page.range.last, read)
            }
        };
        let here = unit.index_from(from).take_while(|(id, _)| id.number <= bound).filter(|(id, _)| unit.is_at_rest(*id));
        let archived = read.into_iter().flat_map(|page| unit.rows_in(page)).filter(|row| row.number >= from);
        let here = here.take(count).filter_map(|(id, places)| Some((id, places, unit.era_of(id)?)));
        let archived = archived.take(count).map(|row| (row.id(unit.shard()), row.places, row.era));
        let mut next: Vec<(ChunkId, ChunkPlaces, Era)> = here.chain(archived).collect();
        next.sort_unstable_by_key(|(id, ..)| id.number);
        next.truncate(count);
        let is_more = next.len() == count;
        let passed = if is_more { next.last().map_or(bound, |(id, ..)| id.number) } else { bound };
        self.auditing.next = ChunkNumber(passed.0.checked_add(1).unwrap_or(0));
        let query = |(id, places, era): (ChunkId, ChunkPlaces, Era)| {
            let known: Vec<BlockPlace> = places.iter().filter(|place| !self.leader.lost().holds(*place)).collect();
            let to = move |place| ToNode { place, id, request: NodeRequest::Query };
            known.into_iter().map(move |place| Order::Node { errand: Errand::Audit { era }, to: to(place) })
        };
        Ok(next.into_iter().flat_map(query).collect())
    }

    /// What a node says of a copy that the unit's state has there, and that was of this era when the node was asked. One of an earlier era takes no writes
    /// with the others: the header in which its era was raised has rotted.
    pub fn audited(&mut self, id: ChunkId, place: BlockPlace, era: Era, answer: &NodeAnswer) {
        let is_former = matches!(answer, NodeAnswer::Live(copy) if copy.era < era);
        if is_former || matches!(answer, NodeAnswer::Absent | NodeAnswer::Departed) {
            tracing::warn!(%id, device = place.device().0, block = place.block(), "a chunk's copy is not where it should be");
            self.ailing.miss(id, place);
        }
    }
}
