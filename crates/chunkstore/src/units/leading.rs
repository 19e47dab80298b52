//! What a node keeps while it leads a unit. All of it can be derived from the unit's state and the manager's, and is by the next leader.

mod ailing;
mod auditing;
pub mod clearing;
mod compaction;
mod condemning;
pub mod contents;
pub mod crowding;
pub mod errands;
#[cfg(test)]
pub mod fixture;
mod growing;
pub mod healing;
pub mod mends;
mod sweep;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use consensus::Term;
use env::{Instant, MachineUse};
use format::chunk_command::{ChunkCommand, CopyOf, FormerCopy, Relocation};
use format::chunk_id::{ChunkId, ShardId};
use format::chunk_place::BlockPlace;
use manager::{CommandIndex, Snapshot};
use tokio::sync::oneshot;
use types::{DeviceId, NodeId};

use super::link::Link;
use super::placing::{Heard, Placing, Wanted};
use crate::leader::{CommitTag, Host, Leader, Order};
use crate::limits::{CLOSED_SILENCE, IDLE_LOOK, MAX_SILENT_ERRANDS, NODE_SILENCE, REFUSAL_REST, STOCK_AGE};
use crate::maintenance::{Applied, MaintenanceUnit, Move};
use crate::placement::{PlacerChoice, Random};
use crate::protocol::{DeviceRoom, NodeReport};
use ailing::Ailing;
use auditing::Auditing;
use clearing::Clearing;
use compaction::Compaction;
use condemning::Condemning;
use contents::Contents;
use crowding::Crowding;
use errands::{Errands, Share};
use growing::Growing;
use healing::Looked;
use sweep::Sweep;

/// A leadership.
pub struct Leading {
    pub term: Term,
    began: Instant,
    /// When nodes and devices were looked at last.
    stock: Option<Instant>,
    /// Blocks that have refused copies since then get none.
    refusals_since: Instant,
    /// The space that there was then: device, blocks, free blocks.
    space: Vec<(DeviceId, u32, u32)>,
    /// The manager's state in which it was looked for last.
    space_as_of: CommandIndex,
    pub leader: Leader,
    pub placing: Placing,
    pub links: BTreeMap<Host, Link>,
    heard: BTreeMap<NodeId, Word>,
    pub errands: Errands,
    contents: Contents,
    commits: BTreeMap<CommitTag, oneshot::Sender<()>>,
    next_tag: u64,
    /// Devices that the manager has forgotten, since this was seen here: their nodes may answer for a while.
    forgotten: BTreeMap<DeviceId, Instant>,
    ailing: Ailing,
    looked: Looked,
    auditing: Auditing,
    growing: Growing,
    /// When it was looked last for bulks to give back, or space was lacking.
    looked_for_idle: Option<Instant>,
    compaction: Compaction,
    pub clearing: Clearing,
    condemning: Condemning,
    pub crowding: Crowding,
    /// Of rows in pages.
    pub sweep: Sweep,
}

/// What a node said last of itself.
struct Word {
    at: Instant,
    machine: MachineUse,
    /// Its devices that take no writes.
    stuck: BTreeSet<DeviceId>,
    /// The space that each of its devices has.
    rooms: BTreeMap<DeviceId, DeviceRoom>,
}

/// The place that a copy leaves, if it is not one more.
#[derive(Clone, Copy, Debug)]
pub struct Leaving {
    from: Option<BlockPlace>,
    /// Nobody will read there any more.
    is_lost: bool,
    /// Another block of the device will do where no other device does.
    may_stay: bool,
}

impl Leaving {
    /// A person wants it.
    pub fn asked(from: BlockPlace) -> Leaving {
        Leaving { from: Some(from), is_lost: false, may_stay: false }
    }

    fn lost(from: BlockPlace) -> Leaving {
        Leaving { from: Some(from), is_lost: true, may_stay: true }
    }

    /// Its content is not there.
    fn ailing(from: BlockPlace) -> Leaving {
        Leaving { from: Some(from), is_lost: false, may_stay: true }
    }

    /// None: a copy is added.
    fn nothing() -> Leaving {
        Leaving { from: None, is_lost: false, may_stay: false }
    }
}

