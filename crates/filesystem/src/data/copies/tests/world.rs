//! Nodes with copies, the network between them, and a group that Raft would keep: its log is trusted, its leaders change.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use consensus::{LogIndex, StateMachine};
use env::Env;
use futures_util::FutureExt;
use net::BoxFuture;
use parking_lot::Mutex;
use types::{DeviceId, NodeId};

use crate::data::copies::ask::{Answer, Ask, Copy, CopyError};
use crate::data::copies::keeper::Keeper;
use crate::data::copies::record::{Command, Record, RecordChange, RecordRefusal};
use crate::data::copies::reign::{CommitError, Realm, RecordDoor, Reign, Ways};
use crate::data::copies::{BlockSum, CopyStore, ExtentSums};
use crate::data::memory::MemoryPartition;
use crate::data::{DataError, DataRoom, Extents, PartitionUse};
use crate::ids::{BLOCK_BYTES, ExtentId};

pub const PARTITION: u32 = 5;
pub const NODES: u32 = 3;
const CAPACITY: u64 = 256 << 20;
/// How long a leader that hears of no majority may read.
const LEASE: Duration = Duration::from_millis(1000);

/// Everything.
pub struct World {
    pub env: Env,
    inner: Mutex<Inner>,
}

struct Inner {
    nodes: BTreeMap<NodeId, Node>,
    /// Pairs that don't hear each other.
    cut: BTreeSet<(NodeId, NodeId)>,
    /// In 1,000.
    loss: u64,
    /// Messages take up to so long, and one in sixteen eight times that.
    delay: Duration,
    group: Group,
}

struct Node {
    disk: Arc<SimStore>,
    device: DeviceId,
    /// Of this start; none while it is down.
    keeper: Option<Arc<Keeper>>,
    start: u64,
    is_paused: bool,
    has_copy: bool,
    reign: Option<Arc<Reign>>,
    /// The newest term that its log has.
    term: u64,
    /// How much of the group's log it has applied.
    record: Record,
    lease_until: Option<env::Instant>,
}

struct Group {
    term: u64,
    leader: Option<NodeId>,
    /// As committed.
    record: Record,
    /// Commands that changed nothing, because too few copies would have stayed in sync.
    refused: u64,
}

/// A disk: what is answered stays. A crash leaves each block of a write that was under way as it was, or as it was to be.
pub struct SimStore {
    env: Env,
    memory: MemoryPartition,
    slowness: Duration,
    under_way: Mutex<UnderWay>,
    /// Blocks that can't be read until they are written as a whole, and what their sums are.
    damaged: Mutex<BTreeMap<(ExtentId, u64), Damage>>,
}

/// What has become of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Its content has rotted.
    Content,
    /// So has the page that says its place and its sum.
    Page,
}

#[derive(Default)]
struct UnderWay {
    /// Counts starts: what was under way before one has ended with it.
    start: u64,
    next: u64,
    writes: BTreeMap<u64, Write>,
}

#[derive(Clone)]
struct Write {
    extent: ExtentId,
    offset: u64,
    data: Bytes,
    appends: bool,
}

impl SimStore {
    fn new(env: &Env, slowness: Duration) -> Arc<SimStore> {
        let memory = MemoryPartition::new(CAPACITY);
        Arc::new(SimStore { env: env.clone(), memory, slowness, under_way: Mutex::default(), damaged: Mutex::default() })
    }

    /// A block can't be read any more, until it is written as a whole.
    pub fn damage(&self, extent: ExtentId, block: u64, damage: Damage) {
        self.damaged.lock().insert((extent, block), damage);
    }

    fn check_damage(&self, extent: ExtentId, blocks: Range<u64>) -> Result<(), DataError> {
        match self.damaged.lock().range((extent, blocks.start)..(extent, blocks.end)).next() {
            Some(((_, block), _)) => Err(DataError::Damaged { extent, offset: block * BLOCK_BYTES }),
            None => Ok(()),
        }
    }

