//! One shard's state and what its steps put out.

use super::message::{FreezeId, Message, ReadId};
use crate::index::{HashBits, Located, ShardIndex};
use format::entry::Entry;
use format::record::WriteId;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use types::{GatewayId, KeyHash};

/// Most writes of one key that wait for their turn at one gateway; more are refused as busy.
pub const MAX_QUEUED_WRITES_PER_KEY: usize = 1024;

/// The members of a cell's view, as one of them sees it.
#[derive(Clone, Debug)]
pub struct Cell {
    me: GatewayId,
    others: Vec<GatewayId>,
    all: Vec<GatewayId>,
}

impl Cell {
    /// `members` includes `me`.
    pub fn new(me: GatewayId, mut members: Vec<GatewayId>) -> Self {
        members.sort_unstable();
        members.dedup();
        assert!(members.contains(&me), "a gateway is a member of its own view");
        let others = members.iter().copied().filter(|member| *member != me).collect();
        Cell { me, others, all: members }
    }

    pub fn me(&self) -> GatewayId {
        self.me
    }

    pub fn others(&self) -> &[GatewayId] {
        &self.others
    }

    /// The member that serialises the freezes of a key (decision 18).
    pub fn home(&self, hash: &KeyHash) -> GatewayId {
        self.all[hash.placement_bits() as usize % self.all.len()]
    }
}

/// A gateway's counter of writes, reads and freezes, shared by its shards. Starts above everything an earlier incarnation used.
#[derive(Debug)]
pub struct SequenceSource(AtomicU64);

impl SequenceSource {
    pub fn starting_at(first: u64) -> Self {
        SequenceSource(AtomicU64::new(first))
    }

