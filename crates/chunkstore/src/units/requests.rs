//! What clients and nodes ask of a unit, where this node leads it.

use std::collections::BTreeSet;
use std::sync::Arc;

use consensus::{NotLeader, ProposeError, ReadError, ReadMode};
use env::Instant;
use format::chunk_command::{ChunkCommand, ClientCall, CopyOf, MAX_COMMAND_ITEMS, Registration, Relocation};
use format::chunk_id::{ChunkId, ChunkNonce};
use format::chunk_page::ChunkPage;
use format::chunk_place::ChunkPlaces;
use futures_util::{StreamExt, stream};
use manager::Snapshot;
use types::{DeviceId, NodeId};

use super::leading::{Leading, Leaving};
use super::machine::UnitMachine;
use super::member::{UnitMember, with_leader};
use super::pages::Brought;
use super::placing::{NoPlaces, Wanted};
use crate::leader::{Errand, Order};
use crate::limits::{COMMIT_PATIENCE, MAX_PAGE_TRIES, MAX_REGISTER_TRIES, PAGE_READS, PENDING_MS, SPACE_LOOK, SPACE_PATIENCE};
use crate::maintenance::{Answer, PageRef, Refusal, Sought};
use crate::message::{NodeRequest, ToNode};
use crate::protocol::{NodeReport, UnitAnswer, UnitRequest};

/// Places that were handed out: the unit's state has them when this ends, or they are somebody else's.
struct Promise<'a> {
    member: &'a UnitMember,
    places: ChunkPlaces,
    bytes: u32,
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        self.member.settle(self.places, self.bytes);
    }
}

impl UnitMember {
    /// Carries a request out, or says why not.
    pub async fn answer(self: &Arc<Self>, request: UnitRequest) -> UnitAnswer {
        match request {
            UnitRequest::Register { call, bytes, copies, avoid, .. } => {
                self.register(call, bytes, usize::from(copies), &avoid).await
            }
            UnitRequest::Commit(id) => self.commit(id).await,
            UnitRequest::Revoke(id) => self.revoke(id).await,
            UnitRequest::Find(id) => self.find(id).await,
            UnitRequest::Relocate { id, from, to } => self.relocate(id, from, to).await,
            UnitRequest::Report(report) => self.report(report),
            UnitRequest::Suspect(copy) => self.suspect(copy).await,
            UnitRequest::LastCopies { devices, .. } => self.last_copies(&devices.into_iter().collect()).await,
        }
    }

    async fn register(self: &Arc<Self>, call: ClientCall, bytes: u32, copies: usize, avoid: &[NodeId]) -> UnitAnswer {
        let mut answer = UnitAnswer::Refused(Refusal::NoPlaces);
        let patience_ends = self.env.now() + SPACE_PATIENCE;
        for _ in 0..MAX_REGISTER_TRIES {
            // Where the copies go may follow from the id.
            let nonce = ChunkNonce(self.env.random_u64());
            let wanted = Wanted { bytes, chunk: nonce.0 };
            let places = match self.choose_in_time(wanted, copies, avoid, patience_ends).await {
                Ok(places) => places,
                Err(answer) => return answer,
            };
            let deadline_ms = self.env.wall_clock_ms() + PENDING_MS;
            let asked = Registration { call, nonce, bytes, places, wanted: copies as u8, deadline_ms };
            let command = ChunkCommand::Register(asked);
            // Also if the client goes away meanwhile.
            let promise = Promise { member: self, places, bytes };
            answer = self.propose(&command).await;
            drop(promise);
            if !matches!(answer, UnitAnswer::Refused(Refusal::NoRoom { .. })) {
                return answer;
            }
        }
        answer
    }

    /// A shard that has just been opened, or grows fast, gets its space in a moment: that is waited for.
    async fn choose_in_time(
        self: &Arc<Self>,
        wanted: Wanted,
        copies: usize,
        avoid: &[NodeId],
        ends: Instant,
    ) -> Result<ChunkPlaces, UnitAnswer> {
        let mut is_told = false;
        loop {
            match self.choose(wanted, copies, avoid)? {
                Ok(places) => return Ok(places),
                Err(NoPlaces::Yet) if self.env.now() < ends => {
                    if !std::mem::replace(&mut is_told, true) {
                        self.look_anew();
                    }
                    self.env.sleep(SPACE_LOOK).await;
                }
                // Its client tries again: the manager has space, and an election of its leader may take longer than this waits.
                Err(NoPlaces::Yet) => return Err(UnitAnswer::Refused(Refusal::NoPlacesYet)),
                Err(NoPlaces::AtAll) => return Err(UnitAnswer::Refused(Refusal::NoPlaces)),
            }
        }
    }

