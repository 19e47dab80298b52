//! A simulated cell: several gateways that run the machine, the streams between them, the log that orders writes, and clients.
//!
//! Everything that may happen next is an [`Event`]; a [`Choose`] picks one, the world does it, and the invariants of the machine
//! are looked at. So one run is determined by its choices: by a seed, or by a path of an exhaustive search.
//!
//! Below the machine, batches of messages travel on numbered streams (`net::Outgoing`, `net::Incoming`) over a network that delays, reorders,
//! duplicates and loses them. Appends take two steps: the primary gives the position, later all copies are durable.

use super::super::{Cell, Consistency, Message, Output, Outputs, SequenceSource, Shard};
use super::checks::Checks;
use super::mutant::Mutant;
use crate::index::{IndexForm, Located, ShardIndex};
use format::entry::{Entry, EntryState, Places};
use format::record::WriteId;
use model::choice::Choose;
use model::linearizability::{CallId, History};
use model::register::{Call, Outcome, Register};
use net::{Arrival, Incoming, Outgoing, StreamNumber};
use std::collections::BTreeMap;
use std::sync::Arc;
use topology::View;
use types::{Activation, DeviceId, Epoch, GatewayId, Generation, KeyHash, Order, Place, ViewNumber, ZoneIndex, ZoneOffset};

pub type OpId = usize;
pub type Value = u32;

/// Batches that a stream keeps for resending; small, so that runs meet a full window.
const WINDOW: usize = 4;
/// A good run of the largest setup takes a tenth of these.
const MAX_STEPS: usize = 20_000;

/// What one run consists of.
#[derive(Clone, Debug)]
pub struct Setup {
    pub gateways: usize,
    pub keys: usize,
    pub clients: usize,
    pub calls_per_client: usize,
    /// Weights of PUT, DELETE, GET, conditional PUT.
    pub mix: [usize; 4],
    /// Chances, in percent: a batch is lost, a batch is duplicated, an append is refused, a waiting client gives up.
    pub lost: usize,
    pub duplicated: usize,
    pub refused: usize,
    pub impatient: usize,
    /// Whether some streams and devices are much slower than others.
    pub uneven: bool,
    /// Whether the network may reorder; else each stream hands over one message at a time, in order.
    pub rough: bool,
    /// Whether confirmations reach the writer at once, before what was sent earlier: as answers to batches do.
    pub overtaking: bool,
    /// What all gateways' writes promise.
    pub consistency: Consistency,
    /// What is wrong on purpose.
    pub mutant: Option<Mutant>,
    /// Whether invariants are asserted, or histories alone decide.
    pub invariants: bool,
}

impl Setup {
    pub fn usual() -> Self {
        Setup {
            gateways: 3,
            keys: 2,
            clients: 5,
            calls_per_client: 6,
            mix: [4, 1, 4, 3],
            lost: 5,
            duplicated: 5,
            refused: 5,
            impatient: 3,
            uneven: true,
            rough: true,
            overtaking: false,
            consistency: Consistency::Linearizable,
            mutant: None,
            invariants: true,
        }
    }
}

/// Why a run failed.
#[derive(Debug)]
pub struct Failure(pub String);

/// What a good run did, for tests that ask whether a run means anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub steps: usize,
    pub answered: usize,
    pub slow_reads: usize,
    pub swaps: usize,
    pub refused_swaps: usize,
    pub stale_publishes: usize,
    pub resends: usize,
    /// Histories that are no register's: in read-after-write mode there may be some.
    pub torn_histories: usize,
    /// A digest of every step: equal runs have equal digests.
    pub digest: u64,
}

/// One gateway's connection to another.
struct Stream {
    /// Messages not yet in a batch.
    waiting: Vec<Message>,
    outgoing: Outgoing<Vec<Message>>,
    incoming: Incoming,
    /// Batches under way.
    under_way: Vec<StreamNumber>,
    weight: usize,
}

/// A call of a client.
pub struct Op {
    pub gateway: usize,
    pub key: usize,
    pub call: Call<Value>,
    pub id: CallId,
    pub client: usize,
    /// The newest order that was acknowledged when the call was made.
    pub floor: Option<Order>,
}

/// A write that the machine has dispatched.
struct Running {
    op: OpId,
    write: WriteId,
    newest: Option<Located>,
    stage: Stage,
    weight: usize,
}

enum Stage {
    Dispatched,
    OnPrimary(Entry),
}

#[derive(Default)]
struct Client {
    made: usize,
    busy: Option<OpId>,
    /// What it last saw of each key: what its conditions expect.
    seen: BTreeMap<usize, Option<Value>>,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Call { client: usize },
    GiveUp { client: usize },
    Advance { running: usize },
    Flush { stream: usize },
    Deliver { stream: usize },
    Resend { stream: usize },
}

