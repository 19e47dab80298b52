//! One unit's member on this node: it follows the group, and leads it when it is elected.
//!
//! ```text
//!   applied ─► take what commands did ─► Leader ─┬─► links to the lookup hosts ──► heard ─┐
//!   tick ────► duties of the state ───────────────┼─► errands to nodes ─────────► answered ─┼─► Leader …
//!   clients ─► places, commits ───────────────────┴─► proposals ─► log ─► applied           │
//!                                                                                ◄─────────┘
//! ```
//!
//! Locks are taken in the order machine, then `leading`; none is held across an await.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use consensus::{Group, ReadMode, Term};
use env::{Env, Instant};
use format::chunk_command::ChunkCommand;
use format::chunk_id::ShardId;
use format::chunk_update::Stream;
use groups::{Member, Placed};
use manager::{Manager, Snapshot};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use types::NodeId;

use super::leading::contents::ContentRoom;
use super::leading::crowding::CrowdedPatience;
use super::leading::errands::Share;
use super::leading::healing::Healing;
use super::leading::{Leading, gather, host_of};
use super::link::{Link, Told};
use super::machine::UnitMachine;
use super::pages::PageWork;
use crate::leader::{Host, Leader, Order};
use crate::limits::{LEADER_TICK, MAX_BEGINNING, MAX_PROPOSALS, REGISTRATION_BYTES};
use crate::maintenance::{MaintenanceUnit, PageRef};
use crate::placement::PlacerChoice;
use crate::publisher::Begins;
use crate::reach::Reach;
use crate::settings::ChunkSettings;

/// Of work of which so many pieces as there are permits are under way at a time; mostly one.
pub(super) type Turn = Arc<Semaphore>;

pub(super) fn new_turn() -> Turn {
    Arc::new(Semaphore::new(1))
}

/// What all units of a node have together.
#[derive(Clone)]
pub struct Shares {
    /// Leaderships of units with pages that begin.
    beginning: Turn,
    /// For contents of relocations in memory.
    contents: Arc<ContentRoom>,
    /// With shards that take nothing.
    crowded_patience: Arc<Mutex<CrowdedPatience>>,
}

impl Default for Shares {
    fn default() -> Shares {
        Shares {
            beginning: Arc::new(Semaphore::new(MAX_BEGINNING)),
            contents: Arc::default(),
            crowded_patience: Arc::default(),
        }
    }
}

/// A member of a unit.
pub struct UnitMember {
    pub(super) env: Env,
    pub(super) shard: ShardId,
    pub(super) group: Group<UnitMachine>,
    placed: Arc<Placed<UnitMachine>>,
    pub(super) manager: Arc<Manager>,
    pub(super) reach: Arc<dyn Reach>,
    pub(super) leading: Mutex<Option<Leading>>,
    /// Of the last leadership here: the next one may be of the same term.
    newest_stream: Mutex<Option<Stream>>,
    /// Nodes that are asked for something, by what for.
    pub(super) duties: Turn,
    pub(super) moving: Turn,
    pub(super) mending: Turn,
    /// Commands that nobody waits for. Not among the duties: nodes that are away must not keep the unit from what it needs to go on.
    proposals: Turn,
    /// Asking the manager for bulks, or to close the shard.
    pub(super) settling: Turn,
    pub(super) pages: PageWork,
    placer: PlacerChoice,
    /// The node's: a leadership that needs pages begins when it has a permit.
    beginning: Turn,
    pub(super) contents: Arc<ContentRoom>,
    crowded_patience: Arc<Mutex<CrowdedPatience>>,
}

impl Member for UnitMember {
    type Machine = UnitMachine;

    fn placed(&self) -> &Arc<Placed<UnitMachine>> {
        &self.placed
    }

    /// Those that do not report to this leader.
    fn silent(&self) -> BTreeSet<consensus::NodeId> {
        let (now, state) = (self.env.now(), self.manager.snapshot());
        let leading = self.leading.lock();
        let is_silent = |node| leading.as_ref().is_none_or(|leading| leading.is_silent(now, &state, self.shard, node));
        let silent = state.nodes().filter(|node| is_silent(node.id));
        silent.map(|node| consensus::NodeId::of_identity(&node.identity.0)).collect()
    }
}

