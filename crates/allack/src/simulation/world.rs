//! The world: events in the order of time, faults, clients, and the judgement.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use env::Instant;
use model::choice::{Choose, Seeded};
use model::linearizability::{CallId, History};
use model::register::{Call, Outcome, Register};
use types::{NodeId, ViewNumber};

use super::manager::{LEASE, Manager};
use super::node::{Change, KEYS, Map, Node, Value, Waiting, chunk_of};
use crate::appointment::Appointment;
use crate::id::OpSeq;
use crate::machine::{AppendError, Input, Output};
use crate::message::Message;

const NODES: u32 = 5;
/// Voters and learners of the first view; the last node joins later.
const FIRST_VOTERS: u32 = 3;
/// Random acts of a run.
const ACTS: usize = 320;
const ACT_EVERY: Duration = Duration::from_millis(12);
const MANAGER_EVERY: Duration = Duration::from_millis(70);
/// How long the group may take until it is whole, when all is well again.
const HEALING: Duration = Duration::from_secs(40);
/// Calls of one key; the judgement's time grows with them.
const MAX_CALLS: usize = 90;

#[derive(Clone, Copy, Debug)]
pub(super) struct Faults {
    /// Messages in a hundred.
    pub(super) drop: usize,
    pub(super) repeat: usize,
    /// Acts in a thousand.
    pub(super) crash: usize,
    pub(super) power: usize,
    pub(super) cut: usize,
    pub(super) view: usize,
    /// Crashes in a thousand moments in which a node has sent what it has and not persisted what it should.
    pub(super) sharp: usize,
    /// The longest way of a message.
    pub(super) delay_ms: usize,
}

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    counts: BTreeMap<&'static str, u64>,
}

impl Summary {
    fn note(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub(super) fn add(&mut self, other: &Summary) {
        for (what, count) in &other.counts {
            *self.counts.entry(what).or_default() += count;
        }
    }

    pub(super) fn assert_all_happened(&self) {
        let wanted = [
            "crash",
            "cut",
            "dump loaded",
            "full",
            "old values undone",
            "power",
            "read",
            "serving",
            "sharp crash",
            "swap",
            "trim",
            "write",
        ];
        for what in wanted {
            assert!(self.counts.contains_key(what), "no {what} in all of these seeds: {self:?}");
        }
    }
}

#[derive(Clone, Debug)]
enum Event {
    Deliver {
        from: NodeId,
        to: NodeId,
        message: Message,
    },
    /// The medium of this start of a node has made so many more records durable.
    Persist {
        node: NodeId,
        start: u64,
        count: usize,
    },
    Timer {
        node: NodeId,
        start: u64,
    },
    /// From the manager.
    View {
        to: NodeId,
        appointment: Appointment,
    },
    Recorded {
        to: NodeId,
        view: ViewNumber,
    },
    Lease {
        to: NodeId,
        start: u64,
        view: ViewNumber,
        until: Instant,
    },
    /// To the manager.
    AskRecord {
        view: ViewNumber,
        from: NodeId,
    },
    AskLease {
        from: NodeId,
        start: u64,
        view: ViewNumber,
        sent_at: Instant,
    },
    CannotLead {
        view: ViewNumber,
    },
    Restart(NodeId),
    /// The manager names a view with this voter alone.
    NameSole(NodeId),
    Act,
    Manage,
}

pub(super) struct World {
    rng: Seeded,
    faults: Faults,
    now: Instant,
    number: u64,
    events: BTreeMap<(Instant, u64), Event>,
    nodes: Vec<Node>,
    manager: Manager,
    /// Nodes that hear of nobody.
    cut: BTreeSet<NodeId>,
    histories: Vec<History<Register<Value>>>,
    acts: usize,
    next_value: Value,
    is_healing: bool,
    named_at: Instant,
    summary: Summary,
}

fn is_serving(node: &Node) -> bool {
    node.running.as_ref().is_some_and(|running| running.machine.is_serving())
}

fn some(value: Value) -> Option<Value> {
    (value != 0).then_some(value)
}

impl World {
    pub(super) fn new(seed: u64, faults: Faults) -> World {
        let ids: Vec<NodeId> = (1..=NODES).map(NodeId).collect();
        let now = Instant::from_nanos(1_000_000_000);
        let voters: Vec<NodeId> = ids.iter().copied().take(FIRST_VOTERS as usize).collect();
        let manager = Manager::new(voters[0], voters.clone(), vec![NodeId(FIRST_VOTERS + 1)], now);
        let mut world = World {
            rng: Seeded::new(seed),
            faults,
            now,
            number: 0,
            events: BTreeMap::new(),
            nodes: ids.into_iter().map(Node::new).collect(),
            manager,
            cut: BTreeSet::new(),
            histories: vec![History::default(); KEYS],
            acts: 0,
            next_value: 0,
            is_healing: false,
            named_at: now,
            summary: Summary::default(),
        };
        world.nodes.iter_mut().for_each(Node::start);
        world.schedule(Duration::ZERO, Event::Manage);
        world.schedule(ACT_EVERY, Event::Act);
        world
    }

