//! What a tree of names does, one call after the other: a few directories that are always there, and what clients make in them.
//!
//! Inode numbers are never used again, so they say which file was found. A call that was not answered may have made an inode whose number is not known: it has the
//! call's number until a lookup or a listing finds it.

use super::history::Name;
use filesystem::meta::{MetaError, RenameHow};
use model::linearizability::Specification;
use std::collections::BTreeMap;

/// An inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Inode {
    Known(u64),
    /// By the call of this number.
    MadeBy(u64),
}

/// An inode, and whether it is a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Child {
    pub inode: Inode,
    pub is_directory: bool,
}

/// A name in a directory, by its number.
pub type Place = (u64, Name);

/// All names, and the directories that are always there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Names {
    pub roots: Vec<u64>,
    entries: BTreeMap<(Inode, Name), Child>,
}

#[derive(Clone, Debug)]
pub enum NameCall {
    Make { number: u64, at: Place, is_directory: bool },
    Link { ino: u64, at: Place },
    Unlink { at: Place },
    Rmdir { at: Place },
    Rename { from: Place, to: Place, how: RenameHow },
    Lookup { at: Place },
    List { directory: u64 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameOutcome {
    Done,
    /// An inode, and whether it is a directory.
    Found(u64, bool),
    Listed(Vec<(Name, u64, bool)>),
    Refused(MetaError),
}

/// The specification of one set of names.
#[derive(Clone, Copy, Debug)]
pub struct Tree;

impl Specification for Tree {
    type State = Names;
    type Call = NameCall;
    type Outcome = NameOutcome;

    fn step(state: &Names, call: &NameCall, outcome: Option<&NameOutcome>) -> Option<Names> {
        match (state.after(call, outcome), outcome) {
            (Ok(after), None) => Some(after),
            (Err(_), None) => Some(state.clone()),
            (Ok(after), Some(NameOutcome::Done)) => Some(after),
            (Ok(after), Some(NameOutcome::Found(ino, is_directory))) => after.with_found(state, call, *ino, *is_directory),
            (Ok(after), Some(NameOutcome::Listed(listed))) => after.with_listed(call, listed),
            (Ok(_), Some(NameOutcome::Refused(error))) => state.may_refuse(call, *error).then(|| state.clone()),
            (Err(refusal), Some(NameOutcome::Refused(error))) => {
                (refusal.is(*error) || state.may_refuse(call, *error)).then(|| state.clone())
            }
            // A directory that was removed, and that some client still has: it is empty.
            (Err(Refusal::Gone), Some(NameOutcome::Listed(listed))) => listed.is_empty().then(|| state.clone()),
            (Err(_), Some(_)) => None,
        }
    }
}

/// Why a call must be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    For(MetaError),
    /// A directory is not there any more.
    Gone,
}

impl Refusal {
    fn is(self, error: MetaError) -> bool {
        match self {
            Refusal::For(expected) => expected == error || is_another_cause(expected, error),
            Refusal::Gone => matches!(error, MetaError::NotFound | MetaError::Stale),
        }
    }
}

/// Where several causes refuse a call, trees find another one first than one tree would.
fn is_another_cause(expected: MetaError, error: MetaError) -> bool {
    use MetaError::{Below, Exists, NotAllowed, NotDirectory, NotEmpty, NotFound};
    match expected {
        Below => matches!(error, NotFound | Exists | NotDirectory | NotEmpty),
        NotAllowed => matches!(error, NotFound | Exists),
        _ => false,
    }
}

impl Names {
    pub fn new(roots: Vec<u64>) -> Names {
        Names { roots, entries: BTreeMap::new() }
    }

    fn check_directory(&self, directory: u64) -> Result<(), Refusal> {
        let is_it = |child: &Child| child.inode == Inode::Known(directory) && child.is_directory;
        let is_there = self.roots.contains(&directory) || self.entries.values().any(is_it);
        if is_there { Ok(()) } else { Err(Refusal::Gone) }
    }

    fn get(&self, at: Place) -> Option<Child> {
        self.entries.get(&key(at)).copied()
    }

    fn find(&self, at: Place) -> Result<Child, Refusal> {
        self.check_directory(at.0)?;
        self.get(at).ok_or(Refusal::For(MetaError::NotFound))
    }

    fn check_free(&self, at: Place) -> Result<(), Refusal> {
        self.check_directory(at.0)?;
        if self.get(at).is_some() { Err(Refusal::For(MetaError::Exists)) } else { Ok(()) }
    }

    fn check_empty(&self, directory: Inode) -> Result<(), Refusal> {
        match self.entries.keys().any(|(parent, _)| *parent == directory) {
            true => Err(Refusal::For(MetaError::NotEmpty)),
            false => Ok(()),
        }
    }

