//! What a node keeps while it leads a unit. All of it can be derived from the unit's state and the manager's, and is by the next leader.

use std::collections::{BTreeMap, BTreeSet};

use consensus::Term;
use env::Instant;
use format::chunk_command::{ChunkCommand, CopyOf, Relocation};
use format::chunk_id::ChunkId;
use format::chunk_place::BlockPlace;
use manager::Snapshot;
use tokio::sync::oneshot;
use types::{DeviceId, NodeId};

use super::link::Link;
use super::placing::{Placing, Wanted};
use crate::leader::{CommitTag, Errand, Host, Leader, Order};
use crate::limits::{LOSS_WAIT, MAX_REPAIRS, NODE_SILENCE, STOCK_AGE};
use crate::lookup::Received;
use crate::maintenance::{Applied, Duty, MaintenanceUnit, Move};
use crate::placement::{PlacerChoice, Random};

/// Names an errand to a node.
pub type ErrandKey = (Errand, ChunkId, BlockPlace);

/// A leadership.
pub struct Leading {
    pub term: Term,
    began: Instant,
    /// When nodes and devices were looked at last.
    stock: Option<Instant>,
    /// The space that there was then: device, blocks, granted blocks.
    space: Vec<(DeviceId, u32, u32)>,
    pub leader: Leader,
    pub placing: Placing,
    pub links: BTreeMap<Host, Link>,
    /// When each node was heard last.
    heard: BTreeMap<NodeId, Instant>,
    /// Errands that have no answer yet: they are not sent twice meanwhile.
    pub under_way: BTreeSet<ErrandKey>,
    commits: BTreeMap<CommitTag, oneshot::Sender<()>>,
    next_tag: u64,
    /// Devices that the manager has forgotten, since this was seen here: their nodes may answer for a while.
    forgotten: BTreeMap<DeviceId, Instant>,
    /// Those among them about which nobody answers any more, and whether copies may be left there.
    lost: BTreeMap<DeviceId, bool>,
}

