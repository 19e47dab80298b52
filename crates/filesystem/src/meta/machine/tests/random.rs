//! Random commands against a tree that is kept in the simplest way: a map of paths for names, a map of bytes for contents.

use std::collections::{BTreeMap, BTreeSet};

use consensus::{LogIndex, Rows, StateMachine};
use proptest::prelude::*;

use super::*;
use crate::meta::{AttributeChange, Lock, LockFamily, LockOwner, LockRange};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// One random step: which kind, and numbers that choose where.
type Step = (u8, usize, usize, usize, u64);

/// What a path leads to, as `find -printf` would show it.
type Shown = BTreeMap<String, (Ino, Kind)>;

/// Paths and inodes, by walking all directories.
fn walk(tree: &Tree) -> Shown {
    let mut shown = Shown::new();
    let mut left = vec![(String::new(), Ino::ROOT)];
    while let Some((path, ino)) = left.pop() {
        for (_, name) in tree.listed(ino, 0, 1000) {
            let found = tree.lookup(ino, &name).unwrap();
            let path = format!("{path}/{name}");
            if found.kind == Kind::Directory {
                left.push((path.clone(), found.ino));
            }
            assert!(shown.insert(path, (found.ino, found.kind)).is_none());
        }
    }
    shown
}

/// What each inode must be, counted from the walk.
fn check(tree: &Tree, shown: &Shown) {
    let mut names: BTreeMap<Ino, u32> = BTreeMap::new();
    let mut subdirectories: BTreeMap<Ino, u32> = BTreeMap::new();
    for (path, (ino, kind)) in shown {
        *names.entry(*ino).or_default() += 1;
        if *kind == Kind::Directory {
            let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
            let parent = shown.get(parent).map_or(Ino::ROOT, |(ino, _)| *ino);
            *subdirectories.entry(parent).or_default() += 1;
            let Ok(Found::Inode(found)) = tree.machine.query(&Query::Parent { ino: *ino }) else { panic!() };
            assert_eq!(found.ino, parent, "{path}");
        }
    }
    let mut bytes = 0;
    for (ino, inode) in tree.machine.tables.inodes() {
        let expected = match inode.kind {
            Kind::Directory if ino == Ino::ROOT || names.contains_key(&ino) => {
                2 + subdirectories.get(&ino).copied().unwrap_or(0)
            }
            _ => names.get(&ino).copied().unwrap_or(0),
        };
        assert_eq!(inode.nlink, expected, "{ino:?}");
        bytes += inode.content_bytes();
        let ends: Vec<_> = inode.keys.iter().map(|key| (key.file_offset, key.file_offset + key.len)).collect();
        assert!(ends.windows(2).all(|pair| pair[0].1 <= pair[1].0) && ends.iter().all(|end| end.1 <= inode.size), "{ends:?}");
    }
    assert_eq!(tree.machine.usage().bytes, bytes);
}

/// The simplest tree: it says what each operation on names leaves.
#[derive(Default)]
struct Simple(Shown);

impl Simple {
    fn directory(&self, path: &str) -> bool {
        path.is_empty() || self.0.get(path).is_some_and(|(_, kind)| *kind == Kind::Directory)
    }

    fn below(&self, path: &str) -> Vec<String> {
        let prefix = format!("{path}/");
        self.0.keys().filter(|other| other.starts_with(&prefix)).cloned().collect()
    }

    /// Moves a path with all that is below it.
    fn moved(&mut self, from: &str, to: &str) {
        for path in self.below(from).into_iter().chain([from.to_owned()]) {
            let found = self.0.remove(&path).unwrap();
            self.0.insert(format!("{to}{}", &path[from.len()..]), found);
        }
    }

    fn may_rename(&self, from: &str, to: &str) -> bool {
        let Some((source, kind)) = self.0.get(from) else { return false };
        let is_directory = *kind == Kind::Directory;
        if is_directory && (to == from || to.starts_with(&format!("{from}/"))) {
            return to == from;
        }
        match self.0.get(to) {
            None => true,
            Some((target, _)) if target == source => true,
            Some((_, Kind::Directory)) => is_directory && self.below(to).is_empty(),
            Some(_) => !is_directory,
        }
    }
}

/// What a store has of a tree.
#[derive(Default)]
struct Stored {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Stored {
    /// A snapshot: what has changed.
    fn take(&mut self, machine: &mut Machine) {
        for (key, value) in machine.take_changes() {
            match value {
                Some(value) => drop(self.rows.insert(key, value)),
                None => assert!(self.rows.remove(&key).is_some(), "a row is removed that was never written"),
            }
        }
    }

