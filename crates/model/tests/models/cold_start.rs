//! Decisions 8, 13 and 21: a start walks the logs behind the last checkpoint, rolls forward what stands on its primary, discards the
//! rest, and serves. It may itself be interrupted; devices may be missing; copies move; tombstones go.
//!
//! States: two devices with their logs, the installed manifest (the key's row in the runs, a start vector), and, while the process is up, the
//! index, a write that is being appended, a checkpoint that has begun. One key, written by one client; each append is a step of its own,
//! so a crash tears replica sets in every way. Each start has a generation of its own; device 0 is primary when it is there.
//!
//! ```text
//!   down ──start, any devices present──► recovering ──copies made again, one by one──► up ──┐
//!    ▲                                       │ crash                                   crash│
//!    └───────────────────────────────────────┴──────────────────────────────────────────────┘
//! ```
//!
//! Invariants:
//! - The history of writes and reads is linearizable, whatever crashed and whichever devices were missing at which start: a key may be
//!   unavailable, never old.
//! - *Readable*: with all devices present, the newest record has a copy where the index says.

use super::explore::{assert_broken, assert_sound, soaking};
use model::linearizability::History;
use model::register::{Call, Outcome, Register};
use stateright::{Model, Property};

const DEVICES: usize = 2;
const ALL: Mask = 0b11;
/// Epochs for which a tombstone stays after its own.
const TOMBSTONE_EPOCHS: u8 = 2;

/// What is wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Wrong {
    Nothing,
    /// Publishes a rolled-forward write before its missing copies are made again.
    PublishesBeforeCopies,
    /// A record on a secondary alone counts although the primary can be read and lacks it.
    SecondariesCount,
    /// Serves the newest decided record of a key although a younger one can't be decided.
    ServesUndecided,
    /// A checkpoint moves start vectors past records that could not be decided.
    VectorPassesUndecided,
    /// A checkpoint forgets how far the log of a missing device is covered: its next walk begins at the log's start.
    VectorForgetsMissing,
    /// Tombstones go after two epochs even while a device is missing.
    TombstonesGoWhileMissing,
    /// A start takes the next generation after those that it *found*, which a missing device may have used already.
    GenerationsFound,
    /// The start vector is taken when the checkpoint ends, not before the epoch advances.
    VectorTakenLate,
    /// A relocated copy is taken for a write at its new place.
    RelocationsAreWrites,
    /// A moved copy's old place is reset before a checkpoint has the new one.
    ResetsBeforeCheckpoint,
    /// Collection takes records that no checkpoint covers.
    ResetsBeyondVector,
    /// Nobody writes down which devices a generation writes to before it writes.
    TablesUnrecorded,
}

/// The bounds.
#[derive(Clone, Debug)]
struct ColdStart {
    /// The client's writes in order: false is a DELETE.
    writes: Vec<bool>,
    crashes: u8,
    /// Starts with a missing device.
    absences: u8,
    checkpoints: u8,
    /// Records of other keys in device 0's log.
    foreign: usize,
    relocations: u8,
    /// Whether collection resets what nothing refers to.
    collects: bool,
    /// Whether a walk passes over records of epochs that a checkpoint covers, wherever they stand.
    ignores_covered: bool,
    reads: u8,
    wrong: Wrong,
}