    /// Draws a number.
    pub fn draw(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// What the shell has to do, in this order.
#[derive(Debug, PartialEq, Eq)]
pub enum Output<Op> {
    /// It is this write's turn: append its record, or evaluate its condition against `newest` and append or withdraw.
    Dispatch { op: Op, write: WriteId, newest: Option<Located> },
    /// The write is durable, published and may be acknowledged. `replaced` is the record that is garbage now.
    Acknowledge { op: Op, entry: Entry, replaced: Option<Located> },
    /// A write made elsewhere is published.
    Published { entry: Entry, replaced: Option<Located> },
    /// The read's answer: the newest record, a tombstone, or nothing.
    Answer { op: Op, newest: Option<Located> },
    /// A message for another gateway.
    Send { to: GatewayId, message: Message },
}

/// A list of outputs; a write of a one-gateway cell makes at most two.
pub type Outputs<Op> = SmallVec<[Output<Op>; 2]>;

/// The protocol state of one shard of keys at one gateway. `Op` names an operation to the shell.
pub struct Shard<Op> {
    pub(super) cell: Arc<Cell>,
    pub(super) sequences: Arc<SequenceSource>,
    pub(super) index: ShardIndex,
    /// Keys with something going on; all others are stable.
    pub(super) keys: hashbrown::HashMap<KeyHash, KeyState<Op>, HashBits>,
}

impl<Op: Clone> Shard<Op> {
    pub fn new(cell: Arc<Cell>, sequences: Arc<SequenceSource>, index: ShardIndex) -> Self {
        Shard { cell, sequences, index, keys: hashbrown::HashMap::with_hasher(HashBits) }
    }

    /// The index: for checkpoints, relocations and statistics. Reads of clients go through [`Shard::read`].
    pub fn index(&self) -> &ShardIndex {
        &self.index
    }

    pub fn index_mut(&mut self) -> &mut ShardIndex {
        &mut self.index
    }

    /// Takes in a message of another gateway.
    pub fn receive(&mut self, from: GatewayId, message: Message, out: &mut Outputs<Op>) {
        match message {
            Message::Announce { hash, write } => self.announced_by_peer(from, hash, write, out),
            Message::Announced { hash, write } => self.announcement_held(from, hash, write, out),
            Message::Conclude { hash, write, entry, freeze } => {
                self.concluded_by_peer(hash, write, entry, out);
                if let Some(freeze) = freeze {
                    self.freeze_ended(from, hash, freeze, out);
                }
                self.next_turn(hash, out);
                self.answer_freeze(hash, out);
            }
            Message::Ask { hash, read } => self.asked(from, hash, read, out),
            Message::Told { hash, read, newest } => self.told(from, hash, read, newest, out),
            Message::FreezeAsk { hash, freeze } => self.freeze_asked(from, hash, freeze, out),
            Message::Freeze { hash, holder, freeze } => self.freeze(hash, holder, freeze, out),
            Message::Frozen { hash, freeze, newest } => self.frozen(from, hash, freeze, newest, out),
        }
    }

    /// Drops a key's state when nothing is going on any more.
    pub(super) fn retire(&mut self, hash: &KeyHash) {
        if self.keys.get(hash).is_some_and(KeyState::is_idle) {
            self.keys.remove(hash);
        }
    }

    pub(super) fn state(&mut self, hash: &KeyHash) -> &mut KeyState<Op> {
        self.keys.entry(*hash).or_default()
    }
}

/// What is going on at one key.
pub(super) struct KeyState<Op> {
    /// The write whose turn it is.
    pub active: Option<Active<Op>>,
    /// Writes that wait for their turn, in order of arrival.
    pub queue: VecDeque<Waiting<Op>>,
    /// What the other gateways are doing; absent in a one-gateway cell.
    pub peers: Option<Box<PeerState<Op>>>,
}

pub(super) struct Waiting<Op> {
    pub op: Op,
    pub exclusive: bool,
}

pub(super) struct Active<Op> {
    pub op: Op,
    pub write: WriteId,
    pub stage: Stage,
}

pub(super) enum Stage {
    /// An exclusive write waits until every member has stopped.
    Freezing { freeze: FreezeId, missing: Vec<GatewayId>, newest: Option<Located> },
    /// Appends and announcements are under way.
    Writing { freeze: Option<FreezeId>, unheard: Vec<GatewayId>, durable: Option<Entry> },
}

/// The part of a key's state that exists only with other gateways around.
pub(super) struct PeerState<Op> {
    /// Writes announced by others and not concluded.
    pub announced: Vec<WriteId>,
    /// Reads of ours that wait for others' answers.
    pub reads: Vec<PendingRead<Op>>,
    /// Others' reads that wait until all members hold our announcement.
    pub asks: Vec<(GatewayId, ReadId)>,
    /// Freezes granted to others and not over, in the order of their grants; at most the first is answered.
    pub frozen: Vec<Frozen>,
    /// If this gateway is the key's home: who holds the freeze and who waits for it.
    pub home_holder: Option<(GatewayId, FreezeId)>,
    pub home_queue: VecDeque<(GatewayId, FreezeId)>,
}

pub(super) struct PendingRead<Op> {
    pub op: Op,
    pub read: ReadId,
    pub missing: Vec<GatewayId>,
    pub newest: Option<Located>,
}

pub(super) struct Frozen {
    pub holder: GatewayId,
    pub freeze: FreezeId,
    pub answered: bool,
}

impl<Op> Default for KeyState<Op> {
    fn default() -> Self {
        KeyState { active: None, queue: VecDeque::new(), peers: None }
    }
}

impl<Op> KeyState<Op> {
    fn is_idle(&self) -> bool {
        self.active.is_none() && self.queue.is_empty() && self.peers.as_ref().is_none_or(|peers| peers.is_idle())
    }

    pub(super) fn peers(&mut self) -> &mut PeerState<Op> {
        self.peers.get_or_insert_with(|| {
            Box::new(PeerState {
                announced: Vec::new(),
                reads: Vec::new(),
                asks: Vec::new(),
                frozen: Vec::new(),
                home_holder: None,
                home_queue: VecDeque::new(),
            })
        })
    }

    /// Whether another member has been told that no write of this gateway is dispatched.
    pub(super) fn has_stopped(&self) -> bool {
        self.peers.as_ref().is_some_and(|peers| peers.frozen.iter().any(|frozen| frozen.answered))
    }
}

impl<Op> PeerState<Op> {
    fn is_idle(&self) -> bool {
        self.announced.is_empty()
            && self.reads.is_empty()
            && self.asks.is_empty()
            && self.frozen.is_empty()
            && self.home_holder.is_none()
            && self.home_queue.is_empty()
    }
}
