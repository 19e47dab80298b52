//! What leads a maintenance unit: it publishes what is applied, holds back answers until a lookup host has it, and does what the state
//! obliges to (RFD 11, rules 4, 11 and 12).
//!
//! A machine without I/O over a unit that consensus replicates. It has nothing that a new leader would miss: hosts tell it how far they are,
//! duties are in the unit's state, and requests are such that doing them again does no harm.

mod lost;
mod relocation;

pub use lost::Lost;

use std::collections::{BTreeMap, BTreeSet};

use format::chunk_block::Era;
use format::chunk_command::{ChunkCommand, CopyOf, FormerCopy};
use format::chunk_id::{ChunkId, ChunkNumber};
use format::chunk_place::{BlockPlace, ChunkPlaces};
use format::chunk_update::{LookupChange, LookupUpdate, Stream};
use types::DeviceId;

use crate::lookup::{Progress, Received};
use crate::maintenance::{Applied, Duty, MaintenanceUnit, Move};
use crate::message::{NodeAnswer, NodeRefusal, NodeRequest, Resolved, ToNode};
use crate::publisher::{Begins, PublishError, Publisher};
use relocation::Driver;

/// One of the hosts of the shard's lookup units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host(pub u32);

/// Names a client's request to commit, for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitTag(pub u64);

/// Why a node was asked: comes back with the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Errand {
    Erase,
    Forget {
        era: Era,
        resolved: Resolved,
    },
    /// A given up target, or a copy that is there again though it had ended, is to depart; then it is forgotten.
    Discard {
        era: Era,
        resolved: Resolved,
    },
    /// Whether the copy is there, and of the places that the unit has: of this era, or a later one.
    Audit {
        era: Era,
    },
    /// A step of a relocation, or of another change of places.
    Move {
        relocation: u64,
        step: MoveStep,
    },
    /// The content of another copy is to be written to it again. Of the shell's own accord.
    Mend,
}

/// Steps of a relocation, in their order; those of different copies that stay go side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MoveStep {
    Discard,
    Raise,
    Depart,
    Take,
    Bring,
}

/// What the shell does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    Propose(ChunkCommand),
    Node {
        errand: Errand,
        to: ToNode,
    },
    Host {
        host: Host,
        update: LookupUpdate,
    },
    /// The relocation's target has no room for it: somebody shall choose another.
    NeedsTarget(Move),
    /// All is durable, and a host has it.
    Committed(CommitTag),
}

/// How far a host is, as far as the leader knows.
#[derive(Clone, Copy, Debug, Default)]
struct Followed {
    /// The newest that it has said.
    progress: Option<Progress>,
    /// What its last report said.
    reported: Option<Progress>,
    /// The newest snapshot that is on its way there: one is as large as the shard may become, and answers everything that was said before it.
    awaited: Option<SnapshotPlace>,
}

/// Where in which stream a snapshot stands.
pub type SnapshotPlace = (Stream, u64);

/// The leader's side of a unit.
pub struct Leader {
    publisher: Publisher,
    hosts: BTreeMap<Host, Followed>,
    waiting: BTreeSet<(ChunkNumber, CommitTag)>,
    moves: BTreeMap<u64, Driver>,
    lost: Lost,
}

impl Leader {
    /// Begins to lead: builds the table from the state and its pages, and gives every host its snapshot, of a stream that no host has heard of.
    pub fn begin(
        unit: &MaintenanceUnit,
        entries: impl Iterator<Item = (ChunkId, ChunkPlaces)>,
        begins: Begins,
        seed: u64,
        hosts: &BTreeSet<Host>,
    ) -> Result<(Self, Vec<Order>), PublishError> {
        let publisher = Publisher::new(unit, entries, begins, seed)?;
        let (waiting, moves, lost) = (BTreeSet::new(), BTreeMap::new(), Lost::default());
        let mut leader = Leader { publisher, hosts: BTreeMap::new(), waiting, moves, lost };
        let orders = leader.set_hosts(hosts);
        Ok((leader, orders))
    }

    /// The stream of the newest update.
    pub fn stream(&self) -> Stream {
        self.publisher.place().0
    }

    /// How far hosts are that have heard everything.
    #[cfg(test)]
    pub fn published(&self) -> SnapshotPlace {
        self.publisher.place()
    }

