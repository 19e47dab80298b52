//! Rows of a sealed unit that stand in pages: chunks of its own shard (docs/rfd/0015).
//!
//! ```text
//!   rows at rest ─► RegisterPage ─► the leader writes them, as they are then, to the page's copies ─► Commit ─► they leave the state
//!        ▲                                  what changes meanwhile stays                                                 │
//!        └──────────────────────────────────────────── Touch ◄───────────────────────────────────────────────────────────┘
//! ```
//!
//! Invariants:
//! - What counts for a number is, in this order: its row here, that it is gone, its row in the page whose range it is in.
//! - A page's content never changes. A row that was read from a page is taken only while that page is the current one of its range.
//! - A row with which something is under way is here.
//! - Pages' own rows are here, and have numbers from the unit's capacity on.

use std::collections::{BTreeMap, BTreeSet};

use format::chunk_command::{PageRange, Registration};
use format::chunk_id::{ChunkId, ChunkNumber};
use format::chunk_page::{ChunkPage, ChunkRow, MAX_PAGE_ROWS};
use format::chunk_place::ChunkPlaces;

use super::chunk::{Refusal, Row, Work};
use super::{Answer, MaintenanceUnit, Sought};
use crate::limits::{MAX_SWEPT, MIN_COPIES};
use crate::message::Found;

/// A page is written anew when so many of its chunks' rows, one of this, are in memory or gone.
const STALE_SHARE: u64 = 8;

/// With more rows of pages in memory these are written anew for any of them: a sweep goes on only while there is room.
const CROWDED_ROWS: usize = MAX_SWEPT / 2;

/// The pages of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pages {
    /// By the first number of their ranges, which don't overlap.
    pub current: BTreeMap<ChunkNumber, Page>,
    pub draft: Option<Draft>,
    /// Numbers in pages' ranges, and in the draft's, whose chunks have ended: what a page has of them counts no more.
    pub gone: BTreeSet<ChunkNumber>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub last: ChunkNumber,
    /// Of the chunk.
    pub number: ChunkNumber,
    /// Chunks of the range that there are, wherever their rows stand.
    pub live: u64,
    /// Of its rows that count, those with fewer copies than are wanted.
    pub short: u64,
}

/// A page that is registered and not committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Draft {
    pub number: ChunkNumber,
    pub range: PageRange,
    /// Whose rows changed or went since it was registered: it may have them as they were.
    pub changed: BTreeSet<ChunkNumber>,
}

/// Where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageRef {
    pub id: ChunkId,
    pub places: ChunkPlaces,
    pub range: PageRange,
}

/// Rows that are to go to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DuePage {
    pub range: PageRange,
    /// That has them now.
    pub former: Option<PageRef>,
    /// The longest that it can get.
    pub bytes: u32,
}

impl Pages {
    fn covering(&self, number: ChunkNumber) -> Option<(ChunkNumber, &Page)> {
        let (first, page) = self.current.range(..=number).next_back()?;
        (number <= page.last).then_some((*first, page))
    }

    /// Whether a page has, or may get, the row of a number.
    pub fn is_covered(&self, number: ChunkNumber) -> bool {
        self.covering(number).is_some() || self.is_drafted(number)
    }

    fn is_drafted(&self, number: ChunkNumber) -> bool {
        self.draft.as_ref().is_some_and(|draft| draft.range.contains(number))
    }

    fn has(&self, page: ChunkNumber) -> bool {
        self.current.values().any(|current| current.number == page)
    }

    /// Whether a page may have this range: that of one, or one that no page has a part of.
    pub fn takes(&self, range: PageRange) -> bool {
        let before = self.current.range(..=range.last).next_back();
        before.is_none_or(|(first, page)| page.last < range.first || (*first, page.last) == (range.first, range.last))
    }

    fn forget_gone(&mut self, range: PageRange, but: impl Fn(&ChunkNumber) -> bool) {
        self.gone.retain(|number| !range.contains(*number) || but(number));
    }
}

impl MaintenanceUnit {
    pub(super) fn register_page(&mut self, asked: &Registration, range: PageRange) -> Result<Answer, Refusal> {
        if let Some(answer) = self.registered(asked) {
            return Ok(answer);
        }
        let is_possible = self.is_sealed()
            && range.first <= range.last
            && range.last.0 < self.capacity
            && self.pages.draft.is_none()
            && self.pages.takes(range)
            && !self.has_pending(range);
        if !is_possible {
            return Err(Refusal::Page);
        }
        let (id, places) = self.open(asked)?;
        self.pages.draft = Some(Draft { number: id.number, range, changed: BTreeSet::new() });
        Ok(Answer::Registered { id, places })
    }

