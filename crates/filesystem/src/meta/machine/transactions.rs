//! What a tree knows of transactions: parts of others' that it holds ready, and its own that are done (docs/rfd/0031).

use std::collections::BTreeMap;

use consensus::{MachineError, RowChange};
use serde::{Deserialize, Serialize};

use super::super::attributes::{Kind, Time};
use super::super::command::{Command, MetaSession, RenameHow};
use super::super::limits::MAX_LINKS;
use super::super::reply::{Done, MetaError, Reply};
use super::super::transaction::{Part, PartAnswer, Prepared, TransactionId, TransactionNumber};
use super::inode::Inode;
use super::keeping::{DECIDED, PASSED, PREPARED};
use super::names::check_name;
use super::rowmap::RowMap;
use super::tables::{Cookie, first_cookie};
use super::{At, Machine};
use crate::ids::{Ino, TreeIndex};

#[derive(Clone, Debug, Default)]
pub struct Transactions {
    /// By the tree that decides, and its number there.
    prepared: RowMap<PREPARED, (u64, TransactionNumber), Held>,
    /// By tree: all of its transactions with lower numbers are over.
    passed: RowMap<PASSED, u64, TransactionNumber>,
    /// Those of this tree that are done, with the trees that may not know it.
    decided: RowMap<DECIDED, TransactionNumber, Vec<TreeIndex>>,
    /// Transactions of this tree with lower numbers that are not noted never will be.
    least: TransactionNumber,
    locks: Locks,
}

/// What is held ready for a transaction.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Held {
    now: Time,
    parts: Vec<Prepared>,
    /// It has taken effect. That is known until all up to it are over: a copy of a part that comes late must not be held again.
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
        (Part::NewDirectory { .. } | Part::MoveLock { .. }, _) => Locked::Moves,
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

fn key_of(id: TransactionId) -> (u64, TransactionNumber) {
    (id.tree.0.into(), id.number())
}

fn id_of((tree, number): (u64, TransactionNumber)) -> TransactionId {
    TransactionId::of(TreeIndex(tree as u16), number)
}

impl Transactions {
    pub fn is_inode_locked(&self, ino: Ino) -> bool {
        !self.locks.inodes.is_empty() && self.locks.inodes.contains_key(&ino)
    }

    pub fn is_inode_locked_by(&self, ino: Ino, id: TransactionId) -> bool {
        self.locks.inodes.get(&ino) == Some(&id)
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
        self.prepared.iter().map(|(key, held)| (id_of(key), held.is_over))
    }

    /// A part of it comes late, and must not be held.
    fn is_over(&self, id: TransactionId) -> bool {
        let has_passed = self.passed.get(&id.tree.0.into()).is_some_and(|below| id.number() < *below);
        has_passed || self.prepared.get(&key_of(id)).is_some_and(|held| held.is_over)
    }

    /// All transactions of a tree below a number are over; those of them that parts were held ready for.
    fn pass(&mut self, tree: TreeIndex, below: TransactionNumber) -> Vec<TransactionId> {
        let tree = u64::from(tree.0);
        if self.passed.get(&tree).is_some_and(|known| *known >= below) {
            return Vec::new();
        }
        self.passed.insert(tree, below);
        self.prepared.range((tree, (0, 0))..(tree, below)).map(|(key, _)| id_of(key)).collect()
    }

    /// Those of `tree`, this one, that are done, with the trees that may not know it.
    pub fn decided(&self, tree: TreeIndex) -> impl Iterator<Item = (TransactionId, &[TreeIndex])> {
        self.decided.iter().map(move |(number, trees)| (TransactionId::of(tree, number), &trees[..]))
    }

    pub fn is_decided(&self, id: TransactionId) -> bool {
        self.decided.get(&id.number()).is_some()
    }

    /// Whether it can still be noted.
    pub fn may_decide(&self, id: TransactionId) -> bool {
        id.number() >= self.least
    }

    pub fn note(&mut self, id: TransactionId, trees: Vec<TreeIndex>) {
        self.decided.insert(id.number(), trees);
    }