    fn node(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.0 as usize - 1]
    }

    fn schedule(&mut self, after: Duration, event: Event) {
        self.number += 1;
        self.events.insert((self.now + after, self.number), event);
    }

    fn thousandth(&mut self, count: usize) -> bool {
        self.rng.below(1000) < count
    }

    /// A message goes on its way: lost, doubled, late.
    fn transmit(&mut self, event: Event) {
        let (drop, repeat) = if self.is_healing { (0, 0) } else { (self.faults.drop, self.faults.repeat) };
        if self.rng.percent(drop) {
            return;
        }
        let copies = 1 + usize::from(self.rng.percent(repeat));
        for _ in 0..copies {
            let delay = Duration::from_micros(200 + 1000 * self.rng.below(self.faults.delay_ms) as u64);
            self.schedule(delay, event.clone());
        }
    }

    /// Acts for a while, heals, and goes on until the group is whole.
    pub(super) fn run(&mut self) {
        self.run_until(Duration::MAX, |world| world.acts >= ACTS);
        self.heal();
        self.run_until(HEALING, World::is_whole);
        let primary = self.manager.primary;
        for key in 0..KEYS {
            self.write(primary, key);
        }
        self.step(primary, Input::Tick);
        self.run_until(HEALING, World::is_whole);
        let may_read = |world: &World| {
            let running = world.nodes[primary.0 as usize - 1].running.as_ref();
            running.is_some_and(|running| running.machine.may_read(world.now))
        };
        self.run_until(HEALING, may_read);
        (0..KEYS).for_each(|key| self.read(primary, key));
    }

    fn run_until(&mut self, limit: Duration, is_done: impl Fn(&World) -> bool) {
        let end = self.now + limit;
        loop {
            let ((at, _), event) = self.events.pop_first().expect("the manager always has something to do");
            assert!(at < end, "not whole after {limit:?}: {}", self.describe());
            self.now = at;
            let is_look = matches!(event, Event::Manage | Event::Act);
            self.carry_out(event);
            if is_look && is_done(self) {
                return;
            }
        }
    }

    /// All is well from now on.
    fn heal(&mut self) {
        self.is_healing = true;
        self.cut.clear();
        for node in self.nodes.iter_mut().filter(|node| node.running.is_none()) {
            node.start();
        }
    }

    /// All nodes are voters of an active view, and hold the same.
    fn is_whole(&self) -> bool {
        let manager = &self.manager;
        let primary = &self.nodes[manager.primary.0 as usize - 1];
        let Some(leading) = primary.running.as_ref().filter(|running| running.machine.is_serving()) else { return false };
        let (view, last) = (leading.machine.view(), leading.machine.log().last());
        manager.is_recorded && manager.voters.len() == NODES as usize && view == manager.view && leading.calls.is_empty() && {
            self.nodes.iter().all(|node| {
                node.running.as_ref().is_some_and(|running| {
                    let is_same = (running.machine.view(), running.machine.log().last()) == (view, last);
                    is_same
                        && running.state == leading.state
                        && running.built == leading.state
                        && running.state.applied == last.opseq
                })
            })
        }
    }

    fn describe(&self) -> String {
        let mut text =
            format!("manager {} of {:?}, recorded {}\n", self.manager.view, self.manager.voters, self.manager.is_recorded);
        for node in &self.nodes {
            let machine = node.running.as_ref().map(|running| &running.machine);
            text += &format!("  node {}: {machine:?}\n", node.id);
        }
        text
    }

    pub(super) fn judge(self) -> Summary {
        for (key, history) in self.histories.iter().enumerate() {
            if let Err(violation) = history.check(None) {
                panic!("key {key}: {violation}");
            }
        }
        self.summary
    }

