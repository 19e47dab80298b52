//! A cluster of managers, nodes and their clocks in which everything goes wrong that may, and some things that may not.
//!
//! Time goes on in steps. Every process reads a clock of its own, which runs fast or slow within the bound. Messages and commands arrive late,
//! out of order, or never. After every step the state is compared with what gateways hold: whoever has a lease that permits reads on its
//! own clock is in the newest view.

use std::collections::BTreeSet;

use env::Env;
use topology::{ClockReading, HeldLease, LeaseTerms, ReplicaTable};
use types::{CellId, DeviceId, DeviceUuid, GatewayId, Generation, NodeId, NodeIdentity, Token, ViewNumber};

use super::super::{Answer, DeviceReport, Facts, HEARTBEAT_INTERVAL_MS, Heartbeat, Input, Output, Overseer};
use crate::modules::cell::CellRecord;
use crate::tests::nodes;
use crate::{AddDevice, Command, CommandIndex, CreateCell, PlaceDevice, RegisterNode, SetConfig, Snapshot, apply};

pub(super) const CELL: CellId = CellId(0);
const STEP_MS: u64 = 10;
const NANOS_PER_MS: u64 = 1_000_000;
/// A tenth, each way: large, so that a rule that forgets it is found soon.
const DRIFT_PPM: u64 = 100_000;
const LEASE: std::time::Duration = std::time::Duration::from_millis(2_000);
/// Messages take up to so long; one in eight the longer time.
const MAX_DELAY_MS: u64 = 60;
const MAX_LONG_DELAY_MS: u64 = 600;
const RECOVERY_MS: u64 = 400;

/// What is wrong in a world on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Twin {
    Sound,
    /// Views without a gateway do not wait for its lease.
    NoWait,
    /// The granter forgets that clocks drift.
    NoDrift,
    /// A new leader takes leases that it knows nothing of for ended.
    Amnesia,
    /// A former leader goes on answering heartbeats.
    TwoLeaders,
    /// A node registers anew while its former process goes on.
    LivingFormer,
}

struct Clock {
    offset: u64,
    drift_ppm: i64,
}

impl Clock {
    fn random(env: &Env) -> Clock {
        let drift_ppm = env.random_below(2 * DRIFT_PPM + 1) as i64 - DRIFT_PPM as i64;
        Clock { offset: 100_000 * NANOS_PER_MS + env.random_below(1_000_000_000), drift_ppm }
    }

    fn read(&self, ms: u64) -> ClockReading {
        let nanos = ms as i64 * NANOS_PER_MS as i64;
        ClockReading { nanos: self.offset + (nanos + nanos / 1_000_000 * self.drift_ppm) as u64 }
    }
}

/// One run of a gateway. It may go on after its node has another one, if the twin says so.
#[derive(Clone)]
struct Process {
    gateway: GatewayId,
    lease: Option<HeldLease>,
    /// What it has installed, and when.
    record: Option<(CellRecord, u64)>,
    asks_again: bool,
}

struct Node {
    id: NodeId,
    device: DeviceId,
    clock: Clock,
    is_up: bool,
    is_cut_off: bool,
    device_failed: bool,
    /// It applies nothing of what the manager decides, and speaks.
    is_stuck: bool,
    applied: CommandIndex,
    process: Option<Process>,
    /// A former process that nobody stopped.
    former: Option<Process>,
    is_registering: bool,
    fences: ViewNumber,
    beats_at: u64,
}

enum Message {
    Heartbeat { heartbeat: Heartbeat, asked_at: ClockReading, from: usize, to_former_leader: bool },
    Answer { to: usize, gateway: Option<GatewayId>, answer: Answer, asked_at: ClockReading, is_of_former: bool },
    Command { command: Command, registers: Option<usize> },
}

struct Leader {
    overseer: Overseer,
    clock: Clock,
}

/// What must only rise.
#[derive(Default)]
struct Highest {
    view: ViewNumber,
    fences: std::collections::BTreeMap<NodeId, Token>,
    table: Option<ReplicaTable>,
}

pub(super) struct World {
    env: Env,
    twin: Twin,
    now_ms: u64,
    state: Snapshot,
    nodes: Vec<Node>,
    /// Pairs of nodes that do not reach each other.
    cuts: BTreeSet<(usize, usize)>,
    leader: Leader,
    former_leader: Option<Leader>,
    messages: Vec<(u64, Message)>,
    highest: Highest,
    is_calm: bool,
    pub(super) views_seen: u64,
    pub(super) foundings_seen: u64,
}