    /// These are the shard's hosts from now on: new ones get their snapshot.
    pub fn set_hosts(&mut self, hosts: &BTreeSet<Host>) -> Vec<Order> {
        self.hosts.retain(|host, _| hosts.contains(host));
        let new: Vec<Host> = hosts.iter().filter(|host| !self.hosts.contains_key(host)).copied().collect();
        self.hosts.extend(new.iter().map(|host| (*host, Followed::default())));
        new.into_iter().filter_map(|host| self.snapshot_for(host)).collect()
    }

    /// None while one is on its way there.
    fn snapshot_for(&mut self, host: Host) -> Option<Order> {
        let known = self.hosts.get_mut(&host).filter(|known| known.awaited.is_none())?;
        known.awaited = Some(self.publisher.place());
        Some(Order::Host { host, update: self.publisher.snapshot() })
    }

    /// A device is lost for good: its lease has ended, and nobody will read there any more. Each leader must be told; whether it is news.
    pub fn lose(&mut self, device: DeviceId) -> bool {
        self.lost.add_device(device)
    }

    /// A block is lost for good: its node has condemned it. Each leader must be told; whether it is news.
    pub fn lose_block(&mut self, place: BlockPlace) -> bool {
        self.lost.add_block(place)
    }

    pub fn lost(&self) -> &Lost {
        &self.lost
    }

    /// A command was applied to the unit. Commands are told in their order; the unit may be further than this one.
    pub fn applied(&mut self, applied: &Applied) -> Result<Vec<Order>, PublishError> {
        let mut orders = Vec::new();
        for change in &applied.changes {
            for update in self.publisher.publish(applied.next, change)? {
                if matches!(update.change, LookupChange::Snapshot(_)) {
                    let place = (update.stream, update.number);
                    self.hosts.values_mut().for_each(|known| known.awaited = Some(place));
                }
                orders.extend(self.hosts.keys().map(|host| Order::Host { host: *host, update: update.clone() }));
            }
        }
        if applied.is_sealed {
            self.publisher.seal();
        }
        Ok(orders)
    }

    /// A client's commit was applied and is to be answered when a host has the chunk.
    pub fn committed(&mut self, id: ChunkId, tag: CommitTag) -> Vec<Order> {
        self.waiting.insert((id.number, tag));
        self.answer_commits()
    }

    /// A host has said what became of a message.
    pub fn heard(&mut self, host: Host, received: Received) -> Vec<Order> {
        let Some(known) = self.hosts.get_mut(&host) else { return Vec::new() };
        match received {
            Received::NeedsSnapshot(_) => {
                *known = Followed { awaited: known.awaited, ..Followed::default() };
                self.snapshot_for(host).into_iter().collect()
            }
            Received::Held(progress) => {
                known.awaited = known.awaited.filter(|awaited| *awaited > progress.place());
                if known.progress.is_none_or(|known| known.place() < progress.place()) {
                    known.progress = Some(progress);
                }
                self.answer_commits()
            }
        }
    }

    /// The way to a host is done with a snapshot, whether it arrived or not. What the host says after that can lead to another.
    pub fn snapshot_over(&mut self, host: Host, snapshot: SnapshotPlace) {
        if let Some(known) = self.hosts.get_mut(&host) {
            known.awaited = known.awaited.filter(|awaited| *awaited > snapshot);
        }
    }

    /// A host has said of its own accord how far it is. One that is behind, and as far as at its last report, has lost something that
    /// nothing has followed.
    pub fn reported(&mut self, host: Host, received: Received) -> Vec<Order> {
        let mut orders = self.heard(host, received);
        let own = self.publisher.place();
        if let (Received::Held(progress), Some(known)) = (received, self.hosts.get_mut(&host)) {
            let before = known.reported.replace(progress);
            if progress.place() < own && before == Some(progress) {
                orders.extend(self.snapshot_for(host));
            }
        }
        orders
    }

    fn answer_commits(&mut self) -> Vec<Order> {
        let horizon =
            self.hosts.values().filter_map(|host| host.progress).map(|progress| progress.horizon).max().unwrap_or_default();
        let mut orders = Vec::new();
        while let Some((number, tag)) = self.waiting.first().copied()
            && number < horizon
        {
            self.waiting.pop_first();
            orders.push(Order::Committed(tag));
        }
        orders
    }

