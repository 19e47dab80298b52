//! Decision 19 as RFD 7 (decision 10) has it: a write that fails while its gateway lives.
//!
//! ```text
//!   writer: announce, append to the primary ──► unknown outcome ──► settle: the target has begun another session, or all members write
//!   by a later table ──► void: phase 2 without an entry, the freeze ends ──► tried again as another write, or given up
//! ```
//!
//! States: two or three gateways, one key, one target a table; appends that may land at any time after they were sent, also after their outcome was
//! said to be unknown; announcements and conclusions on numbered streams. Optionally a view with another table, a gateway that is removed,
//! fenced and recovered (its record counts, or its writes are void), and the death of everything, after which one gateway decides by what
//! stands. The order of a record is its table's generation, then its place in the log.
//!
//! Left out because other models have it: the messages of a freeze (`freeze`), of a recovery and of reads (`views`): each is one step here.
//!
//! Invariants:
//! - *Linearizable*: of the calls of all clients there is an order that explains every answer and heeds who was answered before whom called. A
//!   call whose outcome is not known takes effect once, at any time, or never; tries of one call are one call.
//! - *Ends*: when nothing can happen any more, every call at a gateway that lives is answered, and nothing is in flight or frozen.

mod linear;
mod steps;
mod tests;

use super::explore;
use stateright::{Model, Property};

const MAX_GATEWAYS: usize = 3;
/// Positions of one table's log are below this: orders of the next one begin here.
const GENERATION: Order = 16;

/// Orders of records; 0 is "nothing".
type Order = u8;
/// A set of gateways, of records or of calls.
type Mask = u8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Put,
    /// Refused if there is something.
    PutIfAbsent,
    Get,
}

/// What is wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Wrong {
    Nothing,
    /// A write of unknown outcome is void at once. This was built first.
    VoidsAtOnce,
    /// Another table of the writer's own is enough, though other members may still write by the one before.
    OwnTableSuffices,
    /// A write ends by a table that other members have not installed.
    SettlesAhead,
    /// The second try is sent while the first one may still land.
    NoSessions,
    /// An answer that comes after the write was given up publishes it.
    PublishesLateAnswers,
    /// The second try of a conditional write goes by what was frozen for the first.
    RetriesUnfrozen,
    /// Recovery takes the first record of a removed gateway for its newest.
    RecoversTheFirst,
}

/// The bounds.
#[derive(Clone, Debug)]
struct FailedWrites {
    gateways: usize,
    /// At which gateway, and what.
    calls: Vec<(usize, Kind)>,
    /// How many appends may have an unknown outcome.
    failures: u8,
    removes: Option<usize>,
    changes_table: bool,
    dies: bool,
    wrong: Wrong,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Outcome {
    Written,
    Refused,
    /// The call whose content was read, from 1; 0 is "nothing".
    Read(u8),
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Idle,
    Queued,
    Freezing,
    Writing {
        record: usize,
        heard: Mask,
        is_durable: bool,
        has_failed: bool,
    },
    /// Void, to be tried again or given up.
    Failed,
    Reading,
    Done(Outcome),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Call {
    stage: Stage,
    /// Calls that were answered before this one was made.
    after: Mask,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum At {
    OnTheWay,
    Landed(Order),
    Never,
}

/// One try of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Record {
    call: usize,
    generation: u8,
    at: At,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Message {
    Announce(usize),
    Announced(usize),
    Conclude { record: usize, order: Order },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Wire {
    view: u8,
    message: Message,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Gateway {
    view: u8,
    newest: Order,
    /// Records announced by others and not concluded.
    announced: Mask,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct View {
    members: Mask,
    generation: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    calls: Vec<Call>,
    records: Vec<Record>,
    gateways: Vec<Gateway>,
    /// From `from * MAX_GATEWAYS + to`.
    streams: Vec<Vec<Wire>>,
    views: Vec<View>,
    /// Records in the log of each table.
    appended: [Order; 2],
    freeze: Option<usize>,
    failures_left: u8,
    is_fenced: bool,
    is_decided: bool,
    /// What the gateway that founds the cell anew has decided.
    founded: Option<Order>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Call(usize),
    Start(usize),
    Freeze(usize),
    Land(usize),
    /// The append's answer comes.
    Answer(usize),
    /// The append's outcome is said to be unknown.
    Fail(usize),
    Settle(usize),
    TryAgain(usize),
    GiveUp(usize),
    Read(usize),
    Deliver {
        from: usize,
        to: usize,
    },
    Remove,
    ChangeTable,
    Install(usize),
    Fence,
    Decide,
    Die,
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

impl Model for FailedWrites {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let members = (0..self.gateways).map(bit).sum();
        vec![State {
            calls: vec![Call { stage: Stage::Idle, after: 0 }; self.calls.len()],
            records: Vec::new(),
            gateways: vec![Gateway { view: 1, newest: 0, announced: 0 }; self.gateways],
            streams: vec![Vec::new(); MAX_GATEWAYS * MAX_GATEWAYS],
            views: vec![View { members, generation: 0 }],
            appended: [0; 2],
            freeze: None,
            failures_left: self.failures,
            is_fenced: false,
            is_decided: false,
            founded: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let may_call = |call: &usize| state.calls[*call].stage == Stage::Idle && self.serves(state, self.calls[*call].0);
        actions.extend((0..self.calls.len()).filter(may_call).map(Action::Call));
        actions.extend((0..self.calls.len()).filter(|call| self.may_read(state, *call)).map(Action::Read));
        if state.founded.is_some() {
            return;
        }
        self.write_actions(state, actions);
        self.record_actions(state, actions);
        self.cell_actions(state, actions);
        for from in 0..self.gateways {
            let to = (0..self.gateways).filter(|to| self.may_deliver(state, from, *to));
            actions.extend(to.map(|to| Action::Deliver { from, to }));
        }
        if self.dies {
            actions.push(Action::Die);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Call(call) => self.call(&mut state, call),
            Action::Start(call) => self.start(&mut state, call),
            Action::Freeze(call) => self.freeze(&mut state, call),
            Action::Land(record) => self.land(&mut state, record),
            Action::Answer(record) => self.answer(&mut state, record),
            Action::Fail(call) => self.fail(&mut state, call),
            Action::Settle(call) => self.settle(&mut state, call),
            Action::TryAgain(call) => self.try_again(&mut state, call),
            Action::GiveUp(call) => self.end(&mut state, call, Outcome::Unknown),
            Action::Read(call) => self.read(&mut state, call),
            Action::Deliver { from, to } => {
                let wire = state.streams[from * MAX_GATEWAYS + to].remove(0);
                self.receive(&mut state, from, to, wire);
            }
            Action::Remove => {
                let View { members, generation } = self.present(&state);
                let members = members & !bit(self.removes?);
                state.views.push(View { members, generation });
            }
            Action::ChangeTable => {
                let View { members, generation } = self.present(&state);
                state.views.push(View { members, generation: generation + 1 });
            }
            Action::Install(gateway) => self.install(&mut state, gateway),
            Action::Fence => self.fence(&mut state),
            Action::Decide => self.decide(&mut state),
            Action::Die => self.die(&mut state),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("linearizable", |model: &FailedWrites, state: &State| linear::is_linearizable(model, state)),
            Property::always("ends", |model: &FailedWrites, state: &State| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                actions.retain(|action| *action != Action::Die);
                !actions.is_empty() || model.has_ended(state)
            }),
        ]
    }
}
