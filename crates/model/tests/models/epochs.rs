//! RFD 7, decisions 4 to 6: epochs that end for all, checkpoints, moves of copies and the reset of zones, while leaders die.
//!
//! ```text
//!   leader: where the log may grow ─► begin N itself, drain ─► BeginEpoch(N) ─► every member: begin N, drain, EpochBegun(N) to all
//!   ─► everything of the epochs before N into a manifest, with those positions ─► manager (refuses whoever does not lead) ─► Installed
//!   leader: copy a record, tell its move ─► checkpoint ─► Retire ─► every member has applied ─► reset
//! ```
//!
//! States: two or three gateways; writes and deletes of a few keys, each in the epoch in which it began; one log, in which each record is a zone of its
//! own and positions are orders; numbered streams; the manager's manifests. Gateways are removed one after the other, at any moment: what they
//! had under way lands until they are fenced, what they had said arrives until the receiver has installed the view. The leader of a view (its
//! first member) recovers, then checkpoints and moves copies.
//!
//! Left out because `views` has it: announcements, leases, held entries (a write is acknowledged when it has landed, a decision is one
//! message). One log stands for all: copies add nothing here.
//!
//! Invariants, in every state:
//! - *Kept*: a start that reads the manager's manifest and walks the log from there finds of every key what was acknowledged last, or something newer,
//!   where it says; and nothing older after a delete.
//! - *Referenced*: no member of the newest view names a zone that was reset.
//! - *Ends*: when nothing can happen any more, no epoch and no checkpoint is under way, and all members name the same places.

mod leading;
mod members;
mod starts;
mod tests;

use super::explore;
use stateright::{Model, Property};

const MAX_GATEWAYS: usize = 3;
const KEYS: usize = 2;

/// A position of the log, from 1; 0 is none. The order of what stands there, unless it is a copy.
type Position = u8;
type Epoch = u8;
/// A set of gateways.
type Mask = u8;

/// What is wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Wrong {
    Nothing,
    /// The leader reads where the log may grow after it has announced the epoch.
    ReadsAfterAnnouncing,
    /// A member says that it has begun while writes of the epoch before are under way.
    ReportsBeforeDraining,
    /// A write leaves its epoch when it has landed, before it is published.
    LeavesEarly,
    /// A leader counts from its own epoch alone.
    CountsAlone,
    /// A new leader counts from epochs that were begun, not from the entries that it has. This was built first.
    CountsNoEntries,
    /// A member goes on with an epoch that the leader of an older view has announced. This was built first.
    AdvancesForOldViews,
    /// The leader announces an epoch before it has told its own moves of the one before. This was built first.
    AnnouncesBeforeMoves,
    /// The manager takes manifests from whoever led once.
    TakesFromDeposed,
    /// Zones are reset as soon as what was in them is in a manifest.
    ResetsUnheard,
    /// Moves are not told again in a new view.
    ToldOnce,
    /// Moves are told again before the first word of the view, which waits for it at the receiver. This was built first.
    ToldBeforeHello,
    /// A move is told again only by members that have applied it, not by one that has heard it and applies it later. This was built first.
    NotesWhenApplied,
    /// Recovery publishes whatever it finds and does not know. This was built first.
    BringsBackForgotten,
    /// Recovery walks from the leader's own checkpoint, however far the others are.
    WalksFromOwn,
    /// What a gateway has said that the receiver's view leaves out is taken in. Of the gateway with the greatest number this was built first.
    HearsWhoLeft,
}

/// The bounds.
#[derive(Clone, Debug)]
struct Epochs {
    gateways: usize,
    /// Which gateway writes which key; whether it deletes it. Those of a gateway in this order.
    writes: Vec<(usize, usize, bool)>,
    removals: Vec<usize>,
    checkpoints: u8,
    moves: u8,
    /// Whether a record moves again before a checkpoint covers where it has moved to, as when it lacks two copies. And a move that the leader has
    /// just made counts wherever the record stands.
    moves_again: bool,
    /// Whether the first write has been made and a checkpoint covers it.
    begins_covered: bool,
    /// Epochs for which a tombstone stays.
    tombstone_epochs: u8,
    wrong: Wrong,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Idle,
    Begun(Epoch),
    Landed(Epoch, Position),
    Done(Position),
}

/// What stands at a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Slot {
    write: usize,
    epoch: Epoch,
    is_copy: bool,
    is_reset: bool,
}

