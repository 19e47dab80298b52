//! A simulated cell whose view changes (RFD 5): gateways are removed while they live on, die, come back as new incarnations; leaders are
//! removed in the middle of a recovery. Streams delay and keep their order: losses and duplicates are `world`'s matter.
//!
//! The shell's part is here: leases, fences, the walk, the counting of answers, the map that a gateway gets when it joins.

use super::super::view::Change;
use super::super::{Cell, CellMessage, Consistency, Message, Output, Outputs, SequenceSource, Shard};
use super::membership::{Manager, Recovery};
use super::world::{Failure, OpId, Value, gateway_id, key_hash, view};
use crate::index::{IndexForm, Located, ShardIndex};
use format::entry::{Entry, EntryState, Places};
use format::record::WriteId;
use model::choice::Choose;
use model::linearizability::{CallId, History};
use model::register::{Call, Outcome, Register};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use types::{Activation, DeviceId, Epoch, Generation, Order, Place, ViewNumber, ZoneIndex, ZoneOffset};

/// A good run takes a tenth of these.
const MAX_STEPS: usize = 20_000;
/// An incarnation's sequences begin at this multiple of its number.
const SEQUENCES_PER_INCARNATION: u64 = 1 << 20;

/// One broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    NoWaitForLease,
    KeepsAcknowledgements,
    VoidsBeforeWalk,
    ForgetsFreezes,
    DecidesUnheard,
    PublishesOnArrival,
    OldAnswersCount,
    JoinsWithoutMaps,
    HoldsUnheard,
}

/// What one run consists of.
#[derive(Clone, Debug)]
pub struct CellSetup {
    pub gateways: usize,
    pub keys: usize,
    pub clients: usize,
    pub calls_per_client: usize,
    /// Weights of PUT, GET, conditional PUT.
    pub mix: [usize; 3],
    pub removals: usize,
    pub joins: usize,
    /// What the gateways' writes promise: all of them the same, or every second one the stronger.
    pub consistency: Consistency,
    pub is_mixed: bool,
    pub wrong: Option<Wrong>,
}

impl CellSetup {
    pub fn consistency_of(&self, gateway: usize) -> Consistency {
        if self.is_mixed && gateway % 2 == 1 { Consistency::Linearizable } else { self.consistency }
    }
}

/// What good runs did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellReport {
    pub answered: usize,
    pub lost: usize,
    pub recovered: usize,
    pub repeated_recoveries: usize,
    pub joined: usize,
    pub refused_appends: usize,
    pub carried_freezes: usize,
    /// Histories that are no register's: in read-after-write mode there may be some.
    pub torn_histories: usize,
    /// Entries handed out again in a new view.
    pub spread_again: usize,
    pub steps: usize,
}

#[derive(Clone, Debug)]
pub enum Envelope {
    Key(Message),
    All(CellMessage),
    /// Everything that the sender's index holds, for a gateway that joins.
    Map {
        entries: Vec<Entry>,
        view: ViewNumber,
    },
    /// Asks for an answer behind everything that was said before.
    HearOut {
        view: ViewNumber,
    },
    HeardOut {
        view: ViewNumber,
    },
}

impl Envelope {
    fn view(&self) -> Option<ViewNumber> {
        match self {
            Envelope::Key(message) => message.view(),
            Envelope::All(message) => message.view(),
            Envelope::Map { view, .. } => Some(*view),
            Envelope::HearOut { .. } | Envelope::HeardOut { .. } => None,
        }
    }
}

pub struct Gateway {
    pub shard: Shard<OpId>,
    pub incarnation: u64,
    pub lease: bool,
    maps: BTreeSet<usize>,
    /// Whom it has not heard out since it holds what was recovered.
    pub unheard: BTreeSet<usize>,
}

struct Op {
    gateway: usize,
    incarnation: u64,
    key: usize,
    call: Call<Value>,
    id: CallId,
    client: usize,
    /// Its client does not wait for it any more.
    ended: bool,
    /// Its outcome is not known and may still come about.
    is_open: bool,
    /// The newest order that was acknowledged when the call was made.
    floor: Option<Order>,
}

struct Running {
    op: OpId,
    write: WriteId,
    newest: Option<Located>,
    entry: Option<Entry>,
}