    /// Asks for everything that there is to do; the shell calls it now and then.
    pub fn tick(&mut self, unit: &MaintenanceUnit) -> Vec<Order> {
        let mut orders = Vec::new();
        let mut moving = BTreeSet::new();
        for duty in unit.duties() {
            if let Some(command) = self.without_node(&duty) {
                orders.push(Order::Propose(command));
                continue;
            }
            match duty {
                Duty::Erase { copy, era, moves } => {
                    orders.push(errand(Errand::Erase, copy, NodeRequest::Erase { era, moves }));
                }
                Duty::Forget { copy, era, resolved } => {
                    orders.push(forget(copy, era, resolved));
                }
                Duty::Discard { copy, era, resolved } => orders.push(discard(copy, era, resolved)),
                Duty::Move(asked) => {
                    moving.insert(asked.relocation);
                    let begin = || Driver::new(asked, unit.left_behind(asked.id));
                    let driver = self.moves.entry(asked.relocation).or_insert_with(begin);
                    driver.hear(asked, &self.lost);
                    orders.extend(driver.orders(&self.lost));
                }
            }
        }
        self.moves.retain(|relocation, _| moving.contains(relocation));
        orders
    }

    /// Where a relocation goes to.
    pub fn target_of(&self, relocation: u64) -> Option<BlockPlace> {
        self.moves.get(&relocation)?.target()
    }

    /// Whether a relocation's content is in memory.
    pub fn holds_content(&self, relocation: u64) -> bool {
        self.moves.get(&relocation).is_some_and(Driver::holds_content)
    }

    /// A relocation's content was not taken, or will not be now: it is asked for again after a rest.
    pub fn let_go(&mut self, relocation: u64) {
        self.moves.get_mut(&relocation).into_iter().for_each(Driver::let_go);
    }

    /// Whether a chunk is being relocated none of whose copies has anything to bring: it ends with the chunk, or when one can be read again.
    pub fn has_nothing_to_bring(&self, id: ChunkId) -> bool {
        self.moves.values().any(|driver| driver.has_nothing_for(id))
    }

    /// What is done already, because the copy is lost.
    fn without_node(&self, duty: &Duty) -> Option<ChunkCommand> {
        let is_lost = |copy: &CopyOf| self.lost.holds(copy.place);
        match duty {
            Duty::Erase { copy, .. } if is_lost(copy) => Some(ChunkCommand::Erased(vec![*copy])),
            Duty::Forget { copy, era, .. } | Duty::Discard { copy, era, .. } if is_lost(copy) => {
                Some(ChunkCommand::Forgotten(vec![FormerCopy { copy: *copy, era: *era }]))
            }
            _ => None,
        }
    }

    /// A node has answered an errand.
    pub fn answered(&mut self, errand: Errand, id: ChunkId, place: BlockPlace, answer: &NodeAnswer) -> Vec<Order> {
        let copy = CopyOf { id, place };
        match (errand, answer) {
            (Errand::Erase, NodeAnswer::Done(_)) => vec![Order::Propose(ChunkCommand::Erased(vec![copy]))],
            (Errand::Forget { era, .. }, NodeAnswer::Done(_)) => {
                vec![Order::Propose(ChunkCommand::Forgotten(vec![FormerCopy { copy, era }]))]
            }
            // Its end stood in the newest header of its block, and that has rotted: what it was before is there again. No copy of this era
            // is anybody's any more.
            (Errand::Forget { era, resolved }, NodeAnswer::Refused(NodeRefusal::InUse)) => {
                vec![discard(copy, era, resolved)]
            }
            (Errand::Discard { era, resolved }, NodeAnswer::Departed | NodeAnswer::Absent | NodeAnswer::Dead { .. }) => {
                vec![forget(copy, era, resolved)]
            }
            // It was deleted meanwhile. Its node's reports may never come to say so: they name the lowest of the dead first, which wait to be forgotten until
            // relocations that began before have ended, this one among them.
            (Errand::Move { .. }, NodeAnswer::Dead { .. }) => vec![Order::Propose(ChunkCommand::Freed(vec![id]))],
            (Errand::Move { relocation, step }, _) => {
                self.moves.get_mut(&relocation).map_or_else(Vec::new, |driver| driver.answered(step, place, answer, &self.lost))
            }
            _ => Vec::new(),
        }
    }
}

fn forget(copy: CopyOf, era: Era, resolved: Resolved) -> Order {
    errand(Errand::Forget { era, resolved }, copy, NodeRequest::Forget { era, resolved })
}

/// Has a copy depart, whatever it is; then it can be forgotten.
fn discard(copy: CopyOf, era: Era, resolved: Resolved) -> Order {
    errand(Errand::Discard { era, resolved }, copy, NodeRequest::Depart { era: era.just_after() })
}

fn errand(errand: Errand, copy: CopyOf, request: NodeRequest) -> Order {
    Order::Node { errand, to: ToNode { place: copy.place, id: copy.id, request } }
}

#[cfg(test)]
mod tests;