    /// Blocks that a write covers, and those of which something else stays.
    fn written(&self, Write { extent, offset, data, appends }: &Write) -> (Range<u64>, Vec<u64>) {
        let len = self.memory.sums(*extent, 0, 0).map_or(0, |sums| sums.len);
        let end = offset + data.len() as u64;
        let blocks = offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES);
        let ends_within = !appends && !end.is_multiple_of(BLOCK_BYTES) && end < len;
        let mut partial = Vec::new();
        partial.extend((offset % BLOCK_BYTES != 0).then_some(blocks.start));
        partial.extend(ends_within.then_some(end / BLOCK_BYTES));
        (blocks, partial)
    }

    fn crash(&self) {
        let writes = {
            let mut under_way = self.under_way.lock();
            under_way.start += 1;
            std::mem::take(&mut under_way.writes)
        };
        for write in writes.into_values() {
            self.tear(&write);
        }
    }

    fn tear(&self, Write { extent, offset, data, appends }: &Write) {
        let block_end = |at: u64| (at / BLOCK_BYTES + 1) * BLOCK_BYTES;
        let end = offset + data.len() as u64;
        let mut at = *offset;
        while at < end {
            let next = block_end(at).min(end);
            let part = data.slice((at - offset) as usize..(next - offset) as usize);
            let is_there = self.env.random_below(2) == 0;
            let written = match (is_there, appends) {
                (true, true) => self.memory.append(*extent, at, part).now_or_never(),
                (true, false) => self.memory.overwrite(*extent, at, part).now_or_never(),
                // An append ends where its first block is absent.
                (false, true) => return,
                (false, false) => None,
            };
            if written.is_some_and(|written| written.is_err()) {
                return;
            }
            at = next;
        }
    }

    /// Takes its time; false if the node has crashed meanwhile.
    async fn slowly(&self) -> bool {
        let start = self.under_way.lock().start;
        self.env.sleep(Duration::from_micros(self.env.random_below(self.slowness.as_micros() as u64 + 1))).await;
        self.under_way.lock().start == start
    }

    async fn put(&self, write: Write) -> Result<(), DataError> {
        let number = {
            let mut under_way = self.under_way.lock();
            under_way.next += 1;
            let number = under_way.next;
            under_way.writes.insert(number, write.clone());
            number
        };
        let is_whole = self.slowly().await;
        self.under_way.lock().writes.remove(&number);
        if !is_whole {
            return Err(crashed());
        }
        let (blocks, partial) = self.written(&write);
        for block in partial {
            self.check_damage(write.extent, block..block + 1)?;
        }
        let Write { extent, offset, data, appends } = write;
        match appends {
            true => self.memory.append(extent, offset, data).await?,
            false => self.memory.overwrite(extent, offset, data).await?,
        }
        self.damaged.lock().retain(|(at, block), _| *at != extent || !blocks.contains(block));
        Ok(())
    }

    /// Something without content, which a crash leaves undone.
    async fn after<T>(&self, work: impl Future<Output = Result<T, DataError>>) -> Result<T, DataError> {
        if self.slowly().await { work.await } else { Err(crashed()) }
    }
}

fn crashed() -> DataError {
    DataError::Unavailable("the node has crashed".to_owned())
}

