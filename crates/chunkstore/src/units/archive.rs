//! Rows of a closed shard's unit go to pages, and are read from there (docs/rfd/0015).
//!
//! A page is a chunk of the shard. Its leader registers it, writes its copies, and commits it, as a client does with its chunks; nobody else has its
//! id. One page at a time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use format::chunk_command::{ChunkCommand, ClientCall, MAX_COMMAND_ITEMS, Registration};
use format::chunk_id::{ChunkId, ChunkNonce, ChunkNumber};
use format::chunk_page::{ChunkPage, ChunkRow};
use format::chunk_place::ChunkPlaces;
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream;
use manager::Snapshot;
use parking_lot::Mutex;
use types::NodeId;

use super::member::UnitMember;
use super::placing::Wanted;
use crate::asking::ask_block;
use crate::limits::{CACHED_PAGES, MAX_PAGE_TRIES, PAGE_COPIES, PAGE_PATIENCE, PAGE_PAUSE, PAGE_READS, PENDING_MS};
use crate::maintenance::{Answer, DuePage, PageRef};
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
    rows: usize,
    cache: Mutex<PageCache>,
    /// For a leadership that can't begin yet, because other pages can't be read.
    read: Mutex<Pages>,
    is_archiving: AtomicBool,
    pub(super) is_sweeping: AtomicBool,
    pub(super) is_bringing: AtomicBool,
}

impl PageWork {
    pub fn new(rows: usize) -> PageWork {
        let (is_archiving, is_sweeping, is_bringing) = Default::default();
        PageWork { rows, cache: Mutex::default(), read: Mutex::default(), is_archiving, is_sweeping, is_bringing }
    }

    pub fn forget_read(&self) {
        self.read.lock().clear();
    }
}

/// What there is to do about pages.
enum Todo {
    /// Whoever began this one does not lead any more, or gave it up.
    Revoke(ChunkId),
    Write(DuePage, ChunkPlaces),
}

impl UnitMember {
    /// Writes pages while there are rows for them.
    pub(super) fn keep_archive(self: &Arc<Self>) {
        if self.pages.is_archiving.swap(true, Ordering::AcqRel) {
            return;
        }
        let member = self.clone();
        self.env.spawn(async move {
            while member.archive().await {
                member.env.sleep(PAGE_PAUSE).await;
            }
            member.pages.is_archiving.store(false, Ordering::Release);
        });
    }

    /// Whether a page was written.
    async fn archive(&self) -> bool {
        match self.page_to_do() {
            None => false,
            Some(Todo::Revoke(id)) => {
                self.give_page_up(id).await;
                false
            }
            Some(Todo::Write(due, places)) => self.write_page(due, places).await,
        }
    }

    fn page_to_do(&self) -> Option<Todo> {
        let members = self.members(&self.manager.snapshot());
        self.group.look(|machine| {
            let unit = machine.unit();
            let mut leading = self.leading.lock();
            let leading = leading.as_mut()?;
            if let Some(draft) = unit.draft() {
                return Some(Todo::Revoke(draft));
            }
            let due = unit.due_page(self.pages.rows, |places| leading.sweep.wants(places))?;
            // On the members' nodes, if they will do: who loses three others loses no page with them.
            if let Some(places) = leading.placing.choose_at(unit, due.bytes, &members) {
                return Some(Todo::Write(due, places));
            }
            let wanted = Wanted { bytes: due.bytes, chunk: self.env.random_u64() };
            // Where three hosts have no room, memory is the safer place.
            let places = leading.placing.choose(unit, wanted, PAGE_COPIES, &[], &mut || self.env.random_u64());
            Some(Todo::Write(due, places.ok()?))
        })
    }

    fn members(&self, state: &Snapshot) -> Vec<NodeId> {
        let members = state.shard(self.shard.0).map(|shard| shard.members.to_vec());
        members.filter(|members| members.len() == PAGE_COPIES).unwrap_or_default()
    }

    async fn write_page(&self, due: DuePage, places: ChunkPlaces) -> bool {
        let call = self.env.random_u64();
        let registration = Registration {
            call: ClientCall { session: (call >> 32) as u32, request: call as u32 },
            nonce: ChunkNonce(self.env.random_u64()),
            bytes: due.bytes,
            places,
            deadline_ms: self.env.wall_clock_ms() + PENDING_MS,
        };
        let registered = self.group.propose(&ChunkCommand::RegisterPage { registration, range: due.range }).await;
        if let Some(leading) = self.leading.lock().as_mut() {
            leading.placing.settle(places.iter(), due.bytes);
        }
        let Ok((_, Ok(Answer::Registered { id, places }))) = registered else { return false };
        let is_written = self.fill_page(id, places, due).await;
        if !is_written {
            self.give_page_up(id).await;
            return false;
        }
        let committed = self.group.propose(&ChunkCommand::Commit(id)).await;
        let is_done = matches!(committed, Ok((_, Ok(Answer::Done))));
        if is_done {
            env::mark(if due.former.is_some() { "chunks: a page written anew" } else { "chunks: a page written" });
        }
        is_done
    }

