//! Replies: one typed value becomes a header and a few parts that one writev sends.
//!
//! A [`Body`] hands its parts to a closure, so that fixed records stay on the stack and data are not copied.

mod listing;

pub use listing::{DirectoryEntry, Listing, PlusListing};

use std::time::Duration;

use bytes::Bytes;
use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::abi::{self, AttrOut, EntryOut, OpenOut, OutHeader, open_reply};
use crate::attributes::{AttributesFor, Entry, FileSystemState, StatxAttributes};
use crate::ids::FileHandle;
use crate::lock::Lock;

/// The kernel takes errors from 1 to this; what lies above is its own.
const ERRNO_MAX: i32 = 511;

/// The most parts of a reply, with its header.
pub const MAX_PARTS: usize = 16;

/// What of a request decides how its reply looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// The most bytes of data, list or value that the request has room for.
    pub limit: u32,
    /// COPY_FILE_RANGE_64: the count has 64 bits.
    pub wide: bool,
}

impl Form {
    pub const PLAIN: Form = Form { limit: u32::MAX, wide: false };

    pub const fn limited(limit: u32) -> Self {
        Form { limit, wide: false }
    }
}

/// What a successful reply says.
pub trait Body {
    /// Calls `send` with the parts, or says with which error the request is to be answered instead.
    fn encode<R>(self, form: Form, send: impl FnOnce(&[&[u8]]) -> R) -> Result<R, Errno>;
}

/// The header of a reply with these parts.
pub fn success_header(unique: u64, parts: &[&[u8]]) -> OutHeader {
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    OutHeader { len: (abi::OUT_HEADER_BYTES + bytes) as u32, error: 0, unique }
}

/// A whole reply that says that the request failed. What is no error of a file system becomes EIO.
pub fn error_header(unique: u64, errno: Errno) -> OutHeader {
    let number = errno.raw_os_error();
    let number = if (1..=ERRNO_MAX).contains(&number) { number } else { Errno::IO.raw_os_error() };
    OutHeader { len: abi::OUT_HEADER_BYTES as u32, error: -number, unique }
}

impl Body for () {
    fn encode<R>(self, _form: Form, send: impl FnOnce(&[&[u8]]) -> R) -> Result<R, Errno> {
        Ok(send(&[]))
    }
}

/// What LOOKUP found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Entry(Entry),
    /// The kernel may take the name for absent for so long. Without such a time answer ENOENT.
    Absent {
        valid: Duration,
    },
}

impl Entry {
    pub(crate) fn to_wire(self) -> EntryOut {
        EntryOut {
            node: self.node.0,
            generation: self.generation,
            entry_seconds: self.entry_valid.as_secs(),
            entry_nanos: self.entry_valid.subsec_nanos(),
            attr_seconds: self.attributes_valid.as_secs(),
            attr_nanos: self.attributes_valid.subsec_nanos(),
            attr: self.attributes.to_wire(),
        }
    }
}

impl Body for Found {
    fn encode<R>(self, form: Form, send: impl FnOnce(&[&[u8]]) -> R) -> Result<R, Errno> {
        match self {
            Found::Entry(entry) => entry.encode(form, send),
            Found::Absent { valid } => {
                let seconds = valid.as_secs();
                let absent = EntryOut { entry_seconds: seconds, entry_nanos: valid.subsec_nanos(), ..EntryOut::default() };
                Ok(send(&[absent.as_bytes()]))
            }
        }
    }
}

impl Body for Entry {
    fn encode<R>(self, _form: Form, send: impl FnOnce(&[&[u8]]) -> R) -> Result<R, Errno> {
        // Node 0 says "absent", and the kernel would drop the connection's trust in the type of node 1.
        if self.node.0 == 0 {
            return Err(Errno::IO);
        }
        Ok(send(&[self.to_wire().as_bytes()]))
    }
}

impl Body for AttributesFor {
    fn encode<R>(self, _form: Form, send: impl FnOnce(&[&[u8]]) -> R) -> Result<R, Errno> {
        let (attr_seconds, attr_nanos) = (self.valid.as_secs(), self.valid.subsec_nanos());
        Ok(send(&[AttrOut { attr_seconds, attr_nanos, padding: 0, attr: self.attributes.to_wire() }.as_bytes()]))
    }
}

impl Body for StatxAttributes {
    fn encode<R>(self, _form: Form, send: impl FnOnce(&[&[u8]]) -> R) -> Result<R, Errno> {
        let (attr_seconds, attr_nanos) = (self.valid.as_secs(), self.valid.subsec_nanos());
        Ok(send(&[abi::StatxOut { attr_seconds, attr_nanos, flags: 0, spare: [0; 2], stat: self.to_wire() }.as_bytes()]))
    }
}

/// A file or directory that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    pub handle: FileHandle,
    /// Reads and writes bypass the page cache.
    pub direct_io: bool,
    /// Pages in the cache are still right.
    pub keep_cache: bool,
    /// A directory's listing may be cached.
    pub cache_directory: bool,
    /// Direct writes to one file may come at once.
    pub parallel_direct_writes: bool,
}

impl Opened {
    /// With none of the marks.
    pub const fn new(handle: FileHandle) -> Self {
        Opened { handle, direct_io: false, keep_cache: false, cache_directory: false, parallel_direct_writes: false }
    }

    fn to_wire(self) -> OpenOut {
        let marks = [
            (self.direct_io, open_reply::DIRECT_IO),
            (self.keep_cache, open_reply::KEEP_CACHE),
            (self.cache_directory, open_reply::CACHE_DIR),
            (self.parallel_direct_writes, open_reply::PARALLEL_DIRECT_WRITES),
        ];
        let open_flags = marks.iter().filter(|(set, _)| *set).fold(0, |flags, (_, bit)| flags | bit);
        OpenOut { handle: self.handle.0, open_flags, backing_id: 0 }
    }
}

