//! Trees in memory, their leaders, and what goes wrong between them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use consensus::Rows;
use parking_lot::{Mutex, MutexGuard};

use crate::ids::{Ino, TreeIndex};
use crate::meta::{
    Answer, Command, Done, Envelope, Found, Kind, Machine, MetaError, MetaSession, Part, Prepared, Query, Reply, Time,
    TransactionId,
};
use crate::transactions::{Ended, Rest, Traces, Trees, carry_out, settle, tell};

pub const TREES: u16 = 3;
/// Polls that a driver may take before it is dropped.
const LONGEST_LIFE: u64 = 60;
/// Turns that another task may take before an order goes on.
const LONGEST_WAIT: u64 = 5;
/// Rounds in which everything must have ended, when nothing is lost any more.
const ENOUGH: usize = 4;
/// A transaction that there never was.
const NONE: TransactionId = TransactionId { tree: TreeIndex(0), reign: 0, number: 0 };

/// Of 100 orders, or drivers, so many.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Half of them behind their effect.
    pub lost: u64,
    /// A copy comes later.
    pub late: u64,
    /// With the leader.
    pub dropped: u64,
}

/// What has happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub transactions: u64,
    pub again: u64,
    pub lost: u64,
    pub late: u64,
    pub dropped: u64,
}

impl Seen {
    pub fn add(&mut self, other: &Seen) {
        self.transactions += other.transactions;
        self.again += other.again;
        self.lost += other.lost;
        self.late += other.late;
        self.dropped += other.dropped;
    }
}

/// All paths, with inodes, kinds and counts of names.
pub type Shown = BTreeMap<String, (Ino, Kind, u32)>;

pub fn trees_of(left: &Shown) -> usize {
    left.values().map(|(ino, ..)| ino.tree()).collect::<BTreeSet<TreeIndex>>().len()
}

#[derive(Default)]
struct Tree {
    machine: Mutex<Machine>,
    rows: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    leader: Mutex<Leading>,
}

/// What the leader of a tree has in its memory.
#[derive(Default)]
struct Leading {
    /// Counts the leaders.
    count: u64,
    reign: Option<u64>,
    next: u64,
    under_way: BTreeSet<TransactionId>,
}

/// What is left to be told, and by which leader.
type Left = (TransactionId, u64, Rest);

pub struct World {
    trees: Vec<Tree>,
    clients: u64,
    random: Mutex<u64>,
    faults: Mutex<Faults>,
    late: Mutex<Vec<(TreeIndex, Envelope)>>,
    rests: Mutex<VecDeque<Left>>,
    seen: Mutex<Seen>,
}

pub fn session(client: u64) -> MetaSession {
    MetaSession(100 + client)
}

impl World {
    pub fn new(seed: u64, clients: u64) -> World {
        let tree = |tree| Tree { machine: Mutex::new(Machine::of_tree(TreeIndex(tree))), ..Tree::default() };
        let random = Mutex::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let trees: Vec<Tree> = (0..TREES).map(tree).collect();
        let world = World {
            trees,
            clients,
            random,
            faults: Mutex::default(),
            late: Mutex::default(),
            rests: Mutex::default(),
            seen: Mutex::default(),
        };
        world.for_all_sessions(&Command::OpenSession { is_exclusive: false });
        world
    }

    pub fn clients(&self) -> u64 {
        self.clients
    }

    pub fn for_all_sessions(&self, command: &Command) {
        for tree in &self.trees {
            for client in 0..self.clients {
                tree.machine.lock().carry_out(&envelope(session(client), 0, command.clone())).unwrap();
            }
        }
    }

    pub fn below(&self, limit: u64) -> u64 {
        let mut random = self.random.lock();
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        *random % limit
    }

    fn happens(&self, of_100: u64) -> bool {
        self.below(100) < of_100
    }

    pub fn set_faults(&self, faults: Faults) {
        *self.faults.lock() = faults;
    }

    fn faults(&self) -> Faults {
        *self.faults.lock()
    }

    pub fn seen(&self) -> Seen {
        *self.seen.lock()
    }

    /// Others have their turn.
    pub async fn wait(&self, longest: u64) {
        for _ in 0..self.below(longest) {
            tokio::task::yield_now().await;
        }
    }

