//! RFD 15: rows of a closed shard's maintenance unit that leave its state for pages, and come back.
//!
//! ```text
//!   draft:  none ─ register ─► (page, nothing changed) ─ change, remove ─► (page, changed) ─ commit ─► none, and the page is current
//!             └──────────────◄ revoke, expiry, no chunk left ◄───────┴──────────┘
//!   row:    resident ─ commit, if unchanged since the registration and without work ─► in the page ─ touch ─► resident
//!             └─ remove ─► gone, while there is a page or a draft ─ commit, if removed before the registration ─► nowhere
//! ```
//!
//! States: the unit's applied state (its group is trusted), for one range of numbers; pages, each a chunk that is written once, by the leader
//! that has registered it. What a leader does are commands that are applied at any time, again, or never: it may have been deposed. A
//! touch carries what was read from a page while that was current, so there is one for each row of each page that ever was; a commit waits for all
//! of its page's rows to be read (and written, which is the same step). The rows of a page are read one by one, each at another moment if
//! need be. *Merged* is what the state means: a resident row; or nothing if the number is gone; or what the current page has.
//!
//! A row is a number that counts the chunk's relocations. Its relocation has begun, then its copy has *arrived* where it goes, then the row is
//! changed. What is *true* of a number is changed by changes and removals alone.
//!
//! Left out: a change that comes twice or late, because it is applied only while its relocation is under way (`chunk_store` has relocations); the
//! group; pages that cannot be read; reads, which take the merged row and ask again if the page has ended meanwhile.
//!
//! Invariants, in every state:
//! - *Merged*: every number has its true row. So whatever is not resident can be touched, and comes back as it was.
//! - *Told*: the unit can be told of every copy that has arrived: its row is resident, with the relocation under way.
//! - *Emptied*: a range without chunks has no page, and without page and draft, or without chunks, nothing is gone.
//!
//! And each of these is reached, or the above would say nothing: see [`ArchivedUnits::examples`].

mod steps;
mod tests;

use super::explore;
use stateright::{Model, Property};

/// Chunks of the range.
const NUMBERS: usize = 2;

type Number = usize;
/// Counts the changes of a row.
type Value = u8;
type PageId = usize;
/// A set of numbers.
type Mask = u8;

/// What is wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Wrong {
    Nothing,
    /// A touch may come from a page that is not current.
    TouchesFromFormerPages,
    /// A touch replaces a row that is resident.
    TouchesTheResident,
    /// A touch brings back what is gone.
    TouchesTheGone,
    /// A commit lets go of rows that were changed since its page was registered.
    DropsChanged,
    /// A commit lets go of rows with work.
    DropsWork,
    /// A commit ends whatever draft there is.
    CommitsForAnyDraft,
    /// A leader reads the rows of a page before it registers it.
    ReadsBeforeRegistering,
    /// Nothing is ever gone.
    NoTombstones,
    /// Nothing is gone without a page, though there is a draft.
    NoTombstonesForDrafts,
    /// After a commit nothing is gone.
    CommitForgetsTheGone,
    /// Nor after a revocation, though there is a page.
    RevocationForgetsTheGone,
    /// The draft outlives the last chunk of its range. Not wrong as long as commits look at what lives.
    KeepsDraftOfNobody,
    /// A page is installed though no chunk of its range lives.
    InstallsForNobody,
    /// Both of the above.
    KeepsAndInstallsForNobody,
}

/// The bounds.
#[derive(Clone, Debug)]
struct ArchivedUnits {
    /// Most pages that are registered.
    pages: usize,
    /// Most changes of a row.
    changes: Value,
    wrong: Wrong,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Row {
    value: Value,
    is_moving: bool,
}

/// The page that is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Draft {
    page: PageId,
    /// Since its registration; removed is changed.
    changed: Mask,
}

/// The applied state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Unit {
    rows: [Option<Row>; NUMBERS],
    /// The current one.
    page: Option<PageId>,
    live: u8,
    gone: Mask,
    draft: Option<Draft>,
}

/// What a leader has read for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Line {
    Unread,
    Empty,
    Has(Value),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Page {
    lines: [Line; NUMBERS],
    was_current: bool,
    /// For the examples: rows that its commit has let go of, and those that it has though they had been removed by then.
    left: Mask,
    outlived: Mask,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    unit: Unit,
    /// As they were registered.
    pages: Vec<Page>,
    /// What is read for a page that will be registered.
    early: [Line; NUMBERS],
    truth: [Option<Value>; NUMBERS],
    arrived: Mask,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    ReadEarly(Number),
    Register,
    Read(Number),
    Commit(PageId),
    Revoke,
    Touch { page: PageId, number: Number },
    BeginMove(Number),
    Arrive(Number),
    Change(Number),
    Remove(Number),
}

fn bit(number: Number) -> Mask {
    1 << number
}