impl UnitMember {
    /// Takes part in the group until it is dropped. `beginning` is shared by the node's units.
    pub fn start(
        env: &Env,
        placed: Arc<Placed<UnitMachine>>,
        reach: Arc<dyn Reach>,
        settings: ChunkSettings,
        shares: Shares,
    ) -> Arc<UnitMember> {
        let member = Arc::new(UnitMember {
            env: env.clone(),
            shard: ShardId(placed.key().number),
            group: placed.group().clone(),
            manager: placed.manager().clone(),
            placed,
            reach,
            leading: Mutex::new(None),
            newest_stream: Mutex::new(None),
            duties: Arc::new(Semaphore::new(Share::Copies.permits())),
            moving: Arc::new(Semaphore::new(Share::Moves.permits())),
            mending: Arc::new(Semaphore::new(Share::Mends.permits())),
            proposals: Arc::new(Semaphore::new(MAX_PROPOSALS)),
            settling: new_turn(),
            pages: PageWork::new(settings.page_rows),
            placer: settings.placer,
            beginning: shares.beginning,
            contents: shares.contents,
            crowded_patience: shares.crowded_patience,
        });
        env.spawn(follow(env.clone(), Arc::downgrade(&member)));
        member
    }

    /// Whether this node leads the unit.
    pub fn is_leading(&self) -> bool {
        self.leading.lock().is_some()
    }

    /// Rows in memory, and chunks that there are.
    pub fn rows(&self) -> (u64, u64) {
        self.group.look(|machine| (machine.unit().rows_here() as u64, machine.unit().chunks()))
    }

    /// Chunks with fewer copies than are wanted.
    pub fn short_chunks(&self) -> u64 {
        self.group.look(|machine| machine.unit().short_chunks())
    }

    /// Begins or ends to lead, as the group has it.
    async fn notice_leadership(self: &Arc<Self>) {
        let status = self.group.status();
        let own = self.leading.lock().as_ref().map(|leading| leading.term);
        match (own, status.is_leader) {
            (None, true) => self.begin(status.term).await,
            (Some(term), is_leader) if !is_leader || term != status.term => self.step_back(),
            _ => {}
        }
    }

    async fn begin(self: &Arc<Self>, term: Term) {
        let hosts = self.hosts(&self.manager.snapshot());
        let seed = self.env.random_u64();
        let begins = Begins::after(*self.newest_stream.lock(), term.0);
        let has_pages = self.group.look(|machine| machine.unit().pages().next().is_some());
        let _turn = if has_pages { Some(self.beginning.acquire().await) } else { None };
        let status = self.group.status();
        if !status.is_leader || status.term != term {
            // It waited for its turn, and another leads meanwhile.
            return;
        }
        let Some(pages) = self.all_pages().await else {
            tracing::debug!(shard = self.shard.0, "not leading yet: a page of the unit can't be read");
            return;
        };
        let begun = self.group.read(ReadMode::Confirmed, |machine| {
            let entries = machine.unit().lookup_entries(&pages)?;
            // From this state on: what is applied later is noted.
            machine.listen();
            Some(Leader::begin(machine.unit(), entries, begins, seed, &hosts))
        });
        match begun.await {
            // Pages have come meanwhile: it is looked at again.
            Ok(None) => tracing::debug!(shard = self.shard.0, "not leading yet: rows of the unit are not there"),
            Ok(Some(Ok((leader, orders)))) => {
                tracing::info!(shard = self.shard.0, term = term.0, "this node leads a shard's maintenance unit");
                *self.leading.lock() = Some(Leading::new(self.env.now(), term, leader, self.placer));
                self.carry_out(orders);
                self.tick();
            }
            Ok(Some(Err(error))) => {
                tracing::error!(shard = self.shard.0, %error, "the shard's lookup structure can't be built")
            }
            // Not the leader any more, or no quorum: it is looked at again.
            Err(error) => tracing::debug!(shard = self.shard.0, %error, "not leading yet"),
        }
    }

    /// Whoever waits here is told that it is not known what became of it.
    fn step_back(&self) {
        self.group.look(UnitMachine::stop_listening);
        if let Some(leading) = self.leading.lock().take() {
            *self.newest_stream.lock() = Some(leading.leader.stream());
        }
    }

    /// Takes over what commands did.
    fn publish(self: &Arc<Self>) {
        let done = self.group.look(UnitMachine::take_done);
        let orders = {
            let mut leading = self.leading.lock();
            let Some(leading) = leading.as_mut() else { return };
            done.and_then(|done| leading.derive(&done))
        };
        match orders {
            Some(orders) => self.carry_out(orders),
            None => {
                tracing::warn!(shard = self.shard.0, "the shard's lookup structure is built anew");
                self.step_back();
            }
        }
    }