    pub fn machine(&self, tree: TreeIndex) -> MutexGuard<'_, Machine> {
        self.tree(tree).machine.lock()
    }

    fn tree(&self, tree: TreeIndex) -> &Tree {
        &self.trees[usize::from(tree.0)]
    }

    pub fn all(&self) -> impl Iterator<Item = TreeIndex> + use<> {
        (0..TREES).map(TreeIndex)
    }

    pub fn leader(&self, tree: TreeIndex) -> Leader<'_> {
        Leader { world: self, tree, count: self.tree(tree).leader.lock().count }
    }

    /// A tree's leader is gone with all that it had in memory. The next one has the rows.
    fn drop_leader(&self, of: TreeIndex) {
        self.seen.lock().dropped += 1;
        let tree = self.tree(of);
        let count = tree.leader.lock().count;
        *tree.leader.lock() = Leading { count: count + 1, ..Leading::default() };
        let (mut machine, mut rows) = (tree.machine.lock(), tree.rows.lock());
        for (key, value) in machine.take_changes() {
            match value {
                Some(value) => drop(rows.insert(key, value)),
                None => assert!(rows.remove(&key).is_some(), "a row is removed that was never written"),
            }
        }
        machine.clear();
        rows.iter().for_each(|(key, value)| machine.load(key, value).unwrap());
        assert_eq!(machine.tree(), of);
    }

    /// One of the copies that are still under way arrives, or a leader tells what is left to be told, or asks.
    pub async fn go_on(&self) {
        self.wait(LONGEST_WAIT).await;
        match self.below(4) {
            0 => self.deliver_late().await,
            1 => {
                let tree = TreeIndex(self.below(TREES.into()) as u16);
                self.leader(tree).conclude().await;
                self.leader(tree).settle(false).await;
            }
            _ => self.tell_rest().await,
        }
    }

    async fn deliver_late(&self) {
        let copy = {
            let mut late = self.late.lock();
            let at = self.below(late.len().max(1) as u64) as usize;
            if late.is_empty() { None } else { Some(late.swap_remove(at)) }
        };
        let Some((tree, envelope)) = copy else { return };
        self.seen.lock().late += 1;
        if envelope.session == MetaSession::LEADER {
            // Its answer is heard by none.
            let _: Reply = self.tree(tree).machine.lock().carry_out(&envelope);
        } else {
            self.leader(tree).attempt(&envelope).await;
        }
    }

    async fn tell_rest(&self) {
        let rest = self.rests.lock().pop_front();
        let Some((id, count, rest)) = rest else { return };
        let leader = Leader { world: self, tree: id.tree, count };
        rest.conclude(&leader).await;
        leader.ended(id);
    }

    /// Nothing goes wrong any more: everything ends.
    pub async fn settle_all(&self) {
        self.set_faults(Faults::default());
        // No task drives anything any more.
        self.trees.iter().for_each(|tree| tree.leader.lock().under_way.clear());
        while !self.rests.lock().is_empty() {
            self.tell_rest().await;
        }
        for _ in 0..ENOUGH {
            for tree in self.all() {
                self.leader(tree).conclude().await;
                self.leader(tree).settle(true).await;
            }
        }
        for tree in self.all() {
            assert_eq!(self.tree(tree).machine.lock().prepared(), [], "{tree:?}");
            assert_eq!(self.tree(tree).machine.lock().decided(), [], "{tree:?}");
        }
    }

    /// All copies have arrived.
    pub async fn end(&self) {
        while !self.late.lock().is_empty() {
            self.deliver_late().await;
        }
        self.settle_all().await;
    }

    fn inode(&self, ino: Ino) -> crate::meta::Attributes {
        match self.tree(ino.tree()).machine.lock().query(&Query::Inode { ino }) {
            Ok(Found::Inode(attributes)) => attributes,
            other => panic!("a name without an inode: {ino:?} {other:?}"),
        }
    }

    /// All that has a name; checks links and parents.
    pub fn walk(&self) -> Result<Shown, String> {
        let mut shown = Shown::new();
        let (mut left, mut names) = (vec![(String::new(), Ino::ROOT)], BTreeMap::<Ino, u32>::new());
        while let Some((path, ino)) = left.pop() {
            assert!(path.len() < 2000, "a loop");
            let query = Query::Directory { ino, after: 0, most: 100 };
            let Ok(Found::Entries(entries)) = self.tree(ino.tree()).machine.lock().query(&query) else { panic!("{path}") };
            let mut subdirectories = 0;
            for entry in entries {
                let path = format!("{path}/{}", String::from_utf8(entry.name).unwrap());
                *names.entry(entry.ino).or_default() += 1;
                if entry.kind == Kind::Directory {
                    subdirectories += 1;
                    let query = Query::Ancestors { ino: entry.ino, by: NONE };
                    let Ok(Found::Inos(chain)) = self.tree(entry.ino.tree()).machine.lock().query(&query) else {
                        panic!("{path}")
                    };
                    if chain[1] != ino {
                        return Err(format!("{path} is below {ino:?}, and its parent is {:?}", chain[1]));
                    }
                    left.push((path.clone(), entry.ino));
                }
                let inode = self.inode(entry.ino);
                assert_eq!(inode.kind, entry.kind, "{path}");
                shown.insert(path, (entry.ino, entry.kind, inode.nlink));
            }
            if self.inode(ino).nlink != 2 + subdirectories {
                return Err(format!("{path} has {subdirectories} directories, and {} links", self.inode(ino).nlink));
            }
        }
        let is_wrong = |(ino, kind, nlink): &(Ino, Kind, u32)| *kind != Kind::Directory && *nlink != names[ino];
        match shown.iter().find(|(_, found)| is_wrong(found)) {
            Some((path, found)) => Err(format!("{path} is {found:?}, and has {} names", names[&found.0])),
            None => Ok(shown),
        }
    }

    /// When no session has anything open, each inode has a name.
    pub fn check_nothing_left_over(&self, left: &Shown) {
        self.for_all_sessions(&Command::CloseSession);
        let inodes: u64 = self.trees.iter().map(|tree| tree.machine.lock().usage().inodes).sum();
        let named: BTreeSet<Ino> = left.values().map(|(ino, ..)| *ino).chain([Ino::ROOT]).collect();
        assert_eq!(inodes, named.len() as u64, "an inode without a name");
    }
}

