//! Commands that concern other trees, too: which parts those take, and what this tree does when they are ready (docs/rfd/0031).

use super::super::attributes::{Attributes, Kind, SET_GID};
use super::super::command::{Command, NewInode, RenameHow};
use super::super::reply::{Done, MetaError, Reply};
use super::super::transaction::{Move, Part, PartAnswer, Prepared, TransactionId};
use super::names::Place;
use super::xattrs::check_new_xattrs;
use super::{At, Machine};
use crate::ids::{Ino, TreeIndex};

/// What a rename finds.
struct Renaming {
    source: Place,
    target: Option<(Ino, Kind)>,
    parts: Vec<Part>,
}

fn answer_to(prepared: &[Prepared], part: &Part) -> Option<PartAnswer> {
    prepared.iter().find(|prepared| prepared.part == *part).map(|prepared| prepared.answer)
}

fn inode_of(answer: Option<PartAnswer>) -> Result<Attributes, MetaError> {
    match answer {
        Some(PartAnswer::Inode(attributes)) => Ok(attributes),
        _ => Err(MetaError::Busy),
    }
}

impl Machine {
    /// The number of this tree in its volume.
    pub fn tree(&self) -> TreeIndex {
        self.tables.tree()
    }

    /// The parts of other trees that a command takes, as this tree is now. Some depend on the answers to others: it is asked again with each answer.
    /// `new_directory`: the tree that is to have an inode that is made.
    pub fn parts(&self, command: &Command, new_directory: TreeIndex, prepared: &[Prepared]) -> Result<Vec<Part>, MetaError> {
        match command {
            Command::Make { parent, name, new } if new.kind == Kind::Directory && new_directory != self.tree() => {
                self.check_free(*parent, name)?;
                let new = self.inherited(*parent, new)?;
                Ok(vec![Part::NewDirectory { tree: new_directory, parent: *parent, new }])
            }
            Command::Link { ino, parent, name } => {
                self.check_free(*parent, name)?;
                Ok(self.elsewhere(*ino, Part::GainName { ino: *ino }))
            }
            Command::Unlink { parent, name } => {
                let place = self.find(*parent, name)?;
                if place.kind == Kind::Directory {
                    return Err(MetaError::IsDirectory);
                }
                Ok(self.elsewhere(place.ino, Part::LoseName { ino: place.ino }))
            }
            Command::Rmdir { parent, name } => {
                let place = self.find(*parent, name)?;
                if place.kind != Kind::Directory {
                    return Err(MetaError::NotDirectory);
                }
                Ok(self.elsewhere(place.ino, Part::LoseName { ino: place.ino }))
            }
            Command::Rename { from, to, how } => {
                let parts = self.renaming((from.0, &from.1), (to.0, &to.1), *how, prepared)?.parts;
                Ok(if prepared.is_empty() && self.moves_here(&parts) { Vec::new() } else { parts })
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Whether directories move in this tree alone, which has the lock for it: one command does it, and looks for what holds the lock.
    fn moves_here(&self, parts: &[Part]) -> bool {
        let [Part::MoveLock { moves }] = parts else { return false };
        let is_below_root =
            |by: &Move| self.directories_above(by.to, |_| false).is_ok_and(|chain| chain.last() == Some(&Ino::ROOT));
        self.tree() == Ino::ROOT.tree() && moves.iter().all(is_below_root)
    }

    fn elsewhere(&self, ino: Ino, part: Part) -> Vec<Part> {
        if ino.tree() == self.tree() { Vec::new() } else { vec![part] }
    }

    /// A new inode with what it takes over from its parent.
    fn inherited(&self, parent: Ino, new: &NewInode) -> Result<NewInode, MetaError> {
        check_new_xattrs(&new.xattrs)?;
        if !new.target.is_empty() {
            return Err(MetaError::Invalid);
        }
        let mut new = new.clone();
        let parent = self.directory(parent)?;
        if parent.mode & SET_GID != 0 {
            new.gid = parent.gid;
            new.mode |= SET_GID;
        }
        Ok(new)
    }

    fn renaming(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        how: RenameHow,
        prepared: &[Prepared],
    ) -> Result<Renaming, MetaError> {
        let source = self.find(from.0, from.1)?;
        let mut parts = Vec::new();
        let target = match to.0.tree() == self.tree() {
            true => match self.prepare_name(to.0, to.1, source.ino, how)? {
                PartAnswer::Target(target) => target,
                _ => None,
            },
            false => {
                let (parent, name) = (to.0, to.1.to_vec());
                parts.push(Part::PutName { parent, name, ino: source.ino, kind: source.kind, how });
                match answer_to(prepared, &parts[0]) {
                    Some(PartAnswer::Target(target)) => target,
                    // The rest depends on what is there.
                    _ => return Ok(Renaming { source, target: None, parts }),
                }
            }
        };
        parts.extend(self.elsewhere(source.ino, Part::Moved { ino: source.ino, parent: to.0 }));
        let is_exchange = how == RenameHow::Exchange;
        if let Some((ino, kind)) = target {
            match (is_exchange, source.kind == Kind::Directory, kind == Kind::Directory) {
                (true, ..) => parts.extend(self.elsewhere(ino, Part::Moved { ino, parent: from.0 })),
                (false, true, false) => return Err(MetaError::NotDirectory),
                (false, false, true) => return Err(MetaError::IsDirectory),
                (false, ..) => parts.extend(self.elsewhere(ino, Part::LoseName { ino })),
            }
        }
        let moved = [(Some((source.ino, source.kind)), to.0), (target.filter(|_| is_exchange), from.0)];
        let moved = moved.into_iter().filter_map(|(found, to)| found.map(|(ino, kind)| (ino, kind, to)));
        let directories = moved.filter(|(_, kind, _)| *kind == Kind::Directory && from.0 != to.0);
        let moves: Vec<Move> = directories.map(|(directory, _, to)| Move { directory, to }).collect();
        if !moves.is_empty() {
            parts.push(Part::MoveLock { moves });
        }
        Ok(Renaming { source, target, parts })
    }

    /// Carries a command out whose parts in other trees are ready, and notes the transaction. Refused as busy where these are not the parts that it takes now.
    pub(super) fn decide(&mut self, at: At, id: TransactionId, command: &Command, prepared: &[Prepared]) -> Reply {
        let new_directory = prepared.iter().find_map(|prepared| match &prepared.part {
            Part::NewDirectory { tree, .. } => Some(*tree),
            _ => None,
        });
        let parts = match self.parts(command, new_directory.unwrap_or_else(|| self.tree()), prepared) {
            // Two names of one inode: nothing is done.
            Err(MetaError::SameInode) => return Ok(Done::Renamed(None)),
            parts => parts?,
        };
        let are_ready = parts.len() == prepared.len() && parts.iter().all(|part| answer_to(prepared, part).is_some());
        if !are_ready || !self.transactions.may_decide(id) {
            return Err(MetaError::Busy);
        }
        let done = match command {
            Command::Make { parent, name, .. } => {
                let made = inode_of(answer_to(prepared, &parts[0]))?;
                self.tables.put(*parent, name, (made.ino, made.kind));
                self.touch_parent(at, *parent, 1);
                Done::Inode(self.named(made))
            }
            Command::Link { parent, name, .. } => {
                let linked = inode_of(answer_to(prepared, &parts[0]))?;
                self.tables.put(*parent, name, (linked.ino, linked.kind));
                self.touch_parent(at, *parent, 0);
                Done::Inode(self.named(linked))
            }
            Command::Unlink { parent, name } | Command::Rmdir { parent, name } => {
                let (lost, place) = (inode_of(answer_to(prepared, &parts[0]))?, self.find(*parent, name)?);
                self.tables.take(*parent, place.cookie);
                self.touch_parent(at, *parent, -i64::from(place.kind == Kind::Directory));
                Done::Unlinked(lost)
            }
            Command::Rename { from, to, how } => self.decide_rename(at, (from.0, &from.1), (to.0, &to.1), *how, prepared)?,
            _ => return Err(MetaError::Invalid),
        };
        let mut trees: Vec<TreeIndex> = parts.iter().map(Part::tree).collect();
        trees.sort_unstable();
        trees.dedup();
        self.transactions.note(id, trees);
        Ok(done)
    }

    /// The inode of another tree that got a name in this one.
    fn named(&self, inode: Attributes) -> Attributes {
        Attributes { is_shared: inode.is_shared || self.sessions.are_several(), ..inode }
    }

    fn decide_rename(
        &mut self,
        at: At,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        how: RenameHow,
        prepared: &[Prepared],
    ) -> Result<Done, MetaError> {
        let Renaming { source, target, .. } = self.renaming(from, to, how, prepared)?;
        let is_here = |ino: Ino| ino.tree() == self.tree();
        // What may refuse comes before what changes.
        if is_here(source.ino) {
            self.inode(source.ino)?;
        }
        if let Some((ino, kind)) = target.filter(|(ino, _)| is_here(*ino)) {
            self.inode(ino)?;
            if how != RenameHow::Exchange && kind == Kind::Directory {
                self.check_empty(ino)?;
            }
        }
        let (moves_source, has_target_name) = (is_here(source.ino), is_here(to.0));
        let target_here = target.map(|(ino, _)| ino).filter(|ino| is_here(*ino));
        let count = |kind: Kind| i64::from(kind == Kind::Directory);
        match (how, target) {
            (RenameHow::Exchange, Some(other)) => {
                self.tables.point(source.parent, source.cookie, other);
                self.touch_parent(at, from.0, count(other.1) - count(source.kind));
            }
            _ => {
                self.tables.take(source.parent, source.cookie);
                self.touch_parent(at, from.0, -count(source.kind));
            }
        }
        if has_target_name {
            self.put_name(at, to, (source.ino, source.kind), target, how);
        }
        if moves_source {
            self.set_parent(at, source.ino, to.0);
        }
        let lost = match (how, target_here) {
            (RenameHow::Exchange, Some(ino)) => {
                self.set_parent(at, ino, from.0);
                None
            }
            (_, Some(ino)) => match self.lose_name(at, ino)? {
                Done::Unlinked(lost) => Some(lost),
                _ => None,
            },
            (RenameHow::Exchange, None) => None,
            (_, None) => match target {
                Some((ino, _)) => Some(inode_of(answer_to(prepared, &Part::LoseName { ino }))?),
                None => None,
            },
        };
        Ok(Done::Renamed(lost))
    }
}