impl Leading {
    pub fn new(now: Instant, term: Term, leader: Leader, placer: PlacerChoice) -> Self {
        Leading {
            term,
            began: now,
            stock: None,
            space: Vec::new(),
            leader,
            placing: Placing::new(placer),
            links: BTreeMap::new(),
            heard: BTreeMap::new(),
            under_way: BTreeSet::new(),
            commits: BTreeMap::new(),
            next_tag: 0,
            forgotten: BTreeMap::new(),
            lost: BTreeMap::new(),
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
    pub fn reported(&mut self, now: Instant, node: NodeId, host: Option<Received>) -> Vec<Order> {
        self.heard.insert(node, now);
        host.map_or_else(Vec::new, |received| self.leader.reported(host_of(node), received))
    }

    /// Whether a node was not heard of lately.
    pub fn is_silent(&self, now: Instant, node: NodeId) -> bool {
        self.heard.get(&node).is_none_or(|at| now.saturating_duration_since(*at) >= NODE_SILENCE)
    }

    /// Nodes and devices are to be looked at anew at the next tick.
    pub fn forget_stock(&mut self) {
        self.stock = None;
    }

    /// Whether the manager knows of other space than when it was looked at.
    pub fn is_space_other(&self, state: &Snapshot) -> bool {
        self.stock.is_some() && !self.space.iter().copied().eq(space_of(state))
    }

    /// Looks at nodes and devices anew if it is time for that; whether it was.
    pub fn take_stock(&mut self, now: Instant, state: &Snapshot, unit: &MaintenanceUnit) -> bool {
        if self.stock.is_some_and(|at| now.saturating_duration_since(at) < STOCK_AGE) {
            return false;
        }
        self.stock = Some(now);
        self.space = space_of(state).collect();
        let is_recent = |at: Instant| now.saturating_duration_since(at) < NODE_SILENCE;
        // Nobody has had the time to report to a new leader.
        let (is_new, heard) = (is_recent(self.began), &self.heard);
        let is_up = |node| is_new || heard.get(&node).is_some_and(|at| is_recent(*at));
        self.placing.take_stock(state, unit, is_up);
        true
    }

    /// Notes devices that the manager has forgotten; repairs of some chunks that had copies there.
    pub fn repair(&mut self, now: Instant, state: &Snapshot, unit: &MaintenanceUnit, random: &mut Random<'_>) -> Vec<Order> {
        for (device, ..) in unit.grants().into_iter().filter(|(device, ..)| state.device(*device).is_none()) {
            let since = *self.forgotten.entry(device).or_insert(now);
            if now.saturating_duration_since(since) >= LOSS_WAIT && !self.lost.contains_key(&device) {
                self.leader.lose(device);
                self.lost.insert(device, true);
            }
        }
        let mut orders = self.rescue_moves(state, unit, random);
        let left: Vec<DeviceId> = self.lost.iter().filter(|(_, is_left)| **is_left).map(|(device, _)| *device).collect();
        for device in left {
            self.lost.insert(device, unit.copies_on(device).next().is_some());
            // What is moving is looked after above; what ends needs no copy.
            let at_rest = unit.copies_on(device).filter(|(id, _)| unit.is_at_rest(*id));
            for (id, from) in at_rest.take(MAX_REPAIRS).collect::<Vec<_>>() {
                orders.extend(self.move_from(state, unit, id, from, true, random));
            }
        }
        orders
    }

    /// Relocations that can't go on: their source, or their target, is lost meanwhile.
    fn rescue_moves(&mut self, state: &Snapshot, unit: &MaintenanceUnit, random: &mut Random<'_>) -> Vec<Order> {
        if self.lost.is_empty() {
            return Vec::new();
        }
        let mut orders = Vec::new();
        for duty in unit.duties() {
            let Duty::Move(told) = duty else { continue };
            let is_lost = |place: BlockPlace| self.lost.contains_key(&place.device());
            let asked = Move { is_lost: told.is_lost || is_lost(told.from), ..told };
            if is_lost(asked.to) {
                orders.extend(self.retarget(state, unit, asked, random));
            } else if asked.is_lost && !told.is_lost {
                // To the same target: it only says that.
                let Move { id, from, to, is_lost, .. } = asked;
                orders.push(Order::Propose(ChunkCommand::Relocate(Relocation { id, from, to, is_lost })));
            }
        }
        orders
    }

    /// A relocation that needs another target.
    pub fn retarget(
        &mut self,
        state: &Snapshot,
        unit: &MaintenanceUnit,
        asked: Move,
        random: &mut Random<'_>,
    ) -> Option<Order> {
        let bytes = unit.bytes_of(asked.id)?;
        let to = self.target(state, unit, (asked.id, asked.from), bytes, random)?;
        let Move { id, from, is_lost, .. } = asked;
        Some(Order::Propose(ChunkCommand::Relocate(Relocation { id, from, to, is_lost })))
    }

    /// Begins a relocation unless one is under way.
    fn move_from(
        &mut self,
        state: &Snapshot,
        unit: &MaintenanceUnit,
        id: ChunkId,
        from: BlockPlace,
        is_lost: bool,
        random: &mut Random<'_>,
    ) -> Option<Order> {
        if !unit.is_at_rest(id) {
            return None;
        }
        let bytes = unit.bytes_of(id)?;
        let to = self.target(state, unit, (id, from), bytes, random)?;
        Some(Order::Propose(ChunkCommand::Relocate(Relocation { id, from, to, is_lost })))
    }

    /// Where a copy can go: not to a host that has one.
    pub fn target(
        &mut self,
        state: &Snapshot,
        unit: &MaintenanceUnit,
        (id, from): (ChunkId, BlockPlace),
        bytes: u32,
        random: &mut Random<'_>,
    ) -> Option<BlockPlace> {
        let places = unit.places_of(id)?;
        let stays = places.iter().filter(|place| *place != from);
        let stays: Vec<NodeId> = stays.filter_map(|place| state.device(place.device())?.node).collect();
        let wanted = Wanted { bytes, chunk: id.nonce.0 };
        let to = self.placing.choose_target(unit, wanted, &stays, from.device(), random)?;
        // Relocations are few: what is promised beyond them comes back at once.
        self.placing.settle([to], bytes);
        Some(to)
    }
}

fn space_of(state: &Snapshot) -> impl Iterator<Item = (DeviceId, u32, u32)> {
    state.volumes().map(|volume| (volume.device, volume.blocks, volume.granted_blocks()))
}

/// How the leader's machine names a host.
pub fn host_of(node: NodeId) -> Host {
    Host(node.0)
}

/// Puts proposals about single copies together: one command of the log for many.
pub fn gather(orders: Vec<Order>) -> Vec<Order> {
    let (mut erased, mut forgotten): (Vec<CopyOf>, Vec<CopyOf>) = (Vec::new(), Vec::new());
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