    pub fn refuse(&mut self, id: TransactionId) {
        self.raise_least((id.reign, id.number + 1));
    }

    pub fn forget(&mut self, id: TransactionId) {
        self.decided.remove(&id.number());
    }

    /// The next reign: transactions of earlier ones are not noted any more.
    pub fn begin_reign(&mut self) -> u64 {
        self.least = (self.least.0 + 1, 0);
        self.least.0
    }

    pub fn least(&self) -> TransactionNumber {
        self.least
    }

    pub fn raise_least(&mut self, least: TransactionNumber) {
        self.least = self.least.max(least);
    }

    /// All with lower numbers are over: none is noted, nor will one be.
    pub fn over_below(&self) -> TransactionNumber {
        self.decided.iter().next().map_or(self.least, |(first, _)| first.min(self.least))
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
        let key = key_of(id);
        let Some(held) = self.prepared.get(&key).filter(|held| !held.is_over).cloned() else { return Held::default() };
        self.prepared.remove(&key);
        if is_done {
            self.prepared.insert(key, Held { is_over: true, ..Held::default() });
        }
        held.parts.iter().for_each(|prepared| self.locks.take(prepared));
        held
    }

    fn lose_trace(&mut self, id: TransactionId) {
        self.prepared.remove(&key_of(id));
    }

    #[cfg(test)]
    pub fn touch(&mut self) {
        self.prepared.touch();
        self.decided.touch();
        self.passed.touch();
    }

    pub fn take_changes(&mut self, rows: &mut Vec<RowChange>) {
        self.prepared.take_changes(rows);
        self.decided.take_changes(rows);
        self.passed.take_changes(rows);
    }

    pub fn load(&mut self, table: u8, key: &[u8], value: &[u8]) -> Result<(), MachineError> {
        match table {
            DECIDED => self.decided.load(key, value).map(drop),
            PASSED => self.passed.load(key, value).map(drop),
            _ => {
                let (key, held) = self.prepared.load(key, value)?;
                held.parts.iter().for_each(|prepared| self.locks.put(id_of(key), prepared));
                Ok(())
            }
        }
    }
}

impl Machine {
    /// What leaders ask about transactions.
    pub(super) fn apply_order(&mut self, at: At, command: &Command) -> Reply {
        match command {
            Command::Reign => Ok(Done::Reign(self.transactions.begin_reign())),
            Command::Prepare { id, part } => self.prepare(at, *id, part),
            Command::Decide { id, command, prepared } => self.decide(at, *id, command, prepared),
            Command::Remember { reply } => *reply,
            Command::Refuse { id } => {
                self.transactions.refuse(*id);
                Ok(Done::Done)
            }
            Command::Conclude { id, is_done } => {
                self.conclude(at, *id, *is_done);
                Ok(Done::Done)
            }
            Command::Forget { ids, below } => {
                ids.iter().for_each(|id| self.transactions.forget(*id));
                self.transactions.raise_least(*below);
                Ok(Done::Done)
            }
            Command::Passed { tree, below } => {
                self.passed(at, *tree, *below);
                Ok(Done::Done)
            }
            _ => Err(MetaError::Invalid),
        }
    }

    /// Holds a part ready. The same part again gets the same answer.
    pub(super) fn prepare(&mut self, at: At, id: TransactionId, part: &Part) -> Reply {
        if let Some(answer) = self.transactions.found(id, part) {
            return Ok(Done::Part(answer));
        }
        if self.transactions.is_over(id) {
            return Err(MetaError::Busy);
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
            Part::MoveLock { .. } if self.transactions.are_moves_locked() => return Err(MetaError::Busy),
            Part::MoveLock { .. } => PartAnswer::Ready,
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

    /// What is held for transactions of a tree that are over is dropped: had one been done, this tree would have been told before.
    pub(super) fn passed(&mut self, at: At, tree: TreeIndex, below: TransactionNumber) {
        for id in self.transactions.pass(tree, below) {
            self.conclude(at, id, false);
            self.transactions.lose_trace(id);
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
}
