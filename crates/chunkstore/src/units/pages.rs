//! Pages of a unit are read, and rows come from there into the state (docs/rfd/0015).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use env::Instant;
use format::chunk_command::{ChunkCommand, MAX_COMMAND_ITEMS};
use format::chunk_id::{ChunkId, ChunkNumber};
use format::chunk_page::{ChunkPage, ChunkRow, MAX_PAGE_ROWS};
use format::chunk_place::BlockPlace;
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use types::DeviceId;

use super::member::{Turn, UnitMember, new_turn};
use crate::asking::ask_block;
use crate::limits::{CACHED_PAGES, MAX_PAGE_TRIES, PAGE_PATIENCE, PAGE_READS, PAGE_REST};
use crate::maintenance::{Answer, PageRef};
use crate::message::{LiveCopy, NodeAnswer, NodeRequest, ToNode};

/// By their numbers.
type Pages = BTreeMap<ChunkNumber, Arc<ChunkPage>>;

/// Pages that were read last.
#[derive(Debug, Default)]
pub struct PageCache {
    pages: VecDeque<Arc<ChunkPage>>,
}

impl PageCache {
    fn get(&self, page: PageRef) -> Option<Arc<ChunkPage>> {
        self.pages.iter().find(|known| known.page == page.id.number).cloned()
    }

    fn keep(&mut self, page: Arc<ChunkPage>) {
        self.pages.push_front(page);
        self.pages.truncate(CACHED_PAGES);
    }
}

/// What a member does about pages.
pub struct PageWork {
    /// Most rows of a page.
    pub(super) rows: usize,
    cache: Mutex<PageCache>,
    /// Devices that did not answer when they were asked last: they are asked after the others.
    silent: Mutex<BTreeSet<DeviceId>>,
    /// Pages of which no copy was to be had, and when: what need not be done at once goes on with others.
    unread: Mutex<BTreeMap<ChunkNumber, Instant>>,
    pub(super) archiving: Turn,
    pub(super) sweeping: Turn,
    pub(super) bringing: Turn,
    /// Rows of chunks that nodes say have ended.
    pub(super) freeing: Turn,
}

/// What became of ids whose rows were wanted in the state.
#[derive(Debug, Default)]
pub struct Brought {
    /// The pages that would have them don't: there are no such chunks.
    pub absent: BTreeSet<ChunkId>,
    /// Their pages can't be read now.
    pub unread: BTreeSet<ChunkId>,
}

impl PageWork {
    pub fn new(rows: usize) -> PageWork {
        PageWork {
            rows: rows.clamp(1, MAX_PAGE_ROWS),
            cache: Mutex::default(),
            silent: Mutex::default(),
            unread: Mutex::default(),
            archiving: new_turn(),
            sweeping: new_turn(),
            bringing: new_turn(),
            freeing: new_turn(),
        }
    }

    /// Pages that could not be read a moment ago.
    pub fn unread(&self, now: Instant) -> BTreeSet<ChunkNumber> {
        let mut unread = self.unread.lock();
        unread.retain(|_, at| now.saturating_duration_since(*at) < PAGE_REST);
        unread.keys().copied().collect()
    }

    /// A page's copies, in the order in which they are asked.
    fn in_order(&self, page: PageRef) -> Vec<BlockPlace> {
        let silent = self.silent.lock();
        let mut places: Vec<BlockPlace> = page.places.iter().collect();
        places.sort_by_key(|place| silent.contains(&place.device()));
        places
    }

    fn note_silence(&self, device: DeviceId, is_silent: bool) {
        let mut silent = self.silent.lock();
        match is_silent {
            true => silent.insert(device),
            false => silent.remove(&device),
        };
    }
}