    /// Views that end with all nodes as voters: learners become voters when they are ready.
    fn name_whole_view(&mut self, up: &[NodeId]) {
        let is_late = self.now >= self.named_at + Duration::from_secs(3);
        let manager = &self.manager;
        let is_bad = manager.wants_view || !manager.is_recorded && is_late;
        let primary = if up.contains(&manager.primary) && manager.base().contains(&manager.primary) && !is_bad {
            manager.primary
        } else {
            let base = manager.base();
            base[self.rng.below(base.len())]
        };
        let mut voters: Vec<NodeId> = manager.base().to_vec();
        if !is_bad {
            if !manager.is_recorded {
                return;
            }
            let running = self.nodes[primary.0 as usize - 1].running.as_ref().expect("all run");
            voters.extend(running.machine.ready_learners().into_iter().map(|(node, _)| node));
            let is_known = manager.appointment(self.now).members().count() == NODES as usize;
            if voters.len() == manager.voters.len() && is_known {
                return;
            }
        }
        let learners = up.iter().copied().filter(|node| !voters.contains(node)).collect();
        self.named_at = self.now;
        self.manager.name_view(primary, voters, learners);
    }

    fn carry_out(&mut self, event: Event) {
        match event {
            Event::Deliver { from, to, message } => {
                if !self.cut.contains(&from) {
                    self.hear(to, Input::Message { from, message });
                }
            }
            Event::Persist { node, start, count } => self.persist(node, start, count),
            Event::Timer { node, start } => {
                if self.is_running(node, start) {
                    self.node(node).running().timer = None;
                    self.step(node, Input::Tick);
                }
            }
            Event::View { to, appointment } => self.hear(to, Input::View(appointment)),
            Event::Recorded { to, view } => self.hear(to, Input::Recorded(view)),
            Event::Lease { to, start, view, until } => {
                if self.is_running(to, start) {
                    self.hear(to, Input::Lease { view, until });
                }
            }
            Event::AskRecord { view, from } => {
                if !self.cut.contains(&from) && self.manager.record(view) {
                    self.transmit(Event::Recorded { to: from, view });
                }
            }
            Event::AskLease { from, start, view, sent_at } => {
                if !self.cut.contains(&from) && self.manager.grant(from, view, self.now) {
                    self.transmit(Event::Lease { to: from, start, view, until: sent_at + LEASE });
                }
            }
            Event::CannotLead { view } => self.manager.wants_view |= view == self.manager.view,
            Event::Restart(node) => {
                if self.node(node).running.is_none() {
                    self.node(node).start();
                }
            }
            Event::NameSole(node) => {
                if !self.is_healing && self.manager.base().contains(&node) {
                    let learners = (1..=NODES).map(NodeId).filter(|learner| *learner != node).collect();
                    self.manager.name_view(node, vec![node], learners);
                    self.tell_view();
                }
            }
            Event::Act => {
                self.acts += 1;
                if self.is_healing {
                    (1..=NODES).for_each(|node| self.persist_state(NodeId(node)));
                } else {
                    self.act();
                }
                self.schedule(ACT_EVERY, Event::Act);
            }
            Event::Manage => {
                self.manage();
                self.schedule(MANAGER_EVERY, Event::Manage);
            }
        }
    }

    fn is_running(&mut self, node: NodeId, start: u64) -> bool {
        let node = self.node(node);
        node.starts == start && node.running.is_some()
    }

    fn hear(&mut self, to: NodeId, input: Input) {
        if !self.cut.contains(&to) && self.node(to).running.is_some() {
            self.step(to, input);
        }
    }

    fn persist(&mut self, node: NodeId, start: u64, count: usize) {
        if !self.is_running(node, start) {
            return;
        }
        let node_state = self.node(node);
        let count = count.min(node_state.store.queued());
        node_state.persist(count);
        let running = node_state.running();
        running.persisted += count as u64;
        let input = Input::Persisted { count: running.persisted };
        self.step(node, input);
    }

    fn step(&mut self, id: NodeId, input: Input) {
        let now = self.now;
        let trimmed = self.node(id).running().machine.log().base();
        let outputs = self.node(id).running().machine.step(input, now).expect("the manager names sound views");
        let mut inputs = Vec::new();
        let mut records = 0;
        for output in outputs {
            if let Output::Persist(record) = &output {
                self.node(id).store.queue(record);
                records += 1;
            } else {
                inputs.extend(self.obey(id, output));
            }
        }
        let running = self.node(id).running();
        if running.load.is_none() {
            running.build();
        }
        if running.machine.log().base() > trimmed {
            self.summary.note("trim");
        }
        let start = self.node(id).starts;
        if records > 0 {
            let delay = Duration::from_micros(100 + self.rng.below(8000) as u64);
            self.schedule(delay, Event::Persist { node: id, start, count: records });
        }
        self.set_timer(id, start);
        for input in inputs {
            if self.is_running(id, start) {
                self.step(id, input);
            }
        }
        if records > 0 && !self.is_healing && self.thousandth(self.faults.sharp) {
            self.crash_sharply(id);
        }
    }