fn register(number: usize) -> RegisterNode {
    let text = |what: &str| format!("{what}-{number}");
    RegisterNode {
        identity: NodeIdentity([number as u8; 16]),
        name: text("node"),
        address: text("address"),
        admin_address: String::new(),
        s3_address: String::new(),
        host: text("host"),
        rack: String::new(),
        zone: String::new(),
        version: String::new(),
        joined_ms: 0,
    }
}

impl World {
    pub(super) fn new(env: Env, twin: Twin, count: usize) -> World {
        let mut state = Snapshot::default();
        let mut run = |command: Command| {
            let index = CommandIndex(state.applied().0 + 1);
            assert!(apply(index, &command, &mut state), "{command:?}");
        };
        run(CreateCell { cell: CELL, generation: Generation(0) }.into());
        let mut nodes = Vec::new();
        for number in 0..count {
            run(register(number).into());
            let (id, device) = (NodeId(number as u32 + 1), DeviceId(number as u32));
            let uuid = DeviceUuid([number as u8; 16]);
            run(AddDevice { uuid, path: String::new(), capacity_bytes: 1 << 40 }.into());
            run(PlaceDevice { id: device, node: Some(id) }.into());
            nodes.push(Node {
                id,
                device,
                clock: Clock::random(&env),
                is_up: true,
                is_cut_off: false,
                device_failed: false,
                is_stuck: false,
                applied: CommandIndex(0),
                process: None,
                former: None,
                is_registering: false,
                fences: ViewNumber(0),
                beats_at: env.random_below(HEARTBEAT_INTERVAL_MS),
            });
        }
        let leader = World::new_leader(&env, twin, &state, 0);
        let (messages, highest, cuts) = (Vec::new(), Highest::default(), BTreeSet::new());
        let (now_ms, is_calm, views_seen, foundings_seen) = (0, false, 0, 0);
        let former_leader = None;
        World {
            env,
            twin,
            now_ms,
            state,
            nodes,
            cuts,
            leader,
            former_leader,
            messages,
            highest,
            is_calm,
            views_seen,
            foundings_seen,
        }
    }

    fn new_leader(env: &Env, twin: Twin, state: &Snapshot, now_ms: u64) -> Leader {
        let terms = match twin {
            Twin::NoWait => LeaseTerms::new(std::time::Duration::from_millis(1), DRIFT_PPM),
            Twin::NoDrift => LeaseTerms::new(LEASE, 0),
            _ => LeaseTerms::new(LEASE, DRIFT_PPM),
        };
        let (mut overseer, clock) = (Overseer::new(CELL, terms), Clock::random(env));
        let mut now = clock.read(now_ms);
        if twin == Twin::Amnesia {
            now.nanos -= 10_000 * NANOS_PER_MS;
        }
        let outputs = overseer.step(Input::Started(Facts::of(state, CELL).unwrap()), now);
        // Whatever it proposes at once it proposes again.
        drop(outputs);
        Leader { overseer, clock }
    }

    fn cell(&self) -> &CellRecord {
        self.state.cell(CELL).unwrap()
    }

    fn chance(&self, one_in: u64) -> bool {
        !self.is_calm && self.env.random_below(one_in) == 0
    }

    fn send(&mut self, message: Message) {
        if self.chance(20) {
            return;
        }
        let most_ms = if self.chance(8) { MAX_LONG_DELAY_MS } else { MAX_DELAY_MS };
        let delay_ms = if self.is_calm { 10 } else { self.env.random_below(most_ms) };
        self.messages.push((self.now_ms + delay_ms, message));
    }

    /// One step. What is wrong, if something is.
    pub(super) fn step(&mut self) -> Result<(), String> {
        self.now_ms += STEP_MS;
        if !self.is_calm {
            self.go_wrong();
        }
        for node in 0..self.nodes.len() {
            self.live(node);
        }
        let (due, later) = std::mem::take(&mut self.messages).into_iter().partition(|(at, _)| *at <= self.now_ms);
        self.messages = later;
        let due: Vec<(u64, Message)> = due;
        for (_, message) in due {
            self.deliver(message)?;
            self.check_leases()?;
        }
        self.lead(Input::Tick);
        self.check_leases()
    }

    pub(super) fn run(&mut self, ms: u64) -> Result<(), String> {
        for _ in 0..ms / STEP_MS {
            self.step()?;
        }
        Ok(())
    }

    /// Runs until all is well, at most for so long; how many members there are.
    pub(super) fn run_until_well(&mut self, most_ms: u64) -> Result<usize, String> {
        for _ in 0..most_ms / STEP_MS {
            if self.unwell().is_none() {
                return Ok(self.members());
            }
            self.step()?;
        }
        self.unwell().map_or(Ok(self.members()), |unwell| Err(format!("not within {most_ms} ms: {unwell}")))
    }