impl UnitMember {
    /// A page's rows, from one of its copies; none if no copy answers now.
    pub(super) async fn read_page(&self, page: PageRef) -> Option<Arc<ChunkPage>> {
        if let Some(known) = self.pages.cache.lock().get(page) {
            return Some(known);
        }
        for place in self.pages.in_order(page) {
            let to = ToNode { place, id: page.id, request: NodeRequest::Read };
            let answer = ask_block(&self.env, &*self.reach, to, PAGE_PATIENCE).await;
            self.pages.note_silence(place.device(), answer.is_none());
            let Some(NodeAnswer::Live(LiveCopy { content: Some(content), .. })) = answer else { continue };
            match ChunkPage::decode(&content) {
                Ok(read) if (read.shard, read.page) == (self.shard, page.id.number) => {
                    let read = Arc::new(read);
                    self.pages.cache.lock().keep(read.clone());
                    self.pages.unread.lock().remove(&read.page);
                    return Some(read);
                }
                Ok(read) => tracing::error!(shard = self.shard.0, page = %page.id, ?read.page, "another page's rows"),
                Err(error) => tracing::error!(shard = self.shard.0, page = %page.id, %error, "a page can't be read"),
            }
        }
        tracing::debug!(shard = self.shard.0, page = %page.id, "no copy of a page answers");
        self.pages.unread.lock().insert(page.id.number, self.env.now());
        None
    }

    /// All pages; none of them if one can't be read now. Nothing is kept then, since a node may lead many units that can't begin; those that could not be read
    /// are tried first, so that trying again costs little.
    pub(super) async fn all_pages(&self) -> Option<Pages> {
        let (unread, others): (Vec<PageRef>, Vec<PageRef>) = self.group.look(|machine| {
            let unread = self.pages.unread.lock();
            machine.unit().pages().partition(|page| unread.contains_key(&page.id.number))
        });
        let mut all = Pages::new();
        for pages in [unread, others] {
            let mut reads = stream::iter(pages).map(|page| self.read_page(page)).buffer_unordered(PAGE_READS);
            while let Some(read) = reads.next().await {
                let page = read?;
                all.insert(page.page, page);
            }
        }
        Some(all)
    }

    /// Has the rows of these ids in the state, if there are such chunks and their pages can be read now.
    pub(super) async fn bring(&self, ids: &[ChunkId]) -> Brought {
        let mut brought = Brought::default();
        let mut left: BTreeSet<ChunkId> = ids.iter().copied().collect();
        for _ in 0..MAX_PAGE_TRIES {
            let mut wanted: BTreeMap<ChunkNumber, (PageRef, BTreeSet<ChunkId>)> = BTreeMap::new();
            self.group.look(|machine| {
                for (id, page) in left.iter().filter_map(|id| Some((*id, machine.unit().page_of(*id)?))) {
                    wanted.entry(page.id.number).or_insert_with(|| (page, BTreeSet::new())).1.insert(id);
                }
            });
            left.clear();
            for (at, ids) in wanted.into_values() {
                let Some(page) = self.read_page(at).await else {
                    brought.unread.extend(ids);
                    continue;
                };
                // A number that a page once had no row for gets none: there are no new chunks in a sealed unit.
                let (found, absent): (BTreeSet<ChunkId>, BTreeSet<ChunkId>) =
                    ids.into_iter().partition(|id| page.row(id.number).is_some_and(|row| row.id(self.shard) == *id));
                brought.absent.extend(absent);
                let rows = found.iter().filter_map(|id| page.row(id.number)).copied().collect();
                if !self.touch(at, rows).await {
                    left.extend(found);
                }
            }
            if left.is_empty() {
                return brought;
            }
        }
        brought.unread.extend(left);
        brought
    }

    /// Takes rows of a page into the state; whether that is the page of its range still.
    pub(super) async fn touch(&self, page: PageRef, rows: Vec<ChunkRow>) -> bool {
        if !rows.is_empty() {
            env::mark("chunks: rows brought from a page");
        }
        for rows in rows.chunks(MAX_COMMAND_ITEMS) {
            let touch = ChunkCommand::Touch { page: page.id.number, rows: rows.to_vec() };
            if !matches!(self.group.propose(&touch).await, Ok((_, Ok(Answer::Done)))) {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests;
