//! Commands over several trees in memory, whose orders are lost by chance, before or behind their effect.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::*;
use std::collections::BTreeSet;

use crate::meta::{Kind, Machine, MetaSession, NewInode, RenameHow};

const TREES: u16 = 3;
const SESSION: MetaSession = MetaSession(7);
const NONE: TransactionId = TransactionId { tree: TreeIndex(0), reign: 0, number: 0 };
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

struct World {
    machines: Vec<Mutex<Machine>>,
    random: Mutex<u64>,
    /// Of 100 orders so many are lost, half of them behind their effect.
    lost: u64,
}

impl World {
    fn new(seed: u64, lost: u64) -> World {
        let machines = (0..TREES).map(|tree| Mutex::new(Machine::of_tree(TreeIndex(tree)))).collect();
        let world = World { machines, random: Mutex::new(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1), lost };
        for machine in &world.machines {
            machine.lock().carry_out(&envelope(0, Command::OpenSession)).unwrap();
        }
        world
    }

    fn below(&self, limit: u64) -> u64 {
        let mut random = self.random.lock();
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        *random % limit
    }

    fn machine(&self, tree: TreeIndex) -> &Mutex<Machine> {
        &self.machines[usize::from(tree.0)]
    }

    /// As a client does it: what is busy is settled and sent again. None: it was given up, and is done or not.
    fn run(&self, number: &mut u64, command: Command) -> Option<Reply> {
        let tree = match &command {
            Command::Make { parent, .. } | Command::Link { parent, .. } => parent.tree(),
            Command::Unlink { parent, .. } | Command::Rmdir { parent, .. } => parent.tree(),
            Command::Rename { from, .. } => from.0.tree(),
            _ => panic!("no command of names"),
        };
        *number += 1;
        let asked = envelope(*number, command);
        for attempt in 0..4 {
            if let Some(earlier) = self.machine(tree).lock().earlier_reply(SESSION, *number) {
                return Some(earlier);
            }
            let id = TransactionId { tree, reign: 1, number: *number * 10 + attempt };
            let here = Here { world: self, tree };
            let new_directory = TreeIndex(self.below(TREES.into()) as u16);
            let (ended, rest) = futures_executor(carry_out(&here, id, &asked, new_directory));
            if futures_executor(rest.conclude(&here)) {
                let command = Command::Forget { ids: vec![id], below: id.number() };
                // It is forgotten later.
                drop(futures_executor(here.order(tree, Time::default(), command)));
            }
            match ended {
                Ended::Reply(reply) => return Some(reply),
                Ended::Alone => match self.machine(tree).lock().carry_out(&asked) {
                    Err(MetaError::Busy | MetaError::Across) => {}
                    reply => return Some(reply),
                },
                Ended::Again(_) => {}
            }
            self.settle_all();
        }
        None
    }

    fn settle_all(&self) {
        for tree in (0..TREES).map(TreeIndex) {
            let prepared = self.machine(tree).lock().prepared();
            for other in prepared.iter().map(|(id, _)| id.tree).collect::<BTreeSet<TreeIndex>>() {
                let of_other = prepared.iter().filter(|(id, _)| id.tree == other);
                let held = of_other.clone().filter(|(_, is_over)| !is_over).map(|(id, _)| *id).collect();
                let first_over = of_other.clone().find(|(_, is_over)| *is_over).map(|(id, _)| *id);
                let traces = Traces { held, first_over };
                // Lost orders are asked again by the next round.
                drop(futures_executor(settle(&Here { world: self, tree }, tree, other, traces, Time::default())));
            }
        }
    }

    /// No order is lost any more: everything is settled and forgotten.
    fn end(&mut self) {
        self.lost = 0;
        for tree in (0..TREES).map(TreeIndex) {
            let here = Here { world: self, tree };
            let decided = self.machine(tree).lock().decided();
            for (id, others) in &decided {
                assert!(futures_executor(tell(&here, *id, others, Time::default(), true)));
            }
            let ids = decided.iter().map(|(id, _)| *id).collect();
            let command = Command::Forget { ids, below: (2, 0) };
            futures_executor(here.order(tree, Time::default(), command)).unwrap().unwrap();
        }
        self.settle_all();
        for machine in &self.machines {
            assert_eq!(machine.lock().prepared(), []);
            assert_eq!(machine.lock().decided(), []);
        }
    }