    /// From now on everything works.
    pub(super) fn calm_down(&mut self) {
        self.is_calm = true;
        self.cuts.clear();
        for node in &mut self.nodes {
            (node.is_up, node.is_cut_off, node.device_failed, node.former) = (true, false, false, None);
            node.is_stuck = false;
        }
    }

    /// Two nodes do not reach each other any more, but for that all is calm; or they do again.
    pub(super) fn cut(&mut self, one: usize, other: usize) {
        self.cuts.insert((one.min(other), one.max(other)));
    }

    /// A node follows the manager no more, but for that all is calm; or it does again.
    pub(super) fn set_stuck(&mut self, node: usize, is_stuck: bool) {
        self.nodes[node].is_stuck = is_stuck;
    }

    /// The manager decides something that changes nothing of the cell.
    pub(super) fn decide_something(&mut self) {
        let index = CommandIndex(self.state.applied().0 + 1);
        let command = SetConfig { key: "key".to_owned(), value: Some(index.0.to_string()) }.into();
        assert!(apply(index, &command, &mut self.state), "{command:?}");
    }

    pub(super) fn heal(&mut self) {
        self.cuts.clear();
    }

    pub(super) fn members(&self) -> usize {
        self.cell().view_members().len()
    }

    /// Devices that are written to.
    pub(super) fn devices(&self) -> usize {
        self.cell().installed.as_ref().map_or(0, |installed| installed.table.devices().len())
    }

    /// What is missing for all to be well again.
    pub(super) fn unwell(&self) -> Option<String> {
        let cell = self.cell();
        let everybody = cell.view_members().len() == self.nodes.len();
        let everything = self.devices() == self.nodes.len();
        let is_quiet = cell.undecided.is_empty() && cell.removing.is_empty() && !cell.is_founding();
        let all_lead = self.nodes.iter().all(|node| {
            let lease = node.process.as_ref().and_then(|process| process.lease);
            lease.is_some_and(|lease| lease.permits(cell.view_number(), node.clock.read(self.now_ms)))
        });
        (!everybody || !everything || !is_quiet || !all_lead).then(|| format!("leases {all_lead}: {cell:#?}"))
    }

    fn go_wrong(&mut self) {
        let node = self.env.random_below(self.nodes.len() as u64) as usize;
        let other = self.env.random_below(self.nodes.len() as u64) as usize;
        match self.env.random_below(2_000) {
            0 => self.stop(node),
            1..4 => {
                let keeps_former = self.twin == Twin::LivingFormer && self.nodes[node].is_up;
                let former = self.nodes[node].process.clone().filter(|_| keeps_former);
                self.stop(node);
                (self.nodes[node].is_up, self.nodes[node].former) = (true, former);
            }
            4..8 => self.nodes[node].is_cut_off = true,
            8..10 => self.nodes[node].is_cut_off = false,
            10..12 => drop(self.cuts.insert((node.min(other), node.max(other)))),
            12..15 => drop(self.cuts.pop_first()),
            15 => self.nodes[node].device_failed = true,
            16..20 => self.nodes[node].device_failed = false,
            22 => self.nodes[node].is_stuck = true,
            23..25 => self.nodes[node].is_stuck = false,
            20 => self.change_leader(),
            21 => (0..self.nodes.len()).for_each(|node| self.stop(node)),
            _ => {}
        }
    }

    fn stop(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        (node.is_up, node.process, node.is_registering, node.fences) = (false, None, false, ViewNumber(0));
    }

    fn change_leader(&mut self) {
        let next = World::new_leader(&self.env, self.twin, &self.state, self.now_ms);
        let mut former = std::mem::replace(&mut self.leader, next);
        if self.twin != Twin::TwoLeaders {
            let now = former.clock.read(self.now_ms);
            assert_eq!(former.overseer.step(Input::Stopped, now), []);
        }
        self.former_leader = Some(former);
    }

