//! One shard's state and what its steps put out.

use super::cell::{Cell, SequenceSource};
use super::message::{CellMessage, FreezeId, Message, ReadId};
use super::view::Change;
use super::write::NewerOf;
use crate::index::{HashBits, Located, ShardIndex};
use format::entry::Entry;
use format::record::WriteId;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;
use types::{GatewayId, KeyHash, ViewNumber};

/// Most writes of one key that wait for their turn at one gateway; more are refused as busy.
pub const MAX_QUEUED_WRITES_PER_KEY: usize = 1024;

/// What the shell has to do, in this order.
#[derive(Debug, PartialEq, Eq)]
pub enum Output<Op> {
    /// It is this write's turn: append its record, or evaluate its condition against `newest` and append or withdraw.
    Dispatch { op: Op, write: WriteId, newest: Option<Located> },
    /// The write is durable, published and may be acknowledged. `replaced` is the record that is garbage now.
    Acknowledge { op: Op, entry: Entry, replaced: Option<Located> },
    /// Read-after-write: the write is durable and published here; it is acknowledged when the others have published it.
    PublishOwn { op: Op, entry: Entry, replaced: Option<Located> },
    /// [`Message::Publish`] for another gateway. It names the operation, which has what lists say of the write.
    Spread { op: Op, entry: Entry, to: GatewayId, view: ViewNumber },
    /// Every member has published what [`Output::PublishOwn`] named: it may be acknowledged.
    AcknowledgeOwn { op: Op, entry: Entry, replaced: Option<Located> },
    /// A write made elsewhere is published.
    Published { entry: Entry, replaced: Option<Located> },
    /// A record that is known here stands where the leader that recovered it says, not where it was thought to be.
    Moved { entry: Entry, from: Located },
    /// The read's answer: the newest record, a tombstone, or nothing. It was looked up under `view`: it may leave only while the
    /// shell's lease permits reads of that view, asked after this output (RFD 5, rule 8).
    Answer { op: Op, newest: Option<Located>, view: ViewNumber },
    /// A message for another gateway.
    Send { to: GatewayId, message: Message },
    /// This shard holds what was recovered. Once all have said so, the leader is told.
    RecoveredHeld,
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
    /// A change of the view that is not over; nothing in normal life.
    pub(super) change: Option<Box<Change>>,
    /// The index has everything that members know. Of a gateway that joins it may, in between, have what was deleted long ago.
    pub(super) has_maps: bool,
}

impl<Op: Clone> Shard<Op> {
    pub fn new(cell: Arc<Cell>, sequences: Arc<SequenceSource>, index: ShardIndex) -> Self {
        Shard { cell, sequences, index, keys: hashbrown::HashMap::with_hasher(HashBits), change: None, has_maps: true }
    }

    /// The index: for checkpoints, relocations and statistics. Reads of clients go through [`Shard::read`].
    pub fn index(&self) -> &ShardIndex {
        &self.index
    }

    pub fn index_mut(&mut self) -> &mut ShardIndex {
        &mut self.index
    }

    /// Takes in a message of another gateway. One of a newer view than the installed one must wait on its stream.
    pub fn receive(&mut self, from: GatewayId, message: Message, out: &mut Outputs<Op>) {
        if let Some(view) = message.view() {
            assert!(view <= self.cell.number(), "a message of a view that is not installed");
            if view < self.cell.number() {
                return;
            }
        }
        match message {
            Message::Announce { hash, write, .. } => self.announced_by_peer(from, hash, write, out),
            Message::Announced { hash, write, .. } => self.announcement_held(from, hash, write, out),
            Message::Conclude { hash, write, entry, freeze } => {
                self.concluded_by_peer(hash, write, entry, out);
                if let Some(freeze) = freeze {
                    self.freeze_ended(from, hash, freeze, out);
                }
                self.go_on(hash, out);
            }
            Message::Publish { entry, .. } => self.publish_of_peer(from, entry, out),
            Message::HavePublished { hash, write, .. } => self.peer_has_published(from, hash, write, out),
            Message::Ask { hash, read } => self.asked(from, hash, read, out),
            Message::Told { hash, read, newest } => self.told(from, hash, read, newest, out),
            Message::FreezeAsk { hash, freeze, .. } => self.freeze_asked(from, hash, freeze, out),
            Message::Freeze { hash, holder, freeze, .. } => self.freeze(hash, holder, freeze, out),
            Message::Frozen { hash, freeze, newest, .. } => self.frozen(from, hash, freeze, newest, out),
            Message::Carry { hash, freeze, .. } => self.carry(from, hash, freeze),
            Message::Recovered { entry } => self.recovered_by(from, entry, out),
        }
    }

