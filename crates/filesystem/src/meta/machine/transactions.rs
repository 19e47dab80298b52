//! What a tree knows of transactions: parts of others' that it holds ready, and its own that are done (docs/rfd/0031).

use std::collections::BTreeMap;

use consensus::{MachineError, RowChange};
use serde::{Deserialize, Serialize};

use super::super::attributes::{Kind, Time};
use super::super::command::{MetaSession, RenameHow};
use super::super::limits::MAX_LINKS;
use super::super::reply::{Done, MetaError, Reply};
use super::super::transaction::{Part, PartAnswer, Prepared, TransactionId};
use super::inode::Inode;
use super::keeping::{DECIDED, PREPARED};
use super::names::check_name;
use super::rowmap::RowMap;
use super::tables::{Cookie, first_cookie};
use super::{At, Machine};
use crate::ids::{Ino, TreeIndex};

/// Term and number.
type Number = (u64, u64);

#[derive(Clone, Debug, Default)]
pub struct Transactions {
    /// By the tree that decides, and its number there.
    prepared: RowMap<PREPARED, (u64, Number), Held>,
    /// Those of this tree that are done, with the trees that may not know it.
    decided: RowMap<DECIDED, Number, Vec<TreeIndex>>,
    /// Transactions of this tree with lower numbers that are not noted never will be.
    least: Number,
    locks: Locks,
}

/// What is held ready for a transaction.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Held {
    now: Time,
    parts: Vec<Prepared>,
    /// It has taken effect. That is known until the transaction's tree has forgotten it: a copy of a part that comes late must not be held again.
    is_over: bool,
}

/// What the parts that are held ready are about.
#[derive(Clone, Debug, Default)]
struct Locks {
    inodes: BTreeMap<Ino, TransactionId>,
    /// By directory and the first cookie of the name's hash.
    names: BTreeMap<(Ino, Cookie), TransactionId>,
    moves: Option<TransactionId>,
}

/// An inode, or a name, that a part is about.
enum Locked {
    Inode(Ino),
    Name(Ino, Cookie),
    Moves,
}

fn locked(prepared: &Prepared) -> Locked {
    match (&prepared.part, prepared.answer) {
        (Part::GainName { ino } | Part::LoseName { ino } | Part::Moved { ino, .. }, _) => Locked::Inode(*ino),
        (Part::PutName { parent, name, .. }, _) => Locked::Name(*parent, first_cookie(name)),
        (Part::NewDirectory { .. }, PartAnswer::Inode(made)) => Locked::Inode(made.ino),
        (Part::NewDirectory { .. } | Part::MoveLock, _) => Locked::Moves,
    }
}

impl Locks {
    fn put(&mut self, id: TransactionId, prepared: &Prepared) {
        match locked(prepared) {
            Locked::Inode(ino) => drop(self.inodes.insert(ino, id)),
            Locked::Name(parent, cookie) => drop(self.names.insert((parent, cookie), id)),
            Locked::Moves => self.moves = Some(id),
        }
    }

    fn take(&mut self, prepared: &Prepared) {
        match locked(prepared) {
            Locked::Inode(ino) => drop(self.inodes.remove(&ino)),
            Locked::Name(parent, cookie) => drop(self.names.remove(&(parent, cookie))),
            Locked::Moves => self.moves = None,
        }
    }
}

fn key_of(id: TransactionId) -> (u64, Number) {
    (id.tree.0.into(), number_of(id))
}

fn number_of(id: TransactionId) -> Number {
    (id.term, id.number)
}

impl Transactions {
    pub fn is_inode_locked(&self, ino: Ino) -> bool {
        !self.locks.inodes.is_empty() && self.locks.inodes.contains_key(&ino)
    }

    pub fn is_name_locked(&self, parent: Ino, name: &[u8]) -> bool {
        !self.locks.names.is_empty() && self.locks.names.contains_key(&(parent, first_cookie(name)))
    }

    /// Whether a name of a directory is locked, of those from one cookie up to another.
    pub fn are_names_locked(&self, parent: Ino, from: Cookie, to: Cookie) -> bool {
        // A lock stands at the first of its cookies: one below `from` may be about the names behind it.
        self.locks.names.range((parent, 0)..=(parent, to)).any(|((_, first), _)| first + super::tables::SAME_HASH > from)
    }

    pub fn are_moves_locked(&self) -> bool {
        self.locks.moves.is_some()
    }

    /// Transactions that this tree holds parts ready for, or has done so; whether those have taken effect.
    pub fn prepared(&self) -> impl Iterator<Item = (TransactionId, bool)> {
        let id = |(tree, (term, number)): (u64, Number)| TransactionId { tree: TreeIndex(tree as u16), term, number };
        self.prepared.iter().map(move |(key, held)| (id(key), held.is_over))
    }