impl Leading {
    pub fn new(now: Instant, term: Term, leader: Leader, placer: PlacerChoice) -> Self {
        Leading {
            term,
            began: now,
            stock: None,
            refusals_since: now,
            space: Vec::new(),
            space_as_of: CommandIndex::default(),
            leader,
            placing: Placing::new(placer),
            links: BTreeMap::new(),
            heard: BTreeMap::new(),
            errands: Errands::default(),
            contents: Contents::default(),
            commits: BTreeMap::new(),
            next_tag: 0,
            forgotten: BTreeMap::new(),
            ailing: Ailing::default(),
            looked: Looked::default(),
            auditing: Auditing::default(),
            growing: Growing::default(),
            looked_for_idle: None,
            compaction: Compaction::default(),
            clearing: Clearing::default(),
            condemning: Condemning::default(),
            crowding: Crowding::default(),
            sweep: Sweep::default(),
        }
    }

    /// Takes over what commands did; none if the structures and the state have come apart, which is a bug of ours.
    pub fn derive(&mut self, done: &[Applied]) -> Option<Vec<Order>> {
        let mut orders = Vec::new();
        for applied in done {
            match self.leader.applied(applied) {
                Ok(more) => orders.extend(more),
                Err(error) => {
                    tracing::error!(%error, "a shard's lookup structure does not follow its unit");
                    return None;
                }
            }
        }
        Some(orders)
    }

    /// A commit that was applied is to be answered when a host has the chunk.
    pub fn await_host(&mut self, id: ChunkId) -> (oneshot::Receiver<()>, Vec<Order>) {
        let (sender, receiver) = oneshot::channel();
        let tag = CommitTag(self.next_tag);
        self.next_tag += 1;
        self.commits.insert(tag, sender);
        (receiver, self.leader.committed(id, tag))
    }

    /// A host has the chunk.
    pub fn answer(&mut self, tag: CommitTag) {
        if let Some(waiting) = self.commits.remove(&tag) {
            // Who asked may have given up.
            _ = waiting.send(());
        }
    }

    /// Of its own accord.
    pub fn reported(&mut self, now: Instant, report: NodeReport) -> Vec<Order> {
        let NodeReport { node, host, rotten, damaged, stuck, rooms, machine, .. } = report;
        let stuck = stuck.into_iter().collect();
        let rooms = rooms.into_iter().map(|room| (room.device, room)).collect();
        self.heard.insert(node, Word { at: now, machine, stuck, rooms });
        self.ailing.hear(now, node, rotten, damaged);
        host.map_or_else(Vec::new, |received| self.leader.reported(host_of(node), received))
    }

    /// Whether a node was not heard of lately, by how often it reports to this shard.
    pub fn is_silent(&self, now: Instant, state: &Snapshot, shard: ShardId, node: NodeId) -> bool {
        let silence = silence(state, shard, node);
        self.heard.get(&node).is_none_or(|word| now.saturating_duration_since(word.at) >= silence)
    }

    /// Whether a device takes no writes, by what its node said last.
    pub fn is_stuck(&self, state: &Snapshot, device: DeviceId) -> bool {
        let node = state.device(device).and_then(|device| device.node);
        node.and_then(|node| self.heard.get(&node)).is_some_and(|word| word.stuck.contains(&device))
    }

    /// How many further blocks a device has space for, by what its node said last; any number where it has not yet.
    fn blocks_left(&self, state: &Snapshot, device: DeviceId) -> u32 {
        self.room_of(state, device).map_or(u32::MAX, |room| room.blocks)
    }

    /// The space that a device has, by what its node said last.
    fn room_of(&self, state: &Snapshot, device: DeviceId) -> Option<&DeviceRoom> {
        let node = state.device(device).and_then(|device| device.node);
        node.and_then(|node| self.heard.get(&node))?.rooms.get(&device)
    }

    /// Whether a report names other devices that take no writes than the one before.
    pub fn is_news_of_stuck(&self, report: &NodeReport) -> bool {
        let known = self.heard.get(&report.node).map(|word| &word.stuck);
        let named: BTreeSet<DeviceId> = report.stuck.iter().copied().collect();
        known.map_or(!named.is_empty(), |known| *known != named)
    }

