//! Decision 18: a key is frozen while a condition is evaluated and its write appended.
//!
//! ```text
//!   requester ── ask ──► home ── freeze ──► members: stop, drain, tell the newest ──► requester
//!   requester: evaluate, append, conclude ──► members go on, the home grants the next
//! ```
//!
//! States: three gateways (the first member of the view is the key's home), ordinary and conditional writes of one key, the log as the order of appends, FIFO
//! channels. A member answers one freeze at a time, and lets one ordinary write of its own go between two, as the gateways' machine does.
//! Optionally one gateway dies, at any moment; a new view is one step: the dead one is fenced, its write is decided (it counts if
//! it stands on the primary), survivors share what they know, messages of the old view are void, freezes that survive are
//! carried over, everything else is asked for again.
//!
//! Invariants:
//! - *Atomic*: when a conditional write is appended, the last write in the log is the one that its condition was evaluated against.
//! - *One holder*: at most one conditional write is dispatched, and no other write beside it.
//! - *Fair*: an ordinary write at the front of its queue is passed by at most one freeze of others that comes after.
//! - *Ends*: when nothing can happen any more, every write of a living gateway is acknowledged and all indexes agree.

use super::explore::{assert_broken, assert_sound, soaking};
use stateright::{Model, Property};

const GATEWAYS: usize = 3;
/// How many freezes an ordinary write may see dispatched while it waits: one.
const FAIR: u8 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Ordinary,
    Conditional,
}

/// What is wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Wrong {
    Nothing,
    /// A member answers although its own write is under way.
    StopsWithoutDraining,
    /// A member answers and goes on writing.
    DoesNotStop,
    /// Every conclusion releases the freeze that its writer holds, not only the one of the write made under it.
    AnyConclusionReleases,
    /// The home gives a freeze up when its holder takes long.
    FreezesTimeOut,
    /// A new view does not know the freezes of the old one.
    ViewForgetsFreezes,
    /// A dead holder's write is not decided before its freeze ends.
    ViewForgetsTheDead,
    /// A member answers every freeze as soon as it can.
    AnswersAllAtOnce,
}

/// The bounds: who writes what.
#[derive(Clone, Debug)]
struct Freezes {
    writes: Vec<(usize, Kind)>,
    /// Who may die.
    mortal: Vec<usize>,
    wrong: Wrong,
}