    /// A node does what it does by itself.
    fn live(&mut self, at: usize) {
        if !self.nodes[at].is_up {
            return;
        }
        let now = self.nodes[at].clock.read(self.now_ms);
        // Rule 9. It may answer until its lease ends.
        let may_answer = |process: &Process| process.lease.is_some_and(|lease| lease.permits(lease.view(), now));
        self.nodes[at].process.take_if(|process| process.asks_again && !may_answer(process));
        if !self.nodes[at].is_stuck {
            self.nodes[at].applied = self.state.applied();
        }
        if self.nodes[at].process.is_none() && !self.nodes[at].is_registering && !self.nodes[at].is_stuck {
            self.nodes[at].is_registering = true;
            let command = nodes::register(CELL, self.nodes[at].id).into();
            self.messages.push((self.now_ms + 20, Message::Command { command, registers: Some(at) }));
        }
        if self.now_ms < self.nodes[at].beats_at {
            return;
        }
        self.nodes[at].beats_at = self.now_ms + HEARTBEAT_INTERVAL_MS;
        for process in [self.nodes[at].process.clone(), self.nodes[at].former.clone()].into_iter().flatten() {
            let heartbeat = self.heartbeat(at, &process);
            let asked_at = self.nodes[at].clock.read(self.now_ms);
            if !self.nodes[at].is_cut_off {
                // A former leader, if it goes on, is on the side of every other node.
                let to_former_leader = at % 2 == 1;
                self.send(Message::Heartbeat { heartbeat, asked_at, from: at, to_former_leader });
            }
        }
    }

    fn heartbeat(&self, at: usize, process: &Process) -> Heartbeat {
        let node = &self.nodes[at];
        let since_ms = |installed_at: u64| self.now_ms - installed_at;
        let installed = process.record.as_ref().filter(|(record, _)| record.is_in_view(process.gateway));
        let view = installed.map_or(ViewNumber(0), |(record, _)| record.view_number());
        let has_recovered = installed.is_some_and(|(_, at)| since_ms(*at) > RECOVERY_MS);
        let is_cut = |other: usize| self.cuts.contains(&(at.min(other), at.max(other)));
        let unreachable: Vec<usize> =
            (0..self.nodes.len()).filter(|other| is_cut(*other) || !self.nodes[*other].is_up).collect();
        // As nodes do: of everybody who is registered, learners too.
        let gateways_of = |other: &usize| {
            let members = self.cell().members.iter().filter(|(_, member)| member.node == self.nodes[*other].id);
            members.map(|(gateway, _)| *gateway).collect::<Vec<_>>()
        };
        let unreachable_devices = unreachable.iter().filter(|_| installed.is_some()).map(|other| self.nodes[*other].device);
        let decided = installed.filter(|_| has_recovered).map(|(record, _)| record.undecided.keys().copied().collect());
        Heartbeat {
            cell: CELL,
            node: node.id,
            gateway: Some(process.gateway),
            view,
            wants_lease: installed.is_some_and(|(record, _)| !record.is_founding()),
            is_loadable: true,
            founding_done: has_recovered,
            decided: decided.unwrap_or_default(),
            recovered: has_recovered,
            unreachable_gateways: unreachable.iter().flat_map(gateways_of).collect(),
            unreachable_devices: unreachable_devices.collect(),
            failed_devices: if node.device_failed { [node.device].into() } else { BTreeSet::new() },
            devices: vec![DeviceReport { device: node.device, total_bytes: 2, free_bytes: 1 }],
            fences: node.fences,
            applied: node.applied.0,
            leaves: false,
            wall_clock_ms: 0,
        }
    }

    fn deliver(&mut self, message: Message) -> Result<(), String> {
        match message {
            Message::Heartbeat { heartbeat, asked_at, from, to_former_leader } => {
                let gateway = heartbeat.gateway;
                let heartbeat = Heartbeat::decode(&heartbeat.encode()).unwrap();
                let is_of_former = self.twin == Twin::TwoLeaders && to_former_leader && self.former_leader.is_some();
                let answers = match &mut self.former_leader {
                    Some(former) if is_of_former => {
                        former.overseer.step(Input::Heartbeat(heartbeat), former.clock.read(self.now_ms))
                    }
                    _ => self.lead(Input::Heartbeat(heartbeat)),
                };
                for output in answers {
                    if let Output::Answer { answer, .. } = output
                        && !self.nodes[from].is_cut_off
                    {
                        self.send(Message::Answer { to: from, gateway, answer, asked_at, is_of_former });
                    }
                }
                Ok(())
            }
            Message::Answer { to, gateway, answer, asked_at, is_of_former } => {
                self.take_lease(to, gateway, answer, asked_at);
                if !is_of_former {
                    // Who asks a former leader learns nothing newer than it knows.
                    self.take_record(to, gateway);
                }
                Ok(())
            }
            Message::Command { command, registers } => self.commit(&command, registers),
        }
    }