    fn tree(&self) -> Machine {
        let mut machine = Machine::default();
        machine.clear();
        self.rows.iter().for_each(|(key, value)| machine.load(key, value).unwrap());
        assert_eq!(machine.take_changes().len(), 1, "rows that were loaded are no changes; the totals always are");
        machine
    }
}

/// All rows of a tree, from what it is now.
fn rows_of(machine: &Machine) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut copy = machine.clone();
    copy.tables.touch();
    copy.sessions.touch();
    copy.locks.touch();
    copy.freed.touch();
    copy.transactions.touch();
    // What was removed since the last snapshot is no row of it.
    let changes = copy.take_changes().into_iter().filter(|(_, value)| value.is_some());
    changes.map(|(key, value)| (key, value.expect("these have one"))).collect()
}

/// What other clients and the leader do meanwhile.
fn beside(tree: &mut Tree, number: u64) {
    let session = MetaSession(100 + number % 3);
    let mut ask = |session, command| {
        let (sequence, now) = (number + 1, tree.now);
        let envelope = Envelope { session, sequence, answered_below: number / 2, now, locks_lost: 0, command };
        // Some are refused.
        let _: Reply = tree.machine.carry_out(&envelope);
    };
    match number % 6 {
        0 => ask(session, Command::OpenSession { is_exclusive: false }),
        1 => {
            let owner = LockOwner { family: LockFamily::Fcntl, number: number % 2 };
            let range = LockRange { first: number % 5, last: number % 5 + 3 };
            ask(session, Command::Lock { ino: Ino::ROOT, lock: Lock { owner, range, is_exclusive: number % 4 == 1, pid: 1 } });
        }
        2 => ask(session, Command::MakeUnnamed { parent: Ino::ROOT, new: new(Kind::File) }),
        3 => ask(MetaSession::LEADER, Command::LoseLocks { session }),
        4 => ask(MetaSession::LEADER, Command::ConfirmFreed { partition: PARTITION, up_to: number / 3 }),
        _ => ask(session, Command::CloseSession),
    }
}

/// Carries a step out on both; they must agree on whether it is refused, and on what is there then.
fn step(tree: &mut Tree, simple: &mut Simple, (kind, one, two, name, number): Step) {
    let mut directories: Vec<String> =
        simple.0.iter().filter(|(_, (_, kind))| *kind == Kind::Directory).map(|(path, _)| path.clone()).collect();
    directories.push(String::new());
    let ino_of = |simple: &Simple, path: &str| simple.0.get(path).map_or(Ino::ROOT, |(ino, _)| *ino);
    let (one, two) = (directories[one % directories.len()].clone(), directories[two % directories.len()].clone());
    let (name, other) = (NAMES[name % NAMES.len()], NAMES[(number % 4) as usize]);
    let (from, to) = (format!("{one}/{name}"), format!("{two}/{other}"));
    let (parent, target_parent) = (ino_of(simple, &one), ino_of(simple, &two));
    assert!(simple.directory(&one) && simple.directory(&two));
    let found = simple.0.get(&from).copied();
    match kind {
        0..3 => {
            let new_kind = [Kind::File, Kind::Directory, Kind::Symlink][usize::from(kind)];
            let made = tree.make(parent, name, new_kind);
            assert_eq!(made.is_ok(), found.is_none(), "{made:?}");
            if let Ok(ino) = made {
                simple.0.insert(from.clone(), (ino, new_kind));
            }
        }
        3 => {
            let done = tree.run(Command::Unlink { parent, name: name.into() });
            assert_eq!(done.is_ok(), found.is_some_and(|(_, kind)| kind != Kind::Directory), "{done:?}");
            if done.is_ok() {
                simple.0.remove(&from);
            }
        }
        4 => {
            let is_empty = found.is_some_and(|(_, kind)| kind == Kind::Directory) && simple.below(&from).is_empty();
            let done = tree.run(Command::Rmdir { parent, name: name.into() });
            assert_eq!(done.is_ok(), is_empty, "{done:?}");
            if done.is_ok() {
                simple.0.remove(&from);
            }
        }
        5 => {
            let (Some((ino, kind)), is_free) = (found, !simple.0.contains_key(&to)) else { return };
            let done = tree.run(Command::Link { ino, parent: target_parent, name: other.into() });
            assert_eq!(done.is_ok(), kind != Kind::Directory && is_free, "{done:?}");
            if done.is_ok() {
                simple.0.insert(to.clone(), (ino, kind));
            }
        }
        6..8 => {
            let may = simple.may_rename(&from, &to);
            let done = tree.rename((parent, name), (target_parent, other), RenameHow::Replace);
            // A directory onto itself: nothing is done.
            assert_eq!(done.is_ok(), may, "{from} {to} {done:?}");
            let is_same = found.is_some() && simple.0.get(&to).map(|(ino, _)| *ino) == found.map(|(ino, _)| ino);
            if may && !is_same {
                simple.0.remove(&to);
                simple.moved(&from, &to);
            }
        }
        8 => {
            let Some((ino, Kind::File)) = found else { return };
            let offset = number % 5 * 4096;
            let keys = vec![key(offset, number, offset, 1 + number % 9000)];
            let end = offset + keys[0].len;
            let is_taken = tree.keys(ino).iter().any(|key| key.file_offset < end && offset < key.file_offset + key.len);
            let done = tree.commit(ino, keys, None);
            assert_eq!(done == Err(MetaError::Changed), is_taken, "{done:?}");
            assert_eq!(done.is_ok(), !is_taken, "{done:?}");
        }
        _ => {
            let Some((ino, Kind::File)) = found else { return };
            let change = AttributeChange { size: Some(number % 30_000), ..AttributeChange::default() };
            tree.run(Command::SetAttributes { ino, change }).unwrap();
        }
    }
}