    /// Looks for what there is to do.
    fn tick(self: &Arc<Self>) {
        let state = self.manager.snapshot();
        let hosts = self.hosts(&state);
        let now = self.env.now();
        let unread = self.pages.unread(now);
        let is_closed = state.shard(self.shard.0).is_some_and(|shard| !shard.is_open);
        let looked = self.group.look(|machine| {
            let unit = machine.unit();
            let mut leading = self.leading.lock();
            let leading = leading.as_mut()?;
            let mut orders = leading.leader.set_hosts(&hosts);
            let is_stock_new = leading.take_stock(now, &state, unit);
            let mut healing = Healing::default();
            let (mut audited, mut questions) = (None, Vec::new());
            if is_stock_new {
                if is_closed {
                    leading.choose_bulks(now, &state, unit);
                }
                leading.choose_spans(now, &state, unit);
                healing = leading.heal(now, &state, unit, &mut || self.env.random_u64());
                orders.append(&mut healing.orders);
                match leading.audit(unit, &unread) {
                    Ok(queries) => orders.extend(queries),
                    Err(page) => audited = Some(page),
                }
                let (relocations, asked) = leading.clear(now, &state, unit);
                orders.extend(relocations);
                questions = asked;
                if is_closed {
                    orders.extend(leading.compact(now, &state, unit));
                    orders.extend(seal(unit));
                }
            } else {
                orders.extend(leading.heal_on(now, &state, unit, &mut || self.env.random_u64()));
            }
            leading.keep_contents(now, &state, self.shard);
            orders.extend(leading.leader.tick(unit));
            orders.extend(self.expiry(unit));
            let is_full = unit.is_sealed() && state.shard(self.shard.0).is_some_and(|shard| shard.is_open);
            Some((orders, is_stock_new, healing, audited, questions, is_full))
        });
        let Some((orders, is_stock_new, healing, audited, questions, is_full)) = looked else { return };
        // Before all else that is proposed: without space nobody is served.
        if is_stock_new {
            self.keep_space(&state);
        }
        self.carry_out(orders);
        self.mend_all(healing);
        questions.into_iter().for_each(|question| self.ask_for_gaps(question));
        if is_full {
            self.close_shard("it is full");
        }
        if is_stock_new {
            self.notice_crowding(now, &state);
            self.keep_pages(is_closed, audited);
        }
    }

    /// An open shard whose unit has had no room for registrations for long is closed. Its rows go to pages then, which makes room.
    fn notice_crowding(self: &Arc<Self>, now: Instant, state: &Snapshot) {
        if state.shard(self.shard.0).is_none_or(|shard| !shard.is_open) {
            return;
        }
        let is_taken = self.group.takes_growth(REGISTRATION_BYTES);
        let mut leading = self.leading.lock();
        let Some(leading) = leading.as_mut() else { return };
        if leading.crowding.hear(now, is_taken, &mut self.crowded_patience.lock()) {
            env::mark("chunks: an open shard without room in a consensus log is closed");
            tracing::warn!(shard = self.shard.0, "a member of the open shard's unit has no room for it in its consensus log");
            self.close_shard("a consensus log has no room for it");
        }
    }

    /// Rows go to pages, and come from there.
    fn keep_pages(self: &Arc<Self>, is_closed: bool, audited: Option<PageRef>) {
        if is_closed {
            self.keep_archive();
        }
        self.keep_sweeping();
        self.bring_ailing();
        audited.into_iter().for_each(|page| self.read_for_audit(page));
    }

    /// Nodes or devices are others than a moment ago.
    pub(super) fn look_anew(self: &Arc<Self>) {
        if let Some(leading) = self.leading.lock().as_mut() {
            leading.forget_stock();
        }
        self.tick();
    }

    /// A node that has come is used at once, not when it is time to look at nodes and devices again.
    fn notice_space(self: &Arc<Self>) {
        let state = self.manager.snapshot();
        if self.leading.lock().as_mut().is_some_and(|leading| leading.is_space_other(&state)) {
            self.look_anew();
        }
    }

    fn expiry(&self, unit: &MaintenanceUnit) -> Option<Order> {
        let now_ms = self.env.wall_clock_ms();
        let is_due = unit.next_deadline_ms().is_some_and(|deadline| deadline <= now_ms);
        is_due.then_some(Order::Propose(ChunkCommand::Expire { now_ms }))
    }

