//! Inodes by number, dentries by parent and cookie.

use std::ops::Bound;

use consensus::{MachineError, RowChange};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::inode::Inode;
use super::keeping::{DENTRIES, INODES};
use super::rowmap::RowMap;
use crate::ids::{Ino, TreeIndex};
use crate::meta::attributes::Kind;

/// Low bits of a cookie: the ordinal of a name among those with the same hash.
const ORDINAL_BITS: u32 = 20;
/// Cookies of names with the same hash.
pub const SAME_HASH: u64 = 1 << ORDINAL_BITS;
/// Bits of a cookie: offsets of directories are signed.
const COOKIE_BITS: u32 = 62;

/// A dentry's place in its directory. It does not change while the name stays.
pub type Cookie = u64;

/// A name of an inode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dentry {
    pub ino: Ino,
    pub kind: Kind,
    pub name: Box<[u8]>,
}

#[derive(Clone, Debug, Default)]
pub struct Tables {
    inodes: RowMap<INODES, Ino, Inode>,
    dentries: RowMap<DENTRIES, (Ino, Cookie), Dentry>,
    next: u64,
    /// Bytes of all files' contents, in whole blocks.
    pub bytes: u64,
}

/// The first cookie of a name's hash. Not 0 to 15: those are for `.` and `..`, and for "from the first".
///
/// A hash whose equals can't be computed, because a user chooses the names: as many names of one hash as there are ordinals take some 2^62 tries.
pub fn first_cookie(name: &[u8]) -> Cookie {
    let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(Sha256::digest(name));
    let hash = u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> (64 - (COOKIE_BITS - ORDINAL_BITS));
    hash.max(1) << ORDINAL_BITS
}

impl Tables {
    pub fn with_root(root: Inode) -> Tables {
        let mut tables = Tables::of(TreeIndex::default());
        tables.inodes.insert(Ino::ROOT, root);
        tables
    }

    /// Empty ones of a tree.
    pub fn of(tree: TreeIndex) -> Tables {
        Tables { next: tree.first_ino().0, ..Tables::default() }
    }

    pub fn tree(&self) -> TreeIndex {
        Ino(self.next).tree()
    }

    /// The lowest inode number that was never given out, and bytes of all contents.
    pub fn totals(&self) -> (u64, u64) {
        (self.next, self.bytes)
    }

    pub fn set_totals(&mut self, next: u64, bytes: u64) {
        (self.next, self.bytes) = (next, bytes);
    }

    #[cfg(test)]
    pub fn touch(&mut self) {
        self.inodes.touch();
        self.dentries.touch();
    }

    pub fn take_changes(&mut self, rows: &mut Vec<RowChange>) {
        self.inodes.take_changes(rows);
        self.dentries.take_changes(rows);
    }

    pub fn load(&mut self, table: u8, key: &[u8], value: &[u8]) -> Result<(), MachineError> {
        match table {
            INODES => self.inodes.load(key, value).map(drop),
            _ => self.dentries.load(key, value).map(drop),
        }
    }

    pub fn inode(&self, ino: Ino) -> Option<&Inode> {
        self.inodes.get(&ino)
    }

    pub fn inode_mut(&mut self, ino: Ino) -> Option<&mut Inode> {
        self.inodes.get_mut(&ino)
    }

    pub fn inodes(&self) -> impl Iterator<Item = (Ino, &Inode)> {
        self.inodes.iter()
    }

    pub fn inode_count(&self) -> u64 {
        self.inodes.len() as u64
    }

    /// Puts a new inode in.
    pub fn add(&mut self, inode: Inode) -> Ino {
        let ino = Ino(self.next);
        self.next += 1;
        self.inodes.insert(ino, inode);
        ino
    }

    pub fn remove(&mut self, ino: Ino) -> Option<Inode> {
        self.inodes.remove(&ino)
    }

    /// A name's cookie, its inode, and what kind of inode that is.
    pub fn find(&self, parent: Ino, name: &[u8]) -> Option<(Cookie, Ino, Kind)> {
        let first = first_cookie(name);
        let same_hash = self.dentries.range((parent, first)..(parent, first + (1 << ORDINAL_BITS)));
        same_hash
            .map(|((_, cookie), dentry)| (cookie, dentry))
            .find(|(_, dentry)| *dentry.name == *name)
            .map(|(cookie, dentry)| (cookie, dentry.ino, dentry.kind))
    }

    /// Puts a name in that is not there.
    pub fn put(&mut self, parent: Ino, name: &[u8], (ino, kind): (Ino, Kind)) {
        let first = first_cookie(name);
        let taken = |ordinal: &u64| self.dentries.get(&(parent, first + ordinal)).is_some();
        let ordinal = (0..1 << ORDINAL_BITS).find(|ordinal| !taken(ordinal)).expect("names of one hash are fewer");
        self.dentries.insert((parent, first + ordinal), Dentry { ino, kind, name: name.into() });
    }

    /// Has a name mean another inode.
    pub fn point(&mut self, parent: Ino, cookie: Cookie, (ino, kind): (Ino, Kind)) {
        let dentry = self.dentries.get_mut(&(parent, cookie)).expect("the caller has found it");
        (dentry.ino, dentry.kind) = (ino, kind);
    }

    pub fn take(&mut self, parent: Ino, cookie: Cookie) {
        self.dentries.remove(&(parent, cookie));
    }

    /// The entries of a directory behind a cookie.
    pub fn entries(&self, parent: Ino, after: Cookie) -> impl Iterator<Item = (Cookie, &Dentry)> {
        let range = (Bound::Excluded((parent, after)), Bound::Included((parent, Cookie::MAX)));
        self.dentries.range(range).map(|((_, cookie), dentry)| (cookie, dentry))
    }

    pub fn is_empty(&self, parent: Ino) -> bool {
        self.entries(parent, 0).next().is_none()
    }
}