    fn choose(&self, wanted: Wanted, copies: usize, avoid: &[NodeId]) -> Result<Result<ChunkPlaces, NoPlaces>, UnitAnswer> {
        self.group.look(|machine| {
            if machine.unit().is_sealed() {
                return Err(UnitAnswer::Refused(Refusal::Sealed));
            }
            let mut leading = self.leading.lock();
            let Some(leading) = leading.as_mut() else { return Err(self.not_leader()) };
            Ok(leading.placing.choose_all_or_fewer(machine.unit(), wanted, copies, avoid, &mut || self.env.random_u64()))
        })
    }

    async fn commit(self: &Arc<Self>, id: ChunkId) -> UnitAnswer {
        let answer = self.propose_about(id, &ChunkCommand::Commit(id)).await;
        if answer != UnitAnswer::Done {
            return answer;
        }
        let awaited = self.leading.lock().as_mut().map(|leading| leading.await_host(id));
        let Some((published, orders)) = awaited else { return UnitAnswer::Unknown };
        self.carry_out(orders);
        // It is durable, and every reader that finds no host with it asks the unit.
        tokio::select! {
            biased;
            _ = published => {}
            () = self.env.sleep(COMMIT_PATIENCE) => {}
        }
        UnitAnswer::Done
    }

    /// A registration is over; so is a chunk of which no copy is left, since whoever deletes it can tell no copy. The same where copies are there and none can
    /// be read any more while one moves: the one that has departed answers nobody.
    async fn revoke(&self, id: ChunkId) -> UnitAnswer {
        let answer = self.propose_about(id, &ChunkCommand::Revoke(id)).await;
        let is_gone = |machine: &UnitMachine| {
            let leading = self.leading.lock();
            let is_gone = |places, leading: &Leading| leading.is_gone(&places) || leading.leader.has_nothing_to_bring(id);
            machine.unit().places_of(id).zip(leading.as_ref()).is_some_and(|(places, leading)| is_gone(places, leading))
        };
        match answer == UnitAnswer::Refused(Refusal::NotPending) && self.group.look(is_gone) {
            true => self.propose(&ChunkCommand::Freed(vec![id])).await,
            false => answer,
        }
    }

    async fn find(&self, id: ChunkId) -> UnitAnswer {
        let mut read = None;
        for _ in 0..MAX_PAGE_TRIES {
            let page: Option<&ChunkPage> = read.as_deref();
            match self.group.read(ReadMode::Lease, |machine| machine.unit().seek(id, page)).await {
                Ok(Sought::Found(found)) => return UnitAnswer::Found(found),
                Ok(Sought::InPage(at)) => read = self.read_page(at).await,
                Err(ReadError::NotLeader(error)) => return self.led_by(&error),
                Err(_) => return UnitAnswer::Unknown,
            }
        }
        UnitAnswer::Unknown
    }

    /// By the state as it is now, the manager's too, and what nodes have reported.
    async fn last_copies(&self, devices: &BTreeSet<DeviceId>) -> UnitAnswer {
        if self.manager.fresh().await.is_err() {
            return UnitAnswer::Unknown;
        }
        let (state, now) = (self.manager.snapshot(), self.env.now());
        for _ in 0..MAX_PAGE_TRIES {
            let pages: Vec<PageRef> = self.group.look(|machine| machine.unit().pages().collect());
            if self.leading.lock().is_none() {
                return self.not_leader();
            }
            let Some(archived) = self.last_copies_in(now, &state, &pages, devices).await else { return UnitAnswer::Unknown };
            // Rows leave the state with new pages only: if there are none, each row was seen in a page or is here.
            let counted = self.group.read(ReadMode::Confirmed, |machine| {
                let leading = self.leading.lock();
                let count = leading.as_ref().map(|leading| leading.last_copies(now, &state, machine.unit(), None, devices));
                (count, machine.unit().pages().map(|page| page.id).eq(pages.iter().map(|page| page.id)))
            });
            match counted.await {
                Ok((Some(here), true)) => return UnitAnswer::Counted(here + archived),
                Ok((Some(_), false)) => {}
                Ok((None, _)) => return self.not_leader(),
                Err(ReadError::NotLeader(error)) => return self.led_by(&error),
                Err(_) => return UnitAnswer::Unknown,
            }
        }
        UnitAnswer::Unknown
    }

