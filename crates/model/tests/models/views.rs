//! RFD 5: a cell changes its view, and a leader decides what the removed gateway had under way.
//!
//! ```text
//!   manager: view v+1 without G, G's lease has ended ──► each member installs it when the message comes
//!   leader: fence P ─ fence S ─ walk ─ copy ─ Recovered(w)*, AllRecovered ──► members hold w: in flight, not served
//!           ◄── RecoveredHeld ── every member ──► Decided: publish what is held, void the rest, end G's freezes
//! ```
//!
//! States: three or four gateways and, optionally, one that joins later; writes of one key, ordinary and conditional; two targets
//! (`P`, the primary, whose log orders, and `S`, whose records carry the primary's order) with fences; numbered streams. A gateway
//! that is removed lives on: every step of it, and every message from it, may happen at any later moment or never. So "dead" and
//! "deposed but alive" are one case, and so is a leader that dies between any two messages: the next view removes it.
//!
//! Left out because it changes nothing: drains and seals (a fence ends a gateway's appends at once), watermarks (the walk finds
//! every record), clocks (what the terms of a lease promise: a holder's lease ends before its granter takes it for ended, so one
//! step removes a gateway and ends its reads).
//!
//! Invariants:
//! - *Linearizable* in the order of the log: each answered read and each acknowledged write raises a floor; a read that is called
//!   later must not be answered with less. This is linearizability with the log's order as the witness, which the protocol claims.
//! - *Atomic*: no write that a client has heard of, or has seen, stands between a conditional write and what its condition was
//!   evaluated against.
//! - *One holder*: at most one conditional write is between its last answer and its conclusion, across views, until its gateway is
//!   fenced.
//! - *Fenced*: no record of a removed gateway lands on a target after its fence there.
//! - *Readable*: what an index says has a copy.
//! - *Ends*: when only removed gateways could still do something, every other gateway's write is acknowledged, every read
//!   answered, nothing is in flight or frozen, and all indexes agree.

mod protocol;
mod recovery;
mod tests;

use super::explore;
use protocol::{Message, Wire};
use recovery::Recovery;
use stateright::{Model, Property};

/// The most gateways that a run names.
const MAX_GATEWAYS: usize = 4;
/// Orders on the second target after the first was lost.
const NEXT_GENERATION: Order = 100;

/// Orders in the log, from 1; 0 is "nothing".
type Order = u8;
/// A set of gateways, of writes or of targets.
type Mask = u8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Ordinary,
    Conditional,
}

/// What is wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Wrong {
    Nothing,
    /// A view begins while the removed gateway still answers reads.
    NoWaitForLease,
    /// A gateway that holds a member's place again is taken for it: what its predecessor heard counts.
    KeepsAcknowledgements,
    /// What the removed gateway announced is void when the view begins.
    VoidsBeforeWalk,
    /// The walk reads the logs and only then raises the fences.
    WalksBeforeFence,
    /// Targets append whatever comes.
    IgnoresFences,
    /// A new view does not know the freezes of the old one.
    ForgetsFreezes,
    /// The leader tells its decision without having heard that every member holds the recovered entries.
    DecidesUnheard,
    /// The record's first form: a recovered entry is served by each member as soon as it arrives there.
    PublishesOnArrival,
    /// What closes the list of recovered entries, and the decision, come on another stream than the entries.
    DecidesOnAnotherStream,
    /// Recovered entries are spread before they have all their copies.
    SpreadsBeforeCopies,
    /// The holder of a freeze says that it holds a recovered entry while its own write is under way.
    HoldersDoNotHoldBack,
    /// Writes begin although a removed gateway's write of the key is undecided.
    StartsUndecided,
    /// Announcements and answers of an older view count.
    OldAnswersCount,
    /// A gateway that joins reads before every member has handed it its map.
    JoinsWithoutMaps,
    /// A gateway that joins writes before it knows what is frozen.
    JoinsWithoutFreezes,
    /// A gateway that joins reads and writes although a member that was removed before it could tell what it knows is undecided.
    JoinsUndecided,
    /// A gateway that holds a freeze goes ahead although it has answered another one.
    HoldersDoNotStop,
}