    fn is_over(&self, id: TransactionId) -> bool {
        self.prepared.get(&key_of(id)).is_some_and(|held| held.is_over)
    }

    /// Those of `tree`, this one, that are done, with the trees that may not know it.
    pub fn decided(&self, tree: TreeIndex) -> impl Iterator<Item = (TransactionId, &[TreeIndex])> {
        let id = move |(term, number)| TransactionId { tree, term, number };
        self.decided.iter().map(move |(number, trees)| (id(number), &trees[..]))
    }

    pub fn is_decided(&self, id: TransactionId) -> bool {
        self.decided.get(&number_of(id)).is_some()
    }

    /// Whether it can still be noted.
    pub fn may_decide(&self, id: TransactionId) -> bool {
        number_of(id) >= self.least
    }

    pub fn note(&mut self, id: TransactionId, trees: Vec<TreeIndex>) {
        self.decided.insert(number_of(id), trees);
    }

    pub fn refuse(&mut self, id: TransactionId) {
        self.least = self.least.max((id.term, id.number + 1));
    }

    pub fn forget(&mut self, id: TransactionId) {
        self.decided.remove(&number_of(id));
    }

    pub fn least(&self) -> (u64, u64) {
        self.least
    }

    pub fn set_least(&mut self, least: (u64, u64)) {
        self.least = least;
    }

    fn found(&self, id: TransactionId, part: &Part) -> Option<PartAnswer> {
        let held = self.prepared.get(&key_of(id))?;
        held.parts.iter().find(|prepared| prepared.part == *part).map(|prepared| prepared.answer)
    }

    fn hold(&mut self, id: TransactionId, now: Time, prepared: Prepared) {
        self.locks.put(id, &prepared);
        match self.prepared.get_mut(&key_of(id)) {
            Some(held) => held.parts.push(prepared),
            None => drop(self.prepared.insert(key_of(id), Held { now, parts: vec![prepared], is_over: false })),
        }
    }

    fn release(&mut self, id: TransactionId, is_done: bool) -> Held {
        let Some(held) = self.prepared.remove(&key_of(id)) else { return Held::default() };
        if is_done {
            self.prepared.insert(key_of(id), Held { is_over: true, ..Held::default() });
        }
        held.parts.iter().for_each(|prepared| self.locks.take(prepared));
        held
    }

    #[cfg(test)]
    pub fn touch(&mut self) {
        self.prepared.touch();
        self.decided.touch();
    }

    pub fn take_changes(&mut self, rows: &mut Vec<RowChange>) {
        self.prepared.take_changes(rows);
        self.decided.take_changes(rows);
    }

    pub fn load(&mut self, table: u8, key: &[u8], value: &[u8]) -> Result<(), MachineError> {
        if table == DECIDED {
            return self.decided.load(key, value).map(drop);
        }
        let ((tree, (term, number)), held) = self.prepared.load(key, value)?;
        let id = TransactionId { tree: TreeIndex(tree as u16), term, number };
        held.parts.iter().for_each(|prepared| self.locks.put(id, prepared));
        Ok(())
    }
}

impl Machine {
    /// Holds a part ready. The same part again gets the same answer.
    pub(super) fn prepare(&mut self, at: At, id: TransactionId, part: &Part) -> Reply {
        if let Some(answer) = self.transactions.found(id, part) {
            return Ok(Done::Part(answer));
        }
        if self.transactions.is_over(id) {
            return Err(MetaError::Stale);
        }
        let answer = match part {
            Part::NewDirectory { parent, new, .. } => self.prepare_directory(at, *parent, new)?,
            Part::GainName { ino } => self.prepare_gain(at, *ino)?,
            Part::LoseName { ino } => {
                let mut inode = self.inode(*ino)?.clone();
                if inode.kind == Kind::Directory {
                    self.check_empty(*ino)?;
                }
                inode.lose_name(at.now);
                PartAnswer::Inode(inode.attributes(*ino, self.sessions.are_several()))
            }
            Part::Moved { ino, .. } => {
                self.inode(*ino)?;
                PartAnswer::Ready
            }
            Part::PutName { parent, name, ino, how, .. } => self.prepare_name(*parent, name, *ino, *how)?,
            Part::MoveLock if self.transactions.are_moves_locked() => return Err(MetaError::Busy),
            Part::MoveLock => PartAnswer::Ready,
        };
        self.transactions.hold(id, at.now, Prepared { part: part.clone(), answer });
        Ok(Done::Part(answer))
    }