    /// Of chunks whose rows are in pages; none if one can't be read.
    async fn last_copies_in(
        &self,
        now: Instant,
        state: &Snapshot,
        pages: &[PageRef],
        devices: &BTreeSet<DeviceId>,
    ) -> Option<u64> {
        let mut count = 0;
        // A full shard has hundreds.
        let mut reads = stream::iter(pages.iter().copied()).map(|at| self.read_page(at)).buffer_unordered(PAGE_READS);
        while let Some(page) = reads.next().await {
            let page = page?;
            count += self.group.look(|machine| {
                let leading = self.leading.lock();
                leading.as_ref().map(|leading| leading.last_copies(now, state, machine.unit(), Some(&page), devices))
            })?;
        }
        Some(count)
    }

    async fn relocate(self: &Arc<Self>, id: ChunkId, from: DeviceId, to: Option<DeviceId>) -> UnitAnswer {
        if self.leading.lock().is_none() {
            return self.not_leader();
        }
        if !self.bring(&[id]).await.unread.is_empty() {
            return UnitAnswer::Unknown;
        }
        let state = self.manager.snapshot();
        let command = self.group.look(|machine| {
            let unit = machine.unit();
            let (Some(places), Some(bytes)) = (unit.places_of(id), unit.bytes_of(id)) else {
                return Err(UnitAnswer::Refused(Refusal::Unknown));
            };
            let from = places.iter().find(|place| place.device() == from);
            let from = from.filter(|from| to != Some(from.device())).ok_or(UnitAnswer::Refused(Refusal::Places))?;
            let mut leading = self.leading.lock();
            let Some(leading) = leading.as_mut() else { return Err(self.not_leader()) };
            // There is nothing to bring: it would never end.
            if !leading.has_sound_copy(&state, unit, id) {
                return Err(UnitAnswer::Refused(Refusal::Places));
            }
            let command = match to {
                Some(device) => {
                    let to = leading.placing.choose_on(unit, bytes, device);
                    to.into_iter().for_each(|to| leading.placing.settle([to], bytes));
                    if to.is_some() && leading.placing.is_beside(device, places.iter().filter(|place| *place != from)) {
                        return Err(UnitAnswer::Refused(Refusal::Places));
                    }
                    to.map(|to| ChunkCommand::Relocate(Relocation { id, from: Some(from), to: Some(to), is_lost: false }))
                }
                None => leading.relocation(&state, unit, id, Leaving::asked(from), &mut || self.env.random_u64()),
            };
            command.ok_or(UnitAnswer::Refused(Refusal::NoPlaces))
        });
        match command {
            Ok(command) => self.propose_about(id, &command).await,
            Err(answer) => answer,
        }
    }

    fn report(self: &Arc<Self>, report: NodeReport) -> UnitAnswer {
        let is_led = self.leading.lock().is_some();
        if !is_led {
            return self.not_leader();
        }
        let (mut freed, node) = (report.freed.clone(), report.node);
        let now = self.env.now();
        let mut is_new = false;
        with_leader(&Arc::downgrade(self), |leading| {
            is_new = leading.is_silent(now, &self.manager.snapshot(), self.shard, node) || leading.is_news_of_stuck(&report);
            leading.reported(now, report)
        });
        if is_new {
            self.look_anew();
        }
        freed.truncate(MAX_COMMAND_ITEMS);
        // What is being ended already is not told to the log again.
        let is_news = |id: &ChunkId| self.group.look(|machine| machine.unit().is_kept(*id));
        let page_of = |id: &ChunkId| self.group.look(|machine| machine.unit().page_of(*id));
        let (mut archived, mut here): (Vec<ChunkId>, Vec<ChunkId>) = freed.into_iter().partition(|id| page_of(id).is_some());
        here.retain(is_news);
        if !archived.is_empty() {
            let unread = self.pages.unread(now);
            archived.retain(|id| page_of(id).is_some_and(|page| !(unread.contains(&page.id.number))));
        }
        if !here.is_empty() {
            self.propose_beside(ChunkCommand::Freed(here));
        }
        if !archived.is_empty() {
            self.free_archived(archived);
        }
        UnitAnswer::Done
    }