/// Orders in the log, from 1; 0 is "nothing".
type Order = u8;
type Mask = u8;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Its client has not asked yet.
    Idle,
    /// In its gateway's queue.
    Queued,
    Freezing {
        answered: Mask,
        newest: Order,
    },
    Writing {
        heard: Mask,
        base: Order,
        order: Order,
    },
    Done {
        order: Order,
    },
    /// Its gateway died before it was acknowledged.
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Message {
    Announce(usize),
    Held(usize),
    Conclude { write: usize, order: Order },
    Ask(usize),
    Freeze(usize),
    Frozen { write: usize, newest: Order },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Gateway {
    newest: Order,
    /// Freezes of others, in the order in which they came, and whether they are answered.
    frozen: Vec<(usize, bool)>,
    /// At the home.
    holder: Option<usize>,
    waiting: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    stages: Vec<Stage>,
    gateways: Vec<Gateway>,
    channels: Vec<Vec<Message>>,
    log: Order,
    /// Freezes that were dispatched while each ordinary write stood at the front of its queue.
    passed: Vec<u8>,
    /// A conditional write was appended after something that it had not seen.
    torn: bool,
    dead: Option<usize>,
    new_view: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Request(usize),
    Append(usize),
    Deliver { from: usize, to: usize },
    TimeOut,
    Die(usize),
    NewView,
}

fn bit(index: usize) -> Mask {
    1 << index
}

impl Freezes {
    fn gateway(&self, write: usize) -> usize {
        self.writes[write].0
    }

    fn members(&self, state: &State) -> impl Iterator<Item = usize> + use<> {
        let gone = state.dead.filter(|_| state.new_view);
        (0..GATEWAYS).filter(move |member| Some(*member) != gone)
    }

    fn home(&self, state: &State) -> usize {
        self.members(state).next().expect("somebody lives")
    }

    fn alive(&self, state: &State, gateway: usize) -> bool {
        state.dead != Some(gateway)
    }

    /// The write of this gateway that is freezing or writing.
    fn active(&self, state: &State, gateway: usize) -> Option<usize> {
        let is_active = |stage: &Stage| matches!(stage, Stage::Freezing { .. } | Stage::Writing { .. });
        (0..self.writes.len()).find(|write| self.gateway(*write) == gateway && is_active(&state.stages[*write]))
    }

    fn is_writing(&self, state: &State, gateway: usize) -> bool {
        self.active(state, gateway).is_some_and(|write| matches!(state.stages[write], Stage::Writing { .. }))
    }

    /// The first write in a gateway's queue.
    fn front(&self, state: &State, gateway: usize) -> Option<usize> {
        (0..self.writes.len()).find(|write| self.gateway(*write) == gateway && state.stages[*write] == Stage::Queued)
    }

    fn may_request(&self, state: &State, write: usize) -> bool {
        let gateway = self.gateway(write);
        let earlier_asked = (0..write).all(|earlier| self.gateway(earlier) != gateway || state.stages[earlier] != Stage::Idle);
        self.alive(state, gateway) && state.stages[write] == Stage::Idle && earlier_asked
    }

    /// The write that could be dispatched at once if nobody had stopped this gateway.
    fn next(&self, state: &State, gateway: usize) -> Option<usize> {
        self.front(state, gateway).filter(|_| self.active(state, gateway).is_none())
    }

    fn send(&self, state: &mut State, from: usize, to: usize, message: Message) {
        if self.alive(state, to) {
            state.channels[from * GATEWAYS + to].push(message);
        }
    }

    fn send_all(&self, state: &mut State, from: usize, message: Message) {
        for to in self.members(state).filter(|to| *to != from) {
            self.send(state, from, to, message);
        }
    }

    fn next_turn(&self, state: &mut State, gateway: usize) {
        let Some(write) = self.next(state, gateway) else { return };
        let mut frozen = state.gateways[gateway].frozen.iter();
        let stopped = match self.wrong {
            Wrong::DoesNotStop => false,
            Wrong::AnswersAllAtOnce => frozen.len() > 0,
            _ => frozen.any(|(_, answered)| *answered),
        };
        match self.writes[write].1 {
            Kind::Ordinary if stopped => {}
            Kind::Ordinary => self.dispatch(state, write, 0),
            Kind::Conditional => {
                state.stages[write] = Stage::Freezing { answered: 0, newest: 0 };
                self.ask(state, gateway, write);
            }
        }
    }

    fn ask(&self, state: &mut State, from: usize, write: usize) {
        let home = self.home(state);
        if home == from {
            self.asked(state, home, write);
        } else {
            self.send(state, from, home, Message::Ask(write));
        }
    }

    fn asked(&self, state: &mut State, home: usize, write: usize) {
        state.gateways[home].waiting.push(write);
        self.grant(state, home);
    }

    fn grant(&self, state: &mut State, home: usize) {
        if state.gateways[home].holder.is_some() || state.gateways[home].waiting.is_empty() {
            return;
        }
        let write = state.gateways[home].waiting.remove(0);
        state.gateways[home].holder = Some(write);
        self.send_all(state, home, Message::Freeze(write));
        self.freeze(state, home, write);
    }

    fn freeze(&self, state: &mut State, member: usize, write: usize) {
        if self.gateway(write) == member {
            return self.frozen(state, member, write, state.gateways[member].newest);
        }
        state.gateways[member].frozen.push((write, false));
        self.next_turn(state, member);
        self.answer(state, member);
    }

    fn answer(&self, state: &mut State, member: usize) {
        if self.is_writing(state, member) && self.wrong != Wrong::StopsWithoutDraining {
            return;
        }
        let newest = state.gateways[member].newest;
        let many = if self.wrong == Wrong::AnswersAllAtOnce { usize::MAX } else { 1 };
        let mut answers = Vec::new();
        for (write, answered) in state.gateways[member].frozen.iter_mut().take(many).filter(|(_, answered)| !answered) {
            *answered = true;
            answers.push(*write);
        }
        for write in answers {
            self.send(state, member, self.gateway(write), Message::Frozen { write, newest });
        }
    }

    fn frozen(&self, state: &mut State, from: usize, write: usize, told: Order) {
        let all = self.members(state).map(bit).sum::<Mask>();
        let Stage::Freezing { answered, newest } = &mut state.stages[write] else { return };
        *answered |= bit(from);
        *newest = told.max(*newest);
        if *answered & all == all {
            let base = *newest;
            for gateway in 0..GATEWAYS {
                if let Some(other) = self.next(state, gateway) {
                    state.passed[other] += 1;
                }
            }
            self.dispatch(state, write, base);
        }
    }

    fn dispatch(&self, state: &mut State, write: usize, base: Order) {
        state.stages[write] = Stage::Writing { heard: 0, base, order: 0 };
        self.send_all(state, self.gateway(write), Message::Announce(write));
    }

    fn receive(&self, state: &mut State, from: usize, to: usize, message: Message) {
        match message {
            Message::Announce(write) => self.send(state, to, from, Message::Held(write)),
            Message::Held(write) => {
                if let Stage::Writing { heard, .. } = &mut state.stages[write] {
                    *heard |= bit(from);
                }
                self.conclude(state, write);
            }
            Message::Conclude { write, order } => {
                let newest = &mut state.gateways[to].newest;
                *newest = order.max(*newest);
                self.released(state, to, write);
            }
            Message::Ask(write) => self.asked(state, to, write),
            Message::Freeze(write) => self.freeze(state, to, write),
            Message::Frozen { write, newest } => self.frozen(state, from, write, newest),
        }
    }

    /// Acknowledges a write that is complete.
    fn conclude(&self, state: &mut State, write: usize) {
        let gateway = self.gateway(write);
        let others = self.members(state).filter(|member| *member != gateway).map(bit).sum::<Mask>();
        let Stage::Writing { heard, order, .. } = state.stages[write] else { return };
        if order == 0 || heard & others != others {
            return;
        }
        state.stages[write] = Stage::Done { order };
        let newest = &mut state.gateways[gateway].newest;
        *newest = order.max(*newest);
        self.send_all(state, gateway, Message::Conclude { write, order });
        self.released(state, gateway, write);
        self.answer(state, gateway);
        self.next_turn(state, gateway);
    }

    fn released(&self, state: &mut State, member: usize, write: usize) {
        let holder = self.gateway(write);
        let any = self.wrong == Wrong::AnyConclusionReleases;
        let ends = |other: usize| other == write || (any && self.gateway(other) == holder);
        state.gateways[member].frozen.retain(|(other, _)| !ends(*other));
        if state.gateways[member].holder.is_some_and(ends) {
            state.gateways[member].holder = None;
            self.grant(state, member);
        }
        if self.gateway(write) != member {
            self.next_turn(state, member);
            self.answer(state, member);
        }
    }

    /// The dead gateway is fenced; the survivors agree about everything before they go on.
    fn new_view(&self, state: &mut State) {
        let dead = state.dead.expect("a view changes because somebody died");
        state.new_view = true;
        state.channels.iter_mut().for_each(Vec::clear);
        let mut newest = self.members(state).map(|member| state.gateways[member].newest).max().unwrap_or(0);
        for write in (0..self.writes.len()).filter(|write| self.gateway(*write) == dead) {
            // Whatever stands on the primary counts, acknowledged or not: its conclusion may be lost.
            if let Stage::Writing { order, .. } | Stage::Done { order } = state.stages[write]
                && self.wrong != Wrong::ViewForgetsTheDead
            {
                newest = newest.max(order);
            }
            if !matches!(state.stages[write], Stage::Done { .. }) {
                state.stages[write] = Stage::Dead;
            }
        }
        let survivors: Vec<usize> = self.members(state).collect();
        let held = (0..self.writes.len())
            .find(|write| self.writes[*write].1 == Kind::Conditional && matches!(state.stages[*write], Stage::Writing { .. }));
        let held = held.filter(|_| self.wrong != Wrong::ViewForgetsFreezes);
        let home = self.home(state);
        for &member in &survivors {
            let frozen = held.filter(|write| self.gateway(*write) != member).map(|write| (write, true));
            let holder = held.filter(|_| member == home);
            state.gateways[member] = Gateway { newest, frozen: frozen.into_iter().collect(), holder, waiting: Vec::new() };
        }
        state.gateways[dead] = Gateway::default();
        for write in 0..self.writes.len() {
            match &mut state.stages[write] {
                Stage::Writing { heard, .. } => {
                    *heard = 0;
                    self.send_all(state, self.gateway(write), Message::Announce(write));
                }
                Stage::Freezing { answered, newest } => {
                    (*answered, *newest) = (0, 0);
                    self.ask(state, self.gateway(write), write);
                }
                _ => {}
            }
        }
        survivors.iter().for_each(|member| self.next_turn(state, *member));
    }
}

impl Model for Freezes {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            stages: vec![Stage::Idle; self.writes.len()],
            gateways: vec![Gateway::default(); GATEWAYS],
            channels: vec![Vec::new(); GATEWAYS * GATEWAYS],
            log: 0,
            passed: vec![0; self.writes.len()],
            torn: false,
            dead: None,
            new_view: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for write in 0..self.writes.len() {
            if self.may_request(state, write) {
                actions.push(Action::Request(write));
            }
            let appendable = matches!(state.stages[write], Stage::Writing { order: 0, .. });
            if appendable && self.alive(state, self.gateway(write)) {
                actions.push(Action::Append(write));
            }
        }
        for from in 0..GATEWAYS {
            for to in (0..GATEWAYS).filter(|to| self.alive(state, *to)) {
                if !state.channels[from * GATEWAYS + to].is_empty() {
                    actions.push(Action::Deliver { from, to });
                }
            }
        }
        if self.wrong == Wrong::FreezesTimeOut && state.gateways[self.home(state)].holder.is_some() {
            actions.push(Action::TimeOut);
        }
        match state.dead {
            None => actions.extend(self.mortal.iter().map(|gateway| Action::Die(*gateway))),
            Some(_) if !state.new_view => actions.push(Action::NewView),
            Some(_) => {}
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Request(write) => {
                state.stages[write] = Stage::Queued;
                self.next_turn(&mut state, self.gateway(write));
            }
            Action::Append(write) => {
                let before = state.log;
                state.log += 1;
                let log = state.log;
                let Stage::Writing { base, order, .. } = &mut state.stages[write] else { return None };
                *order = log;
                state.torn |= self.writes[write].1 == Kind::Conditional && *base != before;
                self.conclude(&mut state, write);
            }
            Action::Deliver { from, to } => {
                let message = state.channels[from * GATEWAYS + to].remove(0);
                self.receive(&mut state, from, to, message);
            }
            Action::TimeOut => {
                let home = self.home(&state);
                let write = state.gateways[home].holder.take()?;
                for member in 0..GATEWAYS {
                    state.gateways[member].frozen.retain(|(other, _)| *other != write);
                }
                self.grant(&mut state, home);
            }
            Action::Die(gateway) => {
                state.dead = Some(gateway);
                (0..GATEWAYS).for_each(|other| state.channels[other * GATEWAYS + gateway].clear());
            }
            Action::NewView => self.new_view(&mut state),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("atomic", |_, state: &State| !state.torn),
            Property::always("one holder", |model: &Freezes, state: &State| {
                let living = |write: &usize| model.alive(state, model.gateway(*write));
                let writing: Vec<usize> = (0..model.writes.len())
                    .filter(|write| matches!(state.stages[*write], Stage::Writing { .. }))
                    .filter(living)
                    .collect();
                let conditional = writing.iter().any(|write| model.writes[*write].1 == Kind::Conditional);
                !conditional || writing.len() == 1
            }),
            Property::always("fair", |_, state: &State| state.passed.iter().all(|passed| *passed <= FAIR)),
            Property::always("ends", |model: &Freezes, state: &State| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                actions.retain(|action| !matches!(action, Action::Die(_)));
                let ended = |write: usize| matches!(state.stages[write], Stage::Done { .. } | Stage::Dead);
                let mut indexes = model.members(state).map(|member| state.gateways[member].newest);
                let first = indexes.next();
                !actions.is_empty() || (0..model.writes.len()).all(ended) && indexes.all(|newest| Some(newest) == first)
            }),
        ]
    }
}

