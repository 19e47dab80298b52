//! RFD 24: which copies of a block image count, and what a holder may answer.
//!
//! ```text
//!   record:   (token, devices in sync, epoch, settled) ─ take over: token + 1 ─ take out: epoch + 1 ─ put in ─ close: settled
//!   holder:   none ─ take over ─► entering ─ enter each device that answers ─► open, the silent ones taken out ─ compare ─► ready
//!   write:    begin: a request to each device in sync ─ each is carried out, or not ─► [silent: take it out, ask the others anew] ─► acknowledged
//! ```
//!
//! States: the record, which is the manager's and trusted; one block of one blob with a copy on each of two devices; two nodes that may hold the image.
//! Requests are carried out at any time, also after their holder's end, or never. A device is silent towards a holder whenever it has not answered
//! so far. Devices lose nothing. A value counts the writes in the order in which they began.
//!
//! Left out: layers, pieces, space; that a put-in and a comparison take several steps (they hold the part's lock); copies on more than two devices, where the same
//! rules keep two in sync.
//!
//! Invariants, in every state:
//! - *Durable*: each device in sync has the newest acknowledged value or a later one.
//! - *Not older*: no read gives less than what was acknowledged, or read, before it.
//!
//! And each of these is reached, or the above would say nothing: see [`Images::examples`].

mod tests;

use super::explore;
use stateright::{Model, Property};

const DEVICES: usize = 2;
const NODES: usize = 2;

type DeviceNumber = usize;
type NodeNumber = usize;
/// A set of devices.
type Mask = u8;
type Value = u8;
type Token = u8;
type Epoch = u8;

/// What is wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Wrong {
    Nothing,
    /// A store carries out requests of any token (rule 4).
    RefusesNoToken,
    /// A write is sent again beside its earlier request (rule 4).
    SendsAgainInTheSameSession,
    /// A store is entered with a token that the record does not name any more (rule 5).
    AdmitsFormerTokens,
    /// A new holder does not wait for the tenure of the former one (rule 14).
    WaitsForNoTenure,
    /// A new holder compares no copies (rule 10).
    ComparesNothing,
    /// A write is acknowledged without the device that is silent, before the record says so (rule 8).
    AcknowledgesBeforeTheRecord,
    /// A write is acknowledged before the survivors' headers have the new epoch (rule 8).
    AcknowledgesBeforeTheHeaders,
    /// The record takes commands of former holders (rule 8).
    ObeysFormerHolders,
    /// A device that comes back counts without being brought up to date (rule 9).
    PutsInUncompared,
}