    /// Whether it would have been heard of if it was there: a new leader has not been told by those yet that report rarely.
    fn is_missed(&self, now: Instant, state: &Snapshot, shard: ShardId, node: NodeId) -> bool {
        let has_waited = now.saturating_duration_since(self.began) >= silence(state, shard, node);
        has_waited && self.is_silent(now, state, shard, node)
    }

    /// Nobody has had the time to report to a new leader.
    fn is_new(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.began) < NODE_SILENCE
    }

    /// Errands of a share that may be under way with a node. Each takes a permit until the node has answered, or was waited for.
    pub fn most_errands(&self, now: Instant, state: &Snapshot, shard: ShardId, node: NodeId, share: Share) -> usize {
        let is_up = self.is_new(now) || !self.is_silent(now, state, shard, node);
        if is_up { share.permits_of_node() } else { MAX_SILENT_ERRANDS }
    }

    fn heard_of(&self, now: Instant, state: &Snapshot, shard: ShardId) -> BTreeMap<NodeId, Heard> {
        let is_new = self.is_new(now);
        let nodes = state.nodes().map(|node| node.id);
        let heard = nodes.map(|node| {
            let machine = self.heard.get(&node).map(|word| word.machine).unwrap_or_default();
            (node, Heard { is_up: is_new || !self.is_silent(now, state, shard, node), machine })
        });
        heard.collect()
    }

    /// Nodes and devices are to be looked at anew at the next tick.
    pub fn forget_stock(&mut self) {
        self.stock = None;
    }

    /// Whether the manager knows of other space than when it was looked at. It is asked with every command of the unit: looking is for when the
    /// manager's state is another one.
    pub fn is_space_other(&mut self, state: &Snapshot) -> bool {
        if self.stock.is_none() || std::mem::replace(&mut self.space_as_of, state.applied()) == state.applied() {
            return false;
        }
        !self.space.iter().copied().eq(space_of(state))
    }

    /// Whether a copy found no place since this was asked last, though there is space to be had.
    pub fn takes_lack(&mut self, now: Instant) -> bool {
        let is_lacking = self.placing.takes_lack();
        if is_lacking {
            self.looked_for_idle = Some(now);
        }
        is_lacking
    }

    /// Whether to look for bulks to give back: now and then, and not where space was lacking a moment ago.
    pub fn looks_for_idle(&mut self, now: Instant) -> bool {
        let is_due = self.looked_for_idle.is_none_or(|at| now.saturating_duration_since(at) >= IDLE_LOOK);
        if is_due {
            self.looked_for_idle = Some(now);
        }
        is_due
    }

    /// Looks at nodes and devices anew if it is time for that; whether it was.
    pub fn take_stock(&mut self, now: Instant, state: &Snapshot, unit: &MaintenanceUnit) -> bool {
        if self.stock.is_some_and(|at| now.saturating_duration_since(at) < STOCK_AGE) {
            return false;
        }
        self.stock = Some(now);
        if now.saturating_duration_since(self.refusals_since) >= REFUSAL_REST {
            self.refusals_since = now;
            self.placing.forget_refused();
        }
        (self.space, self.space_as_of) = (space_of(state).collect(), state.applied());
        let heard = self.heard_of(now, state, unit.shard());
        let stuck = state.volumes().map(|volume| volume.device).filter(|device| self.is_stuck(state, *device)).collect();
        let rooms = state.volumes().map(|volume| (volume.device, self.blocks_left(state, volume.device))).collect();
        self.placing.take_stock(state, unit, (stuck, rooms), |node| heard.get(&node).copied().unwrap_or_default());
        true
    }

    /// A relocation that needs another target: its own has no room, is lost, or does not answer.
    pub fn retarget(
        &mut self,
        now: Instant,
        state: &Snapshot,
        unit: &MaintenanceUnit,
        asked: Move,
        random: &mut Random<'_>,
    ) -> Option<Order> {
        let Move { id, from, to, is_lost, .. } = asked;
        to.into_iter().for_each(|to| self.placing.note_refused(to));
        // It can't be given up: it goes where it can.
        let leaving = Leaving { from, is_lost, may_stay: from.is_some() };
        let other = self.relocation(state, unit, id, leaving, random);
        // Of the placers that look at no loads some name the same node again.
        let is_good = |command: &ChunkCommand| match command {
            ChunkCommand::Relocate(Relocation { to: Some(to), .. }) => self.is_up(state, *to),
            _ => false,
        };
        match (other.filter(is_good), from) {
            (Some(other), _) => Some(Order::Propose(other)),
            (None, None) => Some(give_up_growth(id)),
            (None, Some(from)) if is_lost => self.give_up_place(now, state, unit, id, from),
            (None, Some(_)) => None,
        }
    }

    /// Whether the node of a place was heard of lately.
    fn is_up(&self, state: &Snapshot, place: BlockPlace) -> bool {
        node_of(state, place).is_some_and(|node| self.placing.is_up(node))
    }

    /// To where a copy can go: not to a host that has one.
    pub fn relocation(
        &mut self,
        state: &Snapshot,
        unit: &MaintenanceUnit,
        id: ChunkId,
        leaving: Leaving,
        random: &mut Random<'_>,
    ) -> Option<ChunkCommand> {
        let Leaving { from, is_lost, may_stay } = leaving;
        let (places, bytes) = (unit.places_of(id)?, unit.bytes_of(id)?);
        let stays = places.iter().filter(|place| Some(*place) != from);
        let stays: Vec<NodeId> = stays.filter_map(|place| state.device(place.device())?.node).collect();
        let wanted = Wanted { bytes, chunk: id.nonce.0 };
        let elsewhere = self.placing.choose_target(unit, wanted, &stays, from, false, random);
        let to = match elsewhere {
            None if may_stay => self.placing.choose_target(unit, wanted, &stays, from, true, random)?,
            elsewhere => elsewhere?,
        };
        // Relocations are few: what is promised beyond them comes back at once.
        self.placing.settle([to], bytes);
        Some(ChunkCommand::Relocate(Relocation { id, from, to: Some(to), is_lost }))
    }
}