    /// Whether all copies are durable.
    async fn fill_page(&self, id: ChunkId, places: ChunkPlaces, due: DuePage) -> bool {
        let former = match due.former {
            None => None,
            Some(former) => match self.read_page(former).await {
                Some(page) => Some(page),
                None => return false,
            },
        };
        // Not before the page was registered: what changes from then on is noted, and stays in the state.
        let content = self.group.look(|machine| machine.unit().content_of_draft(id, former.as_deref()));
        let Some(content) = content.map(|page| Bytes::from(page.encode())) else { return false };
        let put = |place| {
            let request = NodeRequest::Put { capacity: due.bytes, content: content.clone() };
            ask_block(&self.env, &*self.reach, ToNode { place, id, request }, PAGE_PATIENCE)
        };
        let answers = join_all(places.iter().map(put)).await;
        let is_done = |answer: &Option<NodeAnswer>| matches!(answer, Some(NodeAnswer::Done(_)));
        if let Some(leading) = self.leading.lock().as_mut() {
            let failed = places.iter().zip(&answers).filter(|(_, answer)| !is_done(answer));
            failed.for_each(|(place, _)| leading.placing.note_refused(place));
        }
        answers.iter().all(is_done)
    }

    async fn give_page_up(&self, id: ChunkId) {
        if let Err(error) = self.group.propose(&ChunkCommand::Revoke(id)).await {
            tracing::debug!(shard = self.shard.0, %error, "giving up a page");
        }
    }

    /// A page's rows, from one of its copies; none if no copy answers now.
    pub(super) async fn read_page(&self, page: PageRef) -> Option<Arc<ChunkPage>> {
        if let Some(known) = self.pages.cache.lock().get(page) {
            return Some(known);
        }
        for place in page.places.iter() {
            let to = ToNode { place, id: page.id, request: NodeRequest::Read };
            let answer = ask_block(&self.env, &*self.reach, to, PAGE_PATIENCE).await;
            let Some(NodeAnswer::Live(LiveCopy { content: Some(content), .. })) = answer else { continue };
            match ChunkPage::decode(&content) {
                Ok(read) if (read.shard, read.page) == (self.shard, page.id.number) => {
                    let read = Arc::new(read);
                    self.pages.cache.lock().keep(read.clone());
                    return Some(read);
                }
                Ok(read) => tracing::error!(shard = self.shard.0, page = %page.id, ?read.page, "another page's rows"),
                Err(error) => tracing::error!(shard = self.shard.0, page = %page.id, %error, "a page can't be read"),
            }
        }
        tracing::debug!(shard = self.shard.0, page = %page.id, "no copy of a page answers");
        None
    }

    /// All pages that can be read now. Those that can't be may be later, and then they alone are read.
    pub(super) async fn all_pages(&self) -> Pages {
        let lacking: Vec<PageRef> = self.group.look(|machine| {
            let read = self.pages.read.lock();
            machine.unit().pages().filter(|page| !read.contains_key(&page.id.number)).collect()
        });
        let reads = stream::iter(lacking).map(|page| self.read_page(page)).buffer_unordered(PAGE_READS);
        let found: Vec<Option<Arc<ChunkPage>>> = reads.collect().await;
        let mut read = self.pages.read.lock();
        read.extend(found.into_iter().flatten().map(|page| (page.page, page)));
        read.clone()
    }

    /// Has the rows of these ids in the state, if there are such chunks. False if a page can't be read now.
    pub(super) async fn bring(&self, ids: &[ChunkId]) -> bool {
        for _ in 0..MAX_PAGE_TRIES {
            let mut wanted: BTreeMap<ChunkNumber, (PageRef, BTreeSet<ChunkId>)> = BTreeMap::new();
            self.group.look(|machine| {
                for (id, page) in ids.iter().filter_map(|id| Some((*id, machine.unit().page_of(*id)?))) {
                    wanted.entry(page.id.number).or_insert_with(|| (page, BTreeSet::new())).1.insert(id);
                }
            });
            let mut is_stale = false;
            for (at, ids) in wanted.into_values() {
                let Some(page) = self.read_page(at).await else { return false };
                let is_wanted =
                    |row: &&ChunkRow| ids.contains(&ChunkId { shard: self.shard, number: row.number, nonce: row.nonce });
                is_stale |= !self.touch(at, page.rows().iter().filter(is_wanted).copied().collect()).await;
            }
            if !is_stale {
                return true;
            }
        }
        false
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
