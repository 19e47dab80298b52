//! Ids and places that the meta partitions, the data partitions and the client share.

use serde::{Deserialize, Serialize};

/// An inode of a file volume, never used twice. The root is [`Ino::ROOT`]. The kernel's node id of a mount is the same number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ino(pub u64);

/// Bits of an inode's number below that of its tree.
const BITS_IN_TREE: u32 = 48;

impl Ino {
    /// The root directory of a volume, in the first tree.
    pub const ROOT: Ino = Ino(1);

    /// The tree that has the inode: the high bits of its number (docs/rfd/0031).
    pub fn tree(self) -> TreeIndex {
        TreeIndex((self.0 >> BITS_IN_TREE) as u16)
    }
}

/// The number of a tree among those of its volume, from 0. The root is in tree 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TreeIndex(pub u16);

impl TreeIndex {
    /// A number of the tree that no inode has.
    pub fn no_ino(self) -> Ino {
        Ino(u64::from(self.0) << BITS_IN_TREE)
    }

    /// The first number that the tree gives to an inode: 0 is none, and 1 is the root's in tree 0.
    pub fn first_ino(self) -> Ino {
        Ino(self.no_ino().0 | 2)
    }
}

/// An extent: a piece of space of a data partition that grows at its end. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExtentId {
    /// The data partition.
    pub partition: u32,
    /// The leader's term, or generation, under which it was made.
    pub term: u32,
    /// Counts within the term.
    pub number: u64,
}

/// Where a range of a file's content is.
///
/// `file_offset` and `extent_offset` are the same within a block ([`BLOCK_BYTES`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtentKey {
    /// From the start of the file, in bytes.
    pub file_offset: u64,
    pub extent: ExtentId,
    /// From the start of the extent, in bytes.
    pub extent_offset: u64,
    /// In bytes, not 0.
    pub len: u64,
}

/// Contents are checked, and space is allocated, in blocks of so many bytes.
pub const BLOCK_BYTES: u64 = 4096;