impl Extents for SimStore {
    fn append(&self, extent: ExtentId, offset: u64, data: Bytes) -> BoxFuture<'_, Result<(), DataError>> {
        Box::pin(self.put(Write { extent, offset, data, appends: true }))
    }

    fn overwrite(&self, extent: ExtentId, offset: u64, data: Bytes) -> BoxFuture<'_, Result<(), DataError>> {
        Box::pin(self.put(Write { extent, offset, data, appends: false }))
    }

    fn read(&self, extent: ExtentId, offset: u64, len: usize) -> BoxFuture<'_, Result<Bytes, DataError>> {
        Box::pin(async move {
            self.check_damage(extent, offset / BLOCK_BYTES..(offset + len as u64).div_ceil(BLOCK_BYTES))?;
            self.after(self.memory.read(extent, offset, len)).await
        })
    }

    fn punch(&self, extent: ExtentId, offset: u64, len: u64) -> BoxFuture<'_, Result<(), DataError>> {
        Box::pin(async move {
            self.after(self.memory.punch(extent, offset, len)).await?;
            let gone = self.memory.sums(extent, 0, usize::MAX).map_or_else(Vec::new, |sums| sums.blocks);
            let is_gone = |block: u64| gone.get(block as usize) == Some(&BlockSum::Absent);
            // A page that was lost does not say what was given back.
            let mut damaged = self.damaged.lock();
            damaged.retain(|(at, block), damage| *at != extent || *damage == Damage::Page || !is_gone(*block));
            Ok(())
        })
    }

    fn remove(&self, extent: ExtentId) -> BoxFuture<'_, Result<(), DataError>> {
        Box::pin(async move {
            self.after(self.memory.remove(extent)).await?;
            self.damaged.lock().retain(|(at, _), _| *at != extent);
            Ok(())
        })
    }

    fn room(&self) -> DataRoom {
        self.memory.room()
    }
}

impl CopyStore for SimStore {
    fn used(&self, partition: u32) -> PartitionUse {
        self.memory.used(partition)
    }

    fn create_as(&self, extent: ExtentId, data: Bytes) -> BoxFuture<'_, Result<(), DataError>> {
        Box::pin(self.after(self.memory.create_as(extent, data)))
    }

    fn cut(&self, extent: ExtentId, len: u64) -> BoxFuture<'_, Result<(), DataError>> {
        Box::pin(self.after(self.memory.cut(extent, len)))
    }

    fn sums(&self, extent: ExtentId, first_block: u64, most: usize) -> Option<ExtentSums> {
        let mut sums = self.memory.sums(extent, first_block, most)?;
        let damaged = self.damaged.lock();
        for (block, sum) in (first_block..).zip(&mut sums.blocks) {
            if damaged.get(&(extent, block)) == Some(&Damage::Page) {
                *sum = BlockSum::Lost;
            }
        }
        Some(sums)
    }

    fn list(&self, partition: u32, after: Option<ExtentId>, most: usize) -> Vec<ExtentId> {
        self.memory.list(partition, after, most)
    }

    fn is_stuck(&self) -> bool {
        false
    }
}

impl World {
    /// Three nodes with empty copies, all in sync after the first leader has looked.
    pub fn new(env: &Env) -> Arc<World> {
        let slowness = Duration::from_micros(200 + env.random_below(4_000));
        let node = |number: u32| Node {
            device: DeviceId(number),
            disk: SimStore::new(env, slowness),
            keeper: None,
            start: 0,
            is_paused: false,
            has_copy: true,
            reign: None,
            term: 0,
            record: Record::default(),
            lease_until: None,
        };
        let nodes = (1..=NODES).map(|node| (NodeId(node), node)).map(|(id, number)| (id, node(number))).collect();
        let group = Group { term: 0, leader: None, record: Record::default(), refused: 0 };
        let delay = Duration::from_micros(100 + env.random_below(3_000));
        let inner = Inner { nodes, cut: BTreeSet::new(), loss: 0, delay, group };
        let world = Arc::new(World { env: env.clone(), inner: Mutex::new(inner) });
        (1..=NODES).for_each(|node| world.start(NodeId(node)));
        world
    }

    pub fn set_loss(&self, loss: u64) {
        self.inner.lock().loss = loss;
    }

    /// A node starts.
    pub fn start(self: &Arc<World>, node: NodeId) {
        let known = Arc::downgrade(self);
        let term = move || known.upgrade().map_or(0, |world| world.inner.lock().nodes[&node].term);
        let mut inner = self.inner.lock();
        let found = inner.nodes.get_mut(&node).expect("it is a node");
        found.has_copy = true;
        if found.keeper.is_none() {
            found.start += 1;
            found.keeper = Some(Arc::new(Keeper::new(&self.env, found.disk.clone(), Arc::new(term))));
        }
    }

