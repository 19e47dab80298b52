//! RFD 28: copies of file contents, for one extent.
//!
//! ```text
//!   primary   elected ─► enter copies ─► align ─► serving ── open ─► change ─► all in sync have it ─► acknowledged
//!                                                    ├── leave: a copy is out
//!                                                    ├── take the lock, read, write, join: a copy is in sync again
//!                                                    └── settle
//! ```
//!
//! States: three nodes with a copy each; the record, which Raft keeps (trusted: only the newest term commits); the reigns so far. A deposed primary acts on until it is
//! told. A copy is a version: of an overwrite, the last one that it has; of appends, how many it has. A client makes one version after the other, and gives one up when it
//! has no answer. A change at a backup is in flight, then admitted, then durable; each step may come late or never.
//!
//! Left out: other extents; the open list's bound; a copy whose disk loses what was durable.
//!
//! Invariants, in every state:
//! - *Kept*: what a primary with the lease reads is no older than what was acknowledged, or read, before.
//! - *Two*: an acknowledged version is on two copies at least.
//! - *Equal*: while a primary serves and changes nothing, all copies in sync are equal, if the record says so.

mod steps;
mod tests;

use stateright::{Model, Property};

const NODES: usize = 3;

type Node = usize;
type Version = u8;
/// A set of nodes.
type Mask = u8;

/// What changes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Append,
    Overwrite,
}

/// What is wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Wrong {
    Nothing,
    /// A change is acknowledged without a silent copy before the record says that it is out.
    AcknowledgesBeforeLeave,
    /// A new primary does not enter the copies.
    DoesNotEnter,
    /// An enter does not wait for what was admitted.
    DoesNotDrain,
    /// A copy forgets at a restart what it has promised.
    ForgetsPromises,
    /// What is sent again has the session of what was sent first.
    KeepsItsSession,
    /// A new primary aligns nothing.
    DoesNotAlign,
    /// Changes are made without a record that the extent is unsettled.
    OpensNothing,
    /// The extent is settled while a change is under way.
    SettlesEarly,
    /// A node whose copy is out serves.
    OutsidersLead,
    /// The set may shrink to one copy.
    LeavesOne,
    /// A rebuild copies while changes go on, and they are not sent to the copy.
    CopiesWithoutLock,
    /// Reads need no lease.
    ReadsWithoutLease,
    /// Reads don't wait for a change under way.
    ReadsWhatIsUnderWay,
}

/// The bounds.
#[derive(Clone, Debug)]
struct Copies {
    kind: Kind,
    reigns: usize,
    versions: Version,
    /// Of a copy in a reign, besides the first one and the one that follows when it has left.
    sessions: u8,
    /// A change is admitted first and durable later, not in one step.
    admits: bool,
    /// Copies are rebuilt.
    rebuilds: bool,
    wrong: Wrong,
}

/// What Raft keeps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Record {
    in_sync: Mask,
    is_open: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Stage {
    InFlight,
    Admitted,
}

/// A change on its way to a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Message {
    to: Node,
    reign: usize,
    session: u8,
    version: Version,
    stage: Stage,
}

/// A change that a primary has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Change {
    version: Version,
    /// Copies that it waits for.
    needs: Mask,
    /// Those that have it. A late answer may still count.
    has: Mask,
}

/// Where a rebuild is. Only one copy is rebuilt at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Rebuild {
    None,
    /// The extent was read, and changes wait.
    Read(Node, Version),
    /// The copy has it and takes changes.
    Copied(Node),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Reign {
    primary: Node,
    entered: Mask,
    sessions: [u8; NODES],
    is_serving: bool,
    /// As this primary knows it.
    in_sync: Mask,
    is_open: bool,
    change: Option<Change>,
    rebuild: Rebuild,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    copies: [Version; NODES],
    /// The reign and session that a copy obeys.
    promises: [(usize, u8); NODES],
    record: Record,
    reigns: Vec<Reign>,
    messages: Vec<Message>,
    /// The version that the client has begun last, and whether it waits for it.
    last: Version,
    is_waiting: bool,
    acknowledged: Version,
    seen: Version,
    is_taken_back: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Elect(Node),
    Enter(usize, Node),
    Serve,
    Open,
    Settle,
    /// The client's next version, or the last one again, at a primary. Its own copy has it at once.
    Begin(usize),
    SendAgain(usize, Node),
    Admit(usize),
    Apply(usize),
    Complete(usize),
    GiveUp,
    Leave(Node),
    Read(usize),
    RebuildRead(Node),
    RebuildWrite(usize),
    Join,
    Restart(Node),
}