pub struct LogRecord {
    pub entry: Entry,
    value: Option<Value>,
    pub has_copies: bool,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Call { client: usize },
    GiveUp { client: usize },
    Advance { running: usize },
    Deliver { from: usize, to: usize },
    Confirm { confirmation: usize },
    Remove,
    Join,
    Install { member: usize },
    Recover { recovery: usize },
}

pub struct CellWorld {
    pub setup: CellSetup,
    /// By number; a process that is gone is nothing.
    pub gateways: Vec<Option<Gateway>>,
    pub manager: Manager,
    pub recoveries: Vec<Recovery>,
    pub log: BTreeMap<Order, LogRecord>,
    /// Of each target, the least incarnation of a gateway that may append.
    pub fences: [BTreeMap<usize, u64>; 2],
    pub report: CellReport,
    ops: Vec<Op>,
    histories: Vec<History<Register<Value>>>,
    streams: BTreeMap<(usize, usize), VecDeque<Envelope>>,
    /// From whom to whom. Answers to batches: no stream keeps their order.
    confirmations: Vec<(usize, usize, Message)>,
    weights: Vec<usize>,
    running: Vec<Running>,
    clients: Vec<(usize, Option<OpId>)>,
    seen: Vec<BTreeMap<usize, Option<Value>>>,
    /// Of each key, the newest order that was acknowledged.
    acknowledged: Vec<Option<Order>>,
}

impl CellWorld {
    pub fn new(setup: CellSetup, choices: &mut dyn Choose) -> Self {
        let members: Vec<usize> = (0..setup.gateways).collect();
        let gateway = |me: &usize| {
            let cell = Cell::new(gateway_id(*me), view(1, &members)).writing(setup.consistency_of(*me));
            let cell = Arc::new(cell);
            let sequences = Arc::new(SequenceSource::starting_at(SEQUENCES_PER_INCARNATION));
            let shard = Shard::new(cell, sequences, ShardIndex::new(IndexForm::Full, 1));
            Some(Gateway { shard, incarnation: 1, lease: true, maps: BTreeSet::new(), unheard: BTreeSet::new() })
        };
        CellWorld {
            gateways: members.iter().map(gateway).collect(),
            manager: Manager::new(members),
            recoveries: Vec::new(),
            log: BTreeMap::new(),
            fences: Default::default(),
            report: CellReport::default(),
            ops: Vec::new(),
            histories: vec![History::default(); setup.keys],
            streams: BTreeMap::new(),
            confirmations: Vec::new(),
            weights: (0..setup.gateways * setup.gateways).map(|_| [1, 5, 25][choices.below(3)]).collect(),
            running: Vec::new(),
            clients: vec![(0, None); setup.clients],
            seen: vec![BTreeMap::new(); setup.clients],
            acknowledged: vec![None; setup.keys],
            setup,
        }
    }

    pub fn is_wrong(&self, wrong: Wrong) -> bool {
        self.setup.wrong == Some(wrong)
    }

    pub fn run(&mut self, choices: &mut dyn Choose) -> Result<CellReport, Failure> {
        loop {
            let events = self.events();
            let total: usize = events.iter().map(|(_, weight)| weight).sum();
            if total == 0 {
                break;
            }
            if self.report.steps == MAX_STEPS {
                return Err(Failure(format!("no end after {MAX_STEPS} steps")));
            }
            self.report.steps += 1;
            let mut at = choices.below(total);
            let chosen = events.iter().find(|(_, weight)| {
                let here = at < *weight;
                at = at.wrapping_sub(*weight);
                here
            });
            let event = chosen.expect("the choice is below the sum of weights").0;
            self.step(event, choices)?;
        }
        self.quiet()?;
        Ok(self.report.clone())
    }