/// The bounds.
#[derive(Clone, Debug)]
struct Images {
    tokens: Token,
    writes: Value,
    epochs: Epoch,
    wrong: Wrong,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Record {
    token: Token,
    in_sync: Mask,
    epoch: Epoch,
    /// The epoch with which a device went out.
    out_since: [Epoch; DEVICES],
    is_settled: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Store {
    /// The newest that entered.
    token: Token,
    value: Value,
    /// Of the blob's header.
    epoch: Epoch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Entering,
    /// The copies are still to be compared.
    Open,
    Ready,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Holder {
    token: Token,
    stage: Stage,
    /// Devices that it has entered.
    entered: Mask,
    /// As it knows the record.
    in_sync: Mask,
    epoch: Epoch,
    /// Whether the copies were equal when it took over.
    found_settled: bool,
    /// Within its tenure, which begins with its token.
    may_read: bool,
    write: Option<Write>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Write {
    value: Value,
    /// Devices that have carried it out, with the holder's epoch in their headers.
    done: Mask,
}

/// A request on its way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Request {
    device: DeviceNumber,
    token: Token,
    value: Value,
    epoch: Epoch,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    record: Record,
    stores: [Store; DEVICES],
    holders: [Option<Holder>; NODES],
    requests: Vec<Request>,
    begun: Value,
    /// The newest value that was acknowledged or read.
    told: Value,
    acknowledged: Value,
    /// A read gave less.
    is_older_read: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    TakeOver(NodeNumber),
    Enter(NodeNumber, DeviceNumber),
    Open(NodeNumber),
    Compare(NodeNumber),
    Begin(NodeNumber),
    CarryOut(usize),
    TakeOut(NodeNumber, DeviceNumber),
    PutIn(NodeNumber, DeviceNumber),
    Acknowledge(NodeNumber),
    Read(NodeNumber, DeviceNumber),
    EndTenure(NodeNumber),
    Close(NodeNumber),
    Crash(NodeNumber),
}

fn bit(device: DeviceNumber) -> Mask {
    1 << device
}

fn has(mask: Mask, device: DeviceNumber) -> bool {
    mask & bit(device) != 0
}

impl State {
    fn holder(&mut self, node: NodeNumber) -> Option<&mut Holder> {
        self.holders[node].as_mut()
    }

    /// Sends the write under way to all devices in sync. A device that has not answered an earlier request is entered with a new session, which
    /// refuses that request from then on.
    fn send(&mut self, node: NodeNumber, has_new_session: bool) -> Option<()> {
        let Holder { token, in_sync, epoch, write, .. } = self.holders[node].as_ref()?;
        let (token, in_sync, epoch, value) = (*token, *in_sync, *epoch, write.as_ref()?.value);
        if has_new_session {
            self.requests.retain(|request| request.token != token || !has(in_sync, request.device));
        }
        for device in (0..DEVICES).filter(|device| has(in_sync, *device)) {
            self.requests.push(Request { device, token, value, epoch });
        }
        self.requests.sort();
        self.requests.dedup();
        Some(())
    }
}

impl Images {
    fn candidates(&self, state: &State) -> Vec<Action> {
        let mut actions: Vec<Action> = (0..state.requests.len()).map(Action::CarryOut).collect();
        for node in 0..NODES {
            actions.extend([Action::TakeOver(node), Action::Open(node), Action::Compare(node), Action::Begin(node)]);
            actions.extend([Action::Acknowledge(node), Action::EndTenure(node), Action::Close(node), Action::Crash(node)]);
            for device in 0..DEVICES {
                actions.extend([Action::Enter(node, device), Action::TakeOut(node, device)]);
                actions.extend([Action::PutIn(node, device), Action::Read(node, device)]);
            }
        }
        actions
    }

    /// The state after an action, or nothing if it can't be taken or is refused.
    fn step(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::TakeOver(node) => self.take_over(&mut state, node),
            Action::Enter(node, device) => self.enter(&mut state, node, device),
            Action::Open(node) => self.open(&mut state, node),
            Action::Compare(node) => self.compare(&mut state, node),
            Action::Begin(node) => self.begin(&mut state, node),
            Action::CarryOut(at) => self.carry_out(&mut state, at),
            Action::TakeOut(node, device) => self.take_out(&mut state, node, device),
            Action::PutIn(node, device) => self.put_in(&mut state, node, device),
            Action::Acknowledge(node) => self.acknowledge(&mut state, node),
            Action::Read(node, device) => self.read(&mut state, node, device),
            Action::EndTenure(node) => end_tenure(&mut state, node),
            Action::Close(node) => close(&mut state, node),
            Action::Crash(node) => state.holders[node].take().map(drop),
        }?;
        (state != *last).then_some(state)
    }

    fn take_over(&self, state: &mut State, node: NodeNumber) -> Option<()> {
        if state.record.token == self.tokens || state.holders[node].is_some() {
            return None;
        }
        state.record.token += 1;
        let Record { token, in_sync, epoch, is_settled, .. } = state.record.clone();
        state.record.is_settled = false;
        state.holders[node] = Some(Holder {
            token,
            stage: Stage::Entering,
            entered: 0,
            in_sync,
            epoch,
            found_settled: is_settled,
            may_read: true,
            write: None,
        });
        Some(())
    }

    fn enter(&self, state: &mut State, node: NodeNumber, device: DeviceNumber) -> Option<()> {
        let named = state.record.token;
        let holder = state.holders[node].as_mut()?;
        let is_admitted = holder.token == named || self.wrong == Wrong::AdmitsFormerTokens;
        let store = &mut state.stores[device];
        if !is_admitted || (store.token > holder.token && self.wrong != Wrong::AdmitsFormerTokens) {
            return None;
        }
        store.token = holder.token;
        holder.entered |= bit(device);
        Some(())
    }

    /// With one device in sync that answers. The others are taken out.
    fn open(&self, state: &mut State, node: NodeNumber) -> Option<()> {
        let others_read = state
            .holders
            .iter()
            .enumerate()
            .any(|(other, held)| other != node && held.as_ref().is_some_and(|held| held.may_read));
        let holder = state.holders[node].as_ref()?;
        let answered = holder.entered & holder.in_sync;
        let waits = others_read && self.wrong != Wrong::WaitsForNoTenure;
        if holder.stage != Stage::Entering || answered == 0 || waits {
            return None;
        }
        for device in (0..DEVICES).filter(|device| has(holder.in_sync & !answered, *device)).collect::<Vec<_>>() {
            self.note_out(state, node, device)?;
        }
        let compares_nothing = self.wrong == Wrong::ComparesNothing;
        let holder = state.holder(node)?;
        holder.stage = if holder.found_settled || compares_nothing { Stage::Ready } else { Stage::Open };
        Some(())
    }

    /// The first copy in sync stands.
    fn compare(&self, state: &mut State, node: NodeNumber) -> Option<()> {
        let holder = state.holders[node].as_ref()?;
        if holder.stage != Stage::Open {
            return None;
        }
        let (in_sync, token, epoch) = (holder.in_sync, holder.token, holder.epoch);
        let mut devices = (0..DEVICES).filter(|device| has(in_sync, *device));
        let first = devices.next()?;
        if (0..DEVICES).any(|device| has(in_sync, device) && state.stores[device].token != token) {
            return None;
        }
        let value = state.stores[first].value;
        for device in (0..DEVICES).filter(|device| has(in_sync, *device)) {
            state.stores[device] = Store { token, value, epoch };
        }
        state.holder(node)?.stage = Stage::Ready;
        Some(())
    }

    fn begin(&self, state: &mut State, node: NodeNumber) -> Option<()> {
        let value = state.begun + 1;
        let holder = state.holders[node].as_mut()?;
        if holder.stage != Stage::Ready || holder.write.is_some() || value > self.writes {
            return None;
        }
        holder.write = Some(Write { value, done: 0 });
        state.begun = value;
        state.send(node, false)
    }

    fn carry_out(&self, state: &mut State, at: usize) -> Option<()> {
        let Request { device, token, value, epoch } = state.requests.remove(at);
        let store = &mut state.stores[device];
        if store.token != token && self.wrong != Wrong::RefusesNoToken {
            // Refused: the request is gone.
            return Some(());
        }
        store.value = value;
        store.epoch = store.epoch.max(epoch);
        let is_its = |held: &&mut Holder| held.token == token;
        if let Some(held) = state.holders.iter_mut().flatten().find(is_its)
            && let Some(write) = held.write.as_mut().filter(|write| write.value == value)
            && (epoch == held.epoch || self.wrong == Wrong::AcknowledgesBeforeTheHeaders)
        {
            write.done |= bit(device);
        }
        Some(())
    }

    /// The record's command; the holder learns the outcome.
    fn note_out(&self, state: &mut State, node: NodeNumber, device: DeviceNumber) -> Option<()> {
        let holder = state.holders[node].as_mut()?;
        let record = &mut state.record;
        let is_obeyed = record.token == holder.token || self.wrong == Wrong::ObeysFormerHolders;
        if !is_obeyed || !has(record.in_sync, device) || record.in_sync == bit(device) || record.epoch == self.epochs {
            return None;
        }
        record.in_sync &= !bit(device);
        record.epoch += 1;
        record.out_since[device] = record.epoch;
        (holder.in_sync, holder.epoch) = (record.in_sync, record.epoch);
        Some(())
    }

    fn take_out(&self, state: &mut State, node: NodeNumber, device: DeviceNumber) -> Option<()> {
        if state.holders[node].as_ref()?.stage == Stage::Entering {
            return None;
        }
        if self.wrong == Wrong::AcknowledgesBeforeTheRecord {
            let holder = state.holder(node)?;
            holder.in_sync &= !bit(device);
            return (holder.in_sync != 0).then_some(());
        }
        self.note_out(state, node, device)?;
        let keeps_answers = self.wrong == Wrong::AcknowledgesBeforeTheHeaders;
        let holder = state.holder(node)?;
        let Some(write) = holder.write.as_mut() else { return Some(()) };
        if !keeps_answers {
            write.done = 0;
        }
        state.send(node, self.wrong != Wrong::SendsAgainInTheSameSession)
    }

    /// A device that is out is entered with a new session and brought up to date, under the part's lock, and counts again.
    fn put_in(&self, state: &mut State, node: NodeNumber, device: DeviceNumber) -> Option<()> {
        let holder = state.holders[node].as_mut()?;
        let record = &mut state.record;
        let is_ready = holder.stage == Stage::Ready && holder.write.is_none() && has(holder.entered, device);
        let is_admitted = state.stores[device].token == holder.token && record.token == holder.token;
        if !is_ready || !is_admitted || has(record.in_sync, device) {
            return None;
        }
        let source = (0..DEVICES).find(|other| has(record.in_sync, *other))?;
        if state.stores[source].token != holder.token {
            return None;
        }
        let may_lack = state.stores[source].epoch >= record.out_since[device];
        if may_lack && self.wrong != Wrong::PutsInUncompared {
            state.stores[device].value = state.stores[source].value;
            state.stores[device].epoch = state.stores[source].epoch;
        }
        record.in_sync |= bit(device);
        holder.in_sync = record.in_sync;
        state.requests.retain(|request| request.device != device);
        Some(())
    }

    fn acknowledge(&self, state: &mut State, node: NodeNumber) -> Option<()> {
        let holder = state.holder(node)?;
        let value = holder.write.as_ref().filter(|write| write.done & holder.in_sync == holder.in_sync)?.value;
        holder.write = None;
        state.acknowledged = state.acknowledged.max(value);
        state.told = state.told.max(value);
        Some(())
    }

    fn read(&self, state: &mut State, node: NodeNumber, device: DeviceNumber) -> Option<()> {
        let holder = state.holders[node].as_ref()?;
        // A read that overlaps a write under way waits for it.
        let may_read = holder.stage == Stage::Ready && holder.write.is_none() && holder.may_read;
        if !may_read || !has(holder.in_sync, device) {
            return None;
        }
        let store = &state.stores[device];
        if store.token != holder.token && self.wrong != Wrong::RefusesNoToken {
            return None;
        }
        state.is_older_read |= store.value < state.told;
        state.told = state.told.max(store.value);
        Some(())
    }

    /// What must happen somewhere.
    fn examples() -> Vec<Property<Self>> {
        vec![
            Property::sometimes("a write is acknowledged without a device", |_: &Images, state: &State| {
                state.acknowledged > 0 && state.record.in_sync.count_ones() == 1
            }),
            Property::sometimes("a device counts again after a write that it lacked", |_: &Images, state: &State| {
                state.acknowledged > 1 && state.record.epoch > 1 && state.record.in_sync.count_ones() == 2
            }),
            Property::sometimes("copies differ when a holder takes over", |_: &Images, state: &State| {
                let is_open = |held: &Holder| held.stage == Stage::Open && held.in_sync.count_ones() == 2;
                state.stores[0].value != state.stores[1].value && state.holders.iter().flatten().any(is_open)
            }),
            Property::sometimes("a request outlives its holder", |_: &Images, state: &State| {
                let is_ready = |held: &Holder| {
                    held.stage == Stage::Ready && state.requests.iter().any(|request| request.token < held.token)
                };
                state.holders.iter().flatten().any(is_ready)
            }),
            Property::sometimes("a former holder is within its tenure", |_: &Images, state: &State| {
                state.holders.iter().flatten().any(|held| held.may_read && held.token < state.record.token)
            }),
        ]
    }
}

/// Time passes: a holder that is superseded hears of it, or is not sure any more that it is not.
fn end_tenure(state: &mut State, node: NodeNumber) -> Option<()> {
    let newest = state.record.token;
    let holder = state.holder(node)?;
    (holder.token < newest).then(|| holder.may_read = false)
}

/// In order: nothing is under way, and all copies are equal.
fn close(state: &mut State, node: NodeNumber) -> Option<()> {
    let holder = state.holders[node].as_ref()?;
    if holder.stage != Stage::Ready || holder.write.is_some() || holder.token != state.record.token {
        return None;
    }
    state.record.is_settled = true;
    state.holders[node] = None;
    Some(())
}

impl Model for Images {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let store = Store { token: 0, value: 0, epoch: 0 };
        let all = (1 << DEVICES) - 1;
        let record = Record { token: 0, in_sync: all, epoch: 0, out_since: [0; DEVICES], is_settled: true };
        vec![State {
            record,
            stores: [store.clone(), store],
            holders: [const { None }; NODES],
            requests: Vec::new(),
            begun: 0,
            told: 0,
            acknowledged: 0,
            is_older_read: false,
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
            Property::always("durable", |_: &Images, state: &State| {
                (0..DEVICES)
                    .filter(|device| has(state.record.in_sync, *device))
                    .all(|device| state.stores[device].value >= state.acknowledged)
            }),
            Property::always("not older", |_: &Images, state: &State| !state.is_older_read),
        ];
        properties.extend(Images::examples());
        properties
    }
}
