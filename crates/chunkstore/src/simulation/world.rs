//! Everything and everybody, and what happens next.

use std::collections::BTreeMap;

use format::chunk_block::{BlockEntry, CopyState};
use format::chunk_command::{ChunkCommand, Relocation};
use format::chunk_id::{ChunkId, ShardId};
use format::chunk_place::{BlockPlace, ChunkPlaces};
use format::chunk_update::{LookupChange, LookupUpdate};
use model::choice::{Choose, Seeded};
use types::{DeviceId, DeviceUuid};

use super::disk::Disk;
use super::workload::{Workload, registration};
use crate::client::{Event, Round, Send};
use crate::leader::{CommitTag, Errand, Host, Leader, Order, SnapshotPlace};
use crate::lookup::{LookupHost, Received};
use crate::maintenance::{Answer, Duty, IndexChange, MaintenanceUnit, Move, Sought};
use crate::message::{Found, Located, NodeAnswer, NodeRequest, ToNode};
use crate::publisher::Begins;
use crate::storage_node::{JobId, Step, StorageNode, Tag};

pub const DEVICES: u32 = 5;
/// Enough for all chunks also when a device is lost.
pub const BLOCKS: u32 = 5;
pub const HOSTS: u32 = 3;
pub const SHARD: ShardId = ShardId(3);
/// Registrations of the shard: some runs come to its end.
const CAPACITY: u64 = 40;
const NETWORK_MS: usize = 30;
const TICK_MS: u64 = 50;
const TIMEOUT_MS: u64 = 120;
/// How long the way to a host waits for the answer to a snapshot.
const SNAPSHOT_MS: u64 = 100;
const DOWN_MS: usize = 400;
const FAULTS_UNTIL_MS: u64 = 12_000;
const END_MS: u64 = 60_000;

/// How often what goes wrong, in percent of messages or of ticks.
#[derive(Clone, Copy, Debug)]
pub struct Faults {
    pub drop: usize,
    pub repeat: usize,
    pub crash: usize,
    pub host_crash: usize,
    pub leader: usize,
    pub relocate: usize,
    pub loses_device: bool,
    /// Puts that find a host less than copies are wanted.
    pub few: usize,
    /// Looks at which a target that is being made, or a lost place, is given up.
    pub give_up: usize,
    /// Relocations to where the chunk once stood.
    pub returns: usize,
    /// Ticks at which the leader begins to hear nothing of a device for a while, which others do.
    pub cut: usize,
    /// What is lost of what the first host is told.
    pub lag: usize,
}

/// Names a call of the workload.
pub type CallNumber = usize;

/// To whom a node's answer goes.
#[derive(Clone, Copy, Debug)]
pub enum ReplyTo {
    Call { call: CallNumber, round: Round, routed: Option<ChunkPlaces> },
    Leader { term: u64, errand: Errand },
    Nobody,
}

#[derive(Clone, Debug)]
enum Happening {
    Client {
        call: CallNumber,
        event: Event,
    },
    Timer(CallNumber),
    ToUnit {
        call: CallNumber,
        send: Send,
    },
    ToHost {
        call: CallNumber,
        round: Round,
        host: u32,
        id: ChunkId,
        has_content: bool,
    },
    ToNode {
        reply: ReplyTo,
        to: ToNode,
    },
    FromNode {
        reply: ReplyTo,
        id: ChunkId,
        place: BlockPlace,
        answer: NodeAnswer,
    },
    Written {
        device: u32,
        life: u64,
        job: JobId,
    },
    Restart(u32),
    Update {
        term: u64,
        host: u32,
        update: LookupUpdate,
    },
    Heard {
        term: u64,
        host: u32,
        received: Received,
    },
    /// Of the host's own accord.
    Reported {
        term: u64,
        host: u32,
        received: Received,
    },
    /// The way to a host waits no longer for the answer to a snapshot.
    SnapshotOver {
        term: u64,
        host: u32,
        snapshot: SnapshotPlace,
    },
    Commit {
        proposer: Option<(u64, CallNumber, Round)>,
        command: ChunkCommand,
    },
    Lead,
    Tick,
}