    fn events(&self) -> Vec<(Event, usize)> {
        let mut events = Vec::new();
        for (client, (made, busy)) in self.clients.iter().enumerate() {
            match busy {
                None if *made < self.setup.calls_per_client => events.push((Event::Call { client }, 4)),
                Some(op) if !self.is_member(self.ops[*op].gateway, self.ops[*op].incarnation) => {
                    events.push((Event::GiveUp { client }, 1));
                }
                _ => {}
            }
        }
        events.extend((0..self.running.len()).map(|running| (Event::Advance { running }, 6)));
        for (&(from, to), waiting) in &self.streams {
            let installed = self.gateways[to].as_ref().map(|gateway| gateway.shard.view());
            // What is meant for a newer view waits, and everything behind it.
            let may =
                |envelope: &Envelope| envelope.view().is_none_or(|view| installed.is_none_or(|installed| view <= installed));
            if waiting.front().is_some_and(may) {
                events.push((Event::Deliver { from, to }, self.weights[from * self.setup.gateways + to]));
            }
        }
        for (confirmation, (from, to, _)) in self.confirmations.iter().enumerate() {
            events.push((Event::Confirm { confirmation }, self.weights[from * self.setup.gateways + to]));
        }
        if self.manager.removals < self.setup.removals && self.manager.members.len() > 1 {
            events.push((Event::Remove, 1));
        }
        if self.manager.joins < self.setup.joins && self.may_join() {
            events.push((Event::Join, 2));
        }
        let behind = |member: &&usize| self.gateway(**member).shard.view() < self.manager.view;
        events.extend(self.manager.members.iter().filter(behind).map(|member| (Event::Install { member: *member }, 4)));
        let recovers = |recovery: &usize| self.recovery_goes_on(*recovery);
        events.extend((0..self.recoveries.len()).filter(recovers).map(|recovery| (Event::Recover { recovery }, 5)));
        events
    }

    fn step(&mut self, event: Event, choices: &mut dyn Choose) -> Result<(), Failure> {
        self.happens(event, choices)?;
        self.lend();
        Ok(())
    }

    fn happens(&mut self, event: Event, choices: &mut dyn Choose) -> Result<(), Failure> {
        match event {
            Event::Call { client } => self.call(client, choices),
            Event::GiveUp { client } => {
                // The call stays open: it may take effect until its gateway is decided.
                let op = self.clients[client].1.take().expect("only a busy client gives up");
                self.ops[op].ended = true;
                self.report.lost += 1;
                Ok(())
            }
            Event::Advance { running } => self.advance(running),
            Event::Deliver { from, to } => self.deliver(from, to),
            Event::Confirm { confirmation } => {
                let (from, to, message) = self.confirmations.swap_remove(confirmation);
                self.receive(from, to, message)
            }
            Event::Remove => self.remove(choices),
            Event::Join => self.join(choices),
            Event::Install { member } => self.install(member),
            Event::Recover { recovery } => self.recover(recovery),
        }
    }

    pub fn gateway(&self, gateway: usize) -> &Gateway {
        self.gateways[gateway].as_ref().expect("a member lives")
    }

    pub fn change_of(&self, gateway: usize) -> Option<&Change> {
        self.gateway(gateway).shard.change.as_deref()
    }

    fn is_member(&self, gateway: usize, incarnation: u64) -> bool {
        let same = self.gateways[gateway].as_ref().is_some_and(|gateway| gateway.incarnation == incarnation);
        same && self.manager.members.contains(&gateway)
    }

    fn call(&mut self, client: usize, choices: &mut dyn Choose) -> Result<(), Failure> {
        let living: Vec<usize> = (0..self.gateways.len()).filter(|gateway| self.gateways[*gateway].is_some()).collect();
        let gateway = living[choices.below(living.len())];
        let key = choices.below(self.setup.keys);
        let op = self.ops.len();
        let mut at = choices.below(self.setup.mix.iter().sum());
        let kind = self.setup.mix.iter().position(|weight| {
            let here = at < *weight;
            at = at.wrapping_sub(*weight);
            here
        });
        let call = match kind.expect("the choice is below the sum of weights") {
            0 => Call::Write(Some(op as Value)),
            1 => Call::Read,
            _ => Call::Swap { expected: self.seen[client].get(&key).copied().flatten(), new: Some(op as Value) },
        };
        let id = self.histories[key].call(call.clone());
        self.clients[client] = (self.clients[client].0 + 1, Some(op));
        let incarnation = self.gateway(gateway).incarnation;
        let floor = self.acknowledged[key];
        self.ops.push(Op { gateway, incarnation, key, call: call.clone(), id, client, ended: false, is_open: true, floor });
        let mut out = Outputs::new();
        let shard = &mut self.gateways[gateway].as_mut().expect("chosen among the living").shard;
        match call {
            Call::Read => drop(shard.read(key_hash(key), op, &mut out)),
            write => {
                let queued = shard.request(key_hash(key), op, matches!(write, Call::Swap { .. }), &mut out);
                queued.map_err(|full| Failure(full.to_string()))?;
            }
        }
        self.perform(gateway, out)
    }

