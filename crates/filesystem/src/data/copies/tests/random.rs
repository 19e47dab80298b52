//! Runs by seeds: clients write and read while nodes crash, pause, lose their disks, and the network parts.
//!
//! `TRILITH_COPIES_SEEDS=FROM..TO` runs those seeds instead.

use std::sync::Arc;
use std::time::Duration;

use env::Env;
use parking_lot::Mutex;
use types::NodeId;

use super::checker::{Known, WORD, WriteNumber, content};
use super::world::{Damage, NODES, PARTITION, World};
use crate::data::copies::CopyStore;
use crate::data::copies::ask::{Change, ChangeWhat};
use crate::data::copies::reign::Reign;
use crate::data::{DataError, Extents};
use crate::ids::BLOCK_BYTES;

const SEEDS: std::ops::Range<u64> = 0..300;
const SEEDS_OF_DAMAGE: std::ops::Range<u64> = 0..100;
/// Caught: a change that failed at the primary alone left the old checksum there, and a copy that was rebuilt and had the old block was left so.
const FOUND_OF_DAMAGE: [u64; 1] = [990];
/// Caught: copies were compared while a change that no client waited for any more had one of them leave.
const FOUND: [u64; 1] = [664];
const CLIENTS: usize = 4;
/// Of each client.
const STEPS: usize = 40;
/// How long a client waits for an answer: what has not begun by then is not begun.
const PATIENCE: Duration = Duration::from_secs(3);
/// Until all is whole again after the faults.
const HEALING: Duration = Duration::from_secs(180);
const BLOCK_WORDS: u64 = BLOCK_BYTES / WORD;

struct Client {
    world: Arc<World>,
    env: Env,
    known: Vec<Known>,
    numbers: Arc<Mutex<WriteNumber>>,
    acknowledged: u64,
    faults: Faults,
}

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Faults {
    /// What is acknowledged can be read.
    OfNodes,
    /// Blocks rot too. Then content can be lost, and is never what it was before.
    OfBlocks,
}

enum Outcome {
    Done,
    Refused(DataError),
    Unknown,
}

impl Client {
    fn below(&self, bound: u64) -> u64 {
        self.env.random_below(bound.max(1))
    }

    fn may_be_lost(&self, error: &DataError) -> bool {
        may_be_lost(self.faults, error)
    }

    fn number(&self) -> WriteNumber {
        let mut number = self.numbers.lock();
        *number += 1;
        *number
    }

    fn primary(&self) -> Option<Arc<Reign>> {
        let mut reigns = self.world.reigns();
        let at = self.below(reigns.len() as u64) as usize;
        (!reigns.is_empty()).then(|| reigns.swap_remove(at))
    }

    async fn within<T>(&self, work: impl Future<Output = Result<T, DataError>>) -> Option<Result<T, DataError>> {
        tokio::select! {
            outcome = work => Some(outcome),
            () = self.env.sleep(PATIENCE) => None,
        }
    }

    async fn change(&self, change: Change) -> Outcome {
        let Some(primary) = self.primary() else { return Outcome::Unknown };
        match self.within(primary.change(change, self.env.now() + PATIENCE)).await {
            Some(Ok(())) => Outcome::Done,
            Some(Err(DataError::Unavailable(_))) | None => Outcome::Unknown,
            Some(Err(error)) if self.may_be_lost(&error) => Outcome::Unknown,
            Some(Err(error)) => Outcome::Refused(error),
        }
    }

    async fn step(&mut self) -> Result<(), String> {
        let extents = self.known.len() as u64;
        match self.below(16) {
            0..2 if extents < 12 => self.create().await,
            0..7 if extents > 0 => self.append(self.below(extents) as usize).await,
            7..11 if extents > 0 => self.overwrite(self.below(extents) as usize).await,
            11..15 if extents > 0 => self.read(self.below(extents) as usize).await,
            15 if extents > 4 => self.give_back(self.below(extents) as usize).await,
            _ => {
                self.env.sleep(Duration::from_millis(self.below(100))).await;
                Ok(())
            }
        }
    }

