//! Rows of a closed shard's unit go to pages (docs/rfd/0015).
//!
//! A page is a chunk of the shard. Its leader registers it, writes its copies, and commits it, as a client does with its chunks; nobody else has its
//! id. One page at a time.

use std::sync::Arc;

use bytes::Bytes;
use format::chunk_block::Era;
use format::chunk_command::{ChunkCommand, ClientCall, Registration};
use format::chunk_id::{ChunkId, ChunkNonce};
use format::chunk_page::ChunkPage;
use format::chunk_place::ChunkPlaces;
use futures_util::future::join_all;
use manager::Snapshot;
use types::NodeId;

use super::leading::Leading;
use super::member::UnitMember;
use super::placing::{NoPlaces, Wanted};
use crate::asking::ask_block;
use crate::limits::{PAGE_COPIES, PAGE_PATIENCE, PAGE_PAUSE, PENDING_MS};
use crate::maintenance::{Answer, DuePage, MaintenanceUnit};
use crate::message::{NodeAnswer, NodeRequest, ToNode};

/// What there is to do about pages.
enum Todo {
    /// Whoever began this one does not lead any more, or gave it up.
    Revoke(ChunkId),
    Write(DuePage, ChunkPlaces),
}

impl UnitMember {
    /// Writes pages while there are rows for them.
    pub(super) fn keep_archive(self: &Arc<Self>) {
        self.in_turn(&self.pages.archiving, async |member| {
            while member.archive().await {
                member.env.sleep(PAGE_PAUSE).await;
            }
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
        let unread = self.pages.unread(self.env.now());
        self.group.look(|machine| {
            let unit = machine.unit();
            let mut leading = self.leading.lock();
            let leading = leading.as_mut()?;
            if let Some(draft) = unit.draft() {
                return Some(Todo::Revoke(draft));
            }
            let ailing = leading.ailing_chunks();
            let due = unit.due_page(self.pages.rows, &unread, |row| leading.needs(row, &ailing))?;
            match self.choose_for_page(leading, unit, due.bytes, &members) {
                Ok(places) => Some(Todo::Write(due, places)),
                Err(NoPlaces::Yet) => None,
                // Where three hosts have no room, memory is the safer place for rows that no page has. The others came from pages that have lost copies,
                // and find as many there again.
                Err(NoPlaces::AtAll) => {
                    let (due, least) = unit.due_short_page(&unread, |row| leading.needs(row, &ailing))?;
                    let places = self.choose_for_short_page(leading, unit, due.bytes, least)?;
                    env::mark("chunks: a page with fewer copies");
                    Some(Todo::Write(due, places))
                }
            }
        })
    }

    /// On the members' nodes, if they will do: who loses three others loses no page with them.
    fn choose_for_page(
        &self,
        leading: &mut Leading,
        unit: &MaintenanceUnit,
        bytes: u32,
        members: &[NodeId],
    ) -> Result<ChunkPlaces, NoPlaces> {
        if let Some(places) = leading.placing.choose_at(unit, bytes, members) {
            return Ok(places);
        }
        let wanted = Wanted { bytes, chunk: self.env.random_u64() };
        leading.placing.choose(unit, wanted, PAGE_COPIES, &[], &mut || self.env.random_u64())
    }

    /// For as many copies as find places.
    fn choose_for_short_page(
        &self,
        leading: &mut Leading,
        unit: &MaintenanceUnit,
        bytes: u32,
        least: usize,
    ) -> Option<ChunkPlaces> {
        let wanted = Wanted { bytes, chunk: self.env.random_u64() };
        let mut choose = |copies| leading.placing.choose(unit, wanted, copies, &[], &mut || self.env.random_u64()).ok();
        (least..PAGE_COPIES).rev().find_map(&mut choose)
    }

    fn members(&self, state: &Snapshot) -> Vec<NodeId> {
        let members = state.unit(self.shard.0).map(|unit| unit.members.to_vec());
        members.filter(|members| members.len() == PAGE_COPIES).unwrap_or_default()
    }

    async fn write_page(&self, due: DuePage, places: ChunkPlaces) -> bool {
        let former = match due.former {
            None => None,
            Some(former) => match self.read_page(former).await {
                Some(page) => Some(page),
                None => {
                    self.settle(places, due.bytes);
                    return false;
                }
            },
        };
        let call = self.env.random_u64();
        let registration = Registration {
            call: ClientCall { session: (call >> 32) as u32, request: call as u32 },
            nonce: ChunkNonce(self.env.random_u64()),
            bytes: due.bytes,
            places,
            wanted: PAGE_COPIES as u8,
            deadline_ms: self.env.wall_clock_ms() + PENDING_MS,
        };
        let registered = self.group.propose(&ChunkCommand::RegisterPage { registration, range: due.range }).await;
        self.settle(places, due.bytes);
        let Ok((_, Ok(Answer::Registered { id, places }))) = registered else { return false };
        let is_written = self.fill_page(id, places, due.bytes, former.as_deref()).await;
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

    /// Places are not promised any more: the unit has them, or they are not used.
    pub(super) fn settle(&self, places: ChunkPlaces, bytes: u32) {
        if let Some(leading) = self.leading.lock().as_mut() {
            leading.placing.settle(places.iter(), bytes);
        }
    }

    /// Whether all copies are durable.
    async fn fill_page(&self, id: ChunkId, places: ChunkPlaces, capacity: u32, former: Option<&ChunkPage>) -> bool {
        // Not before the page was registered: what changes from then on is noted, and stays in the state.
        let content = self.group.look(|machine| machine.unit().content_of_draft(id, former));
        let Some(content) = content.map(|page| Bytes::from(page.encode())) else { return false };
        let era = Era::first(places.as_slice().len());
        let put = |place| {
            let request = NodeRequest::Put { era, capacity, content: content.clone() };
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
}