    /// A dispatched write's next step: the primary, then the copies; a fence ends its gateway.
    fn advance(&mut self, at: usize) -> Result<(), Failure> {
        let Running { op, write, newest, entry } = self.running[at];
        let Op { gateway, incarnation, key, ref call, .. } = self.ops[op];
        let (call, target) = (call.clone(), usize::from(entry.is_some()));
        let alive = self.gateways[gateway].as_ref().is_some_and(|process| process.incarnation == incarnation);
        let found = self.value_of(newest);
        let mut out = Outputs::new();
        if let (Call::Swap { expected, .. }, None) = (&call, entry)
            && *expected != found
        {
            if alive {
                self.is_new_enough(op, newest)?;
            }
            self.running.swap_remove(at);
            if alive {
                self.answer(op, Outcome::Differs { found });
                let process = self.gateways[gateway].as_mut().expect("it lives");
                process.shard.withdraw(key_hash(key), &mut out);
                self.perform(gateway, out)?;
            }
            return Ok(());
        }
        let refused = self.fences[target].get(&gateway).is_some_and(|least| incarnation < *least);
        if refused {
            self.report.refused_appends += 1;
            self.running.swap_remove(at);
            if alive {
                self.gateways[gateway] = None;
            }
            return Ok(());
        }
        let Some(entry) = entry else {
            let value = match call {
                Call::Write(new) | Call::Swap { new, .. } => new,
                Call::Read => unreachable!("reads are not dispatched"),
            };
            self.running[at].entry = Some(self.append(write, key, value));
            return Ok(());
        };
        self.running.swap_remove(at);
        self.log.get_mut(&entry.order).expect("it was appended").has_copies = true;
        if alive {
            let process = self.gateways[gateway].as_mut().expect("it lives");
            process.shard.appended(entry, &mut out);
            self.perform(gateway, out)?;
        }
        Ok(())
    }

    fn append(&mut self, write: WriteId, key: usize, value: Option<Value>) -> Entry {
        let offset = ZoneOffset(self.log.len() as u32 + 1);
        let order = Order { generation: Generation(1), activation: Activation(1), offset };
        let entry = Entry {
            hash: key_hash(key),
            write,
            epoch: Epoch(1),
            order,
            places: Places::one(Place { device: DeviceId(1), zone: ZoneIndex(1), offset }),
            frame_bytes: 64,
            length: 1,
            state: EntryState::Live,
            large: false,
        };
        self.log.insert(order, LogRecord { entry, value, has_copies: false });
        entry
    }

    fn value_of(&self, located: Option<Located>) -> Option<Value> {
        self.log[&located?.order].value
    }

    fn deliver(&mut self, from: usize, to: usize) -> Result<(), Failure> {
        let envelope =
            self.streams.get_mut(&(from, to)).and_then(VecDeque::pop_front).expect("only a stream that holds something");
        let Some(gateway) = &mut self.gateways[to] else { return Ok(()) };
        let mut out = Outputs::new();
        match envelope {
            Envelope::Key(Message::Recovered { entry }) if self.setup.wrong == Some(Wrong::PublishesOnArrival) => {
                gateway.shard.index_mut().publish(entry).ok();
            }
            Envelope::Key(message) => return self.receive(from, to, message),
            Envelope::Map { entries, .. } => {
                for entry in entries {
                    gateway.shard.index_mut().publish(entry).ok();
                }
                gateway.maps.insert(from);
            }
            Envelope::All(CellMessage::RecoveredHeld { view }) => return self.recovery_held(to, from, view),
            Envelope::HearOut { view } => {
                self.send(to, from, Envelope::HeardOut { view });
                return Ok(());
            }
            Envelope::HeardOut { view } => {
                self.heard_out(to, from, view);
                return Ok(());
            }
            Envelope::All(message) => gateway.shard.receive_for_all(gateway_id(from), &message, &mut out),
        }
        self.perform(to, out)
    }

