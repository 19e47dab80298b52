//! Whether what clients have seen is what one tree would have shown them, in some order of their commands: each command takes effect between its beginning and its
//! end (Herlihy and Wing, 1990).

use std::collections::BTreeMap;

use super::clients::Entry;
use super::world::{Shown, envelope, session};
use crate::ids::Ino;
use crate::meta::{Attributes, Command, Done, Found, Kind, Machine, Query, Reply};

/// One tree, with all that the several ones have.
#[derive(Clone)]
pub struct Reference {
    machine: Machine,
    sequence: u64,
    /// From inodes of the several trees to those of the one.
    inodes: BTreeMap<Ino, Ino>,
}

impl Reference {
    pub fn new(clients: u64) -> Reference {
        let mut machine = Machine::default();
        for client in 0..clients {
            machine.carry_out(&envelope(session(client), 0, Command::OpenSession { is_exclusive: false })).unwrap();
        }
        Reference { machine, sequence: 0, inodes: BTreeMap::from([(Ino::ROOT, Ino::ROOT)]) }
    }

    /// The tree behind these commands, in an order that explains their replies and what is there then.
    pub fn explain(&self, entries: &[Entry], left: &Shown) -> Option<Reference> {
        let left_out: Vec<&Entry> = entries.iter().collect();
        self.search(&left_out, left)
    }

    fn search(&self, entries: &[&Entry], left: &Shown) -> Option<Reference> {
        if entries.is_empty() {
            return (self.walk() == self.translated(left)?).then(|| self.clone());
        }
        let first_end = entries.iter().map(|entry| entry.ended).min()?;
        for (at, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.begun < first_end) {
            let Some(next) = self.after(entry) else { continue };
            let mut others = entries.to_vec();
            others.remove(at);
            if let Some(found) = next.search(&others, left) {
                return Some(found);
            }
        }
        None
    }

    /// The tree behind a command, if that has the reply that its client got.
    fn after(&self, entry: &Entry) -> Option<Reference> {
        let mut next = self.clone();
        next.sequence += 1;
        let command = next.command(&entry.command)?;
        let reply = next.machine.carry_out(&envelope(session(entry.client), next.sequence, command));
        next.is_same(&reply, &entry.reply).then_some(next)
    }

    fn command(&self, command: &Command) -> Option<Command> {
        let ino = |ino: &Ino| self.inodes.get(ino).copied();
        Some(match command {
            Command::Make { parent, name, new } => Command::Make { parent: ino(parent)?, name: name.clone(), new: new.clone() },
            Command::Link { ino: of, parent, name } => {
                Command::Link { ino: ino(of)?, parent: ino(parent)?, name: name.clone() }
            }
            Command::Unlink { parent, name } => Command::Unlink { parent: ino(parent)?, name: name.clone() },
            Command::Rmdir { parent, name } => Command::Rmdir { parent: ino(parent)?, name: name.clone() },
            Command::Rename { from, to, how } => {
                Command::Rename { from: (ino(&from.0)?, from.1.clone()), to: (ino(&to.0)?, to.1.clone()), how: *how }
            }
            _ => return None,
        })
    }

    /// Learns the inode of one that was made.
    fn is_same(&mut self, reply: &Reply, seen: &Reply) -> bool {
        match (reply, seen) {
            (Ok(Done::Inode(inode)), Ok(Done::Inode(seen))) => {
                self.inodes.entry(seen.ino).or_insert(inode.ino);
                self.is_same_inode(inode, seen)
            }
            (Ok(Done::Unlinked(inode)), Ok(Done::Unlinked(seen))) => self.is_same_inode(inode, seen),
            (Ok(Done::Renamed(Some(inode))), Ok(Done::Renamed(Some(seen)))) => self.is_same_inode(inode, seen),
            (Ok(Done::Renamed(None)), Ok(Done::Renamed(None))) => true,
            // With several causes, one tree and several find another one first.
            (Err(_), Err(_)) => true,
            _ => false,
        }
    }

    fn is_same_inode(&self, inode: &Attributes, seen: &Attributes) -> bool {
        self.inodes.get(&seen.ino) == Some(&inode.ino) && (inode.kind, inode.nlink) == (seen.kind, seen.nlink)
    }

    fn translated(&self, left: &Shown) -> Option<Shown> {
        let translate = |(path, (ino, kind, nlink)): (&String, &(Ino, Kind, u32))| {
            self.inodes.get(ino).map(|ino| (path.clone(), (*ino, *kind, *nlink)))
        };
        left.iter().map(translate).collect()
    }

    fn walk(&self) -> Shown {
        let (mut shown, mut left) = (Shown::new(), vec![(String::new(), Ino::ROOT)]);
        while let Some((path, ino)) = left.pop() {
            let query = Query::Directory { ino, after: 0, most: 100 };
            let Ok(Found::Entries(entries)) = self.machine.query(&query) else { panic!("{path}") };
            for entry in entries {
                let path = format!("{path}/{}", String::from_utf8(entry.name).unwrap());
                let inode = entry.attributes.expect("all are in one tree");
                if entry.kind == Kind::Directory {
                    left.push((path.clone(), entry.ino));
                }
                shown.insert(path, (entry.ino, entry.kind, inode.nlink));
            }
        }
        shown
    }
}