/// The bounds.
#[derive(Clone, Debug)]
struct Views {
    gateways: usize,
    /// Who writes what.
    writes: Vec<(usize, Kind)>,
    /// Who is removed, one a view.
    removals: Vec<usize>,
    /// After how many removals a new gateway joins, once they are decided; its number is `gateways`.
    joins_after: Option<usize>,
    /// Picks the key's home among the members.
    key: usize,
    reads: u8,
    /// Whether target `P` may be lost after the first removal.
    loses_primary: bool,
    wrong: Wrong,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Idle,
    Queued,
    Freezing { answered: Mask, learned: Order },
    Writing { heard: Mask },
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Write {
    stage: Stage,
    order: Order,
    on_second: bool,
    /// What a condition was evaluated against.
    base: Order,
    /// A client has heard of it or seen it.
    known: bool,
}

/// A freeze of another gateway's that came.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Frozen {
    write: usize,
    answered: bool,
    view: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PendingRead {
    floor: Order,
    missing: Mask,
    newest: Order,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Gateway {
    view: u8,
    lease: bool,
    newest: Order,
    /// Writes announced by others and not concluded.
    announced: Mask,
    /// Recovered writes that are not decided.
    held: Mask,
    /// The leader that waits for "held".
    owes: Option<usize>,
    /// Removed gateways that are decided.
    decided: Mask,
    frozen: Vec<Frozen>,
    /// At the home.
    holder: Option<usize>,
    waiting: Vec<usize>,
    /// Members that have said what they hold in this view.
    carried: Mask,
    read: Option<PendingRead>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    writes: Vec<Write>,
    gateways: Vec<Gateway>,
    /// From `from * MAX_GATEWAYS + to`.
    streams: Vec<Vec<Wire>>,
    /// Members of each view.
    views: Vec<Mask>,
    removed: Mask,
    appended: Order,
    appended_to_second: Order,
    primary_lost: bool,
    /// Of each target, the gateways that may not append.
    fences: [Mask; 2],
    recoveries: Vec<Recovery>,
    reads_left: u8,
    /// The newest order that any client has heard of.
    floor: Order,
    stale: bool,
    landed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Request(usize),
    AppendToPrimary(usize),
    AppendToSecond(usize),
    Deliver {
        from: usize,
        to: usize,
    },
    /// The message at this place of a stream, which answers a batch and so keeps no order with the others.
    Confirm {
        from: usize,
        to: usize,
        at: usize,
    },
    Read(usize),
    /// The manager removes the next gateway, whose lease has ended.
    Remove(usize),
    Join,
    LosePrimary,
    Install(usize),
    Fence {
        recovery: usize,
        target: usize,
    },
    Walk(usize),
    Copy {
        recovery: usize,
        write: usize,
    },
    Spread(usize),
}

fn bit(index: usize) -> Mask {
    1 << index
}

fn has(mask: Mask, index: usize) -> bool {
    mask & bit(index) != 0
}

fn each(mask: Mask) -> impl Iterator<Item = usize> {
    (0..Mask::BITS as usize).filter(move |index| has(mask, *index))
}

impl Views {
    fn writer(&self, write: usize) -> usize {
        self.writes[write].0
    }

    fn is_conditional(&self, write: usize) -> bool {
        self.writes[write].1 == Kind::Conditional
    }

    /// Writes of these gateways.
    fn writes_of(&self, gateways: Mask) -> Mask {
        (0..self.writes.len()).filter(|write| has(gateways, self.writer(*write))).map(bit).sum()
    }

    fn may_request(&self, state: &State, write: usize) -> bool {
        let gateway = self.writer(write);
        let mut earlier = (0..write).filter(|earlier| self.writer(*earlier) == gateway);
        let joined = state.gateways[gateway].view > 0;
        joined && state.writes[write].stage == Stage::Idle && earlier.all(|earlier| state.writes[earlier].stage != Stage::Idle)
    }

    fn may_append(&self, state: &State, gateway: usize, target: usize) -> bool {
        !has(state.fences[target], gateway) || self.wrong == Wrong::IgnoresFences
    }

    /// Whether a gateway is never removed: its appends are one step.
    fn stays(&self, gateway: usize) -> bool {
        !self.removals.contains(&gateway)
    }

    fn append_actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (index, write) in state.writes.iter().enumerate() {
            let gateway = self.writer(index);
            if !matches!(write.stage, Stage::Writing { .. }) {
                continue;
            }
            if write.order == 0 && !state.primary_lost && self.may_append(state, gateway, 0) {
                actions.push(Action::AppendToPrimary(index));
            }
            let may_follow = write.order != 0 || state.primary_lost;
            if !write.on_second && may_follow && self.may_append(state, gateway, 1) {
                actions.push(Action::AppendToSecond(index));
            }
        }
    }

    fn append(&self, state: &mut State, write: usize, target: usize) {
        let gateway = self.writer(write);
        state.landed |= has(state.fences[target], gateway);
        if target == 0 {
            state.appended += 1;
            state.writes[write].order = state.appended;
            state.writes[write].on_second = self.stays(gateway);
        } else {
            if state.writes[write].order == 0 {
                state.appended_to_second += 1;
                state.writes[write].order = NEXT_GENERATION + state.appended_to_second;
            }
            state.writes[write].on_second = true;
        }
        self.conclude(state, write);
    }

    /// Whether a stream's next message may be handed over: one of a newer view waits until the receiver has installed that view.
    fn may_deliver(&self, state: &State, from: usize, to: usize) -> bool {
        let next = state.streams[from * MAX_GATEWAYS + to].first();
        next.is_some_and(|wire| wire.view <= state.gateways[to].view)
    }

    fn may_join(&self, state: &State) -> bool {
        let current = state.views.len() as u8;
        let settled = |member: usize| {
            state.gateways[member].view == current && state.gateways[member].decided & state.removed == state.removed
        };
        self.joins_after == Some(state.removed.count_ones() as usize)
            && state.gateways[self.gateways].view == 0
            && each(state.views[state.views.len() - 1]).all(settled)
    }

    fn membership_actions(&self, state: &State, actions: &mut Vec<Action>) {
        let removed = state.removed.count_ones() as usize;
        if let Some(next) = self.removals.get(removed)
            && state.views[state.views.len() - 1] != bit(*next)
        {
            actions.push(Action::Remove(*next));
        }
        if self.may_join(state) {
            actions.push(Action::Join);
        }
        if self.loses_primary && removed > 0 && !state.primary_lost {
            actions.push(Action::LosePrimary);
        }
        let current = state.views.len();
        let behind = |member: &usize| usize::from(state.gateways[*member].view) < current;
        actions.extend(each(state.views[current - 1]).filter(behind).map(Action::Install));
    }

    /// A new gateway is a member of the next view.
    fn join(&self, state: &mut State) {
        state.views.push(state.views[state.views.len() - 1] | bit(self.gateways));
        let view = state.views.len() as u8;
        let lease = self.wrong == Wrong::JoinsWithoutMaps;
        let decided = state.removed;
        let carried = bit(self.gateways);
        state.gateways[self.gateways] = Gateway { view, lease, decided, carried, ..Gateway::default() };
        self.send_all(state, self.gateways, Message::Carried { newest: 0 });
    }
}

impl Model for Views {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let write = Write { stage: Stage::Idle, order: 0, on_second: false, base: 0, known: false };
        let members: Mask = (0..self.gateways).map(bit).sum();
        let member = Gateway { view: 1, lease: true, carried: members, ..Gateway::default() };
        let mut gateways = vec![member; self.gateways];
        gateways.extend(self.joins_after.map(|_| Gateway::default()));
        assert!(gateways.len() <= MAX_GATEWAYS, "streams are numbered for at most {MAX_GATEWAYS} gateways");
        vec![State {
            writes: vec![write; self.writes.len()],
            gateways,
            streams: vec![Vec::new(); MAX_GATEWAYS * MAX_GATEWAYS],
            views: vec![members],
            removed: 0,
            appended: 0,
            appended_to_second: 0,
            primary_lost: false,
            fences: [0; 2],
            recoveries: Vec::new(),
            reads_left: self.reads,
            floor: 0,
            stale: false,
            landed: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend((0..self.writes.len()).filter(|write| self.may_request(state, *write)).map(Action::Request));
        self.append_actions(state, actions);
        for from in 0..state.gateways.len() {
            let to = (0..state.gateways.len()).filter(|to| self.may_deliver(state, from, *to));
            actions.extend(to.map(|to| Action::Deliver { from, to }));
            for to in 0..state.gateways.len() {
                let behind = state.streams[from * MAX_GATEWAYS + to].iter().enumerate().skip(1);
                let confirmations = behind.filter(|(_, wire)| matches!(wire.message, Message::Announced(_)));
                actions.extend(confirmations.map(|(at, _)| Action::Confirm { from, to, at }));
            }
        }
        let may_read = |gateway: &Gateway| gateway.lease && gateway.read.is_none();
        // A read before any write shows nothing.
        if state.reads_left > 0 && state.writes.iter().any(|write| write.order > 0) {
            let readers = (0..state.gateways.len()).filter(|gateway| may_read(&state.gateways[*gateway]));
            actions.extend(readers.map(Action::Read));
        }
        self.membership_actions(state, actions);
        self.recovery_actions(state, actions);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Request(write) => {
                state.writes[write].stage = Stage::Queued;
                self.next_turn(&mut state, self.writer(write));
            }
            Action::AppendToPrimary(write) => self.append(&mut state, write, 0),
            Action::AppendToSecond(write) => self.append(&mut state, write, 1),
            Action::Deliver { from, to } => {
                let wire = state.streams[from * MAX_GATEWAYS + to].remove(0);
                self.receive(&mut state, from, to, wire);
            }
            Action::Confirm { from, to, at } => {
                let wire = state.streams[from * MAX_GATEWAYS + to].remove(at);
                self.receive(&mut state, from, to, wire);
            }
            Action::Read(gateway) => self.read(&mut state, gateway),
            Action::Remove(gateway) => {
                state.removed |= bit(gateway);
                state.gateways[gateway].lease = self.wrong == Wrong::NoWaitForLease;
                state.views.push(state.views[state.views.len() - 1] & !bit(gateway));
            }
            Action::Join => self.join(&mut state),
            Action::LosePrimary => state.primary_lost = true,
            Action::Install(member) => self.install(&mut state, member),
            Action::Fence { recovery, target } => state.fences[target] |= state.recoveries[recovery].of,
            Action::Walk(recovery) => self.walk(&mut state, recovery),
            Action::Copy { write, .. } => state.writes[write].on_second = true,
            Action::Spread(recovery) => self.spread(&mut state, recovery),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("linearizable", |_, state: &State| !state.stale),
            Property::always("atomic", |model: &Views, state: &State| !model.is_torn(state)),
            Property::always("one holder", |model: &Views, state: &State| model.holders(state) <= 1),
            Property::always("fenced", |_, state: &State| !state.landed),
            Property::always("readable", |_, state: &State| {
                let readable = |write: &Write| write.on_second || !state.primary_lost;
                let found =
                    |newest: Order| newest == 0 || state.writes.iter().any(|write| write.order == newest && readable(write));
                state.gateways.iter().filter(|gateway| gateway.lease).all(|gateway| found(gateway.newest))
            }),
            Property::always("ends", |model: &Views, state: &State| model.goes_on(state) || model.has_ended(state)),
        ]
    }
}

impl Views {
    /// A conditional write that somebody knows of has a known write between it and what it was evaluated against.
    fn is_torn(&self, state: &State) -> bool {
        let known = || state.writes.iter().filter(|write| write.known);
        let conditional = (0..self.writes.len()).filter(|write| self.is_conditional(*write)).map(|write| &state.writes[write]);
        let torn = |swap: &Write| known().any(|write| swap.base < write.order && write.order < swap.order);
        conditional.filter(|swap| swap.known).any(torn)
    }