    /// Chunks that have ended and whose rows are in pages. What is not done is reported again.
    fn free_archived(self: &Arc<Self>, ids: Vec<ChunkId>) {
        self.in_turn(&self.pages.freeing, async move |member| {
            member.bring(&ids).await;
            // What the pages don't have has ended long ago; where one can't be read, it is not here.
            let is_news = |id: &ChunkId| member.group.look(|machine| machine.unit().is_kept(*id));
            let news: Vec<ChunkId> = ids.into_iter().filter(is_news).collect();
            if !news.is_empty() {
                member.propose_beside(ChunkCommand::Freed(news));
            }
        });
    }

    /// Whoever says so may be wrong, or late.
    async fn suspect(self: &Arc<Self>, CopyOf { id, place }: CopyOf) -> UnitAnswer {
        if self.leading.lock().is_none() {
            return self.not_leader();
        }
        if !self.bring(&[id]).await.unread.is_empty() {
            return UnitAnswer::Unknown;
        }
        let era_of_its = |machine: &UnitMachine| {
            let unit = machine.unit();
            let is_its = unit.is_at_rest(id) && unit.places_of(id).is_some_and(|places| places.contains(place));
            unit.era_of(id).filter(|_| is_its)
        };
        if let Some(era) = self.group.look(era_of_its) {
            let to = ToNode { place, id, request: NodeRequest::Query };
            self.carry_out(vec![Order::Node { errand: Errand::Audit { era }, to }]);
        }
        UnitAnswer::Done
    }

    /// About a chunk whose row may be in a page.
    async fn propose_about(&self, id: ChunkId, command: &ChunkCommand) -> UnitAnswer {
        for _ in 0..MAX_PAGE_TRIES {
            let answer = self.propose(command).await;
            if answer != UnitAnswer::Refused(Refusal::Archived) {
                return answer;
            }
            let Brought { absent, unread } = self.bring(&[id]).await;
            if !absent.is_empty() {
                return UnitAnswer::Refused(Refusal::Unknown);
            }
            if !unread.is_empty() {
                return UnitAnswer::Unknown;
            }
        }
        UnitAnswer::Unknown
    }

    async fn propose(&self, command: &ChunkCommand) -> UnitAnswer {
        match self.group.propose(command).await {
            Ok((_, Ok(Answer::Registered { id, places }))) => UnitAnswer::Registered { id, places },
            Ok((_, Ok(Answer::Done))) => UnitAnswer::Done,
            Ok((_, Err(refusal))) => UnitAnswer::Refused(refusal),
            Err(ProposeError::NotLeader(error)) => self.led_by(&error),
            Err(ProposeError::Overloaded { .. } | ProposeError::LogFull) => UnitAnswer::Refused(Refusal::Busy),
            Err(error) => {
                tracing::debug!(shard = self.shard.0, %error, "a proposal of a client");
                UnitAnswer::Unknown
            }
        }
    }

    fn not_leader(&self) -> UnitAnswer {
        UnitAnswer::NotLeader(self.group.status().leader.and_then(|leader| self.node_of(leader)))
    }

    fn led_by(&self, error: &NotLeader) -> UnitAnswer {
        UnitAnswer::NotLeader(error.leader.as_ref().and_then(|leader| self.node_of(leader.node)))
    }

    /// The cluster's number of a member of the group.
    fn node_of(&self, member: consensus::NodeId) -> Option<NodeId> {
        let map = self.reach.map();
        map.nodes.iter().find(|node| consensus::NodeId::of_identity(&node.identity.0) == member).map(|node| node.id)
    }
}