    /// A node ends at once.
    pub fn crash(&self, node: NodeId) {
        let mut inner = self.inner.lock();
        let found = inner.nodes.get_mut(&node).expect("it is a node");
        found.keeper = None;
        found.disk.crash();
        found.lease_until = None;
        if let Some(reign) = found.reign.take() {
            reign.end();
        }
    }

    /// A node takes part in the group, and its copy is not reached until the node starts again.
    pub fn lose_copy(&self, node: NodeId) {
        let mut inner = self.inner.lock();
        let found = inner.nodes.get_mut(&node).expect("it is a node");
        found.has_copy = false;
    }

    /// How many commands changed nothing, because too few copies would have stayed in sync.
    pub fn refused(&self) -> u64 {
        self.inner.lock().group.refused
    }

    /// A node's disk is exchanged for an empty one, while it is down.
    pub fn lose_disk(&self, node: NodeId) {
        let mut inner = self.inner.lock();
        let found = inner.nodes.get_mut(&node).expect("it is a node");
        found.disk.memory.lose_everything();
        found.disk.damaged.lock().clear();
        found.device.0 += NODES;
    }

    pub fn devices(&self) -> BTreeMap<NodeId, DeviceId> {
        self.inner.lock().nodes.iter().map(|(node, found)| (*node, found.device)).collect()
    }

    /// Leaders of the past that hear of the present one end.
    pub fn spread_the_word(&self) {
        let mut inner = self.inner.lock();
        let (term, nodes) = (inner.group.term, inner.nodes.keys().copied().collect::<Vec<_>>());
        let is_old = |inner: &Inner, node: NodeId| inner.nodes[&node].reign.as_ref().is_some_and(|reign| reign.term() < term);
        // Heartbeats of the leader tell its term.
        if let Some(leader) = inner.group.leader.filter(|leader| inner.leads(*leader, term)) {
            for node in inner.reachable(leader) {
                inner.nodes.get_mut(&node).expect("it is a node").term = term;
            }
        }
        for node in nodes {
            if is_old(&inner, node) {
                inner.tell_end(node, term);
            }
        }
    }

    /// A node hears and says nothing; what it serves goes on in it.
    pub fn isolate(&self, node: NodeId, is_cut: bool) {
        let mut inner = self.inner.lock();
        for other in (1..=NODES).map(NodeId).filter(|other| *other != node) {
            for pair in [(node, other), (other, node)] {
                if is_cut {
                    inner.cut.insert(pair);
                } else {
                    inner.cut.remove(&pair);
                }
            }
        }
    }

    /// A node answers nothing until it goes on. Its own requests go on; they may be what was on its way.
    pub fn pause(&self, node: NodeId, is_paused: bool) {
        self.inner.lock().nodes.get_mut(&node).expect("it is a node").is_paused = is_paused;
    }

    pub fn is_up(&self, node: NodeId) -> bool {
        self.inner.lock().nodes[&node].keeper.is_some()
    }

    pub fn record(&self) -> Record {
        self.inner.lock().group.record.clone()
    }

    pub fn leader(&self) -> Option<NodeId> {
        self.inner.lock().group.leader
    }

    /// The primary as a client that asks each node finds it: also one that does not know yet that it is none any more.
    pub fn reigns(&self) -> Vec<Arc<Reign>> {
        self.inner.lock().nodes.values().filter(|node| !node.is_paused).filter_map(|node| node.reign.clone()).collect()
    }

    pub fn disk(&self, node: NodeId) -> Arc<SimStore> {
        self.inner.lock().nodes[&node].disk.clone()
    }