    fn set_timer(&mut self, id: NodeId, start: u64) {
        let now = self.now;
        let running = self.node(id).running();
        let Some(deadline) = running.machine.deadline() else { return };
        let at = deadline.max(now + Duration::from_millis(1));
        if running.timer.is_none_or(|timer| at < timer) {
            running.timer = Some(at);
            self.schedule(at - now, Event::Timer { node: id, start });
        }
    }

    /// Carries an output out; the answer, if there is one at once.
    fn obey(&mut self, id: NodeId, output: Output) -> Option<Input> {
        match output {
            Output::Persist(_) => unreachable!("the store's"),
            Output::Send { to, message } => {
                let bytes = message.encode().into();
                let message = Message::decode(&bytes).expect("its own bytes");
                self.transmit(Event::Deliver { from: id, to, message });
            }
            Output::Committed { through } => {
                self.check_durable(id, through);
                self.apply(id, through);
            }
            Output::RolledBack { entries } => {
                let running = self.node(id).running();
                running.undo(&entries);
                // Their outcome is not known: they may be committed by others, as long as no view without them is active.
                running.calls.retain(|position, _| entries.iter().all(|entry| entry.position != *position));
                self.summary.note("old values undone");
            }
            Output::Serving { .. } => self.summary.note("serving"),
            Output::Deposed { .. } => {}
            Output::AskRecord { view } => self.transmit(Event::AskRecord { view, from: id }),
            Output::CannotLead { view } => self.transmit(Event::CannotLead { view }),
            Output::TakeDump { dump } => {
                let running = self.node(id).running();
                let state = running.state;
                running.dumps.insert(dump, state);
                return Some(Input::DumpTaken { dump, at: state.applied });
            }
            Output::ReadDump { dump, chunk } => {
                let (bytes, last) = chunk_of(self.node(id).running().dumps.get(&dump)?, chunk);
                return Some(Input::DumpRead { dump, chunk, last, bytes });
            }
            Output::EndDump { dump } => drop(self.node(id).running().dumps.remove(&dump)),
            Output::BeginLoad { load, at } => {
                let node = self.node(id);
                node.durable = Map::default();
                let running = node.running();
                (running.state, running.built, running.load) = (Map::default(), Map::default(), Some((load, at)));
                running.calls.clear();
            }
            Output::Load { load, chunk, last, bytes } => {
                if last {
                    self.summary.note("dump loaded");
                }
                return Some(self.node(id).load(load, chunk, last, &bytes));
            }
        }
        None
    }

    fn apply(&mut self, id: NodeId, through: OpSeq) {
        let running = self.node(id).running();
        let positions = running.apply(through);
        let answered: Vec<Waiting> = positions.iter().filter_map(|position| running.calls.remove(position)).collect();
        for Waiting { key, call, outcome } in answered {
            self.histories[key].answer(call, outcome);
        }
    }

    /// What a primary commits is durable at all voters.
    fn check_durable(&mut self, id: NodeId, through: OpSeq) {
        let machine = &self.node(id).running().machine;
        if !machine.is_serving() || machine.view() != self.manager.view {
            return;
        }
        for voter in &self.manager.voters {
            let medium = self.nodes[voter.0 as usize - 1].medium.saved();
            let last = medium.log.last().opseq;
            assert!(!medium.loading && last >= through, "entry {through} is committed; node {voter} has {last} on its medium");
        }
    }

    fn act(&mut self) {
        let Faults { crash, power, cut, view, .. } = self.faults;
        let id = NodeId(1 + self.rng.below(NODES as usize) as u32);
        if self.thousandth(crash) {
            self.crash(id);
        }
        if self.thousandth(power) {
            self.summary.note("power");
            (1..=NODES).for_each(|node| self.crash(NodeId(node)));
        }
        if self.thousandth(cut) {
            self.summary.note("cut");
            if !self.cut.remove(&id) {
                self.cut.insert(id);
            }
        }
        if self.thousandth(view) {
            let up = self.heard();
            self.manager.name_any_view(&mut self.rng, &up);
        }
        if self.rng.percent(12) {
            self.persist_state(id);
        }
        for _ in 0..self.rng.below(3) {
            let key = self.rng.below(KEYS);
            let id = NodeId(1 + self.rng.below(NODES as usize) as u32);
            let serving = self.nodes.iter().find(|node| is_serving(node)).map_or(id, |node| node.id);
            let id = if self.rng.percent(70) { serving } else { id };
            self.call(id, key);
        }
    }