    fn receive(&mut self, from: usize, to: usize, mut message: Message) -> Result<(), Failure> {
        let Some(gateway) = &mut self.gateways[to] else { return Ok(()) };
        if self.setup.wrong == Some(Wrong::OldAnswersCount) {
            renew(&mut message, gateway.shard.view());
        }
        self.report.carried_freezes += usize::from(matches!(message, Message::Carry { .. }));
        let mut out = Outputs::new();
        gateway.shard.receive(gateway_id(from), message, &mut out);
        self.perform(to, out)
    }

    /// A gateway that joined gets its lease when every member has handed it its map and it knows what they know.
    fn lend(&mut self) {
        for joined in &self.manager.members {
            let gateway = self.gateways[*joined].as_mut().expect("a member lives");
            let installed = gateway.shard.view() == self.manager.view && gateway.shard.has_joined();
            let has_maps = self.manager.members.iter().all(|member| member == joined || gateway.maps.contains(member));
            if has_maps {
                gateway.shard.maps_are_complete();
            }
            gateway.lease |= installed && has_maps;
        }
    }

    pub fn send(&mut self, from: usize, to: usize, envelope: Envelope) {
        self.streams.entry((from, to)).or_default().push_back(envelope);
    }

    /// Nothing of an earlier incarnation is under way any more.
    pub fn cut(&mut self, gateway: usize) {
        self.streams.retain(|(from, to), _| *from != gateway && *to != gateway);
        self.confirmations.retain(|(from, to, _)| *from != gateway && *to != gateway);
    }

    /// It died before all of them had heard what it said last.
    pub fn lose_last_words_of(&mut self, gateway: usize, choices: &mut dyn Choose) {
        for (_, words) in self.streams.iter_mut().filter(|((from, _), _)| *from == gateway) {
            words.truncate(choices.below(words.len() + 1));
        }
    }

    /// A new incarnation of a gateway that is decided; the view that holds it is committed.
    pub fn start(&mut self, gateway: usize, incarnation: u64) {
        let cell = Cell::new(gateway_id(gateway), self.manager.view()).writing(self.setup.consistency_of(gateway));
        let cell = Arc::new(cell);
        let sequences = Arc::new(SequenceSource::starting_at(incarnation * SEQUENCES_PER_INCARNATION));
        let shard = Shard::joining(cell, sequences, ShardIndex::new(IndexForm::Full, 1), &[]);
        let lease = self.is_wrong(Wrong::JoinsWithoutMaps);
        let (maps, unheard) = (BTreeSet::new(), BTreeSet::new());
        self.gateways[gateway] = Some(Gateway { shard, incarnation, lease, maps, unheard });
    }

    pub fn perform(&mut self, gateway: usize, out: Outputs<OpId>) -> Result<(), Failure> {
        for output in out {
            match output {
                Output::Dispatch { op, write, newest } => self.running.push(Running { op, write, newest, entry: None }),
                Output::Acknowledge { op, entry, .. } | Output::AcknowledgeOwn { op, entry, .. } => {
                    // Nobody hears of what is acknowledged to who has gone away.
                    if !self.ops[op].ended {
                        let newest = &mut self.acknowledged[self.ops[op].key];
                        *newest = (*newest).max(Some(entry.order));
                    }
                    let swapped = matches!(self.ops[op].call, Call::Swap { .. });
                    self.answer(op, if swapped { Outcome::Swapped } else { Outcome::Written });
                }
                Output::PublishOwn { .. } | Output::Published { .. } | Output::Moved { .. } => {}
                Output::Spread { entry, to, view, .. } => {
                    self.send(gateway, to.0 as usize, Envelope::Key(Message::Publish { entry, view }));
                }
                Output::Answer { op, newest, .. } if self.gateway(gateway).lease => {
                    self.is_new_enough(op, newest)?;
                    let value = self.value_of(newest);
                    self.answer(op, Outcome::Read(value));
                }
                Output::Answer { op, .. } => self.refuse(op),
                Output::Send { to, message } if message.is_confirmation() => {
                    self.confirmations.push((gateway, to.0 as usize, message));
                }
                Output::Send { to, message } => self.send(gateway, to.0 as usize, Envelope::Key(message)),
                Output::RecoveredHeld => self.says_held(gateway)?,
            }
        }
        Ok(())
    }