    async fn create(&mut self) -> Result<(), String> {
        let Some(primary) = self.primary() else { return Ok(()) };
        let words = if self.below(3) == 0 { 0 } else { 1 + self.below(2 * BLOCK_WORDS) };
        let number = self.number();
        if let Some(Ok(extent)) = self.within(primary.create(content(number, words), self.env.now() + PATIENCE)).await {
            let mut known = Known::new(extent);
            known.appended(number, words);
            self.known.push(known);
        }
        Ok(())
    }

    async fn append(&mut self, at: usize) -> Result<(), String> {
        let known = &self.known[at];
        if known.is_sealed || known.punched.is_some() {
            return Ok(());
        }
        let words = 1 + if self.below(4) == 0 { self.below(8 * BLOCK_WORDS) } else { self.below(BLOCK_WORDS) };
        let number = self.number();
        let what = ChangeWhat::Append { offset: known.len(), data: content(number, words) };
        let outcome = self.change(Change { extent: known.extent, what }).await;
        let known = &mut self.known[at];
        match outcome {
            Outcome::Done => {
                known.appended(number, words);
                self.acknowledged += 1;
                Ok(())
            }
            Outcome::Unknown => {
                known.is_sealed = true;
                Ok(())
            }
            Outcome::Refused(error) => Err(format!("an append to {:?} at {}: {error}", known.extent, known.len())),
        }
    }

    async fn overwrite(&mut self, at: usize) -> Result<(), String> {
        let known = &self.known[at];
        let all = known.len() / WORD;
        if all == 0 || known.punched.is_some() {
            return Ok(());
        }
        let first = self.below(all);
        let words = 1 + self.below((all - first).min(2 * BLOCK_WORDS));
        let number = self.number();
        let what = ChangeWhat::Overwrite { offset: first * WORD, data: content(number, words) };
        let outcome = self.change(Change { extent: known.extent, what }).await;
        let known = &mut self.known[at];
        match outcome {
            Outcome::Done => {
                known.overwritten(first, words, number, true);
                self.acknowledged += 1;
            }
            Outcome::Unknown => known.overwritten(first, words, number, false),
            Outcome::Refused(error) => return Err(format!("an overwrite of {:?}: {error}", known.extent)),
        }
        Ok(())
    }

    async fn read(&mut self, at: usize) -> Result<(), String> {
        let known = &self.known[at];
        let all = known.len() / WORD;
        if all == 0 || known.punched.is_some() {
            return Ok(());
        }
        let first = self.below(all);
        let words = 1 + self.below(all - first);
        let Some(primary) = self.primary() else { return Ok(()) };
        match self.within(primary.read(known.extent, first * WORD, (words * WORD) as usize)).await {
            Some(Ok(found)) => self.known[at].read(first, &found),
            Some(Err(DataError::Unavailable(_))) | None => Ok(()),
            Some(Err(error)) if self.may_be_lost(&error) => Ok(()),
            Some(Err(error)) => Err(format!("a read of {words} words at {first} of {:?}: {error}", known.extent)),
        }
    }

    async fn give_back(&mut self, at: usize) -> Result<(), String> {
        let extent = self.known[at].extent;
        if self.below(2) == 0 {
            self.known.swap_remove(at);
            self.change(Change { extent, what: ChangeWhat::Remove }).await;
        } else {
            let len = self.known[at].len();
            self.known[at].punched = Some(0..len);
            self.change(Change { extent, what: ChangeWhat::Punch { offset: 0, len: len / 2 } }).await;
        }
        Ok(())
    }
}

/// What happens to nodes.
struct Fate {
    world: Arc<World>,
    env: Env,
    leaderless: u32,
    faults: Faults,
}

impl Fate {
    fn below(&self, bound: u64) -> u64 {
        self.env.random_below(bound)
    }

    fn node(&self) -> NodeId {
        NodeId(1 + self.below(u64::from(NODES)) as u32)
    }

    async fn strike(&mut self) {
        let node = self.node();
        match self.below(20) {
            0..2 => self.world.crash(node),
            2..6 => (1..=NODES).for_each(|node| self.world.start(NodeId(node))),
            6 => self.world.isolate(node, true),
            7..10 => (1..=NODES).for_each(|node| self.world.isolate(NodeId(node), false)),
            10 => self.world.pause(node, true),
            11..14 => (1..=NODES).for_each(|node| self.world.pause(NodeId(node), false)),
            14 => self.world.set_loss([0, 5, 50][self.below(3) as usize]),
            15 => {
                self.world.elect(node);
            }
            16 => self.lose_disk(node),
            _ => {}
        }
        if self.faults == Faults::OfBlocks && self.below(2) == 0 {
            self.damage(self.node());
        }
        self.follow();
        self.env.sleep(Duration::from_millis(20 + self.below(700))).await;
    }