proptest! {
    #[test]
    fn it_agrees_with_the_simplest_tree(
        steps in prop::collection::vec((0u8..10, 0usize..100, 0usize..100, 0usize..4, 0u64..1 << 20), 1..120)
    ) {
        let (mut tree, mut simple, mut stored) = (Tree::new(), Simple::default(), Stored::default());
        for (number, random) in steps.into_iter().enumerate() {
            step(&mut tree, &mut simple, random);
            // Sessions, locks and what is freed come and go besides.
            beside(&mut tree, number as u64);
            if number % 7 == 6 {
                stored.take(&mut tree.machine);
                prop_assert_eq!(rows_of(&stored.tree()), stored.rows.clone());
            }
            let shown = walk(&tree);
            prop_assert_eq!(&shown, &simple.0);
            check(&tree, &shown);
        }
        stored.take(&mut tree.machine);
        prop_assert_eq!(rows_of(&tree.machine), stored.rows.clone(), "changes are all that has changed");
        // Its rows are the same tree, and go on in the same way.
        let mut restored = stored.tree();
        let next = tree.envelope(Command::Make { parent: Ino::ROOT, name: b"next".to_vec(), new: new(Kind::File) });
        prop_assert_eq!(restored.apply(LogIndex(1), next.clone()).unwrap(), tree.machine.carry_out(&next));
        prop_assert_eq!(rows_of(&restored), rows_of(&tree.machine));
        // All files go, and what they had is freed, each extent once.
        for (path, (_, kind)) in simple.0.iter().rev() {
            let (parent, name) = path.rsplit_once('/').unwrap();
            let (parent, name) = (simple.0.get(parent).map_or(Ino::ROOT, |(ino, _)| *ino), name.into());
            let command = match kind {
                Kind::Directory => Command::Rmdir { parent, name },
                _ => Command::Unlink { parent, name },
            };
            tree.run(command).unwrap();
        }
        tree.run(Command::CloseSession).unwrap();
        for session in (100..103).map(MetaSession) {
            let envelope = Envelope { session, ..next.clone() };
            tree.machine.carry_out(&Envelope { command: Command::CloseSession, ..envelope }).unwrap();
        }
        prop_assert_eq!(tree.machine.usage().bytes, 0);
        let left: BTreeSet<Ino> = tree.machine.tables.inodes().map(|(ino, _)| ino).collect();
        prop_assert_eq!(left.len(), 2, "the root, and what was made last");
    }

    #[test]
    fn commands_and_snapshots_of_random_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(command) = Machine::decode(&bytes) {
            prop_assert_eq!(Machine::decode(&Machine::encode(&command)).unwrap(), command);
        }
        // All are well; none panics.
        for table in 0..11 {
            for split in [0, 8, 16] {
                if let Some((key, value)) = bytes.split_at_checked(split) {
                    drop(Machine::default().load(&[&[table], key].concat(), value));
                }
            }
        }
    }
}