    /// What both modes promise: what is read is not older than what was acknowledged before the call was made.
    fn is_new_enough(&self, op: OpId, newest: Option<Located>) -> Result<(), Failure> {
        let Op { floor, ended, .. } = self.ops[op];
        match ended || newest.map(|newest| newest.order) >= floor {
            true => Ok(()),
            false => Err(Failure(format!("op {op} finds {newest:?}, and {floor:?} was acknowledged before it was made"))),
        }
    }

    fn answer(&mut self, op: OpId, outcome: Outcome<Value>) {
        let Op { key, id, client, ref call, ended, .. } = self.ops[op];
        if ended {
            return;
        }
        let seen = match (&outcome, call) {
            (Outcome::Read(value), _) | (Outcome::Differs { found: value }, _) => *value,
            (_, Call::Write(new) | Call::Swap { new, .. }) => *new,
            (_, Call::Read) => unreachable!("a read has a read's outcome"),
        };
        self.seen[client].insert(key, seen);
        self.report.answered += 1;
        (self.ops[op].ended, self.ops[op].is_open) = (true, false);
        self.clients[client].1 = None;
        self.histories[key].answer(id, outcome);
    }

    /// A 503 to a read.
    fn refuse(&mut self, op: OpId) {
        let Op { key, id, client, ended, .. } = self.ops[op];
        if !ended {
            (self.ops[op].ended, self.ops[op].is_open) = (true, false);
            self.clients[client].1 = None;
            self.histories[key].withdraw(id);
        }
    }

    /// What a decided gateway has not done by now it never does.
    pub fn lose_calls_of(&mut self, gateway: usize) {
        let incarnation = self.manager.incarnations[&gateway];
        for (index, op) in
            self.ops.iter_mut().enumerate().filter(|(_, op)| op.gateway == gateway && op.incarnation == incarnation)
        {
            if std::mem::replace(&mut op.is_open, false) {
                op.ended = true;
                self.histories[op.key].lose(op.id);
                let client = &mut self.clients[op.client].1;
                self.report.lost += usize::from(client.take_if(|busy| *busy == index).is_some());
            }
        }
    }

    /// Nothing can happen any more: every call of a member has ended, no member keeps state, and the histories are explained.
    fn quiet(&mut self) -> Result<(), Failure> {
        if let Some(op) = self.clients.iter().find_map(|(_, busy)| *busy) {
            let Op { gateway, key, ref call, .. } = self.ops[op];
            return Err(Failure(format!("op {op} ({call:?} of key {key} at gateway {gateway}) never ends")));
        }
        for member in &self.manager.members {
            let shard = &self.gateway(*member).shard;
            if !shard.keys.is_empty() || shard.change.is_some() {
                return Err(Failure(format!("gateway {member} keeps {} keys and {:?}", shard.keys.len(), shard.change)));
            }
            if !self.gateway(*member).lease {
                return Err(Failure(format!("gateway {member} never gets its lease")));
            }
        }
        for key in 0..self.setup.keys {
            let newest = |member: &usize| self.gateway(*member).shard.index().newest(&key_hash(key)).map(|newest| newest.order);
            let orders: BTreeSet<Option<Order>> = self.manager.members.iter().map(newest).collect();
            if orders.len() > 1 {
                return Err(Failure(format!("members disagree about key {key}: {orders:?}")));
            }
            if orders.into_iter().flatten().any(|order| !self.log[&order].has_copies) {
                return Err(Failure(format!("the newest record of key {key} lacks copies")));
            }
            match (self.histories[key].check(None), self.setup.consistency) {
                (Ok(_), _) => {}
                (Err(_), Consistency::ReadAfterWrite) => self.report.torn_histories += 1,
                (Err(violation), Consistency::Linearizable) => return Err(Failure(format!("key {key}: {violation}"))),
            }
        }
        Ok(())
    }
}

/// Makes a message count in a later view than it was sent in.
fn renew(message: &mut Message, now: ViewNumber) {
    if let Message::Announced { view, .. } | Message::Frozen { view, .. } | Message::Freeze { view, .. } = message {
        *view = now;
    }
}