    /// Takes in a message about all keys. [`CellMessage::RecoveredHeld`] is the shell's own: it counts the members.
    pub fn receive_for_all(&mut self, from: GatewayId, message: &CellMessage, out: &mut Outputs<Op>) {
        assert!(message.view().is_none_or(|view| view <= self.cell.number()), "a message of a view that is not installed");
        match message {
            CellMessage::Carried { view } => self.carried(from, *view, out),
            CellMessage::AllRecovered { view } => self.all_recovered(*view, out),
            CellMessage::RecoveredHeld { .. } => {}
            CellMessage::Decided { gateways } => self.decided(gateways, out),
        }
    }

    /// Gives up everything that is going on: the gateway has left its cell. The operations are for the shell to end.
    pub fn abandon(&mut self) -> Vec<Op> {
        let mut ops = Vec::new();
        for (_, state) in self.keys.drain() {
            ops.extend(state.active.map(|active| active.op));
            ops.extend(state.queue.into_iter().map(|waiting| waiting.op));
            ops.extend(state.peers.into_iter().flat_map(|peers| peers.reads).map(|read| read.op));
        }
        ops
    }

    /// Enters a record into the index; what it replaces, or nothing is entered. Who gathers answers about the key learns of it: a delete may be forgotten
    /// before the last answer is there, and one that was given before it is older.
    pub(super) fn publish(&mut self, entry: Entry) -> Result<Option<Located>, Entry> {
        let replaced = self.index.publish(entry)?;
        let alone = self.cell.others().is_empty() && self.change.is_none();
        if !alone && let Some(state) = self.keys.get_mut(&entry.hash) {
            let gathered = state.peers.iter_mut().flat_map(|peers| &mut peers.reads).map(|read| &mut read.newest);
            let freeze = state.active.as_mut().and_then(|active| match &mut active.stage {
                Stage::Freezing { newest, .. } => Some(newest),
                _ => None,
            });
            gathered.chain(freeze).for_each(|newest| *newest = newest.max_by_order(Some(Located::from(&entry))));
        }
        Ok(replaced)
    }

    /// Lets what waits at a key go on after something ended.
    pub(super) fn go_on(&mut self, hash: KeyHash, out: &mut Outputs<Op>) {
        self.dispatch_frozen(hash, out);
        self.next_turn(hash, out);
        self.answer_freeze(hash, out);
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
    /// Made under a condition that its turn was granted for.
    pub exclusive: bool,
    pub stage: Stage,
}

pub(super) enum Stage {
    /// An exclusive write waits until every member has stopped.
    Freezing { freeze: FreezeId, missing: Vec<GatewayId>, newest: Option<Located> },
    /// Appends and announcements are under way.
    Writing { freeze: Option<FreezeId>, unheard: Vec<GatewayId>, durable: Option<Entry> },
    /// Read-after-write: durable, published here, and on its way to the members that are missing.
    Spreading { freeze: Option<FreezeId>, missing: Vec<GatewayId>, entry: Entry, replaced: Option<Located> },
}

impl Stage {
    /// Whether the write may stand in a log.
    pub fn is_outstanding(&self) -> bool {
        matches!(self, Stage::Writing { .. } | Stage::Spreading { .. })
    }
}

/// The part of a key's state that exists only with other gateways around.
pub(super) struct PeerState<Op> {
    /// Writes announced by others and not concluded.
    pub announced: Vec<WriteId>,
    /// Entries that removed gateways left, until these are decided.
    pub held: Vec<Entry>,
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
    /// Of what was known here when it began, what was answered, and what was published here since ([`Shard::publish`]).
    pub newest: Option<Located>,
}

pub(super) struct Frozen {
    pub holder: GatewayId,
    pub freeze: FreezeId,
    pub answered: bool,
    /// The view that granted or carried it.
    pub view: ViewNumber,
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
                held: Vec::new(),
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
            && self.held.is_empty()
            && self.reads.is_empty()
            && self.asks.is_empty()
            && self.frozen.is_empty()
            && self.home_holder.is_none()
            && self.home_queue.is_empty()
    }
}