struct Device {
    disk: Disk,
    /// None while it is down.
    node: Option<StorageNode>,
    life: u64,
    is_lost: bool,
    /// What the requests under way are about, by their tags.
    asked: BTreeMap<Tag, (ReplyTo, ChunkId, BlockPlace)>,
}

pub struct World {
    pub choose: Seeded,
    faults: Faults,
    pub now_ms: u64,
    happenings: BTreeMap<(u64, u64), Happening>,
    next: u64,
    pub unit: MaintenanceUnit,
    /// Told the same through the records.
    shadow: MaintenanceUnit,
    pub leader: Option<Leader>,
    term: u64,
    commits: BTreeMap<CommitTag, (CallNumber, Round)>,
    devices: Vec<Device>,
    /// The device of which the leader hears nothing, and until when.
    cut: Option<(DeviceId, u64)>,
    /// Where chunks stood before.
    former: BTreeMap<ChunkId, Vec<BlockPlace>>,
    pub hosts: Vec<LookupHost>,
    pub workload: Workload,
    log: String,
}

pub fn device_uuid(device: u32) -> DeviceUuid {
    DeviceUuid([device as u8 + 1; 16])
}

impl World {
    pub fn new(seed: u64, faults: Faults) -> Self {
        let unit = MaintenanceUnit::new(SHARD, CAPACITY);
        let device = |number| Device {
            disk: Disk::default(),
            node: Some(StorageNode::new(device_uuid(number), BLOCKS, [], BTreeMap::new())),
            life: 0,
            is_lost: false,
            asked: BTreeMap::new(),
        };
        let mut world = World {
            choose: Seeded::new(seed),
            faults,
            now_ms: 0,
            happenings: BTreeMap::new(),
            next: 0,
            shadow: unit.clone(),
            unit,
            leader: None,
            term: 0,
            commits: BTreeMap::new(),
            devices: (0..DEVICES).map(device).collect(),
            cut: None,
            former: BTreeMap::new(),
            hosts: (0..HOSTS).map(|_| LookupHost::new()).collect(),
            workload: Workload::default(),
            log: String::new(),
        };
        for device in 0..DEVICES {
            let command = ChunkCommand::Grant { device: DeviceId(device), first_block: 0, blocks: BLOCKS };
            world.apply(&command);
        }
        world.at(0, Happening::Lead);
        world.at(1, Happening::Tick);
        world
    }

    /// Until all calls are over and nothing is left to do.
    pub fn run(&mut self) {
        while let Some(((at, _), happening)) = self.happenings.pop_first() {
            self.now_ms = at;
            assert!(at < END_MS, "it does not come to rest: {}", self.describe());
            if matches!(happening, Happening::Tick) && self.has_come_to_rest() {
                return;
            }
            self.happen(happening);
        }
    }

    pub fn summary(&self) -> String {
        format!("{} ms, {} chunks, {}", self.now_ms, self.unit.next().0, self.log)
    }

    fn describe(&self) -> String {
        let duties: Vec<Duty> = self.unit.duties().collect();
        let hosts: Vec<_> = self.hosts.iter().map(|host| host.progress(SHARD)).collect();
        let stray: Vec<_> = self.entries().filter(|(at, entry)| !self.is_in_place(*at, entry)).collect();
        let open = self.workload.open_calls();
        format!("open calls {open:?}, duties {duties:?}, hosts {hosts:?} of {:?}, stray {stray:?}", self.unit.next())
    }

    fn is_faulty(&self) -> bool {
        self.now_ms < FAULTS_UNTIL_MS
    }

    /// What the unit says of an id; it has no pages here.
    pub(super) fn found(&self, id: ChunkId) -> Found {
        match self.unit.seek(id, None) {
            Sought::Found(found) => found,
            Sought::InPage(page) => panic!("nobody writes pages here: {page:?}"),
        }
    }