    /// Whether a registration of the range is not committed: there is no page of it then.
    fn has_pending(&self, range: PageRange) -> bool {
        self.work.range(range.first..=range.last).any(|(_, work)| matches!(work, Work::Pending { .. }))
    }

    /// A pending chunk was committed: if it is the draft, its rows leave, but for those that it can't be believed about.
    pub(super) fn page_committed(&mut self, number: ChunkNumber) {
        let Some(Draft { range, changed, .. }) = self.pages.draft.take_if(|draft| draft.number == number) else { return };
        let PageRange { first, last } = range;
        let former = self.pages.current.remove(&first);
        let resident = self.rows.range(first..=last).count() as u64;
        let live = former.map_or(resident, |former| former.live);
        self.pages.forget_gone(range, |number| live > 0 && changed.contains(number));
        if live == 0 {
            self.free(number);
        } else {
            let at_rest = self.rows.range(first..=last).map(|(number, _)| *number);
            let leave: Vec<ChunkNumber> =
                at_rest.filter(|number| !changed.contains(number) && !self.work.contains_key(number)).collect();
            // What the former page alone has, the new one has as well.
            let leaving = leave.iter().filter(|number| self.rows.short().contains(number)).count() as u64;
            let short = former.map_or(0, |former| former.short) + leaving;
            leave.iter().for_each(|number| self.rows.remove(*number));
            self.pages.current.insert(first, Page { last, number, live, short });
        }
        if let Some(former) = former {
            self.free(former.number);
        }
    }

    /// A registration is given up: if it is the draft's, there is none.
    pub(super) fn page_given_up(&mut self, number: ChunkNumber) {
        let Some(Draft { range, .. }) = self.pages.draft.take_if(|draft| draft.number == number) else { return };
        if !self.pages.current.contains_key(&range.first) {
            self.pages.forget_gone(range, |_| false);
        }
    }

    /// A row has changed.
    pub(super) fn row_changed(&mut self, number: ChunkNumber) {
        if let Some(draft) = self.pages.draft.as_mut().filter(|draft| draft.range.contains(number)) {
            draft.changed.insert(number);
        }
    }

    /// A row has gone, with its chunk.
    pub(super) fn row_ended(&mut self, number: ChunkNumber) {
        self.row_changed(number);
        if self.pages.is_covered(number) {
            self.pages.gone.insert(number);
        }
        let Some(first) = self.pages.covering(number).map(|(first, _)| first) else { return };
        let page = self.pages.current.get_mut(&first).expect("it was found");
        page.live -= 1;
        if page.live == 0 {
            self.end_page(first);
        }
    }

    /// Nothing of its range is left.
    fn end_page(&mut self, first: ChunkNumber) {
        let Some(Page { last, number, .. }) = self.pages.current.remove(&first) else { return };
        self.free(number);
        let drafted = self.pages.draft.as_ref().filter(|draft| draft.range.first == first).map(|draft| draft.number);
        drafted.into_iter().for_each(|draft| self.give_up(draft));
        self.pages.forget_gone(PageRange { first, last }, |_| false);
    }

    /// Rows of a page are taken into the state, but for those that changed since they were written.
    pub(super) fn touch(&mut self, page: ChunkNumber, rows: &[ChunkRow]) -> Result<Answer, Refusal> {
        for row in rows {
            let covering = self.pages.covering(row.number).filter(|(_, current)| current.number == page);
            let first = covering.ok_or(Refusal::Archived)?.0;
            if !self.pages.gone.contains(&row.number) && !self.rows.contains_key(&row.number) {
                self.rows.insert(row.number, Row::from(row));
                let page = self.pages.current.get_mut(&first).expect("it was found");
                page.short = page.short.saturating_sub(u64::from(row.is_short()));
            }
        }
        Ok(Answer::Done)
    }

    /// Whether nobody but the unit may end a chunk: it is a page.
    pub(super) fn is_page(&self, number: ChunkNumber) -> bool {
        self.has_pages_number(number) && self.pages.has(number)
    }

    /// The page in which an id's row stands, if there is such a chunk and it is not here.
    pub fn page_of(&self, id: ChunkId) -> Option<PageRef> {
        let is_elsewhere =
            id.shard == self.shard && !self.rows.contains_key(&id.number) && !self.pages.gone.contains(&id.number);
        let (first, page) = self.pages.covering(id.number).filter(|_| is_elsewhere)?;
        Some(self.page_ref(first, page))
    }

    fn page_ref(&self, first: ChunkNumber, page: &Page) -> PageRef {
        let row = &self.rows[&page.number];
        PageRef { id: self.id_of(page.number, row), places: row.places, range: PageRange { first, last: page.last } }
    }