/// What was to be one copy more is none.
fn give_up_growth(id: ChunkId) -> Order {
    env::mark("chunks: a growth given up");
    Order::Propose(ChunkCommand::Relocate(Relocation { id, from: None, to: None, is_lost: false }))
}

fn space_of(state: &Snapshot) -> impl Iterator<Item = (DeviceId, u32, u32)> {
    state.volumes().map(|volume| (volume.device, volume.blocks, volume.free_blocks()))
}

/// The node that has a place's device.
fn node_of(state: &Snapshot, place: BlockPlace) -> Option<NodeId> {
    state.device(place.device())?.node
}

/// A node that has not reported to a shard for so long is taken for away.
fn silence(state: &Snapshot, shard: ShardId, node: NodeId) -> Duration {
    let reports_rarely = state.shard(shard.0).is_some_and(|shard| !shard.is_open && !shard.hosts.contains(&node));
    if reports_rarely { CLOSED_SILENCE } else { NODE_SILENCE }
}

/// How the leader's machine names a host.
pub fn host_of(node: NodeId) -> Host {
    Host(node.0)
}

/// Puts proposals about single copies together: one command of the log for many.
pub fn gather(orders: Vec<Order>) -> Vec<Order> {
    let (mut erased, mut forgotten): (Vec<CopyOf>, Vec<FormerCopy>) = (Vec::new(), Vec::new());
    let mut others = Vec::with_capacity(orders.len());
    for order in orders {
        match order {
            Order::Propose(ChunkCommand::Erased(copies)) => erased.extend(copies),
            Order::Propose(ChunkCommand::Forgotten(copies)) => forgotten.extend(copies),
            other => others.push(other),
        }
    }
    let limit = format::chunk_command::MAX_COMMAND_ITEMS;
    others.extend(erased.chunks(limit).map(|copies| Order::Propose(ChunkCommand::Erased(copies.to_vec()))));
    others.extend(forgotten.chunks(limit).map(|copies| Order::Propose(ChunkCommand::Forgotten(copies.to_vec()))));
    others
}