pub struct World {
    pub setup: Setup,
    pub gateways: Vec<Shard<OpId>>,
    pub ops: Vec<Op>,
    pub histories: Vec<History<Register<Value>>>,
    pub report: Report,
    streams: Vec<Stream>,
    running: Vec<Running>,
    clients: Vec<Client>,
    /// What stands at each order of the log, all keys together.
    log: BTreeMap<Order, Option<Value>>,
    checks: Checks,
    /// Of each key, the newest order that was acknowledged.
    acknowledged: Vec<Option<Order>>,
    trace: Option<Vec<String>>,
}

impl World {
    pub fn new(setup: Setup, choices: &mut dyn Choose) -> Self {
        let view = view(1, &(0..setup.gateways).collect::<Vec<_>>());
        let gateways = view.members().iter().map(|me| {
            let cell = Arc::new(Cell::new(*me, view.clone()).writing(setup.consistency));
            Shard::new(cell, Arc::new(SequenceSource::starting_at(1)), ShardIndex::new(IndexForm::Full, 1))
        });
        let gateways = gateways.collect();
        let mut weight = || if setup.uneven { [1, 5, 40][choices.below(3)] } else { 1 };
        let streams = (0..setup.gateways * setup.gateways).map(|_| Stream {
            waiting: Vec::new(),
            outgoing: Outgoing::new(WINDOW),
            incoming: Incoming::default(),
            under_way: Vec::new(),
            weight: weight(),
        });
        let streams = streams.collect();
        World {
            gateways,
            streams,
            ops: Vec::new(),
            histories: vec![History::default(); setup.keys],
            running: Vec::new(),
            clients: (0..setup.clients).map(|_| Client::default()).collect(),
            log: BTreeMap::new(),
            checks: Checks::new(setup.gateways, setup.keys, setup.consistency),
            acknowledged: vec![None; setup.keys],
            report: Report::default(),
            trace: None,
            setup,
        }
    }

    /// Keeps a line for each event.
    pub fn with_trace(mut self) -> Self {
        self.trace = Some(Vec::new());
        self
    }

    pub fn trace(&self) -> String {
        self.trace.as_deref().unwrap_or_default().join("\n")
    }