/// The leader of a tree, until the next one.
pub struct Leader<'a> {
    world: &'a World,
    tree: TreeIndex,
    count: u64,
}

impl Leader<'_> {
    fn leads(&self) -> bool {
        self.world.tree(self.tree).leader.lock().count == self.count
    }

    /// Carries a command out alone, and tells all.
    pub async fn run(&self, envelope: &Envelope, new_directory: TreeIndex) -> Option<Reply> {
        let id = self.begin().await?;
        let (ended, rest) = carry_out(self, id, envelope, new_directory).await;
        rest.conclude(self).await;
        self.ended(id);
        match ended {
            Ended::Reply(reply) => Some(reply),
            Ended::Alone => self.propose(envelope.clone()).await.ok(),
            Ended::Again(_) => None,
        }
    }

    /// One try of a command, as the leader does it. None: it is to be sent again.
    pub async fn attempt(&self, envelope: &Envelope) -> Option<Reply> {
        let world = self.world;
        let new_directory = TreeIndex(world.below(TREES.into()) as u16);
        let is_alone = {
            let machine = world.tree(self.tree).machine.lock();
            if let Some(reply) = machine.earlier_reply(envelope.session, envelope.sequence) {
                return Some(reply);
            }
            machine.parts(&envelope.command, new_directory, &[]) == Ok(Vec::new())
        };
        if is_alone {
            return self.propose(envelope.clone()).await.ok().filter(|reply| !is_again(reply));
        }
        let id = self.begin().await?;
        let carried_out = carry_out(self, id, envelope, new_directory);
        let life = if world.happens(world.faults().dropped) { world.below(LONGEST_LIFE) } else { u64::MAX };
        let (ended, rest) = tokio::select! {
            biased;
            carried_out = carried_out => carried_out,
            () = polls(life) => {
                world.drop_leader(self.tree);
                return None;
            }
        };
        world.rests.lock().push_back((id, self.count, rest));
        let mut seen = world.seen.lock();
        match ended {
            Ended::Reply(reply) => {
                seen.transactions += 1;
                Some(reply)
            }
            Ended::Again(_) | Ended::Alone => {
                seen.again += 1;
                None
            }
        }
    }

    async fn begin(&self) -> Option<TransactionId> {
        let current = self.world.tree(self.tree).machine.lock().least_transaction().0;
        if self.world.tree(self.tree).leader.lock().reign != Some(current) {
            let Ok(Ok(Done::Reign(number))) = self.order(self.tree, Time::default(), Command::Reign).await else { return None };
            let mut leading = self.world.tree(self.tree).leader.lock();
            if leading.count != self.count {
                return None;
            }
            // Another task may have asked, too.
            if leading.reign.is_none_or(|known| known < number) {
                (leading.reign, leading.next) = (Some(number), 0);
            }
        }
        let mut leading = self.world.tree(self.tree).leader.lock();
        let id = TransactionId { tree: self.tree, reign: leading.reign?, number: leading.next };
        leading.next += 1;
        leading.under_way.insert(id);
        Some(id)
    }

    fn ended(&self, id: TransactionId) {
        let mut leading = self.world.tree(self.tree).leader.lock();
        if leading.count == self.count {
            leading.under_way.remove(&id);
        }
    }

    /// Tells others of what is noted and driven by no task, and forgets it.
    async fn conclude(&self) {
        let noted = self.world.tree(self.tree).machine.lock().decided();
        let (under_way, floor) = {
            let leading = self.world.tree(self.tree).leader.lock();
            let first = leading.under_way.first().map(|id| id.number());
            (leading.under_way.clone(), first.or(leading.reign.map(|reign| (reign, leading.next))))
        };
        let mut ids = Vec::new();
        for (id, others) in noted.into_iter().filter(|(id, _)| !under_way.contains(id)) {
            if tell(self, id, &others, Time::default(), true).await {
                ids.push(id);
            }
        }
        let below = floor.unwrap_or_default();
        // Where it is lost it is done later.
        drop(self.order(self.tree, Time::default(), Command::Forget { ids, below }).await);
    }

    /// Asks other trees. `are_old`: all that is held is old.
    async fn settle(&self, are_old: bool) {
        let prepared = self.world.tree(self.tree).machine.lock().prepared();
        for other in prepared.iter().map(|(id, _)| id.tree).collect::<BTreeSet<TreeIndex>>() {
            let of_other = || prepared.iter().filter(|(id, _)| id.tree == other);
            let is_old = are_old || self.world.happens(10);
            let held = of_other().filter(|(_, is_over)| is_old && !is_over).map(|(id, _)| *id).collect();
            let first_over = of_other().find(|(_, is_over)| *is_over).map(|(id, _)| *id);
            let last_old = of_other().map(|(id, _)| *id).max().filter(|_| is_old);
            // Where it is lost it is asked again.
            drop(settle(self, self.tree, other, Traces { held, first_over, last_old }, Time::default()).await);
        }
    }

    /// By way of this leader, if it is the last one.
    async fn arrive(&self, tree: TreeIndex, envelope: Envelope) -> Result<Reply, String> {
        let world = self.world;
        world.wait(LONGEST_WAIT).await;
        let (faults, copy) = (world.faults(), envelope.clone());
        if tree == self.tree && !self.leads() {
            return Err("another node leads".to_owned());
        }
        if world.happens(faults.late) {
            world.late.lock().push((tree, copy));
        }
        let is_lost = world.happens(faults.lost);
        world.seen.lock().lost += u64::from(is_lost);
        if is_lost && world.below(2) == 0 {
            return Err("lost".to_owned());
        }
        let reply = world.tree(tree).machine.lock().carry_out(&envelope);
        world.wait(LONGEST_WAIT).await;
        if is_lost { Err("its answer is lost".to_owned()) } else { Ok(reply) }
    }
}