/// What a map or a list says of a key's newest record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Entry {
    key: usize,
    order: Position,
    epoch: Epoch,
    place: Position,
    is_delete: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Manifest {
    epoch: Epoch,
    start: Position,
    rows: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Message {
    Conclude(Entry),
    BeginEpoch(Epoch),
    EpochBegun(Epoch),
    /// By its number among the manager's manifests.
    Installed(usize),
    Relocated {
        old: Position,
        entry: Entry,
    },
    Retire,
    Retired,
    Carried {
        present: Epoch,
        installed: Epoch,
    },
    Decided {
        gateway: usize,
        entries: Vec<Entry>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Wire {
    view: u8,
    message: Message,
}

/// What a leader does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
enum Checkpoint {
    #[default]
    None,
    Read(Position),
    Begun(Position, Epoch),
    Announced(Position, Epoch),
    Installed(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
enum Collection {
    #[default]
    None,
    Copying(Entry),
    /// Moved away from here, in this epoch.
    Moved(Position, Epoch),
    Retiring(Position, Mask),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Member {
    view: u8,
    present: Epoch,
    /// The epoch that is to be begun, for the leader of this view.
    goal: Option<(u8, Epoch)>,
    index: [Option<Entry>; KEYS],
    /// What no checkpoint that is known here has, by epoch.
    names: Vec<Entry>,
    /// Epochs that the others have begun, as far as is known.
    begun: [Epoch; MAX_GATEWAYS],
    /// Of this view: who has carried, in which epoch, and with which checkpoint.
    carried: Mask,
    present_of: [Epoch; MAX_GATEWAYS],
    installed_of: [Epoch; MAX_GATEWAYS],
    decided: Mask,
    moves: Vec<(Position, Entry)>,
    early: Vec<(Position, Entry)>,
    following: Vec<(usize, Message)>,
    /// The newest manifest that is known here, by its number.
    installed: usize,
    checkpoint: Checkpoint,
    collection: Collection,
    in_step: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    writes: Vec<Stage>,
    log: Vec<Slot>,
    members: Vec<Member>,
    streams: Vec<Vec<Wire>>,
    views: Vec<Mask>,
    removed: Mask,
    fenced: Mask,
    manifests: Vec<Manifest>,
    checkpoints_left: u8,
    moves_left: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Begin(usize),
    Land(usize),
    Acknowledge(usize),
    Deliver { from: usize, to: usize },
    Follow(usize),
    Advance(usize),
    Report(usize),
    ReadPositions(usize),
    BeginEpoch(usize),
    Announce(usize),
    Install(usize),
    Tell(usize),
    Copy { leader: usize, key: usize },
    Move(usize),
    Retire(usize),
    Reset(usize),
    Remove(usize),
    InstallView(usize),
    Fence(usize),
    Recover(usize),
}

fn bit(index: usize) -> Mask {
    1 << index
}

fn has(mask: Mask, index: usize) -> bool {
    mask & bit(index) != 0
}

fn each(mask: Mask) -> impl Iterator<Item = usize> {
    (0..MAX_GATEWAYS).filter(move |index| has(mask, *index))
}

impl Model for Epochs {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let member =
            Member { view: 1, present: 1, begun: [1; MAX_GATEWAYS], carried: self.first_members(), ..Member::default() };
        let mut first = State {
            writes: vec![Stage::Idle; self.writes.len()],
            log: Vec::new(),
            members: vec![member; self.gateways],
            streams: vec![Vec::new(); MAX_GATEWAYS * MAX_GATEWAYS],
            views: vec![self.first_members()],
            removed: 0,
            fenced: 0,
            manifests: vec![Manifest::default()],
            checkpoints_left: self.checkpoints,
            moves_left: self.moves,
        };
        if self.begins_covered {
            self.cover_first(&mut first);
        }
        vec![first]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        self.write_actions(state, actions);
        for from in 0..self.gateways {
            let to = (0..self.gateways).filter(|to| self.may_deliver(state, from, *to));
            actions.extend(to.map(|to| Action::Deliver { from, to }));
        }
        for member in each(state.views[state.views.len() - 1]) {
            self.member_actions(state, member, actions);
            self.leader_actions(state, member, actions);
        }
        each(state.removed).for_each(|gateway| self.deposed_actions(state, gateway, actions));
        if let Some(next) = self.removals.get(state.removed.count_ones() as usize) {
            actions.push(Action::Remove(*next));
        }
        actions.extend(each(state.removed & !state.fenced).map(Action::Fence));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Begin(write) => state.writes[write] = Stage::Begun(state.members[self.writes[write].0].present),
            Action::Land(write) => self.land(&mut state, write),
            Action::Acknowledge(write) => self.acknowledge(&mut state, write),
            Action::Deliver { from, to } => {
                let wire = state.streams[from * MAX_GATEWAYS + to].remove(0);
                self.receive(&mut state, from, to, wire);
            }
            Action::Follow(member) => self.follow(&mut state, member),
            Action::Advance(member) => state.members[member].present += 1,
            Action::Report(member) => self.report(&mut state, member),
            Action::ReadPositions(leader) => {
                state.checkpoints_left -= 1;
                state.members[leader].checkpoint = Checkpoint::Read(state.log.len() as Position + 1);
            }
            Action::BeginEpoch(leader) => self.begin_epoch(&mut state, leader),
            Action::Announce(leader) => self.announce(&mut state, leader),
            Action::Install(leader) => self.install_manifest(&mut state, leader),
            Action::Tell(leader) => self.tell_installed(&mut state, leader),
            Action::Copy { leader, key } => {
                state.moves_left -= 1;
                let known = state.members[leader].index[key]?;
                let epoch = state.members[leader].present;
                state.members[leader].collection = Collection::Copying(Entry { epoch, ..known });
            }
            Action::Move(leader) => self.finish_move(&mut state, leader),
            Action::Retire(leader) => self.retire(&mut state, leader),
            Action::Reset(leader) => self.reset(&mut state, leader),
            Action::Remove(gateway) => {
                state.views.push(state.views[state.views.len() - 1] & !bit(gateway));
                state.removed |= bit(gateway);
            }
            Action::InstallView(member) => self.install_view(&mut state, member),
            Action::Fence(gateway) => state.fenced |= bit(gateway),
            Action::Recover(leader) => self.recover(&mut state, leader),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("kept", |model: &Epochs, state: &State| (0..KEYS).all(|key| model.is_kept(state, key))),
            Property::always("referenced", |_, state: &State| {
                let names = |member: usize| state.members[member].index.iter().flatten();
                let stands = |entry: &Entry| entry.is_delete || !state.log[usize::from(entry.place) - 1].is_reset;
                each(state.views[state.views.len() - 1]).all(|member| names(member).all(stands))
            }),
            Property::always("ends", |model: &Epochs, state: &State| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                !actions.is_empty() || model.has_ended(state)
            }),
        ]
    }
}