    /// Another node leads from now on, if a majority is there for it. The one before learns of it only if it hears it.
    pub fn elect(self: &Arc<World>, node: NodeId) -> bool {
        let (term, former) = {
            let mut inner = self.inner.lock();
            let voters = inner.reachable(node);
            if !inner.nodes[&node].is_there() || voters.len() < 2 {
                return false;
            }
            // Voters wait for the lease of the leader before.
            let now = self.env.now();
            let has_lease = |other: &NodeId| *other != node && inner.nodes[other].lease_until.is_some_and(|until| until > now);
            if (1..=NODES).map(NodeId).any(|other| has_lease(&other)) {
                return false;
            }
            inner.group.term += 1;
            let (term, former) = (inner.group.term, inner.group.leader.replace(node));
            for voter in voters {
                inner.nodes.get_mut(&voter).expect("it is a node").term = term;
            }
            (term, former)
        };
        if let Some(former) = former.filter(|former| *former != node) {
            self.inner.lock().tell_end(former, term);
        }
        self.begin_reign(node, term);
        true
    }

    fn begin_reign(self: &Arc<World>, node: NodeId, term: u64) {
        let own = {
            let mut inner = self.inner.lock();
            let record = inner.group.record.clone();
            let found = inner.nodes.get_mut(&node).expect("it is a node");
            if let Some(reign) = found.reign.take() {
                reign.end();
            }
            found.record = record;
            found.keeper.clone().expect("it is up")
        };
        let door = Arc::new(Door { world: self.clone(), node, term, start: self.inner.lock().nodes[&node].start });
        let ways = Arc::new(Roads { world: self.clone(), from: node });
        let realm = Realm { env: self.env.clone(), me: node, partition: PARTITION, own, door: door.clone(), ways };
        let world = self.clone();
        self.env.spawn(async move {
            if world.record().copies.is_empty() {
                let change = RecordChange::Found { node, device: world.devices()[&node] };
                if door.commit(Command { reign: term, change }).await != Ok(Ok(())) {
                    return;
                }
            }
            let record = door.record();
            if !record.in_sync.contains(&node) || record.copies.get(&node) != world.devices().get(&node) {
                return;
            }
            let reign = Reign::new(realm, term);
            {
                let mut inner = world.inner.lock();
                let found = inner.nodes.get_mut(&node).expect("it is a node");
                if found.start != door.start || found.keeper.is_none() || found.term != term {
                    return;
                }
                found.reign = Some(reign.clone());
            }
            if reign.take_over().await.is_ok() {
                // It ends with the reign.
                let _ended = reign.keep(move |_| world.devices()).await;
            }
        });
    }
}

impl Node {
    fn is_there(&self) -> bool {
        self.keeper.is_some() && !self.is_paused
    }
}

impl Inner {
    fn hears(&self, from: NodeId, to: NodeId) -> bool {
        from == to || !self.cut.contains(&(from, to))
    }

    /// Nodes that are there for this one, itself among them.
    fn reachable(&self, node: NodeId) -> Vec<NodeId> {
        let there = self
            .nodes
            .iter()
            .filter(|(other, found)| found.is_there() && self.hears(node, **other) && self.hears(**other, node));
        there.map(|(other, _)| *other).collect()
    }

    /// A leader of an older term hears of a newer one.
    fn tell_end(&mut self, node: NodeId, term: u64) {
        let can_hear = self.nodes[&node].is_there() && self.reachable(node).len() >= 2;
        let found = self.nodes.get_mut(&node).expect("it is a node");
        if can_hear {
            found.term = found.term.max(term);
            if let Some(reign) = found.reign.take() {
                reign.end();
            }
        }
    }

    /// Whether this node can commit in this term, and it leads.
    fn leads(&self, node: NodeId, term: u64) -> bool {
        self.group.leader == Some(node)
            && self.group.term == term
            && self.nodes[&node].is_there()
            && self.reachable(node).len() >= 2
    }
}

struct Door {
    world: Arc<World>,
    node: NodeId,
    term: u64,
    start: u64,
}

impl RecordDoor for Door {
    fn record(&self) -> Record {
        self.world.inner.lock().nodes[&self.node].record.clone()
    }