impl Trees for Leader<'_> {
    fn parts(&self, command: &Command, new_directory: TreeIndex, prepared: &[Prepared]) -> Result<Vec<Part>, MetaError> {
        self.world.tree(self.tree).machine.lock().parts(command, new_directory, prepared)
    }

    fn is_decided(&self, id: TransactionId) -> bool {
        self.world.tree(self.tree).machine.lock().is_decided(id)
    }

    async fn propose(&self, envelope: Envelope) -> Result<Reply, String> {
        self.arrive(self.tree, envelope).await
    }

    async fn order(&self, tree: TreeIndex, now: Time, command: Command) -> Result<Reply, String> {
        self.arrive(tree, Envelope { now, ..envelope(MetaSession::LEADER, u64::MAX, command) }).await
    }

    async fn query(&self, tree: TreeIndex, query: Query) -> Result<Answer, String> {
        self.world.wait(LONGEST_WAIT).await;
        let answer = self.world.tree(tree).machine.lock().query(&query);
        self.world.wait(LONGEST_WAIT).await;
        Ok(answer)
    }
}

fn is_again(reply: &Reply) -> bool {
    matches!(reply, Err(MetaError::Busy | MetaError::Across))
}

async fn polls(count: u64) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

pub fn envelope(session: MetaSession, sequence: u64, command: Command) -> Envelope {
    let now = Time { seconds: sequence.min(1 << 32) as i64, nanos: 0 };
    Envelope { session, sequence, answered_below: 0, now, locks_lost: 0, command }
}
