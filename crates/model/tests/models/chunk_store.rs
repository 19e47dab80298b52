//! RFD 11: one chunk of the chunk store, from its registration until its space is given back.
//!
//! ```text
//!   unit:  unregistered ─ register ─► pending ─ commit ─► live ─ freed record ─┐
//!                                        └─ deadline ──────────────────────────┴► freeing ─ all copies dead ─► limbo ─ all forgotten ─► free
//!   copy:  absent ─ put, copy ─► live (version, settled, era) ─► departed        (moved away: answers nobody)
//!            └─ erase ─► dead ◄──────┘ delete, erase;  dead or departed ─ forget ─► absent
//! ```
//!
//! States: the unit's record of the chunk (replicated, so that its leader may be lost at any step: what a leader does are actions that may
//! happen late or never, and what it had in mind is a *flight* that goes on after the unit has decided otherwise); four places, of which the
//! chunk uses one to three at a time; calls of clients. A lookup host is as far behind the unit as it likes: it answers with any update there ever was,
//! or says that it does not know the chunk yet. There are no messages: a request and its answer are one step at a node, and a request may
//! land any time after it was made, more than once, and after its client died.
//!
//! Places change by *moves*: one for another, one more, or a lost one less (RFD 18). Each has an era, which says how many places there are after it.
//! A move may be *given up* for the next one, and its target may be a place where the chunk once stood: hosts that lag lead there.
//!
//! Versions stand in their order: nothing, the put, modifications by (counter, writer), dead. *Seen* is what was acknowledged or returned.
//!
//! Invariants:
//! - *Newest*: no call answers with less than what was seen before it began, and no write is ordered below that.
//! - *Once*: a write is seen during one stretch; it does not come back after another.
//! - *Own bytes*: no call is answered with another chunk's bytes. (Another chunk stands wherever a lookup leads.)
//! - *Kept*: a put that was acknowledged is not given up unless somebody deletes.
//! - *Two copies*: no put is acknowledged that has one copy, if more are wanted.
//! - *Released*: space that the unit gives to others holds nothing of the chunk, now and later.
//! - *Ends*: when nothing can happen any more, all calls are answered, nothing is pending, and no node holds what the unit does not know.

mod calls;
mod moves;
mod nodes;
mod tests;

use super::explore;
use moves::{MOVES, Moves};
use stateright::{Model, Property};

const PLACES: usize = 4;
/// Where the copies of a put go first.
const FIRST_PLACES: usize = 2;
/// A put is acknowledged with fewer copies than are wanted, but not with fewer than this.
const MIN_COPIES: usize = 2;

type Place = usize;
/// A set of places or copies.
type Mask = u8;

/// Where the copies are; those from `count` on are nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Places {
    all: [Place; PLACES],
    count: usize,
}

impl Places {
    fn of(places: &[Place]) -> Places {
        let mut all = [0; PLACES];
        all[..places.len()].copy_from_slice(places);
        Places { all, count: places.len() }
    }

    fn iter(&self) -> impl Iterator<Item = Place> + use<> {
        self.all.into_iter().take(self.count)
    }

    fn contains(&self, place: Place) -> bool {
        self.iter().any(|own| own == place)
    }

    /// All copies, by their index.
    fn all_copies(&self) -> Mask {
        (1 << self.count) - 1
    }
}

/// A number, and how many places there are in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Era {
    number: u8,
    copies: u8,
}

impl Era {
    fn first(places: &Places) -> Era {
        Era { number: 0, copies: places.count as u8 }
    }
}

/// What a copy holds.
type Version = u8;
const NOTHING: Version = 0;
const PUT: Version = 1;
const DEAD: Version = u8::MAX;
/// Versions from here on are modifications: counter, then the call that wrote.
const WRITERS: Version = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Put,
    Modify,
    Delete,
    Get,
}

/// What is wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Wrong {
    Nothing,
    /// A node answers with what stands at the place.
    ComparesNoIds,
    /// A client takes a node's "not here" for "not found". The paper's.
    BelievesAbsence,
    /// What one pass over a pending chunk's copies does not find is not found.
    DoesNotAskAgain,
    /// A put is acknowledged when its copies are durable.
    AcksBeforeCommit,
    /// A get returns what other copies may not have yet.
    ReturnsUnsettled,
    /// A dead copy is "not found", whatever the other copies are.
    BelievesTheDead,
    /// The source of a relocation answers gets until it is forgotten.
    SourceAnswers,
    /// A departed copy that is erased counts as dead.
    ErasesDeparted,
    /// A dead copy counts for deletes of any era.
    DeadInAllEras,
    /// Relocations leave the copies that stay as they are.
    NoEras,
    /// Space is released with dead marks that nothing holds up.
    NoFences,
    /// A modification that must start over takes a new version.
    NewVersions,
    /// A copy that is dead is forgotten before the others are dead.
    ForgetsAlone,
    /// A place is added, and the copies that are there stay in their era.
    GrowsWithoutEra,
    /// Clients write in the era that a copy tells, to as many places as they know.
    CountsNoPlaces,
    /// A place is given up whose node is only silent.
    GivesUpTheSilent,
    /// One copy is enough.
    AcksOneCopy,
    /// A move goes on while the target of the one that was given up for it may answer.
    LeavesTheGivenUp,
    /// The same, and what is brought is unsettled, whatever its source was.
    BringsUnsettled,
    /// A chunk ends without the targets that were given up.
    ErasesNoGivenUp,
}