    /// Whether the unit knows of a copy, and means it to stay.
    fn is_in_place(&self, at: BlockPlace, entry: &BlockEntry) -> bool {
        let is_known = matches!(self.found(entry.id), Found::Known { places, .. } if places.contains(at));
        is_known && entry.state != CopyState::Dead
    }

    fn has_come_to_rest(&self) -> bool {
        let is_quiet = self.unit.duties().next().is_none() && self.unit.next_deadline_ms().is_none();
        let is_up = self.devices.iter().all(|device| device.node.is_some() || device.is_lost);
        let has_freed = self.entries().all(|(at, entry)| self.is_in_place(at, entry));
        let published = self.leader.as_ref().map(Leader::published);
        let is_found = |host: &LookupHost| host.progress(SHARD).map(|known| known.place()) == published;
        let is_repaired = self.unit.index().all(|(_, places)| places.iter().all(|place| !self.is_lost(place)));
        !self.is_faulty()
            && is_quiet
            && is_repaired
            && self.unit.short_here() == 0
            && is_up
            && has_freed
            && published.is_some()
            && self.hosts.iter().all(is_found)
            && self.workload.is_over()
    }

    /// All copies of devices that are not lost.
    pub fn entries(&self) -> impl Iterator<Item = (BlockPlace, &BlockEntry)> {
        let devices = self.devices.iter().enumerate().filter(|(_, device)| !device.is_lost);
        devices.flat_map(|(number, device)| {
            device
                .node
                .iter()
                .flat_map(move |node| node.entries().map(move |(block, entry)| (place(number as u32, block), entry)))
        })
    }

    pub fn is_replica_equal(&self) -> bool {
        self.unit == self.shadow
    }

    pub fn is_lost(&self, place: BlockPlace) -> bool {
        self.devices[place.device().0 as usize].is_lost
    }

    fn at(&mut self, at: u64, happening: Happening) {
        self.next += 1;
        self.happenings.insert((at, self.next), happening);
    }

