//! Listings of directories.

use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::{Body, DataParts, Form};
use crate::abi::{self, Dirent, EntryOut};
use crate::attributes::Entry;
use crate::request::ReadDirectory;

/// A name in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryEntry<'a> {
    pub ino: u64,
    /// Where a listing goes on after this entry; not 0, and below 2^63.
    pub cookie: u64,
    /// The inode's mode, of which the type is told.
    pub mode: u32,
    pub name: &'a [u8],
}

/// The reply to READDIR, filled up to the size that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    bytes: Vec<u8>,
    limit: usize,
}

impl Listing {
    /// An empty one, which says that the directory ends.
    pub fn new(request: &ReadDirectory) -> Self {
        Listing { bytes: Vec::new(), limit: request.size as usize }
    }

    /// Adds an entry. False where there is no room for it: the listing goes on with it in the next request.
    #[must_use = "an entry that has no room is to be listed next time"]
    pub fn push(&mut self, entry: &DirectoryEntry<'_>) -> bool {
        self.push_after(&[], entry)
    }

    fn push_after(&mut self, before: &[u8], entry: &DirectoryEntry<'_>) -> bool {
        let plain = size_of::<Dirent>() + entry.name.len();
        let bytes = before.len() + plain.next_multiple_of(abi::RECORD_ALIGNMENT);
        if self.bytes.len() + bytes > self.limit {
            return false;
        }
        let kind = (entry.mode & 0o170_000) >> 12;
        let wire = Dirent { ino: entry.ino, offset: entry.cookie, name_bytes: entry.name.len() as u32, kind };
        let end = self.bytes.len() + bytes;
        self.bytes.extend_from_slice(before);
        self.bytes.extend_from_slice(wire.as_bytes());
        self.bytes.extend_from_slice(entry.name);
        self.bytes.resize(end, 0);
        true
    }
}

impl Body for Listing {
    fn encode<R>(self, form: Form, send: impl FnOnce(&[&[u8]]) -> R) -> Result<R, Errno> {
        DataParts(&[&self.bytes]).encode(form, send)
    }
}

/// The reply to READDIRPLUS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlusListing(Listing);

impl PlusListing {
    pub fn new(request: &ReadDirectory) -> Self {
        PlusListing(Listing::new(request))
    }

    /// Adds an entry. With `inode` the kernel gets a reference to it, as from LOOKUP; "." and ".." come without.
    #[must_use = "an entry that has no room gives no reference and is to be listed next time"]
    pub fn push(&mut self, inode: Option<&Entry>, entry: &DirectoryEntry<'_>) -> bool {
        let inode = inode.map_or_else(EntryOut::default, |inode| inode.to_wire());
        self.0.push_after(inode.as_bytes(), entry)
    }
}

impl Body for PlusListing {
    fn encode<R>(self, form: Form, send: impl FnOnce(&[&[u8]]) -> R) -> Result<R, Errno> {
        self.0.encode(form, send)
    }
}