/// The bounds.
#[derive(Clone, Debug)]
struct ChunkStore {
    calls: Vec<Kind>,
    moves: Moves,
    /// Whether the put is over when the run begins.
    is_stored: bool,
    /// Hosts that are there when the put registers; two copies are wanted.
    hosts: usize,
    /// How many clients may die in the middle of a call.
    deaths: u8,
    wrong: Wrong,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Copy {
    Absent,
    Live { version: Version, settled: bool, era: Era },
    Departed { version: Version, settled: bool },
    Dead { settled: bool, era: Era },
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Stage {
    Unregistered,
    Pending,
    Live,
    Freeing,
    Limbo,
    Free,
}

/// The unit's record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Unit {
    stage: Stage,
    places: Places,
    era: Era,
    /// Moves that were begun, and whether the last of them is under way.
    moves_begun: usize,
    is_moving: bool,
    has_expired: bool,
    /// Places at which the copy is known to be dead.
    erased: Mask,
    /// Places that are given to others.
    released: Mask,
}

/// A move as its driver has it in mind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Flight {
    has_departed: bool,
    /// Places that stay and have its era.
    raised: Mask,
    content: Option<(Version, bool)>,
    is_copied: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Idle,
    /// By a lookup host's answer.
    Routed(Places),
    Asking,
    /// By the unit's answer.
    Direct {
        places: Places,
        absent: Mask,
        is_pending: bool,
    },
    /// Nothing was there while the chunk was pending.
    AskingAgain,
    /// By the last attempt.
    Writing,
    Committing,
    /// Brings all copies to what one of them has.
    Helping {
        places: Places,
        era: Era,
        known: Version,
        helped: Mask,
    },
    Done,
    Died,
}

/// Writes that were sent to all copies: each may land at any later time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Attempt {
    places: Places,
    era: Era,
    version: Version,
    landed: Mask,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Call {
    step: Step,
    /// What had been seen when the call began.
    floor: Version,
    version: Version,
    attempts: Vec<Attempt>,
    /// What it tells the copies after the end: all of them have this.
    settles: Option<(Places, Version)>,
}

/// An invariant that did not hold at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Broken {
    Newest,
    Once,
    OwnBytes,
    TwoCopies,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    unit: Unit,
    copies: [Copy; PLACES],
    /// Places whose nodes refuse puts and copies of what is resolved.
    fenced: Mask,
    /// What the lookup hosts are told, in order.
    updates: Vec<Places>,
    flights: [Flight; MOVES],
    calls: Vec<Call>,
    floor: Version,
    /// Writers in the order in which their writes were seen.
    seen: Vec<Version>,
    deaths_left: u8,
    broken: Option<Broken>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Register(usize),
    Route {
        call: usize,
        update: usize,
    },
    Ask(usize),
    Read {
        call: usize,
        copy: usize,
    },
    Land {
        call: usize,
        attempt: usize,
        copy: usize,
    },
    /// Has heard nothing for long.
    TryAgain(usize),
    Commit(usize),
    Help {
        call: usize,
        copy: usize,
    },
    Settle(usize),
    Die(usize),
    Expire,
    Free,
    Erase(Place),
    Forget(Place),
    BeginMove,
    Lose,
    Depart(usize),
    Raise {
        number: usize,
        place: Place,
    },
    Capture {
        number: usize,
        place: Place,
    },
    Copy(usize),
    Swap(usize),
    /// What was, or may yet be, brought to a place that was given up departs.
    Discard(Place),
}

fn bit(index: usize) -> Mask {
    1 << index
}

fn has(mask: Mask, index: usize) -> bool {
    mask & bit(index) != 0
}

impl ChunkStore {
    fn candidates(&self, state: &State) -> Vec<Action> {
        let mut actions = Vec::new();
        for (call, recorded) in state.calls.iter().enumerate() {
            actions.extend([Action::Register(call), Action::Ask(call), Action::Commit(call), Action::Settle(call)]);
            actions.extend([Action::TryAgain(call), Action::Die(call)]);
            actions.extend((0..=state.updates.len()).map(|update| Action::Route { call, update }));
            for copy in 0..PLACES {
                actions.extend([Action::Read { call, copy }, Action::Help { call, copy }]);
                actions.extend((0..recorded.attempts.len()).map(|attempt| Action::Land { call, attempt, copy }));
            }
        }
        for place in 0..PLACES {
            actions.extend([Action::Erase(place), Action::Forget(place), Action::Discard(place)]);
        }
        actions.extend([Action::Expire, Action::Free, Action::BeginMove, Action::Lose]);
        for number in 0..state.unit.moves_begun {
            actions.extend([Action::Depart(number), Action::Copy(number), Action::Swap(number)]);
            for place in 0..PLACES {
                actions.extend([Action::Raise { number, place }, Action::Capture { number, place }]);
            }
        }
        actions
    }

