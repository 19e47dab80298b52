//! One inode.

use serde::{Deserialize, Serialize};

use super::super::attributes::{Attributes, GROUP_EXECUTES, Kind, MODE_BITS, SET_GID, SET_UID, Time};
use super::super::command::NewInode;
use crate::ids::{BLOCK_BYTES, ExtentKey, Ino};

/// An inode as it is kept. Its number is its key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Inode {
    pub kind: Kind,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u32,
    pub size: u64,
    pub version: u64,
    pub cuts: u64,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    pub btime: Time,
    /// Of a directory.
    pub parent: Ino,
    pub keys: Vec<ExtentKey>,
    /// What few inodes have.
    pub rare: Option<Box<Rare>>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Rare {
    pub rdev: u32,
    pub target: Box<[u8]>,
    /// Names and values, by name.
    pub xattrs: Vec<Xattr>,
}

/// Name and value.
pub type Xattr = (Box<[u8]>, Box<[u8]>);

impl Inode {
    /// One without a name.
    pub fn new(new: &NewInode, now: Time) -> Inode {
        let mut xattrs: Vec<Xattr> =
            new.xattrs.iter().map(|(name, value)| (name.as_slice().into(), value.as_slice().into())).collect();
        xattrs.sort();
        let rare = Rare { rdev: new.rdev, target: new.target.as_slice().into(), xattrs };
        let is_plain = new.rdev == 0 && rare.target.is_empty() && rare.xattrs.is_empty();
        Inode {
            kind: new.kind,
            mode: new.mode & MODE_BITS,
            uid: new.uid,
            gid: new.gid,
            nlink: 0,
            size: new.target.len() as u64,
            version: 0,
            cuts: 0,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            parent: Ino::default(),
            keys: Vec::new(),
            rare: (!is_plain).then(|| Box::new(rare)),
        }
    }

    /// `is_shared`: several sessions use the volume.
    pub fn attributes(&self, ino: Ino, is_shared: bool) -> Attributes {
        let &Inode { kind, mode, uid, gid, nlink, size, version, cuts, atime, mtime, ctime, btime, .. } = self;
        let rdev = self.rare.as_ref().map_or(0, |rare| rare.rdev);
        let blocks = self.content_bytes() / 512;
        Attributes {
            ino,
            kind,
            mode,
            uid,
            gid,
            nlink,
            rdev,
            size,
            blocks,
            atime,
            mtime,
            ctime,
            btime,
            version,
            cuts,
            is_shared,
        }
    }

    /// Space that its content has: whole blocks, each once.
    pub fn content_bytes(&self) -> u64 {
        let mut end_before = 0;
        let mut blocks = 0;
        for key in &self.keys {
            let first = (key.file_offset / BLOCK_BYTES).max(end_before);
            let end = (key.file_offset + key.len).div_ceil(BLOCK_BYTES);
            blocks += end.saturating_sub(first);
            end_before = end;
        }
        blocks * BLOCK_BYTES
    }

    /// Its attributes were changed.
    pub fn changed(&mut self, now: Time) {
        self.ctime = now.max(self.ctime.next());
    }

    /// It has a name less. A directory has only one.
    pub fn lose_name(&mut self, now: Time) {
        self.nlink = if self.kind == Kind::Directory { 0 } else { self.nlink - 1 };
        self.changed(now);
    }

    /// Its content was changed.
    pub fn modified(&mut self, now: Time) {
        self.changed(now);
        self.mtime = self.ctime;
        self.version += 1;
    }

    pub fn kill_set_ids(&mut self) {
        self.mode &= !SET_UID;
        if self.mode & GROUP_EXECUTES != 0 {
            self.mode &= !SET_GID;
        }
    }
}