fn bit(node: Node) -> Mask {
    1 << node
}

fn has(mask: Mask, node: Node) -> bool {
    mask & bit(node) != 0
}

impl Copies {
    fn candidates(&self, state: &State) -> Vec<Action> {
        let mut actions = vec![Action::Serve, Action::Open, Action::Settle, Action::GiveUp, Action::Join];
        for node in 0..NODES {
            actions.extend([Action::Elect(node), Action::Leave(node), Action::RebuildRead(node), Action::Restart(node)]);
        }
        for reign in 0..state.reigns.len() {
            actions.extend([Action::Begin(reign), Action::Complete(reign), Action::Read(reign), Action::RebuildWrite(reign)]);
            actions.extend((0..NODES).flat_map(|node| [Action::Enter(reign, node), Action::SendAgain(reign, node)]));
        }
        actions.extend((0..state.messages.len()).flat_map(|at| [Action::Admit(at), Action::Apply(at)]));
        actions
    }

    /// The state after an action, or nothing if it can't be taken.
    fn step(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Elect(node) => self.elect(&mut state, node),
            Action::Enter(reign, node) => self.enter(&mut state, reign, node),
            Action::Serve => self.serve(&mut state),
            Action::Open => self.open(&mut state),
            Action::Settle => self.settle(&mut state),
            Action::Begin(reign) => self.begin(&mut state, reign),
            Action::SendAgain(reign, node) => self.send_again(&mut state, reign, node),
            Action::Admit(at) => self.admit(&mut state, at),
            Action::Apply(at) => self.apply(&mut state, at),
            Action::Complete(reign) => self.complete(&mut state, reign),
            Action::GiveUp => self.give_up(&mut state),
            Action::Leave(node) => self.leave(&mut state, node),
            Action::Read(reign) => self.read(&mut state, reign),
            Action::RebuildRead(node) => self.rebuild_read(&mut state, node),
            Action::RebuildWrite(reign) => self.rebuild_write(&mut state, reign),
            Action::Join => self.join(&mut state),
            Action::Restart(node) => self.restart(&mut state, node),
        }?;
        self.forget_dead(&mut state);
        state.messages.sort_unstable();
        (state != *last).then_some(state)
    }

    /// What must happen somewhere.
    fn examples(&self) -> Vec<Property<Self>> {
        let mut examples = vec![Property::sometimes("acknowledged without a copy", |_: &Copies, state: &State| {
            state.acknowledged > 0 && state.copies.contains(&0)
        })];
        if self.reigns > 1 {
            examples.push(Property::sometimes("acknowledged by a second reign", |_: &Copies, state: &State| {
                state.reigns.len() > 1 && state.acknowledged > 1 && state.acknowledged == state.last
            }));
        }
        if self.rebuilds {
            examples.push(Property::sometimes("rebuilt with what was acknowledged", |_: &Copies, state: &State| {
                matches!(state.reigns.last(), Some(Reign { rebuild: Rebuild::Copied(_), .. })) && state.acknowledged > 0
            }));
        }
        examples
    }
}

impl Model for Copies {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        // The first primary serves: nodes are alike.
        let first = Reign {
            primary: 0,
            entered: 0b111,
            sessions: [0; NODES],
            is_serving: true,
            in_sync: 0b111,
            is_open: false,
            change: None,
            rebuild: Rebuild::None,
        };
        vec![State {
            copies: [0; NODES],
            promises: [(1, 0); NODES],
            record: Record { in_sync: 0b111, is_open: false },
            reigns: vec![first],
            messages: Vec::new(),
            last: 0,
            is_waiting: false,
            acknowledged: 0,
            seen: 0,
            is_taken_back: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend(self.candidates(state).into_iter().filter(|action| self.step(state, *action).is_some()));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        self.step(last, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("kept", |_: &Copies, state: &State| !state.is_taken_back),
            Property::always("two", |_: &Copies, state: &State| {
                state.copies.iter().filter(|copy| **copy >= state.acknowledged).count() >= 2
            }),
            Property::always("equal", |_: &Copies, state: &State| {
                let Some(reign) = state.reigns.last().filter(|reign| reign.is_serving && reign.change.is_none()) else {
                    return true;
                };
                let own = state.copies[reign.primary];
                (0..NODES).filter(|node| has(state.record.in_sync, *node)).all(|node| state.copies[node] == own)
            }),
        ];
        properties.extend(self.examples());
        properties
    }
}