    /// All paths, with inodes; checks links and parents. Each inode with a name is found under exactly as many.
    fn walk(&self) -> BTreeMap<String, (Ino, Kind)> {
        let mut shown = BTreeMap::new();
        let (mut left, mut names) = (vec![(String::new(), Ino::ROOT)], BTreeMap::<Ino, u32>::new());
        let mut subdirectories = BTreeMap::<Ino, u32>::new();
        while let Some((path, ino)) = left.pop() {
            assert!(path.len() < 2000, "a loop");
            let query = Query::Directory { ino, after: 0, most: 100 };
            let Ok(Found::Entries(entries)) = self.machine(ino.tree()).lock().query(&query) else { panic!("{path}") };
            for entry in entries {
                let path = format!("{path}/{}", String::from_utf8(entry.name).unwrap());
                *names.entry(entry.ino).or_default() += 1;
                if entry.kind == Kind::Directory {
                    *subdirectories.entry(ino).or_default() += 1;
                    let Ok(Found::Inos(chain)) =
                        self.machine(entry.ino.tree()).lock().query(&Query::Ancestors { ino: entry.ino, by: NONE })
                    else {
                        panic!("{path}")
                    };
                    assert_eq!(chain[1], ino, "{path}");
                    left.push((path.clone(), entry.ino));
                }
                shown.insert(path, (entry.ino, entry.kind));
            }
        }
        names.insert(Ino::ROOT, 1);
        for (ino, count) in &names {
            let Ok(Found::Inode(inode)) = self.machine(ino.tree()).lock().query(&Query::Inode { ino: *ino }) else {
                panic!("a name without an inode: {ino:?}")
            };
            let expected = match inode.kind {
                Kind::Directory => 2 + subdirectories.get(ino).copied().unwrap_or(0),
                _ => *count,
            };
            assert_eq!(inode.nlink, expected, "{ino:?}");
        }
        for machine in &self.machines {
            // The session says that it has nothing open: what is left has names.
            machine.lock().carry_out(&envelope(0, Command::CloseSession)).unwrap();
        }
        let inodes: u64 = self.machines.iter().map(|machine| machine.lock().usage().inodes).sum();
        assert_eq!(inodes, names.len() as u64, "an inode without a name");
        shown
    }
}

struct Here<'a> {
    world: &'a World,
    tree: TreeIndex,
}

impl Trees for Here<'_> {
    fn parts(&self, command: &Command, new_directory: TreeIndex, prepared: &[Prepared]) -> Result<Vec<Part>, MetaError> {
        self.world.machine(self.tree).lock().parts(command, new_directory, prepared)
    }

    async fn propose(&self, envelope: Envelope) -> Result<Reply, String> {
        let is_lost = self.world.below(100) < self.world.lost;
        if is_lost && self.world.below(2) == 0 {
            return Err("lost".to_owned());
        }
        let reply = self.world.machine(self.tree).lock().carry_out(&envelope);
        if is_lost { Err("its answer is lost".to_owned()) } else { Ok(reply) }
    }

    fn is_decided(&self, id: TransactionId) -> bool {
        self.world.machine(self.tree).lock().is_decided(id)
    }

    async fn order(&self, tree: TreeIndex, now: Time, command: Command) -> Result<Reply, String> {
        let there = Here { world: self.world, tree };
        let asked = Envelope { session: MetaSession::LEADER, now, ..envelope(0, command) };
        there.propose(asked).await
    }

    async fn query(&self, tree: TreeIndex, query: Query) -> Result<Answer, String> {
        Ok(self.world.machine(tree).lock().query(&query))
    }
}

fn envelope(sequence: u64, command: Command) -> Envelope {
    let now = Time { seconds: sequence as i64, nanos: 0 };
    Envelope { session: SESSION, sequence, answered_below: 0, now, locks_lost: 0, command }
}

/// Nothing here waits.
fn futures_executor<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

fn new(kind: Kind) -> NewInode {
    NewInode { kind, mode: 0o644, uid: 1, gid: 2, rdev: 0, target: Vec::new(), xattrs: Vec::new() }
}

/// A random command on names that there may be.
fn random_command(world: &World, shown: &[(Ino, Kind)]) -> Command {
    let directories: Vec<Ino> = shown.iter().filter(|(_, kind)| *kind == Kind::Directory).map(|(ino, _)| *ino).collect();
    let directory = || directories[world.below(directories.len() as u64) as usize];
    let name = || NAMES[world.below(4) as usize].as_bytes().to_vec();
    let how = [RenameHow::Replace, RenameHow::Replace, RenameHow::NoReplace, RenameHow::Exchange];
    match world.below(10) {
        0..3 => Command::Make { parent: directory(), name: name(), new: new(Kind::Directory) },
        3 => Command::Make { parent: directory(), name: name(), new: new(Kind::File) },
        4 => Command::Link { ino: shown[world.below(shown.len() as u64) as usize].0, parent: directory(), name: name() },
        5 => Command::Unlink { parent: directory(), name: name() },
        6 => Command::Rmdir { parent: directory(), name: name() },
        _ => {
            let how = how[world.below(4) as usize];
            Command::Rename { from: (directory(), name()), to: (directory(), name()), how }
        }
    }
}

/// Runs random commands. Whatever was lost, all is whole at the end, and nothing is left over.
fn run(seed: u64, lost: u64) -> (usize, usize) {
    let mut world = World::new(seed, lost);
    let (mut number, mut shown, mut answered) = (0, vec![(Ino::ROOT, Kind::Directory)], 0);
    for _ in 0..60 {
        let reply = world.run(&mut number, random_command(&world, &shown));
        answered += usize::from(matches!(reply, Some(Ok(_))));
        if let Some(Ok(Done::Inode(made))) = reply {
            shown.push((made.ino, made.kind));
        }
    }
    world.end();
    let left = world.walk();
    let trees: std::collections::BTreeSet<TreeIndex> = left.values().map(|(ino, _)| ino.tree()).collect();
    (answered, trees.len())
}

#[test]
fn trees_stay_whole_and_nothing_is_left_over() {
    let (mut answered, mut spread) = (0, 0);
    for seed in 1..2000 {
        let found = run(seed, [0, 10, 40][seed as usize % 3]);
        (answered, spread) = (answered + found.0, spread + usize::from(found.1 == 3));
    }
    assert!(answered > 20_000 && spread > 1000, "{answered} {spread}");
}