type Mask = u8;
/// Generation * 16 + position on the primary.
type Order = u16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Record {
    write: usize,
    generation: u16,
    primary: usize,
    devices: Mask,
    epoch: u8,
    /// Copies that are made after the write was decided carry its order.
    order: Option<Order>,
    relocated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Entry {
    write: usize,
    order: Order,
    places: [Option<usize>; DEVICES],
    epoch: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Manifest {
    row: Option<Entry>,
    start: [usize; DEVICES],
    epoch: u8,
    /// Every write of this epoch and before is decided.
    covered: u8,
    generation: u16,
}

/// A write that is being appended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Active {
    record: Record,
    order: Option<Order>,
    places: [Option<usize>; DEVICES],
    epoch: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Up {
    present: Mask,
    generation: u16,
    epoch: u8,
    index: Option<Entry>,
    /// The newest entry of the epoch that has ended.
    ended: Option<Entry>,
    undecided: bool,
    /// This start could not decide everything: what it could not read must be found by a later one.
    holds_back: bool,
    active: Option<Active>,
    /// A checkpoint that has begun: its start vector.
    checkpoint: Option<[usize; DEVICES]>,
    /// Copies that recovery still has to make: device, record, and which entry gets the place.
    missing_copies: Vec<(usize, Record)>,
    recovered: Vec<Entry>,
    serving: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Event {
    Called(usize),
    Acknowledged(usize),
    Read(Option<usize>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    logs: Vec<Vec<Option<Record>>>,
    manifest: Manifest,
    /// The sets of devices that generations wrote to which no checkpoint covers; the manager has them before the first write.
    tables: Vec<Mask>,
    up: Option<Up>,
    starts: u16,
    written: usize,
    crashes: u8,
    absences: u8,
    checkpoints: u8,
    relocations: u8,
    reads: u8,
    history: Vec<Event>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Start { present: Mask },
    MakeCopy,
    Serve,
    Write,
    Append { device: usize },
    Read,
    BeginCheckpoint,
    InstallCheckpoint,
    Relocate { device: usize },
    Reset { device: usize, position: usize },
    Crash,
}

fn has(mask: Mask, device: usize) -> bool {
    mask & (1 << device) != 0
}

impl ColdStart {
    fn is_live(&self, entry: &Entry) -> bool {
        self.writes[entry.write]
    }

    fn start(&self, state: &mut State, present: Mask) {
        state.starts += 1;
        state.absences -= u8::from(present != ALL);
        let found = self.walk(state, present);
        let newest_found = found.iter().map(|(_, _, record)| record.generation).max().unwrap_or(0);
        let generation = match self.wrong {
            Wrong::GenerationsFound => newest_found.max(state.manifest.generation) + 1,
            _ => state.starts,
        };
        let mut up = Up {
            present,
            generation,
            epoch: state.manifest.epoch + 1,
            index: state.manifest.row,
            ended: None,
            undecided: state.tables.iter().any(|table| table & present == 0) && self.wrong != Wrong::TablesUnrecorded,
            holds_back: false,
            active: None,
            checkpoint: None,
            missing_copies: Vec::new(),
            recovered: Vec::new(),
            serving: false,
        };
        for write in 0..self.writes.len() {
            let copies: Vec<_> =
                found.iter().filter(|(_, _, record)| record.write == write && !self.is_moved(record)).collect();
            self.decide(&mut up, write, &copies);
        }
        self.apply_moves(&mut up, &found);
        up.holds_back = up.undecided && self.wrong != Wrong::VectorPassesUndecided;
        if !state.tables.contains(&present) {
            state.tables.push(present);
            state.tables.sort_unstable();
        }
        if self.wrong == Wrong::PublishesBeforeCopies {
            Self::publish_recovered(&mut up);
        }
        state.up = Some(up);
    }

    fn is_moved(&self, record: &Record) -> bool {
        record.relocated && self.wrong != Wrong::RelocationsAreWrites
    }

    fn walk(&self, state: &State, present: Mask) -> Vec<(usize, usize, Record)> {
        let mut found = Vec::new();
        for device in (0..DEVICES).filter(|device| has(present, *device)) {
            for (position, record) in state.logs[device].iter().enumerate().skip(state.manifest.start[device]) {
                let is_ignored =
                    |record: &Record| self.ignores_covered && !record.relocated && record.epoch <= state.manifest.covered;
                found.extend(record.filter(|record| !is_ignored(record)).map(|record| (device, position, record)));
            }
        }
        found
    }

    /// Rolls a write forward, discards it, or finds that it can't be decided.
    fn decide(&self, up: &mut Up, write: usize, copies: &[&(usize, usize, Record)]) {
        let Some((_, _, record)) = copies.first().copied() else { return };
        let own_order = |device: usize, position: usize, record: &Record| {
            let on_primary = device == record.primary || self.wrong == Wrong::SecondariesCount;
            let own = on_primary.then_some(record.generation * 16 + position as Order);
            if record.relocated && self.wrong == Wrong::RelocationsAreWrites { own } else { record.order.or(own) }
        };
        let order = copies.iter().filter_map(|(device, position, record)| own_order(*device, *position, record)).max();
        let Some(order) = order else {
            if !has(up.present, record.primary) {
                up.undecided |= self.wrong != Wrong::ServesUndecided;
            }
            return;
        };
        let mut entry = Entry { write, order, places: [None; DEVICES], epoch: up.epoch };
        for (device, position, _) in copies {
            entry.places[*device] = Some(*position);
        }
        for device in (0..DEVICES).filter(|device| has(record.devices & up.present, *device)) {
            if entry.places[device].is_none() {
                up.missing_copies.push((device, Record { order: Some(order), ..*record }));
            }
        }
        up.recovered.push(entry);
    }

    /// Copies that were moved change the places of the entry that they belong to.
    fn apply_moves(&self, up: &mut Up, found: &[(usize, usize, Record)]) {
        for (device, position, record) in found.iter().filter(|(_, _, record)| self.is_moved(record)) {
            let entries = up.index.iter_mut().chain(up.recovered.iter_mut());
            for entry in entries.filter(|entry| Some(entry.order) == record.order && entry.write == record.write) {
                entry.places[*device] = Some(*position);
                entry.epoch = up.epoch;
            }
        }
    }

    fn publish_recovered(up: &mut Up) {
        for entry in up.recovered.clone() {
            if up.index.is_none_or(|known| known.order < entry.order) {
                up.index = Some(entry);
            }
        }
        up.serving = true;
    }

    fn append(&self, state: &mut State, device: usize) -> Option<()> {
        let up = state.up.as_mut()?;
        let active = up.active.as_mut()?;
        let position = state.logs[device].len();
        active.places[device] = Some(position);
        if device == active.record.primary {
            active.order = Some(active.record.generation * 16 + position as Order);
        }
        let record = active.record;
        state.logs[device].push(Some(record));
        let complete = (0..DEVICES).all(|device| !has(record.devices, device) || active.places[device].is_some());
        if let (true, Some(order)) = (complete, active.order) {
            let entry = Entry { write: record.write, order, places: active.places, epoch: active.epoch };
            if up.checkpoint.is_some() && entry.epoch < up.epoch {
                up.ended = Some(entry);
            }
            up.index = Some(entry);
            // An order of this generation is above everything that could not be decided.
            up.undecided = false;
            up.active = None;
            state.history.push(Event::Acknowledged(record.write));
        }
        Some(())
    }

    fn begin_checkpoint(state: &mut State) -> Option<()> {
        let up = state.up.as_mut()?;
        state.checkpoints -= 1;
        up.checkpoint = Some([state.logs[0].len(), state.logs[1].len()]);
        up.ended = up.index;
        up.epoch += 1;
        Some(())
    }

    fn install_checkpoint(&self, state: &mut State) -> Option<()> {
        let up = state.up.as_mut()?;
        let noted = up.checkpoint.take()?;
        let ended = up.epoch - 1;
        let mut start = state.manifest.start;
        for device in 0..DEVICES {
            let late = self.wrong == Wrong::VectorTakenLate;
            let reached = if late { state.logs[device].len() } else { noted[device] };
            match (has(up.present, device), up.holds_back) {
                (true, false) => start[device] = reached,
                (false, _) if self.wrong == Wrong::VectorForgetsMissing => start[device] = 0,
                _ => {}
            }
        }
        let mut row = up.ended.take();
        if !up.holds_back {
            state.tables = vec![up.present];
        }
        let everybody_passed = up.present == ALL && !up.holds_back || self.wrong == Wrong::TombstonesGoWhileMissing;
        let forgettable = |entry: &Entry| !self.is_live(entry) && entry.epoch + TOMBSTONE_EPOCHS <= ended && everybody_passed;
        if row.as_ref().is_some_and(forgettable) {
            if up.index == row {
                up.index = None;
            }
            row = None;
        }
        let covered = if up.holds_back { state.manifest.covered } else { ended };
        state.manifest = Manifest { row, start, epoch: ended, covered, generation: up.generation };
        Some(())
    }

    fn relocate(state: &mut State, device: usize) -> Option<()> {
        let up = state.up.as_mut()?;
        let entry = up.index.as_mut()?;
        let from = entry.places[device]?;
        let record = state.logs[device][from]?;
        state.relocations -= 1;
        entry.places[device] = Some(state.logs[device].len());
        entry.epoch = up.epoch;
        state.logs[device].push(Some(Record { order: Some(entry.order), relocated: true, ..record }));
        Some(())
    }

    /// Records that collection may make room of.
    fn resettable(&self, state: &State, up: &Up, device: usize, position: usize) -> bool {
        let refers = |entry: &Option<Entry>| entry.is_some_and(|entry| entry.places[device] == Some(position));
        let saved = refers(&state.manifest.row) && self.wrong != Wrong::ResetsBeforeCheckpoint;
        state.logs[device][position].is_some()
            && (position < state.manifest.start[device] || self.wrong == Wrong::ResetsBeyondVector)
            && !refers(&up.index)
            && !refers(&up.ended)
            && !saved
    }

    /// What a read answers; nothing if the key is not available.
    fn read(&self, state: &State, up: &Up) -> Option<Option<usize>> {
        if up.undecided {
            return None;
        }
        let Some(entry) = up.index else { return Some(None) };
        let readable =
            |device: usize| has(up.present, device) && entry.places[device].is_some_and(|at| state.logs[device][at].is_some());
        (0..DEVICES).any(readable).then(|| self.is_live(&entry).then_some(entry.write))
    }

    fn history(&self, state: &State) -> History<Register<usize>> {
        let mut history = History::default();
        let mut calls = vec![None; self.writes.len()];
        for event in &state.history {
            match *event {
                Event::Called(write) => {
                    let value = self.writes[write].then_some(write);
                    calls[write] = Some(history.call(Call::Write(value)));
                }
                Event::Acknowledged(write) => history.answer(calls[write].expect("called before"), Outcome::Written),
                Event::Read(found) => {
                    let call = history.call(Call::Read);
                    history.answer(call, Outcome::Read(found));
                }
            }
        }
        history
    }

    fn actions_up(&self, state: &State, up: &Up, actions: &mut Vec<Action>) {
        if !up.serving {
            actions.push(if up.missing_copies.is_empty() { Action::Serve } else { Action::MakeCopy });
            return;
        }
        // The wrong start that serves early goes on making copies in the background.
        if !up.missing_copies.is_empty() {
            actions.push(Action::MakeCopy);
        }
        match &up.active {
            None if state.written < self.writes.len() => actions.push(Action::Write),
            None => {}
            Some(active) => {
                let missing = |device: &usize| has(active.record.devices, *device) && active.places[*device].is_none();
                actions.extend((0..DEVICES).filter(missing).map(|device| Action::Append { device }));
            }
        }
        if state.reads > 0 && self.read(state, up).is_some() {
            actions.push(Action::Read);
        }
        match up.checkpoint {
            None if state.checkpoints > 0 => actions.push(Action::BeginCheckpoint),
            // It waits for the writes of the epoch that ended.
            Some(_) if up.active.as_ref().is_none_or(|active| active.epoch == up.epoch) => {
                actions.push(Action::InstallCheckpoint)
            }
            _ => {}
        }
        for device in (0..DEVICES).filter(|device| has(up.present, *device)) {
            let movable = |entry: &Entry| entry.places[device].is_some_and(|at| at < state.manifest.start[device]);
            if state.relocations > 0 && up.index.as_ref().is_some_and(|entry| self.is_live(entry) && movable(entry)) {
                actions.push(Action::Relocate { device });
            }
            for position in 0..state.logs[device].len() {
                if self.collects && self.resettable(state, up, device, position) {
                    actions.push(Action::Reset { device, position });
                }
            }
        }
    }
}

impl Model for ColdStart {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            logs: vec![vec![None; self.foreign], Vec::new()],
            manifest: Manifest::default(),
            tables: Vec::new(),
            up: None,
            starts: 0,
            written: 0,
            crashes: self.crashes,
            absences: self.absences,
            checkpoints: self.checkpoints,
            relocations: self.relocations,
            reads: self.reads,
            history: Vec::new(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        match &state.up {
            None => {
                actions.push(Action::Start { present: ALL });
                if state.absences > 0 {
                    actions.extend([0b01, 0b10].map(|present| Action::Start { present }));
                }
            }
            Some(up) => {
                if state.crashes > 0 {
                    actions.push(Action::Crash);
                }
                self.actions_up(state, up, actions);
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Start { present } => self.start(&mut state, present),
            Action::MakeCopy => {
                let up = state.up.as_mut()?;
                let (device, record) = up.missing_copies.remove(0);
                let position = state.logs[device].len();
                let entries = up.recovered.iter_mut().chain(up.index.iter_mut());
                entries.filter(|entry| entry.write == record.write).for_each(|entry| entry.places[device] = Some(position));
                state.logs[device].push(Some(record));
            }
            Action::Serve => Self::publish_recovered(state.up.as_mut()?),
            Action::Write => {
                let up = state.up.as_mut()?;
                let primary = (0..DEVICES).find(|device| has(up.present, *device))?;
                let (write, devices, generation) = (state.written, up.present, up.generation);
                let record = Record { write, generation, primary, devices, epoch: up.epoch, order: None, relocated: false };
                up.active = Some(Active { record, order: None, places: [None; DEVICES], epoch: up.epoch });
                state.written += 1;
                state.history.push(Event::Called(write));
            }
            Action::Append { device } => self.append(&mut state, device)?,
            Action::Read => {
                let found = self.read(&state, state.up.as_ref()?)?;
                state.reads -= 1;
                state.history.push(Event::Read(found));
            }
            Action::BeginCheckpoint => Self::begin_checkpoint(&mut state)?,
            Action::InstallCheckpoint => self.install_checkpoint(&mut state)?,
            Action::Relocate { device } => Self::relocate(&mut state, device)?,
            Action::Reset { device, position } => state.logs[device][position] = None,
            Action::Crash => {
                state.crashes -= 1;
                state.up = None;
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("linearizable", |model: &ColdStart, state: &State| {
                !matches!(state.history.last(), Some(Event::Read(_))) || model.history(state).check(None).is_ok()
            }),
            Property::always("readable", |model: &ColdStart, state: &State| match &state.up {
                Some(up) if up.serving && up.present == ALL => model.read(state, up).is_some(),
                _ => true,
            }),
        ]
    }
}

/// Two PUTs, torn and interrupted; nothing moves, nobody is missing.
fn torn() -> ColdStart {
    ColdStart {
        writes: vec![true, true],
        crashes: 3,
        absences: 0,
        checkpoints: 1,
        foreign: 0,
        relocations: 0,
        collects: false,
        ignores_covered: false,
        reads: 2,
        wrong: Wrong::Nothing,
    }
}

/// Devices are missing at up to two starts.
fn missing() -> ColdStart {
    ColdStart { absences: 2, ..torn() }
}

/// A PUT and its DELETE, checkpoints until the tombstone goes, and a device that is missing meanwhile.
fn tombstones() -> ColdStart {
    ColdStart { writes: vec![true, false], crashes: 2, absences: 1, checkpoints: 3, reads: 1, ..torn() }
}

/// Copies that move, with resets of what they leave behind.
fn moving() -> ColdStart {
    ColdStart { crashes: 2, checkpoints: 2, relocations: 1, collects: true, reads: 1, ..torn() }
}

fn wrong(base: ColdStart, wrong: Wrong) -> ColdStart {
    ColdStart { wrong, ..base }
}

#[test]
fn starts_decide_alike_and_lose_nothing() {
    assert_sound("torn replica sets, interrupted starts", torn());
    assert_sound("missing devices", missing());
    assert_sound("tombstones", tombstones());
    assert_sound("moving copies", moving());
    if soaking() {
        let three = ColdStart { writes: vec![true, false, true], checkpoints: 2, absences: 1, ..torn() };
        assert_sound("three writes", three);
        assert_sound("missing devices, a longer log", ColdStart { foreign: 2, ..missing() });
        assert_sound("tombstones, collected", ColdStart { collects: true, checkpoints: 4, ..tombstones() });
        assert_sound("moving copies, a missing device", ColdStart { absences: 1, relocations: 2, ..moving() });
    }
}

#[test]
fn wrong_starts_are_found() {
    let check =
        |base: ColdStart, how: Wrong, property: &'static str| assert_broken(&format!("{how:?}"), wrong(base, how), property);
    check(missing(), Wrong::PublishesBeforeCopies, "linearizable");
    // Positions on a secondary show that they are no order when the primary's log is longer, as other keys make it.
    check(ColdStart { foreign: 2, ..missing() }, Wrong::SecondariesCount, "linearizable");
    check(missing(), Wrong::ServesUndecided, "linearizable");
    check(missing(), Wrong::VectorPassesUndecided, "linearizable");
    check(missing(), Wrong::GenerationsFound, "linearizable");
    check(missing(), Wrong::TablesUnrecorded, "linearizable");
    check(torn(), Wrong::VectorTakenLate, "linearizable");
    check(ColdStart { checkpoints: 4, ..tombstones() }, Wrong::TombstonesGoWhileMissing, "linearizable");
    check(moving(), Wrong::RelocationsAreWrites, "linearizable");
    check(moving(), Wrong::ResetsBeyondVector, "linearizable");
}

/// A log that is walked again from its start holds records whose tombstones have gone.
#[test]
fn a_missing_device_keeps_its_start_vector() {
    let base = ColdStart { collects: true, checkpoints: 4, ..tombstones() };
    assert_broken("VectorForgetsMissing", wrong(base, Wrong::VectorForgetsMissing), "linearizable");
}

/// A walk that passes over records of covered epochs needs neither of the two: what it would find is decided, or was never
/// acknowledged.
#[test]
fn ignoring_covered_epochs_makes_up_for_vectors_and_tombstones() {
    let ignoring = |base: ColdStart| ColdStart { ignores_covered: true, collects: true, ..base };
    let four = ColdStart { checkpoints: 4, ..tombstones() };
    assert_sound("VectorForgetsMissing", ignoring(wrong(four.clone(), Wrong::VectorForgetsMissing)));
    assert_sound("TombstonesGoWhileMissing", ignoring(wrong(four, Wrong::TombstonesGoWhileMissing)));
    assert_broken("TablesUnrecorded", ignoring(wrong(missing(), Wrong::TablesUnrecorded)), "linearizable");
    if soaking() {
        assert_sound("ignoring covered epochs", ignoring(tombstones()));
        assert_sound("ignoring covered epochs, missing devices", ignoring(missing()));
    }
}

/// Collection waits for a checkpoint that has the new place. A start would do without: a moved copy stands behind the start vector until then,
/// and carries the order of the record that it belongs to. So the wait is a second safeguard, not the only one.
#[test]
fn a_start_finds_moved_copies_without_the_checkpoint() {
    assert_sound("resets before the checkpoint", wrong(moving(), Wrong::ResetsBeforeCheckpoint));
}