    /// All pages, by their ranges.
    pub fn pages(&self) -> impl Iterator<Item = PageRef> {
        self.pages.current.iter().map(|(first, page)| self.page_ref(*first, page))
    }

    /// Those with rows of chunks that have fewer copies than are wanted.
    pub fn short_pages(&self) -> impl Iterator<Item = PageRef> {
        let short = self.pages.current.iter().filter(|(_, page)| page.short > 0);
        short.map(|(first, page)| self.page_ref(*first, page))
    }

    /// Chunks with fewer copies than are wanted, wherever their rows stand; pages among them.
    pub fn short_chunks(&self) -> u64 {
        let archived: u64 = self.pages.current.values().map(|page| page.short).sum();
        archived + self.short_here() as u64
    }

    /// The first page whose range ends at a number or later.
    pub fn page_from(&self, number: ChunkNumber) -> Option<PageRef> {
        let covering = self.pages.covering(number);
        let later = || self.pages.current.range(number..).next().map(|(first, page)| (*first, page));
        covering.or_else(later).map(|(first, page)| self.page_ref(first, page))
    }

    /// Whether this is what stands in a page now.
    pub fn is_current(&self, page: &ChunkPage) -> bool {
        page.shard == self.shard && self.pages.current.get(&page.first).is_some_and(|current| current.number == page.page)
    }

    /// The rows of a page that count: none if it is not a current one.
    pub fn rows_in<'a>(&'a self, page: &'a ChunkPage) -> impl Iterator<Item = &'a ChunkRow> {
        let counts = |row: &&ChunkRow| !self.rows.contains_key(&row.number) && !self.pages.gone.contains(&row.number);
        let rows = if self.is_current(page) { page.rows() } else { &[] };
        rows.iter().filter(counts)
    }

    /// What there is to say about an id, exactly: with the page that has it, if it was read.
    pub fn seek(&self, id: ChunkId, read: Option<&ChunkPage>) -> Sought {
        if let Some(row) = self.row(id) {
            return Sought::Found(match self.work.get(&id.number) {
                Some(Work::Pending { .. }) => Found::Pending(row.places),
                _ => Found::Known { places: row.places, wanted: row.wanted },
            });
        }
        match (self.page_of(id), read) {
            (None, _) => Sought::Found(Found::Unknown),
            (Some(at), Some(page)) if at.id.number == page.page => {
                let row = page.row(id.number).filter(|row| row.nonce == id.nonce);
                Sought::Found(row.map_or(Found::Unknown, |row| Found::Known { places: row.places, wanted: row.wanted }))
            }
            (Some(at), _) => Sought::InPage(at),
        }
    }

    /// What a draft is to have, now: all rows of its range, from here and from the page that has had them. None if it is no draft any more, or
    /// something else has them.
    pub fn content_of_draft(&self, id: ChunkId, former: Option<&ChunkPage>) -> Option<ChunkPage> {
        let Draft { number, range, .. } = self.pages.draft.as_ref()?;
        let current = self.pages.current.get(&range.first).map(|page| page.number);
        if self.row(id).is_none() || *number != id.number || current != former.map(|page| page.page) {
            return None;
        }
        let mut rows: Vec<ChunkRow> = former.into_iter().flat_map(|page| self.rows_in(page)).copied().collect();
        rows.extend(self.rows.range(range.first..=range.last).map(|(number, row)| row.numbered(*number)));
        rows.sort_unstable_by_key(|row| row.number);
        if rows.len() > MAX_PAGE_ROWS {
            return None;
        }
        let mut page = ChunkPage::new(self.shard, *number, range.first, range.last);
        rows.into_iter().for_each(|row| page.push(row));
        Some(page)
    }

    /// The page that is registered and not committed.
    pub fn draft(&self) -> Option<ChunkId> {
        let number = self.pages.draft.as_ref()?.number;
        Some(self.id_of(number, &self.rows[&number]))
    }

    /// The next rows that a page can have, at most so many: those that have none, then those whose page has many that do not count. Rows that are
    /// needed here don't count for that; what leaves all the same is looked for again. Pages that can't be read stay as they are.
    pub fn due_page(
        &self,
        rows: usize,
        unread: &BTreeSet<ChunkNumber>,
        is_needed: impl Fn(&ChunkRow) -> bool,
    ) -> Option<DuePage> {
        if !self.is_sealed() || self.pages.draft.is_some() {
            return None;
        }
        let is_due =
            |(range, rows): &(PageRange, usize)| !self.has_pending(*range) && 2 * self.leaving(*range, &is_needed) >= *rows;
        if let Some((range, rows)) = self.unpaged(rows).find(is_due) {
            return Some(DuePage { range, former: None, bytes: ChunkPage::bytes_of(rows) as u32 });
        }
        self.stale_page(unread, is_needed, |_| true)
    }