    /// The shard's lookup hosts, as the manager says.
    fn hosts(&self, state: &Snapshot) -> BTreeSet<Host> {
        state.shard(self.shard.0).map(|shard| shard.hosts.iter().copied().map(host_of).collect()).unwrap_or_default()
    }

    /// Does what the leader's machine wants done.
    pub(super) fn carry_out(self: &Arc<Self>, orders: Vec<Order>) {
        for order in gather(orders) {
            match order {
                Order::Propose(command) => self.propose_beside(command),
                Order::Node { errand, to } => self.run_errand(errand, to),
                Order::Host { host, update } => {
                    let mut leading = self.leading.lock();
                    let Some(leading) = leading.as_mut() else { return };
                    leading.links.entry(host).or_insert_with(|| self.link(host)).send(update);
                }
                Order::NeedsTarget(asked) => {
                    let (now, state) = (self.env.now(), self.manager.snapshot());
                    let order = self.group.look(|machine| {
                        let mut leading = self.leading.lock();
                        leading.as_mut()?.retarget(now, &state, machine.unit(), asked, &mut || self.env.random_u64())
                    });
                    if let Some(Order::Propose(command)) = order {
                        self.propose_beside(command);
                    }
                }
                Order::Committed(tag) => {
                    if let Some(leading) = self.leading.lock().as_mut() {
                        leading.answer(tag);
                    }
                }
            }
        }
    }

    fn link(self: &Arc<Self>, host: Host) -> Link {
        let member = Arc::downgrade(self);
        Link::open(&self.env, self.reach.clone(), NodeId(host.0), move |told| {
            with_leader(&member, |leading| match told {
                Told::Heard(received) => leading.leader.heard(host, received),
                Told::SnapshotOver(snapshot) => {
                    leading.leader.snapshot_over(host, snapshot);
                    Vec::new()
                }
            });
        })
    }

    /// Does this beside everything else, unless there is enough of the same turn under way.
    pub(super) fn in_turn<W>(self: &Arc<Self>, turn: &Turn, work: impl FnOnce(Arc<UnitMember>) -> W)
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let Ok(permit) = turn.clone().try_acquire_owned() else { return };
        let work = work(self.clone());
        self.env.spawn(async move {
            work.await;
            drop(permit);
        });
    }

    /// Proposes what nobody waits for. It is asked for again if it does not come about.
    pub(super) fn propose_beside(self: &Arc<Self>, command: ChunkCommand) {
        self.in_turn(&self.proposals, async move |member| match member.group.propose(&command).await {
            // There is space for copies from now on.
            Ok(_) if matches!(command, ChunkCommand::Grant { .. }) => member.look_anew(),
            Ok((_, Err(refusal))) => {
                tracing::debug!(shard = member.shard.0, %refusal, ?command, "a command of the unit's leader")
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(shard = member.shard.0, %error, "a command of the unit's leader"),
        });
    }
}

/// Of a unit that can't get full any more: its shard was closed while nobody heard of it.
fn seal(unit: &MaintenanceUnit) -> Option<Order> {
    (!unit.is_sealed()).then_some(Order::Propose(ChunkCommand::Seal))
}

/// Has the present leader's machine do something, and carries out what it wants.
pub(super) fn with_leader(member: &Weak<UnitMember>, work: impl FnOnce(&mut Leading) -> Vec<Order>) {
    let Some(member) = member.upgrade() else { return };
    let orders = member.leading.lock().as_mut().map(work);
    if let Some(orders) = orders {
        member.carry_out(orders);
    }
}

async fn follow(env: Env, member: Weak<UnitMember>) {
    let changes = member.upgrade().map(|member| (member.group.changes(), member.manager.changes()));
    let Some((mut applied, mut decided)) = changes else { return };
    let mut next_tick = env.now();
    loop {
        tokio::select! {
            biased;
            changed = applied.changed() => if changed.is_err() { return },
            changed = decided.changed() => if changed.is_err() { return },
            () = env.sleep_until(next_tick) => {}
        }
        let Some(member) = member.upgrade() else { return };
        member.notice_leadership().await;
        member.publish();
        member.notice_space();
        let now = env.now();
        if now >= next_tick {
            member.tick();
            next_tick = now + LEADER_TICK;
        }
    }
}

#[cfg(test)]
mod tests;