    fn crash(&mut self, id: NodeId) {
        if self.node(id).running.is_none() {
            return;
        }
        self.summary.note("crash");
        let queued = self.node(id).store.queued();
        let kept = self.rng.below(queued + 1);
        self.node(id).crash(kept);
        let after = Duration::from_millis(20 + self.rng.below(1500) as u64);
        self.schedule(after, Event::Restart(id));
    }

    /// Records are lost, what followed from them is on its way; and the manager may name a view that rests on this node alone.
    fn crash_sharply(&mut self, id: NodeId) {
        if self.node(id).running.is_none() {
            return;
        }
        self.summary.note("sharp crash");
        self.node(id).crash(0);
        self.schedule(Duration::from_millis(5), Event::Restart(id));
        if self.rng.percent(50) {
            let after = Duration::from_millis(6 + self.rng.below(30) as u64);
            self.schedule(after, Event::NameSole(id));
        }
    }

    fn persist_state(&mut self, id: NodeId) {
        if let Some(input) = self.node(id).persist_state() {
            self.step(id, input);
        }
    }

    /// A client makes a call of a node.
    fn call(&mut self, id: NodeId, key: usize) {
        if self.node(id).running.is_none() || self.histories[key].len() >= MAX_CALLS && !self.is_healing {
            return;
        }
        match self.rng.below(4) {
            0 => self.read(id, key),
            1 => self.swap(id, key),
            _ => self.write(id, key),
        }
    }

    fn read(&mut self, id: NodeId, key: usize) {
        let now = self.now;
        let running = self.node(id).running();
        if running.machine.may_read(now) {
            let found = some(running.state.values[key]);
            self.summary.note("read");
            let call = self.histories[key].call(Call::Read);
            self.histories[key].answer(call, Outcome::Read(found));
        }
    }

    fn write(&mut self, id: NodeId, key: usize) {
        self.next_value += 1;
        let new = if self.rng.percent(25) { 0 } else { self.next_value };
        let call = self.histories[key].call(Call::Write(some(new)));
        self.append(id, key, new, call, Outcome::Written);
    }

    /// A conditional write: judged by what is built, answered when that is committed.
    fn swap(&mut self, id: NodeId, key: usize) {
        self.next_value += 1;
        let (new, now) = (self.next_value, self.now);
        let running = self.node(id).running();
        let (built, is_settled, may_read) = (running.built.values[key], running.is_settled(key), running.machine.may_read(now));
        let expected = if self.rng.percent(60) { built } else { self.rng.below(new as usize) as Value };
        let call = self.histories[key].call(Call::Swap { expected: some(expected), new: some(new) });
        if expected == built {
            self.append(id, key, new, call, Outcome::Swapped);
        } else if is_settled && may_read {
            self.histories[key].answer(call, Outcome::Differs { found: some(built) });
        } else {
            self.histories[key].withdraw(call);
        }
    }

    fn append(&mut self, id: NodeId, key: usize, new: Value, call: CallId, outcome: Outcome<Value>) {
        let running = self.node(id).running();
        let old = running.built.values[key];
        match running.machine.append(Change { key, old, new }.encode()) {
            Ok(position) => {
                let what = if outcome == Outcome::Swapped { "swap" } else { "write" };
                running.calls.insert(position, Waiting { key, call, outcome });
                running.build();
                self.summary.note(what);
                if self.rng.percent(60) {
                    self.step(id, Input::Tick);
                }
            }
            Err(error) => {
                if matches!(error, AppendError::Full { .. }) {
                    self.summary.note("full");
                }
                self.histories[key].withdraw(call);
            }
        }
    }

    /// Nodes that the manager hears.
    fn heard(&self) -> Vec<NodeId> {
        let up = self.nodes.iter().filter(|node| node.running.is_some() && !self.cut.contains(&node.id));
        up.map(|node| node.id).collect()
    }

    fn manage(&mut self) {
        let now = self.now;
        let up = self.heard();
        let is_stuck = !up.contains(&self.manager.primary) || self.manager.voters.iter().any(|voter| !up.contains(voter));
        if self.is_healing {
            self.name_whole_view(&up);
        } else if (self.manager.wants_view || is_stuck) && self.rng.percent(40) {
            self.manager.name_any_view(&mut self.rng, &up);
        }
        self.tell_view();
        for node in up {
            let start = self.node(node).starts;
            let running = self.node(node).running();
            let view = running.machine.view();
            if running.machine.is_serving() {
                self.transmit(Event::AskLease { from: node, start, view, sent_at: now });
            }
        }
    }

    fn tell_view(&mut self) {
        let appointment = self.manager.appointment(self.now);
        for node in (1..=NODES).map(NodeId) {
            let appointment = appointment.clone();
            self.transmit(Event::View { to: node, appointment });
        }
    }
}