use Kind::{Conditional, Ordinary};

fn freezes(writes: &[(usize, Kind)], mortal: &[usize], wrong: Wrong) -> Freezes {
    Freezes { writes: writes.to_vec(), mortal: mortal.to_vec(), wrong }
}

/// Two freezes of members beside an ordinary write of the home; an ordinary write and a freeze of one gateway beside another's.
const BESIDE_HOME: [(usize, Kind); 3] = [(1, Conditional), (2, Conditional), (0, Ordinary)];
const OWN_WRITE_FIRST: [(usize, Kind); 3] = [(1, Ordinary), (1, Conditional), (2, Ordinary)];
const HOME_FREEZES: [(usize, Kind); 3] = [(0, Conditional), (1, Conditional), (2, Ordinary)];

#[test]
fn freezes_are_atomic_fair_and_end() {
    for writes in [BESIDE_HOME, OWN_WRITE_FIRST, HOME_FREEZES] {
        assert_sound(&format!("{writes:?}"), freezes(&writes, &[], Wrong::Nothing));
    }
    let four = [(1, Conditional), (2, Conditional), (0, Ordinary), (1, Conditional)];
    assert_sound("three freezes and the home's write", freezes(&four, &[], Wrong::Nothing));
    if soaking() {
        let five = [(1, Conditional), (2, Conditional), (0, Ordinary), (1, Conditional), (2, Ordinary)];
        assert_sound("three freezes and two ordinary writes", freezes(&five, &[], Wrong::Nothing));
    }
}

