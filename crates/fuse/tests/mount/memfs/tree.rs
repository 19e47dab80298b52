//! Inodes and names.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use env::Env;
use fuse::request::{Name, TimeChange};
use fuse::{Attributes, Caller, Entry, Errno, NodeId, Timestamp};

use super::acl::{ACCESS, Acl, DEFAULT};
use super::locks::Locks;
use super::pages::{PAGE, Pages};

pub const TYPE: u32 = 0o170_000;
pub const DIRECTORY: u32 = 0o040_000;
pub const FILE: u32 = 0o100_000;
pub const SYMLINK: u32 = 0o120_000;
pub const SUID: u32 = 0o4_000;
pub const SGID: u32 = 0o2_000;
const GROUP_EXECUTE: u32 = 0o010;
pub const MAX_NAME: usize = 255;
pub const CAPACITY_PAGES: u64 = 1 << 19;
const CAPABILITY: &[u8] = b"security.capability";

/// Cookies of "." and ".."; names follow in the order of their creation, so that deleting moves none.
pub const DOT: u64 = 1;
pub const DOT_DOT: u64 = 2;

#[derive(Debug)]
pub struct Directory {
    pub parent: u64,
    names: HashMap<Vec<u8>, (u64, u64)>,
    pub by_cookie: BTreeMap<u64, (Vec<u8>, u64)>,
    next_cookie: u64,
}

#[derive(Debug)]
pub enum Kind {
    Directory(Directory),
    File(Pages),
    Symlink(Vec<u8>),
    Special,
}

#[derive(Debug)]
pub struct Inode {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u32,
    pub rdev: u32,
    pub atime: Timestamp,
    pub mtime: Timestamp,
    pub ctime: Timestamp,
    pub created: Timestamp,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub lookups: u64,
    pub kind: Kind,
    pub locks: Locks,
}

/// What a new inode is to be.
pub struct New<'a> {
    pub caller: &'a Caller,
    pub mode: u32,
    pub umask: u32,
    pub rdev: u32,
    pub kind: Kind,
}

#[derive(Debug)]
pub struct Tree {
    env: Env,
    inodes: HashMap<u64, Inode>,
    next: u64,
    pub pages: u64,
    pub valid: Duration,
}

pub fn directory(parent: u64) -> Kind {
    Kind::Directory(Directory { parent, names: HashMap::new(), by_cookie: BTreeMap::new(), next_cookie: DOT_DOT + 1 })
}

impl Tree {
    pub fn new(valid: Duration) -> Self {
        let mut tree = Tree { env: Env::real(), inodes: HashMap::new(), next: 2, pages: 0, valid };
        let now = tree.now();
        let root = Inode {
            mode: DIRECTORY | 0o755,
            uid: 0,
            gid: 0,
            nlink: 2,
            rdev: 0,
            atime: now,
            mtime: now,
            ctime: now,
            created: now,
            xattrs: BTreeMap::new(),
            lookups: 1,
            kind: directory(1),
            locks: Locks::default(),
        };
        tree.inodes.insert(1, root);
        tree
    }

    pub fn now(&self) -> Timestamp {
        let micros = self.env.wall_clock_us();
        Timestamp { seconds: (micros / 1_000_000) as i64, nanos: (micros % 1_000_000 * 1_000) as u32 }
    }

    pub fn count(&self) -> u64 {
        self.inodes.len() as u64
    }

    pub fn inode(&mut self, node: NodeId) -> Result<&mut Inode, Errno> {
        self.inodes.get_mut(&node.0).ok_or(Errno::STALE)
    }

    pub fn all(&mut self) -> impl Iterator<Item = &mut Inode> {
        self.inodes.values_mut()
    }

    pub fn directory(&mut self, node: NodeId) -> Result<&mut Directory, Errno> {
        match &mut self.inode(node)?.kind {
            Kind::Directory(directory) => Ok(directory),
            _ => Err(Errno::NOTDIR),
        }
    }

    pub fn file(&mut self, node: NodeId) -> Result<&mut Pages, Errno> {
        match &mut self.inode(node)?.kind {
            Kind::File(pages) => Ok(pages),
            Kind::Directory(_) => Err(Errno::ISDIR),
            _ => Err(Errno::INVAL),
        }
    }

    /// Changes a file's bytes and keeps count of the pages.
    pub fn change<R>(&mut self, node: NodeId, adds: u64, change: impl FnOnce(&mut Pages) -> R) -> Result<R, Errno> {
        if adds > CAPACITY_PAGES - self.pages {
            return Err(Errno::NOSPC);
        }
        let file = self.file(node)?;
        let before = file.count();
        let result = change(file);
        let after = file.count();
        self.pages = self.pages - before + after;
        Ok(result)
    }

    pub fn entry(&mut self, node: u64) -> Result<Entry, Errno> {
        let valid = self.valid;
        let inode = self.inode(NodeId(node))?;
        inode.lookups += 1;
        let attributes = inode.attributes(node);
        Ok(Entry { node: NodeId(node), generation: 0, attributes, entry_valid: valid, attributes_valid: valid })
    }

    pub fn find(&mut self, parent: NodeId, name: &[u8]) -> Result<u64, Errno> {
        if name.len() > MAX_NAME {
            return Err(Errno::NAMETOOLONG);
        }
        let directory = self.directory(parent)?;
        match name {
            b"." => Ok(parent.0),
            b".." => Ok(directory.parent),
            _ => directory.names.get(name).map(|found| found.0).ok_or(Errno::NOENT),
        }
    }