    /// The names after a call that succeeds.
    fn after(&self, call: &NameCall, outcome: Option<&NameOutcome>) -> Result<Names, Refusal> {
        let mut after = self.clone();
        match *call {
            NameCall::Make { number, at, is_directory } => {
                self.check_free(at)?;
                let inode = match outcome {
                    Some(NameOutcome::Found(ino, _)) => Inode::Known(*ino),
                    _ => Inode::MadeBy(number),
                };
                after.entries.insert(key(at), Child { inode, is_directory });
            }
            NameCall::Link { ino, at } => {
                self.check_free(at)?;
                after.entries.insert(key(at), Child { inode: Inode::Known(ino), is_directory: false });
            }
            NameCall::Unlink { at } => match self.find(at)?.is_directory {
                true => return Err(Refusal::For(MetaError::IsDirectory)),
                false => drop(after.entries.remove(&key(at))),
            },
            NameCall::Rmdir { at } => {
                let child = self.find(at)?;
                if !child.is_directory {
                    return Err(Refusal::For(MetaError::NotDirectory));
                }
                self.check_empty(child.inode)?;
                after.entries.remove(&key(at));
            }
            NameCall::Rename { from, to, how } => after.rename(from, to, how)?,
            NameCall::Lookup { at } => drop(self.find(at)?),
            NameCall::List { directory } => self.check_directory(directory)?,
        }
        Ok(after)
    }

    fn rename(&mut self, from: Place, to: Place, how: RenameHow) -> Result<(), Refusal> {
        let source = self.find(from)?;
        self.check_directory(to.0)?;
        if source.is_directory {
            self.check_not_below(source.inode, to.0)?;
        }
        match (how, self.get(to)) {
            (RenameHow::NoReplace, Some(_)) => return Err(Refusal::For(MetaError::Exists)),
            (RenameHow::Exchange, None) => return Err(Refusal::For(MetaError::NotFound)),
            (RenameHow::Exchange, Some(target)) => {
                if target.is_directory {
                    self.check_not_below(target.inode, from.0)?;
                }
                self.entries.insert(key(from), target);
            }
            // Two names of one inode.
            (RenameHow::Replace, Some(target)) if target.inode == source.inode => return Ok(()),
            (RenameHow::Replace, Some(target)) => {
                match (source.is_directory, target.is_directory) {
                    (true, false) => return Err(Refusal::For(MetaError::NotDirectory)),
                    (false, true) => return Err(Refusal::For(MetaError::IsDirectory)),
                    (true, true) => self.check_empty(target.inode)?,
                    (false, false) => {}
                }
                self.entries.remove(&key(from));
            }
            (_, None) => drop(self.entries.remove(&key(from))),
        }
        self.entries.insert(key(to), source);
        Ok(())
    }

    /// A directory is not moved into itself or below.
    fn check_not_below(&self, directory: Inode, to: u64) -> Result<(), Refusal> {
        let mut at = Inode::Known(to);
        loop {
            if at == directory {
                return Err(Refusal::For(MetaError::Below));
            }
            match self.entries.iter().find(|(_, child)| child.inode == at) {
                Some(((parent, _), _)) => at = *parent,
                None => return Ok(()),
            }
        }
    }

    /// What was made or found has this number.
    fn with_found(self, before: &Names, call: &NameCall, ino: u64, is_directory: bool) -> Option<Names> {
        match *call {
            NameCall::Make { is_directory: made, .. } => {
                let is_new =
                    !before.entries.values().any(|child| child.inode == Inode::Known(ino)) && !self.roots.contains(&ino);
                (is_new && made == is_directory).then_some(self)
            }
            NameCall::Link { ino: linked, .. } => (linked == ino && !is_directory).then_some(self),
            NameCall::Lookup { at } => self.with_known(key(at), ino, is_directory),
            _ => None,
        }
    }

    fn with_listed(self, call: &NameCall, listed: &[(Name, u64, bool)]) -> Option<Names> {
        let NameCall::List { directory } = *call else { return None };
        let directory = Inode::Known(directory);
        let names = self.entries.keys().filter(|(parent, _)| *parent == directory).map(|(_, name)| name);
        if !names.eq(listed.iter().map(|(name, ..)| name)) {
            return None;
        }
        let with = |names: Names, (name, ino, is_directory): &(Name, u64, bool)| {
            names.with_known((directory, *name), *ino, *is_directory)
        };
        listed.iter().try_fold(self, with)
    }

    /// The entry is this inode; none if it can't be.
    fn with_known(mut self, at: (Inode, Name), ino: u64, is_directory: bool) -> Option<Names> {
        let child = *self.entries.get(&at)?;
        let known = Inode::Known(ino);
        if child.is_directory != is_directory {
            return None;
        }
        if child.inode == known {
            return Some(self);
        }
        let is_other = matches!(child.inode, Inode::Known(_)) || self.entries.values().any(|other| other.inode == known);
        if is_other {
            return None;
        }
        let replaced = |inode: Inode| if inode == child.inode { known } else { inode };
        let entries = std::mem::take(&mut self.entries).into_iter();
        self.entries = entries
            .map(|((parent, name), child)| ((replaced(parent), name), Child { inode: replaced(child.inode), ..child }))
            .collect();
        Some(self)
    }

    /// Whether a call may be refused whatever the names are: a file without a name is there as long as some client has it.
    fn may_refuse(&self, call: &NameCall, error: MetaError) -> bool {
        let NameCall::Link { ino, .. } = *call else { return false };
        error == MetaError::Stale && !self.entries.values().any(|child| child.inode == Inode::Known(ino))
    }
}

fn key(at: Place) -> (Inode, Name) {
    (Inode::Known(at.0), at.1)
}