    /// The state after an action, or nothing if it can't be taken.
    fn step(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Register(call) => self.register(&mut state, call),
            Action::Route { call, update } => self.route(&mut state, call, update),
            Action::Ask(call) => self.ask(&mut state, call),
            Action::Read { call, copy } => self.read(&mut state, call, copy),
            Action::Land { call, attempt, copy } => self.land(&mut state, call, attempt, copy),
            Action::TryAgain(call) => self.try_again(&mut state, call),
            Action::Commit(call) => self.commit(&mut state, call),
            Action::Help { call, copy } => self.help(&mut state, call, copy),
            Action::Settle(call) => self.settle(&mut state, call),
            Action::Die(call) => self.die(&mut state, call),
            Action::Expire => self.expire(&mut state),
            Action::Free => self.free(&mut state),
            Action::Erase(place) => self.erase(&mut state, place),
            Action::Forget(place) => self.forget(&mut state, place),
            Action::BeginMove => self.begin_move(&mut state),
            Action::Lose => self.lose(&mut state),
            Action::Depart(number) => self.depart(&mut state, number),
            Action::Raise { number, place } => self.raise(&mut state, number, place),
            Action::Capture { number, place } => self.capture(&mut state, number, place),
            Action::Copy(number) => self.copy(&mut state, number),
            Action::Swap(number) => self.swap(&mut state, number),
            Action::Discard(place) => self.discard(&mut state, place),
        }?;
        (state != *last).then_some(state)
    }

    fn has_ended(&self, state: &State) -> bool {
        let is_over = |call: &Call| matches!(call.step, Step::Done | Step::Died);
        let is_settled = matches!(state.unit.stage, Stage::Unregistered | Stage::Live | Stage::Free);
        let is_known = |place: Place| state.unit.stage == Stage::Live && state.unit.places.contains(place);
        let is_clean = |place: Place| is_known(place) || matches!(state.copies[place], Copy::Absent | Copy::Lost);
        state.calls.iter().all(is_over) && is_settled && !state.unit.is_moving && (0..PLACES).all(is_clean)
    }
}

impl Model for ChunkStore {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let call = Call { step: Step::Idle, floor: NOTHING, version: NOTHING, attempts: Vec::new(), settles: None };
        let places = Places::of(self.moves.first_places());
        let mut state = State {
            unit: Unit {
                stage: Stage::Unregistered,
                places,
                era: Era::first(&places),
                moves_begun: 0,
                is_moving: false,
                has_expired: false,
                erased: 0,
                released: 0,
            },
            copies: [Copy::Absent; PLACES],
            fenced: 0,
            updates: Vec::new(),
            flights: [Flight::default(); MOVES],
            calls: vec![call; self.calls.len()],
            floor: NOTHING,
            seen: Vec::new(),
            deaths_left: self.deaths,
            broken: None,
        };
        if self.is_stored {
            let era = Era::first(&places);
            let put = Attempt { places, era, version: PUT, landed: 0 };
            state.calls[0] = Call { step: Step::Done, attempts: vec![put], ..state.calls[0].clone() };
            state.unit.stage = Stage::Live;
            state.updates.extend(self.moves.former_places().map(Places::of));
            state.updates.push(places);
            places.iter().for_each(|place| state.copies[place] = Copy::Live { version: PUT, settled: true, era });
            state.floor = PUT;
        }
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.broken.is_none() {
            actions.extend(self.candidates(state).into_iter().filter(|action| self.step(state, *action).is_some()));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        self.step(last, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("newest", |_: &ChunkStore, state: &State| state.broken != Some(Broken::Newest)),
            Property::always("once", |_: &ChunkStore, state: &State| state.broken != Some(Broken::Once)),
            Property::always("own bytes", |_: &ChunkStore, state: &State| state.broken != Some(Broken::OwnBytes)),
            Property::always("two copies", |_: &ChunkStore, state: &State| state.broken != Some(Broken::TwoCopies)),
            Property::always("kept", |model: &ChunkStore, state: &State| {
                !model.is_put_acknowledged(state) || model.is_deleting(state) || state.unit.stage == Stage::Live
            }),
            Property::always("released", |_: &ChunkStore, state: &State| {
                let is_empty = |place: &Place| matches!(state.copies[*place], Copy::Absent | Copy::Lost);
                (0..PLACES).filter(|place| has(state.unit.released, *place)).all(|place| is_empty(&place))
            }),
            Property::always("ends", |model: &ChunkStore, state: &State| {
                let mut candidates = model.candidates(state).into_iter();
                state.broken.is_some()
                    || candidates.any(|action| {
                        !matches!(action, Action::Die(_) | Action::TryAgain(_)) && model.step(state, action).is_some()
                    })
                    || model.has_ended(state)
            }),
        ]
    }
}