    fn damage(&self, node: NodeId) {
        let disk = self.world.disk(node);
        let extents = disk.list(PARTITION, None, usize::MAX);
        let Some(extent) = extents.get(self.below(extents.len().max(1) as u64) as usize) else { return };
        let blocks = disk.sums(*extent, 0, usize::MAX).map_or(0, |sums| sums.blocks.len() as u64);
        if blocks > 0 {
            let damage = if self.below(2) == 0 { Damage::Content } else { Damage::Page };
            disk.damage(*extent, self.below(blocks), damage);
        }
    }

    /// A disk is lost where two other copies in sync have theirs.
    fn lose_disk(&self, node: NodeId) {
        let (record, devices) = (self.world.record(), self.world.devices());
        let has_content = |other: &&NodeId| **other != node && record.copies.get(other) == devices.get(other);
        if record.in_sync.iter().filter(has_content).count() >= 2 {
            self.world.crash(node);
            self.world.lose_disk(node);
        }
    }

    /// Another leader, where the one before does nothing.
    fn follow(&mut self) {
        self.world.spread_the_word();
        let serves = self.world.leader().is_some_and(|leader| self.world.is_up(leader))
            && self.world.reigns().iter().any(|reign| !reign.is_over());
        self.leaderless = if serves { 0 } else { self.leaderless + 1 };
        if self.leaderless > 2 {
            let node = self.node();
            self.world.elect(node);
        }
    }
}

async fn run(seed: u64, faults: Faults) -> Result<u64, String> {
    let env = Env::simulated(seed);
    let world = World::new(&env);
    world.elect(NodeId(1 + env.random_below(u64::from(NODES)) as u32));
    heal(&world, &env).await?;
    let numbers: Arc<Mutex<WriteNumber>> = Arc::default();
    let clients = (0..CLIENTS).map(|_| {
        let mut client = Client {
            world: world.clone(),
            env: env.clone(),
            known: Vec::new(),
            numbers: numbers.clone(),
            acknowledged: 0,
            faults,
        };
        env.spawn(async move {
            for _ in 0..STEPS {
                client.step().await?;
            }
            Ok::<_, String>(client)
        })
    });
    let clients: Vec<_> = clients.collect();
    let mut fate = Fate { world: world.clone(), env: env.clone(), leaderless: 0, faults };
    while !clients.iter().all(|client| client.is_finished()) {
        fate.strike().await;
    }
    heal(&world, &env).await?;
    let mut acknowledged = 0;
    for client in clients {
        let mut client = client.await.expect("a client does not panic")?;
        acknowledged += client.acknowledged;
        match faults {
            Faults::OfNodes => check_at_the_end(&mut client).await?,
            Faults::OfBlocks => check_blocks(&mut client).await?,
        }
    }
    if faults == Faults::OfNodes {
        check_copies(&world)?;
    }
    Ok(acknowledged)
}

/// No more faults: until all copies are in sync, all are served, and nothing is under way at two looks. A change that clients wait for no more may still put a copy out.
pub async fn heal(world: &Arc<World>, env: &Env) -> Result<(), String> {
    world.set_loss(0);
    let until = env.now() + HEALING;
    let mut was_whole = false;
    loop {
        for node in (1..=NODES).map(NodeId) {
            world.start(node);
            world.pause(node, false);
            world.isolate(node, false);
        }
        world.spread_the_word();
        let serving = world.reigns().iter().any(|reign| reign.is_serving());
        let is_quiet = world.reigns().iter().all(|reign| !reign.has_changes());
        let is_whole = serving && is_quiet && world.record().in_sync.len() == NODES as usize;
        if is_whole && was_whole {
            return Ok(());
        }
        was_whole = is_whole;
        if env.now() >= until {
            return Err(format!("it does not heal: {:?}, led by {:?}, served: {serving}", world.record(), world.leader()));
        }
        if world.reigns().iter().all(|reign| reign.is_over()) {
            world.elect(NodeId(1 + env.random_below(u64::from(NODES)) as u32));
        }
        env.sleep(Duration::from_millis(300)).await;
    }
}

