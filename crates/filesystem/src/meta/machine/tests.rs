//! The machine: single commands, and random ones against a tree that is kept in the simplest way.

mod locks;
mod many;
mod names;
mod random;
mod sessions;
mod space;

use super::Machine;
use crate::ids::{ExtentId, ExtentKey, Ino};
use crate::meta::{
    Attributes, Command, Done, Envelope, Expected, Found, Kind, MetaError, MetaSession, NewInode, Query, RenameHow, Reply, Time,
};

const SESSION: MetaSession = MetaSession(7);

/// A machine, and one session that counts its commands.
struct Tree {
    machine: Machine,
    sequence: u64,
    now: Time,
}

impl Tree {
    fn new() -> Tree {
        let mut tree = Tree { machine: Machine::default(), sequence: 0, now: Time { seconds: 1000, nanos: 0 } };
        tree.run(Command::OpenSession { is_exclusive: false }).unwrap();
        tree
    }

    fn envelope(&mut self, command: Command) -> Envelope {
        self.sequence += 1;
        self.now.seconds += 1;
        let (sequence, now) = (self.sequence, self.now);
        Envelope { session: SESSION, sequence, answered_below: sequence, now, locks_lost: 0, command }
    }

    fn run(&mut self, command: Command) -> Reply {
        let envelope = self.envelope(command);
        self.machine.carry_out(&envelope)
    }

    fn make(&mut self, parent: Ino, name: &str, kind: Kind) -> Result<Ino, MetaError> {
        match self.run(Command::Make { parent, name: name.into(), new: new(kind) })? {
            Done::Inode(attributes) => Ok(attributes.ino),
            other => panic!("{other:?}"),
        }
    }

    /// Gives a file keys, as one who has seen what it is now.
    fn commit(&mut self, ino: Ino, keys: Vec<ExtentKey>, size: Option<u64>) -> Reply {
        let least_size = keys.last().map_or(0, |key| key.file_offset.saturating_add(key.len));
        let cuts = self.attributes(ino).map_or(0, |attributes| attributes.cuts);
        self.run(Command::Commit { ino, keys, least_size, kills_set_ids: false, expects: Expected { cuts, size } })
    }

    fn rename(&mut self, from: (Ino, &str), to: (Ino, &str), how: RenameHow) -> Reply {
        self.run(Command::Rename { from: (from.0, from.1.into()), to: (to.0, to.1.into()), how })
    }

    fn lookup(&self, parent: Ino, name: &str) -> Result<Attributes, MetaError> {
        match self.machine.query(&Query::Lookup { parent, name: name.into() })? {
            Found::Inode(attributes) => Ok(attributes),
            other => panic!("{other:?}"),
        }
    }

    fn attributes(&self, ino: Ino) -> Result<Attributes, MetaError> {
        self.machine.attributes(ino)
    }

    fn listed(&self, ino: Ino, after: u64, most: u32) -> Vec<(u64, String)> {
        let Ok(Found::Entries(entries)) = self.machine.query(&Query::Directory { ino, after, most }) else { panic!() };
        entries.into_iter().map(|entry| (entry.cookie, String::from_utf8(entry.name).unwrap())).collect()
    }

    fn keys(&self, ino: Ino) -> Vec<ExtentKey> {
        let Ok(Found::Keys(keys)) = self.machine.query(&Query::Keys { ino, offset: 0, len: u64::MAX }) else { panic!() };
        keys
    }
}

fn new(kind: Kind) -> NewInode {
    let target = if kind == Kind::Symlink { b"target".to_vec() } else { Vec::new() };
    NewInode { kind, mode: 0o644, uid: 1, gid: 2, rdev: 0, target, xattrs: Vec::new() }
}

/// The data partition of all files.
const PARTITION: u32 = 0;

fn extent(number: u64) -> ExtentId {
    ExtentId { partition: PARTITION, term: 1, number }
}

fn key(file_offset: u64, number: u64, extent_offset: u64, len: u64) -> ExtentKey {
    ExtentKey { file_offset, extent: extent(number), extent_offset, len }
}