    /// Through the network: late, or never, or twice.
    fn send(&mut self, happening: Happening) {
        if self.is_faulty() && self.choose.percent(self.faults.drop) {
            return;
        }
        if self.is_faulty() && self.choose.percent(self.faults.repeat) {
            let at = self.now_ms + 1 + self.choose.below(20 * NETWORK_MS) as u64;
            self.at(at, happening.clone());
        }
        let at = self.now_ms + 1 + self.choose.below(NETWORK_MS) as u64;
        self.at(at, happening);
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Client { call, event } => self.client(call, event),
            Happening::Timer(call) => {
                if self.workload.is_open(call) {
                    self.client(call, Event::Timeout);
                    self.at(self.now_ms + TIMEOUT_MS, Happening::Timer(call));
                }
            }
            Happening::ToUnit { call, send } => self.unit_hears(call, send),
            Happening::ToHost { call, round, host, id, has_content } => self.route(call, round, host, id, has_content),
            Happening::ToNode { reply, to } => self.node_hears(reply, to),
            Happening::FromNode { reply, id, place, answer } => self.node_answers(reply, id, place, answer),
            Happening::Written { device, life, job } => self.written(device, life, job),
            Happening::Restart(device) => self.restart(device),
            Happening::Update { term, host, update } => {
                let received = self.hosts[host as usize].receive(&update).expect("updates of the publisher are sound");
                self.send(Happening::Heard { term, host, received });
            }
            Happening::Heard { term, host, received } => self.lead(term, |leader| leader.heard(Host(host), received)),
            Happening::Reported { term, host, received } => {
                self.lead(term, |leader| leader.reported(Host(host), received));
            }
            Happening::SnapshotOver { term, host, snapshot } => self.lead(term, |leader| {
                leader.snapshot_over(Host(host), snapshot);
                Vec::new()
            }),
            Happening::Commit { proposer, command } => self.commit(proposer, &command),
            Happening::Lead => self.begin_to_lead(),
            Happening::Tick => self.tick(),
        }
    }

    fn client(&mut self, call: CallNumber, event: Event) {
        for send in self.workload.step(call, event) {
            self.client_sends(call, send);
        }
    }

    fn client_sends(&mut self, call: CallNumber, send: Send) {
        match send {
            Send::Route { round, host, id, has_content } => {
                self.send(Happening::ToHost { call, round, host: host % HOSTS, id, has_content });
            }
            Send::Node { round, to } => self.send(Happening::ToNode { reply: ReplyTo::Call { call, round, routed: None }, to }),
            Send::Tell(to) => self.send(Happening::ToNode { reply: ReplyTo::Nobody, to }),
            // Nobody audits here.
            Send::Suspect(_) => {}
            to_unit => self.send(Happening::ToUnit { call, send: to_unit }),
        }
    }

    fn unit_hears(&mut self, call: CallNumber, send: Send) {
        if self.leader.is_none() {
            return;
        }
        let (round, command) = match send {
            Send::Register { round, new } => {
                let copies = new.copies - u8::from(self.choose.percent(self.faults.few));
                (round, ChunkCommand::Register(registration(new, copies, &mut self.choose, self.now_ms)))
            }
            Send::Commit { round, id } => (round, ChunkCommand::Commit(id)),
            Send::Revoke(id) => (Round(0), ChunkCommand::Revoke(id)),
            Send::Find { round, id } => {
                let event = Event::Found { round, found: self.found(id) };
                return self.send(Happening::Client { call, event });
            }
            Send::Route { .. } | Send::Node { .. } | Send::Tell(_) | Send::Suspect(_) => unreachable!("not for the unit"),
        };
        self.propose(Some((self.term, call, round)), command);
    }

    /// Through consensus, which takes a while and keeps an order.
    fn propose(&mut self, proposer: Option<(u64, CallNumber, Round)>, command: ChunkCommand) {
        let at = self.now_ms + 2 + self.choose.below(8) as u64;
        self.at(at, Happening::Commit { proposer, command });
    }

    fn apply(&mut self, command: &ChunkCommand) -> crate::maintenance::Applied {
        let read = ChunkCommand::decode(&command.encode()).expect("a record of one's own");
        let applied = self.unit.apply(command);
        assert_eq!(self.shadow.apply(&read), applied);
        // The second one lives by its records: now and then it goes on from its image.
        if self.choose.below(16) == 0 {
            self.shadow = MaintenanceUnit::from_image(&self.shadow.to_image()).expect("an image of one's own");
        }
        applied
    }

    fn commit(&mut self, proposer: Option<(u64, CallNumber, Round)>, command: &ChunkCommand) {
        let applied = self.apply(command);
        for change in &applied.changes {
            if let IndexChange::Changed { id, from, to } = change {
                self.former.entry(*id).or_default().extend(from.iter().filter(|place| !to.contains(*place)));
            }
        }
        let Some(leader) = &mut self.leader else { return };
        let orders = leader.applied(&applied).expect("the table follows the state");
        self.carry_out(orders);
        let Some((term, call, round)) = proposer.filter(|(term, ..)| *term == self.term) else { return };
        let event = match (command, applied.answer) {
            (ChunkCommand::Register(_), Ok(Answer::Registered { id, places })) => {
                Event::Registered { round, result: Ok((id, places)) }
            }
            (ChunkCommand::Register(_), Err(refusal)) => Event::Registered { round, result: Err(refusal) },
            (ChunkCommand::Commit(id), Ok(_)) => {
                let tag = CommitTag(self.next);
                self.next += 1;
                self.commits.insert(tag, (call, round));
                return self.lead(term, |leader| leader.committed(*id, tag));
            }
            (ChunkCommand::Commit(_), Err(refusal)) => Event::Committed { round, result: Err(refusal) },
            _ => return,
        };
        self.send(Happening::Client { call, event });
    }

    /// Has the leader of a term do something, if it still leads.
    fn lead(&mut self, term: u64, work: impl FnOnce(&mut Leader) -> Vec<Order>) {
        if term == self.term
            && let Some(leader) = &mut self.leader
        {
            let orders = work(leader);
            self.carry_out(orders);
        }
    }

    fn carry_out(&mut self, orders: Vec<Order>) {
        let term = self.term;
        for order in orders {
            match order {
                Order::Propose(command) => self.propose(None, command),
                Order::NeedsTarget(Move { id, from, is_lost, .. }) => self.relocate_to_any(id, from, is_lost),
                Order::Node { errand, to } => self.send(Happening::ToNode { reply: ReplyTo::Leader { term, errand }, to }),
                Order::Host { host: Host(host), update } => {
                    if matches!(update.change, LookupChange::Snapshot(_)) {
                        let snapshot = (update.stream, update.number);
                        self.at(self.now_ms + SNAPSHOT_MS, Happening::SnapshotOver { term, host, snapshot });
                    }
                    let is_told = host > 0 || !self.is_faulty() || !self.choose.percent(self.faults.lag);
                    if is_told {
                        self.send(Happening::Update { term, host, update: recoded(&update) });
                    }
                }
                Order::Committed(tag) => {
                    let (call, round) = self.commits.remove(&tag).expect("a commit is answered once");
                    self.send(Happening::Client { call, event: Event::Committed { round, result: Ok(()) } });
                }
            }
        }
    }

    fn route(&mut self, call: CallNumber, round: Round, host: u32, id: ChunkId, has_content: bool) {
        match self.hosts[host as usize].locate(id) {
            Located::At(places) => {
                let copies = places.as_slice();
                let place = copies[self.choose.below(copies.len())];
                let request = if has_content { NodeRequest::Read } else { NodeRequest::Query };
                let reply = ReplyTo::Call { call, round, routed: Some(places) };
                self.send(Happening::ToNode { reply, to: ToNode { place, id, request } });
            }
            Located::Behind | Located::Nowhere => {
                self.send(Happening::Client { call, event: Event::NotRouted { round } });
            }
        }
    }

    fn node_hears(&mut self, reply: ReplyTo, to: ToNode) {
        let number = to.place.device().0;
        let tag = Tag(self.next);
        self.next += 1;
        let device = &mut self.devices[number as usize];
        let Some(node) = &mut device.node else { return };
        device.asked.insert(tag, (reply, to.id, to.place));
        let steps = node.handle(tag, to.place.block(), to.id, to.request);
        self.take_steps(number, steps);
    }

    fn take_steps(&mut self, number: u32, steps: Vec<Step>) {
        for step in steps {
            let device = &mut self.devices[number as usize];
            let (tag, answer) = match step {
                Step::Write { job, write } => {
                    device.disk.begin(job, write);
                    let life = device.life;
                    let at = self.now_ms + 1 + self.choose.below(4) as u64;
                    self.at(at, Happening::Written { device: number, life, job });
                    continue;
                }
                Step::Read { tag, block, offset, length, checksum, mut copy } => {
                    copy.content = device.disk.read(block, offset, length, checksum);
                    (tag, if copy.content.is_some() { NodeAnswer::Live(copy) } else { NodeAnswer::Damaged })
                }
                Step::Answer { tag, answer } => (tag, answer),
            };
            let (reply, id, place) = device.asked.remove(&tag).expect("every request is answered once");
            self.send(Happening::FromNode { reply, id, place, answer });
        }
    }

    fn node_answers(&mut self, reply: ReplyTo, id: ChunkId, place: BlockPlace, answer: NodeAnswer) {
        match reply {
            ReplyTo::Call { call, round, routed: Some(places) } => {
                self.client(call, Event::Routed { round, places, place, answer });
            }
            ReplyTo::Call { call, round, routed: None } => self.client(call, Event::Node { round, place, answer }),
            ReplyTo::Leader { .. } if self.is_cut(place) => {}
            ReplyTo::Leader { term, errand } => self.lead(term, |leader| leader.answered(errand, id, place, &answer)),
            ReplyTo::Nobody => {}
        }
    }

    /// Whether the leader hears nothing of a place's device.
    fn is_cut(&self, place: BlockPlace) -> bool {
        self.is_faulty() && self.cut.is_some_and(|(device, until)| device == place.device() && self.now_ms < until)
    }

    fn written(&mut self, number: u32, life: u64, job: JobId) {
        let device = &mut self.devices[number as usize];
        if device.life != life {
            return;
        }
        device.disk.finish(job);
        let steps = device.node.as_mut().expect("it lives").written(job);
        self.take_steps(number, steps);
    }

    fn crash(&mut self, number: u32) {
        let device = &mut self.devices[number as usize];
        device.life += 1;
        device.node = None;
        device.asked.clear();
        device.disk.crash(&mut self.choose);
        let at = self.now_ms + 1 + self.choose.below(DOWN_MS) as u64;
        self.at(at, Happening::Restart(number));
    }

    fn restart(&mut self, number: u32) {
        let device = &mut self.devices[number as usize];
        if device.node.is_none() && !device.is_lost {
            let (headers, fences) = (device.disk.headers(), device.disk.fences());
            device.node = Some(StorageNode::new(device_uuid(number), BLOCKS, headers, fences));
        }
    }

    fn begin_to_lead(&mut self) {
        self.term += 1;
        let seed = self.choose.below(usize::MAX) as u64;
        let (mut leader, orders) =
            Leader::begin(&self.unit, self.unit.index(), Begins::with(self.term), seed, &(0..HOSTS).map(Host).collect())
                .expect("the state has a table");
        let lost = (0..DEVICES).filter(|device| self.devices[*device as usize].is_lost);
        lost.for_each(|device| _ = leader.lose(DeviceId(device)));
        self.leader = Some(leader);
        self.carry_out(orders);
    }

    fn tick(&mut self) {
        self.at(self.now_ms + TICK_MS, Happening::Tick);
        if self.is_faulty() {
            self.strike();
        }
        let is_calm = !self.is_faulty();
        if let Some((call, sends)) = self.workload.begin(&mut self.choose, is_calm) {
            self.at(self.now_ms + TIMEOUT_MS, Happening::Timer(call));
            sends.into_iter().for_each(|send| self.client_sends(call, send));
        }
        self.repair();
        for host in 0..HOSTS {
            let (term, received) = (self.term, self.hosts[host as usize].report(SHARD));
            self.send(Happening::Reported { term, host, received });
        }
        if self.leader.is_none() {
            return;
        }
        self.propose(None, ChunkCommand::Expire { now_ms: self.now_ms });
        let dead: Vec<ChunkId> =
            self.devices.iter().flat_map(|device| device.node.iter().flat_map(|node| node.freed(SHARD, 100))).collect();
        if !dead.is_empty() && self.choose.percent(50) {
            self.propose(None, ChunkCommand::Freed(dead));
        }
        let orders = self.leader.as_mut().map_or_else(Vec::new, |leader| leader.tick(&self.unit));
        self.carry_out(orders);
    }

    fn strike(&mut self) {
        for number in 0..DEVICES {
            let is_up = self.devices[number as usize].node.is_some();
            if is_up && self.choose.percent(self.faults.crash) {
                self.log.push('c');
                self.crash(number);
            }
        }
        for host in 0..HOSTS as usize {
            if self.choose.percent(self.faults.host_crash) {
                self.log.push('h');
                self.hosts[host] = LookupHost::new();
            }
        }
        if self.leader.is_some() && self.choose.percent(self.faults.leader) {
            self.log.push('l');
            self.leader = None;
            self.commits.clear();
            let at = self.now_ms + 1 + self.choose.below(DOWN_MS) as u64;
            self.at(at, Happening::Lead);
        }
        if self.choose.percent(self.faults.cut) {
            let until = self.now_ms + 1 + self.choose.below(4 * DOWN_MS) as u64;
            self.cut = Some((DeviceId(self.choose.below(DEVICES as usize) as u32), until));
        }
        if self.choose.percent(10 * self.faults.relocate) {
            self.relocate();
        }
        if self.faults.loses_device && self.now_ms > FAULTS_UNTIL_MS / 2 {
            self.lose_device();
        }
    }

    fn relocate(&mut self) {
        let chunks: Vec<(ChunkId, ChunkPlaces)> = self.unit.index().collect();
        if chunks.is_empty() {
            return;
        }
        let (id, places) = chunks[self.choose.below(chunks.len())];
        let from = places.as_slice()[self.choose.below(places.as_slice().len())];
        if !self.is_lost(from) {
            self.log.push('r');
            self.relocate_to_any(id, Some(from), false);
        }
    }

    fn relocate_to_any(&mut self, id: ChunkId, from: Option<BlockPlace>, is_lost: bool) {
        let any = place(self.choose.below(DEVICES as usize) as u32, self.choose.below(BLOCKS as usize) as u32);
        let former = self.former.get(&id).filter(|former| !former.is_empty() && self.choose.percent(self.faults.returns));
        let to = former.map_or(any, |former| former[self.choose.below(former.len())]);
        if !self.is_lost(to) {
            self.propose(None, ChunkCommand::Relocate(Relocation { id, from, to: Some(to), is_lost }));
        }
    }

    /// The lost place, or the copy that is being added, is given up.
    fn give_up(&mut self, id: ChunkId, from: Option<BlockPlace>) {
        self.log.push(if from.is_some() { 's' } else { 'g' });
        self.propose(None, ChunkCommand::Relocate(Relocation { id, from, to: None, is_lost: from.is_some() }));
    }

    /// One device, for good.
    fn lose_device(&mut self) {
        if self.devices.iter().any(|device| device.is_lost) {
            return;
        }
        let number = self.choose.below(DEVICES as usize);
        let device = &mut self.devices[number];
        device.is_lost = true;
        device.node = None;
        device.life += 1;
        if let Some(leader) = &mut self.leader {
            leader.lose(DeviceId(number as u32));
        }
        self.log.push('D');
    }

    /// Whoever watches over devices has the lost one's copies made again, and turns away what is on its way there.
    fn repair(&mut self) {
        let moves: BTreeMap<ChunkId, Move> = self.unit.duties().filter_map(as_move).map(|asked| (asked.id, asked)).collect();
        let chunks: Vec<(ChunkId, ChunkPlaces)> = self.unit.index().collect();
        for (id, places) in chunks {
            let lost = places.iter().find(|place| self.is_lost(*place));
            let gives_up = self.is_faulty() && self.choose.percent(self.faults.give_up);
            match (moves.get(&id), lost) {
                (Some(asked), _) if gives_up && asked.to.is_some() && (asked.from.is_none() || asked.is_lost) => {
                    self.give_up(id, asked.from);
                }
                (Some(asked), _)
                    if asked.to.is_some_and(|to| self.is_lost(to) || (self.is_cut(to) && self.choose.percent(20))) =>
                {
                    self.relocate_to_any(id, asked.from, asked.is_lost);
                }
                (Some(asked), Some(from)) if asked.from == Some(from) && !asked.is_lost => {
                    let (from, to) = (asked.from, asked.to);
                    self.propose(None, ChunkCommand::Relocate(Relocation { id, from, to, is_lost: true }));
                }
                (None, Some(from)) if gives_up => self.give_up(id, Some(from)),
                (None, Some(from)) => self.relocate_to_any(id, Some(from), true),
                (None, None) if self.choose.percent(50) && self.unit.short_from(id.number).any(|(short, _)| short == id) => {
                    self.log.push('w');
                    self.relocate_to_any(id, None, false);
                }
                _ => {}
            }
        }
    }
}

fn as_move(duty: Duty) -> Option<Move> {
    if let Duty::Move(asked) = duty { Some(asked) } else { None }
}

/// What arrives is what the record says.
fn recoded(update: &LookupUpdate) -> LookupUpdate {
    LookupUpdate::decode(&update.encode()).expect("a record of one's own")
}

pub fn place(device: u32, block: u32) -> BlockPlace {
    BlockPlace::new(DeviceId(device), block).expect("small numbers")
}
