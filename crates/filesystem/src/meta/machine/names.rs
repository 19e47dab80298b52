//! Names: making, linking, removing and moving them. Each is one step, whichever directories it is about.

use super::super::attributes::{Kind, SET_GID};
use super::super::command::{NewInode, RenameHow};
use super::super::limits::{MAX_LINKS, MAX_NAME_BYTES, MAX_TARGET_BYTES};
use super::super::reply::{Done, MetaError, Reply};
use super::inode::Inode;
use super::tables::Cookie;
use super::xattrs::check_new_xattrs;
use super::{At, Machine};
use crate::ids::Ino;

/// A name that exists.
#[derive(Clone, Copy)]
pub struct Place {
    pub parent: Ino,
    pub cookie: Cookie,
    pub ino: Ino,
    pub kind: Kind,
}

pub fn check_name(name: &[u8]) -> Result<(), MetaError> {
    let is_name = (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.contains(&b'/') && !name.contains(&0);
    if is_name && name != b"." && name != b".." { Ok(()) } else { Err(MetaError::NameLength) }
}

impl Machine {
    pub(super) fn make(&mut self, at: At, parent: Ino, name: &[u8], new: &NewInode) -> Reply {
        self.check_free(parent, name)?;
        let mut inode = self.new_inode(at, parent, new)?;
        (inode.nlink, inode.parent) = match inode.kind {
            Kind::Directory => (2, parent),
            _ => (1, Ino::default()),
        };
        let kind = inode.kind;
        let ino = self.tables.add(inode);
        self.tables.put(parent, name, (ino, kind));
        self.touch_parent(at, parent, i64::from(kind == Kind::Directory));
        self.answer(ino)
    }

    pub(super) fn make_unnamed(&mut self, at: At, parent: Ino, new: &NewInode) -> Reply {
        self.directory_with_name(parent)?;
        if new.kind != Kind::File {
            return Err(MetaError::Invalid);
        }
        let inode = self.new_inode(at, parent, new)?;
        let ino = self.tables.add(inode);
        self.sessions.orphaned_with(ino, at.session);
        self.answer(ino)
    }

    fn new_inode(&self, at: At, parent: Ino, new: &NewInode) -> Result<Inode, MetaError> {
        self.check_inode_quota()?;
        check_new_xattrs(&new.xattrs)?;
        let has_target = !new.target.is_empty();
        if has_target != (new.kind == Kind::Symlink) || new.target.len() > MAX_TARGET_BYTES {
            return Err(MetaError::Invalid);
        }
        let mut inode = Inode::new(new, at.now);
        let parent = self.directory(parent)?;
        if parent.mode & SET_GID != 0 {
            inode.gid = parent.gid;
            inode.mode |= if inode.kind == Kind::Directory { SET_GID } else { 0 };
        }
        Ok(inode)
    }

    pub(super) fn link(&mut self, at: At, ino: Ino, parent: Ino, name: &[u8]) -> Reply {
        let inode = self.inode(ino)?;
        if inode.kind == Kind::Directory {
            return Err(MetaError::NotAllowed);
        }
        if inode.nlink >= MAX_LINKS {
            return Err(MetaError::TooManyLinks);
        }
        let kind = inode.kind;
        self.check_free(parent, name)?;
        self.tables.put(parent, name, (ino, kind));
        self.touch_parent(at, parent, 0);
        let inode = self.inode_mut(ino)?;
        inode.nlink += 1;
        inode.changed(at.now);
        if inode.nlink == 1 {
            self.sessions.named(ino);
        }
        self.answer(ino)
    }

    pub(super) fn unlink(&mut self, at: At, parent: Ino, name: &[u8]) -> Reply {
        let place = self.find(parent, name)?;
        if self.inode(place.ino)?.kind == Kind::Directory {
            return Err(MetaError::IsDirectory);
        }
        self.tables.take(parent, place.cookie);
        self.touch_parent(at, parent, 0);
        self.lose_name(at, place.ino)
    }

    pub(super) fn rmdir(&mut self, at: At, parent: Ino, name: &[u8]) -> Reply {
        let place = self.find(parent, name)?;
        self.check_empty(place.ino)?;
        self.tables.take(parent, place.cookie);
        self.touch_parent(at, parent, -1);
        self.lose_name(at, place.ino)
    }

    pub(super) fn rename(&mut self, at: At, from: (Ino, &[u8]), to: (Ino, &[u8]), how: RenameHow) -> Reply {
        let source = self.find(from.0, from.1)?;
        self.directory_with_name(to.0)?;
        check_name(to.1)?;
        let target = match self.find(to.0, to.1) {
            Err(MetaError::NotFound) => None,
            target => Some(target?),
        };
        let moves_directory = self.inode(source.ino)?.kind == Kind::Directory;
        if moves_directory && from.0 != to.0 {
            self.check_not_below(source.ino, to.0)?;
        }
        match (how, target) {
            (RenameHow::NoReplace, Some(_)) => Err(MetaError::Exists),
            (RenameHow::Exchange, None) => Err(MetaError::NotFound),
            (RenameHow::Exchange, Some(target)) => self.exchange(at, source, target),
            // Two names of one inode: nothing is done.
            (_, Some(target)) if target.ino == source.ino => Ok(Done::Renamed(None)),
            (_, Some(target)) => {
                let replaced = self.check_replaceable(moves_directory, target.ino)?;
                self.tables.take(source.parent, source.cookie);
                self.tables.point(target.parent, target.cookie, (source.ino, source.kind));
                let lost = if replaced { -1 } else { 0 };
                self.moved(at, source, target.parent, lost)?;
                match self.lose_name(at, target.ino)? {
                    Done::Unlinked(attributes) => Ok(Done::Renamed(Some(attributes))),
                    other => Ok(other),
                }
            }
            (_, None) => {
                self.tables.take(source.parent, source.cookie);
                self.tables.put(to.0, to.1, (source.ino, source.kind));
                self.moved(at, source, to.0, 0)?;
                Ok(Done::Renamed(None))
            }
        }
    }

    fn exchange(&mut self, at: At, one: Place, other: Place) -> Reply {
        if self.inode(other.ino)?.kind == Kind::Directory && one.parent != other.parent {
            self.check_not_below(other.ino, one.parent)?;
        }
        self.tables.point(one.parent, one.cookie, (other.ino, other.kind));
        self.tables.point(other.parent, other.cookie, (one.ino, one.kind));
        self.moved(at, one, other.parent, 0)?;
        self.moved(at, other, one.parent, 0)?;
        Ok(Done::Renamed(None))
    }

    /// An inode's name has come from one directory to another. `lost`: what the other one has lost of its subdirectories by that.
    fn moved(&mut self, at: At, source: Place, to: Ino, lost: i64) -> Result<(), MetaError> {
        let inode = self.inode_mut(source.ino)?;
        inode.changed(at.now);
        let is_directory = inode.kind == Kind::Directory;
        if is_directory {
            inode.parent = to;
        }
        let subdirectories = i64::from(is_directory);
        if source.parent == to {
            self.touch_parent(at, to, lost);
        } else {
            self.touch_parent(at, source.parent, -subdirectories);
            self.touch_parent(at, to, subdirectories + lost);
        }
        Ok(())
    }

    /// Whether something may take the name of an inode; whether that is a directory.
    fn check_replaceable(&self, is_by_directory: bool, ino: Ino) -> Result<bool, MetaError> {
        match (is_by_directory, self.inode(ino)?.kind == Kind::Directory) {
            (true, true) => self.check_empty(ino).map(|()| true),
            (true, false) => Err(MetaError::NotDirectory),
            (false, true) => Err(MetaError::IsDirectory),
            (false, false) => Ok(false),
        }
    }

    pub(super) fn check_empty(&self, ino: Ino) -> Result<(), MetaError> {
        self.directory(ino)?;
        if self.transactions.are_names_locked(ino, 0, Cookie::MAX) {
            return Err(MetaError::Busy);
        }
        if self.tables.is_empty(ino) { Ok(()) } else { Err(MetaError::NotEmpty) }
    }

    /// A directory is not moved into itself or below.
    fn check_not_below(&self, directory: Ino, to: Ino) -> Result<(), MetaError> {
        if self.transactions.are_moves_locked() {
            return Err(MetaError::Busy);
        }
        let mut at = to;
        loop {
            if at == directory {
                return Err(MetaError::Below);
            }
            if at == Ino::ROOT {
                return Ok(());
            }
            at = self.inode(at)?.parent;
        }
    }

    /// An inode has lost a name. A directory has only one.
    pub(super) fn lose_name(&mut self, at: At, ino: Ino) -> Reply {
        let is_shared = self.sessions.are_several();
        let inode = self.inode_mut(ino)?;
        inode.lose_name(at.now);
        let attributes = inode.attributes(ino, is_shared);
        if attributes.nlink == 0 && !self.sessions.orphaned(ino) {
            self.free_inode(ino);
        }
        Ok(Done::Unlinked(attributes))
    }

    pub(super) fn find(&self, parent: Ino, name: &[u8]) -> Result<Place, MetaError> {
        self.directory(parent)?;
        if self.transactions.is_name_locked(parent, name) {
            return Err(MetaError::Busy);
        }
        let (cookie, ino, kind) = self.tables.find(parent, name).ok_or(MetaError::NotFound)?;
        Ok(Place { parent, cookie, ino, kind })
    }

    /// A name can be made there.
    pub(super) fn check_free(&self, parent: Ino, name: &[u8]) -> Result<(), MetaError> {
        self.directory_with_name(parent)?;
        check_name(name)?;
        match self.find(parent, name) {
            Ok(_) => Err(MetaError::Exists),
            Err(MetaError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A directory that was not removed: nothing is made in one that was.
    pub(super) fn directory_with_name(&self, ino: Ino) -> Result<&Inode, MetaError> {
        let inode = self.directory(ino)?;
        if inode.nlink > 0 { Ok(inode) } else { Err(MetaError::NotFound) }
    }

    /// Names in a directory have changed, and it has so many subdirectories more.
    pub(super) fn touch_parent(&mut self, at: At, parent: Ino, subdirectories: i64) {
        if let Some(inode) = self.tables.inode_mut(parent) {
            inode.nlink = inode.nlink.saturating_add_signed(subdirectories as i32);
            inode.modified(at.now);
        }
    }
}