    /// Runs until nothing can happen any more.
    pub fn run(&mut self, choices: &mut dyn Choose) -> Result<Report, Failure> {
        loop {
            let events = self.events();
            let total: usize = events.iter().map(|(_, weight)| weight).sum();
            if total == 0 {
                break;
            }
            if self.report.steps == MAX_STEPS {
                return Err(Failure(format!("no end after {MAX_STEPS} steps")));
            }
            let mut at = choices.below(total);
            let chosen = events.iter().find(|(_, weight)| {
                let here = at < *weight;
                at = at.wrapping_sub(*weight);
                here
            });
            let event = chosen.expect("the choice is below the sum of weights").0;
            self.note(|| format!("{event:?}"));
            self.step(event, choices)?;
            if self.setup.invariants {
                self.checks.after_step(&self.gateways)?;
            }
        }
        self.quiet()?;
        Ok(self.report.clone())
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        self.report.steps += 1;
        let digest_of = |line: &str, digest: u64| {
            line.bytes().fold(digest, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
        };
        if let Some(trace) = &mut self.trace {
            let line = line();
            self.report.digest = digest_of(&line, self.report.digest);
            trace.push(line);
        }
    }

    fn detail(&mut self, line: impl FnOnce() -> String) {
        if self.trace.is_some() {
            self.note(line);
            self.report.steps -= 1;
        }
    }

    /// Everything that may happen now, and how often it does.
    fn events(&self) -> Vec<(Event, usize)> {
        let mut events = Vec::new();
        for (client, state) in self.clients.iter().enumerate() {
            match state.busy {
                None if state.made < self.setup.calls_per_client => events.push((Event::Call { client }, 4)),
                Some(op) if self.setup.impatient > 0 && !matches!(self.ops[op].call, Call::Read) => {
                    events.push((Event::GiveUp { client }, 1));
                }
                _ => {}
            }
        }
        events.extend(self.running.iter().enumerate().map(|(running, state)| (Event::Advance { running }, state.weight)));
        for (stream, state) in self.streams.iter().enumerate() {
            if !state.waiting.is_empty() && !state.outgoing.is_full() {
                events.push((Event::Flush { stream }, state.weight));
            }
            if !state.under_way.is_empty() {
                events.push((Event::Deliver { stream }, state.weight * state.under_way.len()));
            } else if state.outgoing.unacknowledged().next().is_some() {
                events.push((Event::Resend { stream }, state.weight));
            }
        }
        events
    }

    fn step(&mut self, event: Event, choices: &mut dyn Choose) -> Result<(), Failure> {
        match event {
            Event::Call { client } => self.call(client, choices),
            Event::GiveUp { client } => {
                if choices.percent(self.setup.impatient) {
                    self.give_up(client);
                }
                Ok(())
            }
            Event::Advance { running } => self.advance(running, choices),
            Event::Flush { stream } => {
                let state = &mut self.streams[stream];
                let batch = std::mem::take(&mut state.waiting);
                let number = state.outgoing.push(batch).expect("a full window is not flushed");
                state.under_way.push(number);
                Ok(())
            }
            Event::Deliver { stream } => self.deliver(stream, choices),
            Event::Resend { stream } => {
                self.report.resends += 1;
                let state = &mut self.streams[stream];
                state.under_way = state.outgoing.unacknowledged().map(|(number, _)| number).collect();
                Ok(())
            }
        }
    }

    fn call(&mut self, client: usize, choices: &mut dyn Choose) -> Result<(), Failure> {
        let gateway = choices.below(self.setup.gateways);
        let key = choices.below(self.setup.keys);
        let op = self.ops.len();
        let call = self.draw_call(client, key, op, choices);
        let id = self.histories[key].call(call.clone());
        self.clients[client].made += 1;
        self.clients[client].busy = Some(op);
        self.detail(|| format!("  op {op}: {call:?} of key {key} at gateway {gateway}"));
        let mut out = Outputs::new();
        match &call {
            Call::Read => drop(self.gateways[gateway].read(key_hash(key), op, &mut out)),
            write => {
                let exclusive = matches!(write, Call::Swap { .. });
                let queued = self.gateways[gateway].request(key_hash(key), op, exclusive, &mut out);
                queued.map_err(|full| Failure(full.to_string()))?;
            }
        }
        if call == Call::Read && !out.iter().any(|output| matches!(output, Output::Answer { .. })) {
            self.report.slow_reads += 1;
        }
        if self.setup.invariants {
            self.checks.read_at_once(&self.gateways[gateway], key, &out)?;
        }
        let floor = self.acknowledged[key];
        self.ops.push(Op { gateway, key, call, id, client, floor });
        self.perform(gateway, out, choices)
    }

    /// Values are unique, so a condition holds only for the very write that it expects.
    fn draw_call(&self, client: usize, key: usize, op: OpId, choices: &mut dyn Choose) -> Call<Value> {
        let mix = self.setup.mix;
        let mut at = choices.below(mix.iter().sum());
        let kind = mix.iter().position(|weight| {
            let here = at < *weight;
            at = at.wrapping_sub(*weight);
            here
        });
        let value = Some(op as Value);
        match kind.expect("the choice is below the sum of weights") {
            0 => Call::Write(value),
            1 => Call::Write(None),
            2 => Call::Read,
            _ => {
                let expected = self.clients[client].seen.get(&key).copied().flatten();
                Call::Swap { expected, new: value }
            }
        }
    }

    fn give_up(&mut self, client: usize) {
        let op = self.clients[client].busy.expect("only a busy client gives up");
        let Op { gateway, key, id, .. } = self.ops[op];
        if self.gateways[gateway].cancel(key_hash(key), |queued| *queued == op) {
            self.detail(|| format!("  op {op} is dropped from the queue"));
            self.histories[key].withdraw(id);
            self.clients[client].busy = None;
        }
    }

    /// The shell's next step for a dispatched write.
    fn advance(&mut self, at: usize, choices: &mut dyn Choose) -> Result<(), Failure> {
        let Running { op, write, newest, .. } = self.running[at];
        let Op { gateway, key, ref call, id, .. } = self.ops[op];
        let mut out = Outputs::new();
        if let Stage::OnPrimary(entry) = self.running[at].stage {
            self.running.swap_remove(at);
            self.gateways[gateway].appended(entry, &mut out);
            return self.perform(gateway, out, choices);
        }
        let (new, expected) = match call {
            Call::Write(new) => (*new, None),
            Call::Swap { expected, new } => (*new, Some(*expected)),
            Call::Read => unreachable!("reads are not dispatched"),
        };
        let found = self.value_of(newest);
        let refusal = expected.is_some_and(|expected| expected != found).then_some(Outcome::Differs { found });
        if refusal.is_some() || choices.percent(self.setup.refused) {
            self.running.swap_remove(at);
            match refusal {
                Some(outcome) => self.answer(op, outcome),
                None => {
                    self.histories[key].withdraw(id);
                    self.clients[self.ops[op].client].busy = None;
                }
            }
            self.checks.withdrawn(gateway, key, write);
            self.gateways[gateway].withdraw(key_hash(key), &mut out);
            return self.perform(gateway, out, choices);
        }
        let entry = self.append(write, key, new);
        self.running[at].stage = Stage::OnPrimary(entry);
        Ok(())
    }

    /// The primary's log takes the record.
    fn append(&mut self, write: WriteId, key: usize, value: Option<Value>) -> Entry {
        let offset = ZoneOffset(self.log.len() as u32 + 1);
        let order = Order { generation: Generation(1), activation: Activation(1), offset };
        self.log.insert(order, value);
        self.detail(|| format!("  {write:?} of key {key} stands at {}", offset.0));
        Entry {
            hash: key_hash(key),
            write,
            epoch: Epoch(1),
            order,
            places: Places::one(Place { device: DeviceId(1), zone: ZoneIndex(1), offset }),
            frame_bytes: 64,
            length: 1,
            state: if value.is_some() { EntryState::Live } else { EntryState::Tombstone },
            large: false,
        }
    }

    fn value_of(&self, located: Option<Located>) -> Option<Value> {
        let place = located?.places.primary();
        let order = Order { generation: Generation(1), activation: Activation(1), offset: place.offset };
        self.log[&order]
    }

    fn deliver(&mut self, stream: usize, choices: &mut dyn Choose) -> Result<(), Failure> {
        let state = &mut self.streams[stream];
        let (from, to) = (stream / self.setup.gateways, stream % self.setup.gateways);
        let at = if self.setup.rough { choices.below(state.under_way.len()) } else { 0 };
        let number = state.under_way[at];
        if !(self.setup.duplicated > 0 && choices.percent(self.setup.duplicated)) {
            state.under_way.remove(at);
        }
        if self.setup.lost > 0 && choices.percent(self.setup.lost) {
            return Ok(());
        }
        let unordered = self.setup.mutant == Some(Mutant::UnorderedStreams);
        let arrival = state.incoming.arrived(number);
        let batch = state.outgoing.unacknowledged().find(|(kept, _)| *kept == number).map(|(_, batch)| batch.clone());
        state.outgoing.acknowledge(state.incoming.taken()).map_err(|error| Failure(error.to_string()))?;
        if arrival != Arrival::Next && !(unordered && arrival == Arrival::Gap) {
            return Ok(());
        }
        for message in batch.expect("what the receiver has not taken is kept") {
            self.receive(from, to, message, choices)?;
        }
        Ok(())
    }

    fn receive(&mut self, from: usize, to: usize, message: Message, choices: &mut dyn Choose) -> Result<(), Failure> {
        self.detail(|| format!("  {from} to {to}: {message:?}"));
        let mut forged = Vec::new();
        let kept = match self.setup.mutant {
            Some(mutant) => mutant.on_arrival(&self.gateways[to], from, to, message, &mut forged),
            None => Some(message),
        };
        if let Some(message) = kept {
            let mut out = Outputs::new();
            self.gateways[to].receive(gateway_id(from), message, &mut out);
            self.perform(to, out, choices)?;
        }
        self.deliver_forged(forged, choices)
    }

    fn deliver_forged(&mut self, forged: Vec<super::mutant::Forged>, choices: &mut dyn Choose) -> Result<(), Failure> {
        for forged in forged {
            if forged.at_once {
                let mut out = Outputs::new();
                self.gateways[forged.to].receive(gateway_id(forged.from), forged.message, &mut out);
                self.perform(forged.to, out, choices)?;
            } else {
                self.send(forged.from, forged.to, forged.message)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, from: usize, to: usize, message: Message) -> Result<(), Failure> {
        if self.setup.invariants {
            self.checks.sends(&self.gateways, from, &message)?;
        }
        self.streams[from * self.setup.gateways + to].waiting.push(message);
        Ok(())
    }

    /// Does what a machine asked for.
    fn perform(&mut self, gateway: usize, out: Outputs<OpId>, choices: &mut dyn Choose) -> Result<(), Failure> {
        let mut forged = Vec::new();
        for output in out {
            self.detail(|| format!("    {gateway}: {output:?}"));
            if self.setup.invariants {
                self.checks.output(&self.gateways, &self.ops, gateway, &output)?;
            }
            match output {
                Output::Dispatch { op, write, newest } => {
                    let weight = if self.setup.uneven { [1, 4, 20][choices.below(3)] } else { 1 };
                    self.running.push(Running { op, write, newest, stage: Stage::Dispatched, weight });
                }
                Output::Acknowledge { op, entry, replaced } | Output::AcknowledgeOwn { op, entry, replaced } => {
                    let newest = &mut self.acknowledged[self.ops[op].key];
                    *newest = (*newest).max(Some(entry.order));
                    if replaced.is_some_and(|replaced| replaced.order == entry.order) {
                        self.report.stale_publishes += 1;
                    }
                    let outcome = match self.ops[op].call {
                        Call::Swap { .. } => Outcome::Swapped,
                        _ => Outcome::Written,
                    };
                    self.answer(op, outcome);
                }
                Output::PublishOwn { .. } | Output::Published { .. } | Output::Moved { .. } | Output::RecoveredHeld => {}
                Output::Answer { op, newest, .. } => {
                    self.is_new_enough(op, newest)?;
                    self.answer(op, Outcome::Read(self.value_of(newest)));
                }
                Output::Spread { entry, to, view, .. } => {
                    let message = Message::Publish { entry, view };
                    if let Some(mutant) = self.setup.mutant {
                        mutant.on_send(gateway, to.0 as usize, &message, &mut forged);
                    }
                    self.send(gateway, to.0 as usize, message)?;
                }
                Output::Send { to, message } => {
                    if let Some(mutant) = self.setup.mutant {
                        mutant.on_send(gateway, to.0 as usize, &message, &mut forged);
                    }
                    let to = to.0 as usize;
                    if self.setup.overtaking && message.is_confirmation() {
                        forged.push(super::mutant::Forged { from: gateway, to, message, at_once: true });
                    } else {
                        self.send(gateway, to, message)?;
                    }
                }
            }
        }
        self.deliver_forged(forged, choices)
    }

    /// What both modes promise: a read sees every write that was acknowledged before it was made, or a newer one.
    fn is_new_enough(&self, op: OpId, newest: Option<Located>) -> Result<(), Failure> {
        let (floor, found) = (self.ops[op].floor, newest.map(|newest| newest.order));
        match found >= floor {
            true => Ok(()),
            false => Err(Failure(format!("op {op} reads {found:?}, and {floor:?} was acknowledged before it was made"))),
        }
    }

    fn answer(&mut self, op: OpId, outcome: Outcome<Value>) {
        let Op { key, id, client, ref call, .. } = self.ops[op];
        let seen = match (&outcome, call) {
            (Outcome::Read(value), _) | (Outcome::Differs { found: value }, _) => *value,
            (_, Call::Write(new) | Call::Swap { new, .. }) => *new,
            (_, Call::Read) => unreachable!("a read has a read's outcome"),
        };
        match outcome {
            Outcome::Swapped => self.report.swaps += 1,
            Outcome::Differs { .. } => self.report.refused_swaps += 1,
            _ => {}
        }
        self.report.answered += 1;
        self.detail(|| format!("    op {op} ends: {outcome:?}"));
        self.clients[client].seen.insert(key, seen);
        self.clients[client].busy = None;
        self.histories[key].answer(id, outcome);
    }

    /// Nothing is under way: every call must have ended, no key may have kept state, and the histories must be explained.
    fn quiet(&mut self) -> Result<(), Failure> {
        if let Some(op) = self.clients.iter().find_map(|client| client.busy) {
            let Op { gateway, key, ref call, .. } = self.ops[op];
            return Err(Failure(format!("op {op} ({call:?} of key {key} at gateway {gateway}) never ends")));
        }
        for (gateway, shard) in self.gateways.iter().enumerate() {
            if let Some(hash) = shard.keys.keys().next() {
                return Err(Failure(format!("gateway {gateway} keeps state of idle key {hash:?}")));
            }
        }
        for key in 0..self.setup.keys {
            let newest: Vec<_> = self.gateways.iter().map(|shard| shard.index.newest(&key_hash(key))).collect();
            if newest.iter().any(|other| *other != newest[0]) {
                return Err(Failure(format!("gateways disagree about key {key}: {newest:?}")));
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

pub fn gateway_id(gateway: usize) -> GatewayId {
    GatewayId(gateway as u16)
}

pub fn view(number: u64, members: &[usize]) -> View {
    View::new(ViewNumber(number), members.iter().map(|member| gateway_id(*member)).collect()).unwrap()
}

/// Key `k` of a three-gateway cell has gateway `k mod 3` as its home.
pub fn key_hash(key: usize) -> KeyHash {
    let mut bytes = [0; types::KEY_HASH_BYTES];
    bytes[0] = key as u8;
    bytes[12] = key as u8;
    KeyHash::from_bytes(bytes)
}