impl Body for Opened {
    fn encode<R>(self, _form: Form, send: impl FnOnce(&[&[u8]]) -> R) -> Result<R, Errno> {
        Ok(send(&[self.to_wire().as_bytes()]))
    }
}

/// A file that was created and opened: CREATE and TMPFILE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Created {
    pub entry: Entry,
    pub opened: Opened,
}

impl Body for Created {
    fn encode<R>(self, form: Form, send: impl FnOnce(&[&[u8]]) -> R) -> Result<R, Errno> {
        let opened = self.opened.to_wire();
        self.entry.encode(form, |entry| send(&[entry[0], opened.as_bytes()]))
    }
}

/// Bytes of a file, of a symbolic link's target, or of an ioctl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data(pub Bytes);

/// Data in several parts, lent for the time of the reply.
#[derive(Clone, Copy, Debug)]
pub struct DataParts<'a>(pub &'a [&'a [u8]]);

impl Body for DataParts<'_> {
    fn encode<R>(self, form: Form, send: impl FnOnce(&[&[u8]]) -> R) -> Result<R, Errno> {
        let bytes: usize = self.0.iter().map(|part| part.len()).sum();
        // More than was asked for is a mistake of the file system's, and the kernel would refuse the reply.
        if bytes > form.limit as usize || self.0.len() >= MAX_PARTS {
            return Err(Errno::IO);
        }
        Ok(send(self.0))
    }
}

impl Body for Data {
    fn encode<R>(self, form: Form, send: impl FnOnce(&[&[u8]]) -> R) -> Result<R, Errno> {
        DataParts(&[&self.0]).encode(form, send)
    }
}

/// Bytes that a WRITE took; fewer than it had only where the rest could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written(pub u32);

impl Body for Written {
    fn encode<R>(self, form: Form, send: impl FnOnce(&[&[u8]]) -> R) -> Result<R, Errno> {
        if self.0 > form.limit {
            return Err(Errno::IO);
        }
        Ok(send(&[abi::WriteOut { size: self.0, padding: 0 }.as_bytes()]))
    }
}

/// Bytes that COPY_FILE_RANGE copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied(pub u64);

impl Body for Copied {
    fn encode<R>(self, form: Form, send: impl FnOnce(&[&[u8]]) -> R) -> Result<R, Errno> {
        if form.wide {
            return Ok(send(&[abi::CopyFileRangeOut { bytes_copied: self.0 }.as_bytes()]));
        }
        let size = u32::try_from(self.0).map_err(|_| Errno::IO)?;
        Ok(send(&[abi::WriteOut { size, padding: 0 }.as_bytes()]))
    }
}

impl Body for FileSystemState {
    fn encode<R>(self, _form: Form, send: impl FnOnce(&[&[u8]]) -> R) -> Result<R, Errno> {
        let wire = abi::StatfsOut {
            blocks: self.blocks,
            blocks_free: self.blocks_free,
            blocks_available: self.blocks_available,
            files: self.files,
            files_free: self.files_free,
            block_bytes: self.block_bytes,
            name_bytes_max: self.name_bytes_max,
            fragment_bytes: self.fragment_bytes,
            ..abi::StatfsOut::default()
        };
        Ok(send(&[wire.as_bytes()]))
    }
}

/// The value of an extended attribute, or their names, each with a NUL at its end. Answers a request for the size too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttributeValue(pub Vec<u8>);

impl Body for AttributeValue {
    fn encode<R>(self, form: Form, send: impl FnOnce(&[&[u8]]) -> R) -> Result<R, Errno> {
        let size = u32::try_from(self.0.len()).map_err(|_| Errno::TOOBIG)?;
        match form.limit {
            0 => Ok(send(&[abi::GetxattrOut { size, padding: 0 }.as_bytes()])),
            limit if size > limit => Err(Errno::RANGE),
            _ => Ok(send(&[&self.0])),
        }
    }
}

impl Body for Lock {
    fn encode<R>(self, _form: Form, send: impl FnOnce(&[&[u8]]) -> R) -> Result<R, Errno> {
        Ok(send(&[abi::LkOut { lock: self.to_wire() }.as_bytes()]))
    }
}

/// The device's block that BMAP asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block(pub u64);

impl Body for Block {
    fn encode<R>(self, _form: Form, send: impl FnOnce(&[&[u8]]) -> R) -> Result<R, Errno> {
        Ok(send(&[abi::BmapOut { block: self.0 }.as_bytes()]))
    }
}

/// What an ioctl returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoctlResult {
    pub result: i32,
    pub output: Vec<u8>,
}

impl Body for IoctlResult {
    fn encode<R>(self, form: Form, send: impl FnOnce(&[&[u8]]) -> R) -> Result<R, Errno> {
        if self.output.len() > form.limit as usize {
            return Err(Errno::IO);
        }
        Ok(send(&[abi::IoctlOut { result: self.result, ..abi::IoctlOut::default() }.as_bytes(), &self.output]))
    }
}

/// `POLL*` that are ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Events(pub u32);

impl Body for Events {
    fn encode<R>(self, _form: Form, send: impl FnOnce(&[&[u8]]) -> R) -> Result<R, Errno> {
        Ok(send(&[abi::PollOut { revents: self.0, padding: 0 }.as_bytes()]))
    }
}

/// Where LSEEK arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position(pub u64);

impl Body for Position {
    fn encode<R>(self, _form: Form, send: impl FnOnce(&[&[u8]]) -> R) -> Result<R, Errno> {
        Ok(send(&[abi::LseekOut { offset: self.0 }.as_bytes()]))
    }
}

#[cfg(test)]
mod tests;