    fn prepare_directory(&mut self, at: At, parent: Ino, new: &super::NewInode) -> Result<PartAnswer, MetaError> {
        self.check_inode_quota()?;
        let mut inode = Inode::new(new, at.now);
        (inode.nlink, inode.parent) = (2, parent);
        let ino = self.tables.add(inode);
        self.attributes(ino).map(PartAnswer::Inode)
    }

    fn prepare_gain(&mut self, at: At, ino: Ino) -> Result<PartAnswer, MetaError> {
        let mut inode = self.inode(ino)?.clone();
        if inode.kind == Kind::Directory {
            return Err(MetaError::NotAllowed);
        }
        if inode.nlink >= MAX_LINKS {
            return Err(MetaError::TooManyLinks);
        }
        if inode.nlink == 0 {
            // It is not freed meanwhile.
            self.sessions.also_open(ino, MetaSession::LEADER);
        }
        inode.nlink += 1;
        inode.changed(at.now);
        Ok(PartAnswer::Inode(inode.attributes(ino, self.sessions.are_several())))
    }

    pub(super) fn prepare_name(&self, parent: Ino, name: &[u8], ino: Ino, how: RenameHow) -> Result<PartAnswer, MetaError> {
        self.directory_with_name(parent)?;
        check_name(name)?;
        let target = match self.find(parent, name) {
            Ok(place) => Some((place.ino, place.kind)),
            Err(MetaError::NotFound) => None,
            Err(error) => return Err(error),
        };
        match (how, target) {
            (RenameHow::NoReplace, Some(_)) => Err(MetaError::Exists),
            (RenameHow::Exchange, None) => Err(MetaError::NotFound),
            (_, Some((found, _))) if found == ino => Err(MetaError::SameInode),
            (_, target) => Ok(PartAnswer::Target(target)),
        }
    }

    /// Has what is held ready for a transaction take effect, or drops it. Nothing is held where that was done before.
    pub(super) fn conclude(&mut self, at: At, id: TransactionId, is_done: bool) {
        let held = self.transactions.release(id, is_done);
        let at = At { now: held.now, ..at };
        for Prepared { part, answer } in held.parts {
            match (is_done, part, answer) {
                (true, Part::GainName { ino }, _) => self.gain_name(at, ino),
                (true, Part::LoseName { ino }, _) => drop(self.lose_name(at, ino)),
                (true, Part::Moved { ino, parent }, _) => self.set_parent(at, ino, parent),
                (true, Part::PutName { parent, name, ino, kind, how }, PartAnswer::Target(target)) => {
                    self.put_name(at, (parent, &name), (ino, kind), target, how);
                }
                (false, Part::NewDirectory { .. }, PartAnswer::Inode(made)) => drop(self.tables.remove(made.ino)),
                (false, Part::GainName { ino }, _) => self.not_open(ino, MetaSession::LEADER),
                _ => {}
            }
        }
    }

    fn gain_name(&mut self, at: At, ino: Ino) {
        let Some(inode) = self.tables.inode_mut(ino) else { return };
        inode.nlink += 1;
        inode.changed(at.now);
        if inode.nlink == 1 {
            self.sessions.named(ino);
        }
    }

    pub(super) fn set_parent(&mut self, at: At, ino: Ino, parent: Ino) {
        let Some(inode) = self.tables.inode_mut(ino) else { return };
        inode.changed(at.now);
        if inode.kind == Kind::Directory {
            inode.parent = parent;
        }
    }

    /// A name means another inode from now on; what it meant before, if it was there.
    pub(super) fn put_name(
        &mut self,
        at: At,
        (parent, name): (Ino, &[u8]),
        by: (Ino, Kind),
        target: Option<(Ino, Kind)>,
        how: RenameHow,
    ) {
        match (self.tables.find(parent, name), target) {
            (Some((cookie, ..)), _) => self.tables.point(parent, cookie, by),
            (None, _) => self.tables.put(parent, name, by),
        }
        let count = |kind: Kind| i64::from(kind == Kind::Directory);
        let lost = target.map_or(0, |(_, kind)| count(kind));
        // An exchange takes the directory away with its name, a replacement with its last one: either way the parent has one less.
        debug_assert!(how != RenameHow::Exchange || target.is_some());
        self.touch_parent(at, parent, count(by.1) - lost);
    }

    /// The outcome of a transaction of this tree: noted, or refused for ever.
    pub(super) fn refuse(&mut self, id: TransactionId) -> Reply {
        if !self.transactions.is_decided(id) {
            self.transactions.refuse(id);
        }
        Ok(Done::Done)
    }
}