fn has(mask: Mask, number: Number) -> bool {
    mask & bit(number) != 0
}

impl ArchivedUnits {
    fn candidates(&self, state: &State) -> Vec<Action> {
        let mut actions = vec![Action::Register, Action::Revoke];
        for number in 0..NUMBERS {
            actions.extend([Action::ReadEarly(number), Action::Read(number), Action::BeginMove(number)]);
            actions.extend([Action::Arrive(number), Action::Change(number), Action::Remove(number)]);
            actions.extend((0..state.pages.len()).map(|page| Action::Touch { page, number }));
        }
        actions.extend((0..state.pages.len()).map(Action::Commit));
        actions
    }

    /// The state after an action, or nothing if it can't be taken or is refused.
    fn step(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::ReadEarly(number) => self.read_early(&mut state, number),
            Action::Register => self.register(&mut state),
            Action::Read(number) => self.read(&mut state, number),
            Action::Commit(page) => self.commit(&mut state, page),
            Action::Revoke => self.revoke(&mut state),
            Action::Touch { page, number } => self.touch(&mut state, page, number),
            Action::BeginMove(number) => self.begin_move(&mut state, number),
            Action::Arrive(number) => self.arrive(&mut state, number),
            Action::Change(number) => self.change(&mut state, number),
            Action::Remove(number) => self.remove(&mut state, number),
        }?;
        (state != *last).then_some(state)
    }

    /// What must happen somewhere. A touch that can come is refused where it would do something but for one rule.
    fn examples() -> Vec<Property<Self>> {
        vec![
            Property::sometimes("archived, changed and archived again", |_: &ArchivedUnits, state: &State| {
                // Between the two it was not resident at first, and changed at last: somebody has touched it.
                (0..NUMBERS).any(|number| {
                    let mut left = state.pages.iter().filter(|page| has(page.left, number)).map(|page| page.lines[number]);
                    let first = left.next();
                    left.any(|line| Some(line) != first)
                })
            }),
            Property::sometimes("removed under a draft that was committed", |_: &ArchivedUnits, state: &State| {
                state.pages.iter().any(|page| page.outlived != 0)
            }),
            Property::sometimes("a touch from a former page is refused", |model: &ArchivedUnits, state: &State| {
                let is_former = |page: PageId| state.pages[page].was_current && state.unit.page.is_some_and(|now| now != page);
                let is_archived = |number: &Number| state.unit.rows[*number].is_none() && state.truth[*number].is_some();
                let is_old = |page: PageId, number: Number| state.pages[page].lines[number] != model.line(state, number);
                (0..state.pages.len())
                    .any(|page| is_former(page) && (0..NUMBERS).filter(is_archived).any(|number| is_old(page, number)))
            }),
            Property::sometimes("a touch of a changed resident is refused", |_: &ArchivedUnits, state: &State| {
                let current = state.unit.page.map(|page| &state.pages[page]);
                current.is_some_and(|page| {
                    let is_other =
                        |number: Number| state.unit.rows[number].is_some_and(|row| Line::Has(row.value) != page.lines[number]);
                    (0..NUMBERS).any(is_other)
                })
            }),
            Property::sometimes("a touch of the gone is refused", |_: &ArchivedUnits, state: &State| {
                let current = state.unit.page.map(|page| &state.pages[page]);
                current.is_some_and(|page| {
                    let is_gone = |number: Number| has(state.unit.gone, number) && page.lines[number] != Line::Empty;
                    (0..NUMBERS).any(is_gone)
                })
            }),
        ]
    }
}

impl Model for ArchivedUnits {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let row = Row { value: 0, is_moving: false };
        let unit = Unit { rows: [Some(row); NUMBERS], page: None, live: NUMBERS as u8, gone: 0, draft: None };
        vec![State { unit, pages: Vec::new(), early: [Line::Unread; NUMBERS], truth: [Some(0); NUMBERS], arrived: 0 }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend(self.candidates(state).into_iter().filter(|action| self.step(state, *action).is_some()));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        self.step(last, action)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("merged", |model: &ArchivedUnits, state: &State| {
                (0..NUMBERS).all(|number| model.merged(state, number) == state.truth[number])
            }),
            Property::always("told", |_: &ArchivedUnits, state: &State| {
                let can_be_told = |number: Number| state.unit.rows[number].is_some_and(|row| row.is_moving);
                (0..NUMBERS).filter(|number| has(state.arrived, *number)).all(can_be_told)
            }),
            Property::always("emptied", |_: &ArchivedUnits, State { unit, .. }: &State| {
                let needs_gone = unit.live > 0 && (unit.page.is_some() || unit.draft.is_some());
                (unit.live > 0 || unit.page.is_none()) && (needs_gone || unit.gone == 0)
            }),
        ];
        properties.extend(ArchivedUnits::examples());
        properties
    }
}