#[test]
fn freezes_survive_the_death_of_the_home_or_of_a_holder() {
    for writes in [BESIDE_HOME, OWN_WRITE_FIRST, HOME_FREEZES] {
        assert_sound(&format!("{writes:?}, any may die"), freezes(&writes, &[0, 1, 2], Wrong::Nothing));
    }
    if soaking() {
        let writes = [(1, Conditional), (2, Conditional), (0, Ordinary), (1, Conditional)];
        assert_sound("three freezes, any may die", freezes(&writes, &[0, 1, 2], Wrong::Nothing));
    }
}

#[test]
fn wrong_freezes_are_found() {
    let beside =
        |wrong, property: &'static str| assert_broken(&format!("{wrong:?}"), freezes(&BESIDE_HOME, &[], wrong), property);
    beside(Wrong::StopsWithoutDraining, "atomic");
    beside(Wrong::DoesNotStop, "atomic");
    beside(Wrong::FreezesTimeOut, "atomic");
    let own_first = freezes(&OWN_WRITE_FIRST, &[], Wrong::AnyConclusionReleases);
    assert_broken("AnyConclusionReleases", own_first, "one holder");
    let dying =
        |wrong, property: &'static str| assert_broken(&format!("{wrong:?}"), freezes(&BESIDE_HOME, &[0, 1], wrong), property);
    dying(Wrong::ViewForgetsFreezes, "one holder");
    dying(Wrong::ViewForgetsTheDead, "atomic");
}

#[test]
fn answering_every_freeze_at_once_starves_the_home() {
    let writes = [(1, Conditional), (2, Conditional), (1, Conditional), (0, Ordinary)];
    assert_broken("answers all at once", freezes(&writes, &[], Wrong::AnswersAllAtOnce), "fair");
}