    /// Creates an inode without a name.
    pub fn create(&mut self, parent: NodeId, new: New<'_>) -> Result<u64, Errno> {
        let now = self.now();
        let above = self.inode(parent)?;
        let New { caller, mut mode, umask, rdev, kind } = new;
        let inherits_group = above.mode & SGID != 0;
        let gid = if inherits_group { above.gid } else { caller.gid };
        let is_directory = mode & TYPE == DIRECTORY;
        let mut xattrs = BTreeMap::new();
        match above.xattrs.get(DEFAULT).filter(|_| mode & TYPE != SYMLINK) {
            None => mode &= !umask,
            Some(default) => {
                let mut acl = Acl::parse(default)?;
                mode = acl.inherit(mode);
                if acl.is_extended() {
                    xattrs.insert(ACCESS.to_vec(), acl.to_bytes());
                }
                if is_directory {
                    xattrs.insert(DEFAULT.to_vec(), default.clone());
                }
            }
        }
        if inherits_group && is_directory {
            mode |= SGID;
        }
        let inode = Inode {
            mode,
            uid: caller.uid,
            gid,
            nlink: 0,
            rdev,
            atime: now,
            mtime: now,
            ctime: now,
            created: now,
            xattrs,
            lookups: 0,
            kind,
            locks: Locks::default(),
        };
        let node = self.next;
        self.next += 1;
        self.inodes.insert(node, inode);
        Ok(node)
    }

    pub fn make(&mut self, parent: NodeId, name: Name<'_>, new: New<'_>) -> Result<Entry, Errno> {
        match self.find(parent, name.as_bytes()) {
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
            Ok(_) => return Err(Errno::EXIST),
        }
        let is_directory = matches!(new.kind, Kind::Directory(_));
        let node = self.create(parent, new)?;
        // A directory's own "." counts.
        self.inode(NodeId(node))?.nlink = u32::from(is_directory);
        self.add_name(parent, name.as_bytes(), node)?;
        self.entry(node)
    }

    pub fn add_name(&mut self, parent: NodeId, name: &[u8], node: u64) -> Result<(), Errno> {
        let now = self.now();
        let inode = self.inode(NodeId(node))?;
        inode.nlink += 1;
        inode.ctime = now;
        if let Kind::Directory(directory) = &mut inode.kind {
            directory.parent = parent.0;
            self.inode(parent)?.nlink += 1;
        }
        let directory = self.directory(parent)?;
        let cookie = directory.next_cookie;
        directory.next_cookie += 1;
        directory.names.insert(name.to_vec(), (node, cookie));
        directory.by_cookie.insert(cookie, (name.to_vec(), node));
        let above = self.inode(parent)?;
        (above.mtime, above.ctime) = (now, now);
        Ok(())
    }

    /// Takes a name away, with the link that it is.
    pub fn take_name(&mut self, parent: NodeId, name: &[u8]) -> Result<u64, Errno> {
        let now = self.now();
        let directory = self.directory(parent)?;
        let (node, cookie) = directory.names.remove(name).ok_or(Errno::NOENT)?;
        directory.by_cookie.remove(&cookie);
        let above = self.inode(parent)?;
        (above.mtime, above.ctime) = (now, now);
        let inode = self.inode(NodeId(node))?;
        inode.nlink -= 1;
        inode.ctime = now;
        if matches!(inode.kind, Kind::Directory(_)) {
            self.inode(parent)?.nlink -= 1;
        }
        Ok(node)
    }

    /// After the last name: a directory's "." goes too, and what the kernel does not know is freed.
    pub fn drop_unnamed(&mut self, node: u64) {
        let Some(inode) = self.inodes.get_mut(&node) else { return };
        if matches!(inode.kind, Kind::Directory(_)) && inode.nlink == 1 {
            inode.nlink = 0;
        }
        self.free_unused(node);
    }

    pub fn forget(&mut self, node: u64, lookups: u64) {
        if let Some(inode) = self.inodes.get_mut(&node) {
            inode.lookups = inode.lookups.saturating_sub(lookups);
        }
        self.free_unused(node);
    }

    fn free_unused(&mut self, node: u64) {
        if self.inodes.get(&node).is_some_and(|inode| inode.nlink == 0 && inode.lookups == 0)
            && let Some(Inode { kind: Kind::File(pages), .. }) = self.inodes.remove(&node)
        {
            self.pages -= pages.count();
        }
    }

    pub fn is_directory(&mut self, node: u64) -> Result<bool, Errno> {
        Ok(matches!(self.inode(NodeId(node))?.kind, Kind::Directory(_)))
    }

    pub fn is_empty_directory(&mut self, node: u64) -> Result<bool, Errno> {
        Ok(self.directory(NodeId(node))?.names.is_empty())
    }

    pub fn time(&self, change: TimeChange) -> Timestamp {
        match change {
            TimeChange::Now => self.now(),
            TimeChange::At(time) => time,
        }
    }
}

impl Inode {
    pub fn attributes(&self, ino: u64) -> Attributes {
        let (size, pages) = match &self.kind {
            Kind::File(file) => (file.size, file.count()),
            Kind::Symlink(target) => (target.len() as u64, 0),
            Kind::Directory(directory) => (directory.names.len() as u64 * 20, 0),
            Kind::Special => (0, 0),
        };
        Attributes {
            ino,
            size,
            blocks: pages * (PAGE / 512),
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            mode: self.mode,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            rdev: self.rdev,
            block_bytes: PAGE as u32,
        }
    }

    /// What a write, a truncation and a change of the owner take from an executable.
    pub fn kill_privileges(&mut self) {
        self.mode &= !SUID;
        if self.mode & GROUP_EXECUTE != 0 {
            self.mode &= !SGID;
        }
        self.xattrs.remove(CAPABILITY);
    }

    pub fn modified(&mut self, now: Timestamp) {
        (self.mtime, self.ctime) = (now, now);
    }
}