    /// Hands something to the leader, and sends its proposals on their way.
    fn lead(&mut self, input: Input) -> Vec<Output> {
        let now = self.leader.clock.read(self.now_ms);
        self.leader.overseer.follow(self.state.applied(), now);
        let outputs = self.leader.overseer.step(input, now);
        for output in &outputs {
            if let Output::Propose { proposal, .. } = output {
                self.send(Message::Command { command: proposal.clone().into(), registers: None });
            }
        }
        outputs
    }

    fn take_lease(&mut self, to: usize, gateway: Option<GatewayId>, answer: Answer, asked_at: ClockReading) {
        let node = &mut self.nodes[to];
        for process in [&mut node.process, &mut node.former].into_iter().flatten() {
            if answer.lease == Ok(process.gateway) && gateway == Some(process.gateway) {
                let lease = HeldLease::granted(&LeaseTerms::new(LEASE, DRIFT_PPM), answer.view, asked_at);
                process.lease.get_or_insert(lease).renew(lease);
            }
        }
    }

    /// A node asks for the newest record of the cell, and installs it.
    fn take_record(&mut self, to: usize, gateway: Option<GatewayId>) {
        let record = CellRecord::clone(self.cell());
        let (now_ms, node) = (self.now_ms, &mut self.nodes[to]);
        if !node.is_up || node.is_stuck {
            return;
        }
        node.fences = record.view_number();
        let processes = [&mut node.process, &mut node.former].into_iter().flatten();
        for process in processes.filter(|process| Some(process.gateway) == gateway) {
            let is_known = process.record.as_ref().is_some_and(|(known, _)| known.view_number() >= record.view_number());
            if !is_known || process.record.as_ref().is_some_and(|(known, _)| known.is_founding()) {
                let at = process.record.as_ref().filter(|_| is_known).map_or(now_ms, |(_, at)| *at);
                process.record = Some((record.clone(), at));
            }
            process.asks_again = !record.members.contains_key(&process.gateway) || record.removing.contains(&process.gateway);
        }
    }

    fn commit(&mut self, command: &Command, registers: Option<usize>) -> Result<(), String> {
        let index = CommandIndex(self.state.applied().0 + 1);
        let before = self.cell().view_number();
        if let Some(at) = registers {
            if !std::mem::take(&mut self.nodes[at].is_registering) {
                // It was stopped meanwhile; whoever runs next registers for itself.
                return Ok(());
            }
            self.nodes[at].process = None;
        }
        apply(index, command, &mut self.state);
        if let Some(at) = registers {
            let gateway = self.cell().last_gateway;
            self.nodes[at].process = Some(Process { gateway, lease: None, record: None, asks_again: false });
        }
        if self.cell().view_number() != before {
            self.views_seen += 1;
            self.foundings_seen += u64::from(self.cell().is_founding());
        }
        self.check_rising()?;
        self.check_leases()?;
        self.lead(Input::Changed(Facts::of(&self.state, CELL).unwrap()));
        Ok(())
    }

    /// Whoever may answer reads is in the view.
    fn check_leases(&self) -> Result<(), String> {
        for node in self.nodes.iter().filter(|node| node.is_up) {
            for process in [&node.process, &node.former].into_iter().flatten() {
                let Some(lease) = process.lease else { continue };
                if lease.permits(lease.view(), node.clock.read(self.now_ms)) && !self.cell().is_in_view(process.gateway) {
                    let (gateway, view) = (process.gateway, self.cell().view_number());
                    return Err(format!("{} ms: gateway {gateway} answers reads and is not in view {view}", self.now_ms));
                }
            }
        }
        Ok(())
    }

    fn check_rising(&mut self) -> Result<(), String> {
        let cell = self.state.cell(CELL).unwrap();
        let highest = &mut self.highest;
        if cell.view_number() < highest.view {
            return Err(format!("view {} after {}", cell.view_number(), highest.view));
        }
        highest.view = cell.view_number();
        for (node, token) in std::mem::take(&mut highest.fences) {
            if cell.fence(node) < token {
                return Err(format!("the fence of node {node} fell from {token}"));
            }
        }
        highest.fences.clone_from(&cell.fences);
        let stale = cell.undecided.values().find(|member| member.token >= cell.fence(member.node));
        if stale.is_some() {
            return Err(format!("somebody who left may write: {cell:?}"));
        }
        if let Some(installed) = &cell.installed {
            let before = highest.table.replace(installed.table.clone());
            let is_sound = before.is_none_or(|before| {
                let (older, newer) = (before.generation(), installed.table.generation());
                older < newer || (older == newer && before == installed.table)
            });
            if !is_sound {
                return Err("another table under the same generation, or an older one".to_owned());
            }
        }
        Ok(())
    }
}