    /// The same where no page finds places for all of its copies: the next one that may do with fewer, with the least that it may have. No fewer than it has; but
    /// where there is no room for further rows no fewer than a put has, since what is lost is not made good meanwhile.
    pub fn due_short_page(
        &self,
        unread: &BTreeSet<ChunkNumber>,
        is_needed: impl Fn(&ChunkRow) -> bool,
    ) -> Option<(DuePage, usize)> {
        if !self.is_sealed() || self.pages.draft.is_some() {
            return None;
        }
        let is_crowded = self.is_crowded();
        let is_short = |page: &Page| self.rows.short().contains(&page.number);
        let due = self.stale_page(unread, is_needed, |page| is_crowded || is_short(page))?;
        let copies = due.former.map_or(0, |former| former.places.as_slice().len());
        Some((due, if is_crowded { copies.min(MIN_COPIES) } else { copies }))
    }

    /// Whether so many rows came from pages that there is room for no more.
    pub fn is_crowded(&self) -> bool {
        // Those that no page has had yet are as many as they are; they are counted where it matters only.
        self.rows.len() >= MAX_SWEPT && self.rows_of_pages() >= MAX_SWEPT
    }

    /// Rows that are here and in the ranges of pages.
    pub(super) fn rows_of_pages(&self) -> usize {
        let here = |(first, page): (&ChunkNumber, &Page)| self.rows.range(*first..=page.last).count();
        self.pages.current.iter().map(here).sum()
    }

    /// A page of which much does not count, and that may be written anew.
    fn stale_page(
        &self,
        unread: &BTreeSet<ChunkNumber>,
        is_needed: impl Fn(&ChunkRow) -> bool,
        may_be: impl Fn(&Page) -> bool,
    ) -> Option<DuePage> {
        let has_many = self.rows.len() > CROWDED_ROWS && self.rows_of_pages() > CROWDED_ROWS;
        let is_stale = |(first, page): &(&ChunkNumber, &Page)| {
            if unread.contains(&page.number) || !may_be(page) {
                return false;
            }
            let range = PageRange { first: **first, last: page.last };
            let gone = self.pages.gone.range(range.first..=range.last).count();
            let least = if has_many { 1 } else { page.live.div_ceil(STALE_SHARE).max(1) };
            (self.leaving(range, &is_needed) + gone) as u64 >= least
        };
        let (first, page) = self.pages.current.iter().find(is_stale)?;
        let former = self.page_ref(*first, page);
        Some(DuePage { range: former.range, former: Some(former), bytes: ChunkPage::bytes_of(page.live as usize) as u32 })
    }

    /// Rows of a range that would leave with a page, and are not needed here.
    fn leaving(&self, range: PageRange, is_needed: &impl Fn(&ChunkRow) -> bool) -> usize {
        let rows = self.rows.range(range.first..=range.last);
        let leaves =
            |(number, row): &(&ChunkNumber, &Row)| !self.work.contains_key(number) && !is_needed(&row.numbered(**number));
        rows.filter(leaves).count()
    }

    /// Stretches of rows that no page has, each with at most so many.
    fn unpaged(&self, most: usize) -> impl Iterator<Item = (PageRange, usize)> {
        let end = ChunkNumber(self.capacity);
        let firsts = self.pages.current.keys().copied().chain([end]);
        let afters = [ChunkNumber(0)].into_iter().chain(self.pages.current.values().map(|page| ChunkNumber(page.last.0 + 1)));
        afters.zip(firsts).flat_map(move |(from, to)| {
            let mut next = from;
            std::iter::from_fn(move || {
                let mut rows = self.rows.range(next..to).take(most).map(|(number, _)| *number);
                let first = rows.next()?;
                let (last, others) = rows.fold((first, 0), |(_, count), number| (number, count + 1));
                next = ChunkNumber(last.0 + 1);
                Some((PageRange { first, last }, others + 1))
            })
        })
    }
}

impl Row {
    pub(super) fn numbered(&self, number: ChunkNumber) -> ChunkRow {
        let Row { nonce, places, bytes, wanted, era } = *self;
        ChunkRow { number, nonce, places, bytes, wanted, era }
    }
}

impl From<&ChunkRow> for Row {
    fn from(row: &ChunkRow) -> Row {
        let ChunkRow { nonce, places, bytes, wanted, era, .. } = *row;
        Row { nonce, places, bytes, wanted, era }
    }
}

#[cfg(test)]
mod tests;