    /// Conditional writes that are dispatched, not concluded, and can still be appended.
    fn holders(&self, state: &State) -> usize {
        let holds = |write: &usize| {
            let append = self.may_append(state, self.writer(*write), 0) || state.writes[*write].order > 0;
            let decided = state.gateways.iter().any(|gateway| has(gateway.decided, self.writer(*write)));
            self.is_conditional(*write) && matches!(state.writes[*write].stage, Stage::Writing { .. }) && append && !decided
        };
        (0..self.writes.len()).filter(holds).count()
    }

    /// Whether somebody who is not removed can still do something about what is under way.
    fn goes_on(&self, state: &State) -> bool {
        let mut actions = Vec::new();
        self.actions(state, &mut actions);
        let stays = |gateway: usize| !has(state.removed, gateway);
        actions.iter().any(|action| match *action {
            Action::Request(write) | Action::AppendToPrimary(write) | Action::AppendToSecond(write) => {
                stays(self.writer(write))
            }
            Action::Deliver { from, to } | Action::Confirm { from, to, .. } => stays(from) && stays(to),
            Action::Install(_) => true,
            Action::Fence { recovery, .. }
            | Action::Walk(recovery)
            | Action::Copy { recovery, .. }
            | Action::Spread(recovery) => stays(state.recoveries[recovery].leader),
            Action::Read(_) | Action::Remove(_) | Action::Join | Action::LosePrimary => false,
        })
    }

    fn has_ended(&self, state: &State) -> bool {
        let members = state.views[state.views.len() - 1];
        let first = each(members).next().expect("a view has members");
        let quiet = |member: usize| {
            let gateway = &state.gateways[member];
            let idle = gateway.announced == 0 && gateway.held == 0 && gateway.frozen.is_empty() && gateway.read.is_none();
            idle && gateway.newest == state.gateways[first].newest && gateway.decided & state.removed == state.removed
        };
        let ended = |write: usize| has(state.removed, self.writer(write)) || state.writes[write].stage == Stage::Done;
        let joined = |write: usize| state.gateways[self.writer(write)].view > 0;
        each(members).all(quiet) && (0..self.writes.len()).filter(|write| joined(*write)).all(ended)
    }
}