    fn commit(&self, command: Command) -> BoxFuture<'_, Result<Result<(), RecordRefusal>, CommitError>> {
        Box::pin(async move {
            let env = &self.world.env;
            env.sleep(Duration::from_micros(500 + env.random_below(5_000))).await;
            let outcome = {
                let mut inner = self.world.inner.lock();
                let hears = inner.nodes[&self.node].is_there() && inner.reachable(self.node).len() >= 2;
                if inner.nodes[&self.node].start != self.start || inner.group.term > self.term && hears {
                    return Err(CommitError::NotLeader);
                }
                if !inner.leads(self.node, self.term) {
                    return Err(CommitError::Again);
                }
                let outcome = inner.group.record.apply(LogIndex(1), command).expect("a command that the world knows");
                inner.group.refused += u64::from(outcome == Err(RecordRefusal::Few));
                let (record, term) = (inner.group.record.clone(), self.term);
                for node in inner.reachable(self.node) {
                    let found = inner.nodes.get_mut(&node).expect("it is a node");
                    (found.record, found.term) = (record.clone(), found.term.max(term));
                }
                outcome
            };
            env.sleep(Duration::from_micros(env.random_below(2_000))).await;
            // The answer may be lost.
            if env.random_below(20) == 0 { Err(CommitError::Again) } else { Ok(outcome) }
        })
    }

    fn confirm(&self) -> BoxFuture<'_, Option<u64>> {
        Box::pin(async move {
            let mut inner = self.world.inner.lock();
            let now = self.world.env.now();
            if inner.nodes[&self.node].start != self.start {
                return None;
            }
            if inner.leads(self.node, self.term) {
                let found = inner.nodes.get_mut(&self.node).expect("it is a node");
                found.lease_until = Some(now + LEASE);
                return Some(self.term);
            }
            inner.nodes[&self.node].lease_until.is_some_and(|until| until > now).then_some(self.term)
        })
    }
}

/// The way from one node to the copies of others.
struct Roads {
    world: Arc<World>,
    from: NodeId,
}

impl Ways for Roads {
    fn copy(&self, node: NodeId, device: DeviceId) -> Arc<dyn Copy> {
        Arc::new(Road { world: self.world.clone(), from: self.from, to: node, device })
    }
}

struct Road {
    world: Arc<World>,
    from: NodeId,
    to: NodeId,
    device: DeviceId,
}

impl World {
    /// A message goes; none where it is lost.
    async fn travel(&self, from: NodeId, to: NodeId) -> bool {
        let (delay, is_lost) = {
            let inner = self.inner.lock();
            // Some come later than anybody waits for them.
            let factor = match self.env.random_below(200) {
                0 => 1_000,
                1..20 => 8,
                _ => 1,
            };
            let delay = self.env.random_below(inner.delay.as_micros() as u64 * factor + 1);
            (Duration::from_micros(delay), self.env.random_below(1_000) < inner.loss || !inner.hears(from, to))
        };
        self.env.sleep(delay).await;
        !is_lost
    }

    async fn deliver(&self, to: NodeId, device: DeviceId, ask: Ask) -> Result<Answer, CopyError> {
        let silent = || CopyError::Silent("nothing is heard of it".to_owned());
        loop {
            let (keeper, is_paused) = {
                let inner = self.inner.lock();
                let found = &inner.nodes[&to];
                (found.keeper.clone().filter(|_| found.device == device && found.has_copy), found.is_paused)
            };
            let keeper = keeper.ok_or_else(silent)?;
            if !is_paused {
                return keeper.ask(ask).await;
            }
            self.env.sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Copy for Road {
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<Answer, CopyError>> {
        Box::pin(async move {
            let silent = || CopyError::Silent("nothing is heard of it".to_owned());
            let (world, from, to) = (self.world.clone(), self.from, self.to);
            // It goes on its way though it is waited for no more.
            let device = self.device;
            let going = self.world.env.spawn(async move {
                if !world.travel(from, to).await {
                    return Err(silent());
                }
                let answer = world.deliver(to, device, ask).await;
                if world.travel(to, from).await { answer } else { Err(silent()) }
            });
            going.await.unwrap_or_else(|_| Err(silent()))
        })
    }
}