/// All that was acknowledged is there.
async fn check_at_the_end(client: &mut Client) -> Result<(), String> {
    let primary = client.world.reigns().into_iter().find(|reign| reign.is_serving()).ok_or("no primary")?;
    for known in client.known.iter_mut().filter(|known| known.punched.is_none() && known.len() > 0) {
        let found = primary.read(known.extent, 0, known.len() as usize).await;
        known.read(0, &found.map_err(|error| format!("the last read of {:?}: {error}", known.extent))?)?;
    }
    Ok(())
}

/// Each copy has what was acknowledged, or says that it has not.
async fn check_blocks(client: &mut Client) -> Result<(), String> {
    let disks: Vec<_> = (1..=NODES).map(|node| client.world.disk(NodeId(node))).collect();
    let faults = client.faults;
    for known in client.known.iter_mut().filter(|known| known.punched.is_none()) {
        for start in (0..known.len()).step_by(BLOCK_BYTES as usize) {
            let len = BLOCK_BYTES.min(known.len() - start) as usize;
            for disk in &disks {
                match disk.read(known.extent, start, len).await {
                    Ok(found) => known.read(start / WORD, &found)?,
                    Err(error) if may_be_lost(faults, &error) => {}
                    Err(error) => return Err(format!("{len} bytes at {start} of {:?}: {error}", known.extent)),
                }
            }
        }
    }
    Ok(())
}

fn may_be_lost(faults: Faults, error: &DataError) -> bool {
    faults == Faults::OfBlocks && matches!(error, DataError::Damaged { .. } | DataError::Punched { .. })
}

/// All copies are equal, as the primary's comparison takes them.
fn check_copies(world: &World) -> Result<(), String> {
    let first = world.disk(NodeId(1));
    for node in (2..=NODES).map(NodeId) {
        let other = world.disk(node);
        for extent in first.list(PARTITION, None, usize::MAX) {
            let (one, two) = (first.sums(extent, 0, usize::MAX), other.sums(extent, 0, usize::MAX));
            let (Some(one), Some(two)) = (&one, &two) else { continue };
            let differs = one
                .blocks
                .iter()
                .zip(&two.blocks)
                .position(|(one, two)| one != two && ![one, two].contains(&&crate::data::copies::BlockSum::Absent));
            if let Some(block) = differs {
                return Err(format!(
                    "{extent:?} is not the same on node 1 and node {node}: block {block}, {} and {} bytes",
                    one.len, two.len
                ));
            }
        }
    }
    Ok(())
}

fn seeds(chosen: impl Iterator<Item = u64>) -> Vec<u64> {
    let Ok(text) = std::env::var("TRILITH_COPIES_SEEDS") else { return chosen.collect() };
    let (from, to) = text.split_once("..").expect("TRILITH_COPIES_SEEDS is FROM..TO");
    (from.parse().expect("a number")..to.parse().expect("a number")).collect()
}

fn run_alone(seed: u64, faults: Faults) -> Result<u64, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(run(seed, faults))
}

fn run_all(seeds: &[u64], faults: Faults) {
    let mut acknowledged = 0;
    for seed in seeds {
        match run_alone(*seed, faults) {
            Ok(count) => acknowledged += count,
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    // A world in which nothing is acknowledged checks nothing.
    assert!(acknowledged > 20 * seeds.len() as u64, "{acknowledged} writes were acknowledged");
}

#[test]
fn what_is_acknowledged_is_read() {
    run_all(&seeds(SEEDS.chain(FOUND)), Faults::OfNodes);
}

#[test]
fn what_rots_is_read_from_another_copy_or_not_at_all() {
    run_all(&seeds(SEEDS_OF_DAMAGE.chain(FOUND_OF_DAMAGE)), Faults::OfBlocks);
}

#[test]
fn a_seed_gives_the_same_run_twice() {
    assert_eq!(run_alone(3, Faults::OfNodes), run_alone(3, Faults::OfNodes));
}
