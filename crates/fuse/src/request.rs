//! Requests: bytes of one read of `/dev/fuse` become one typed value.
//!
//! Fixed arguments are copied (at most 88 bytes); names and data are borrowed from the buffer. Nothing is trusted: lengths are checked
//! against what was read, and a request that does not add up is an error that names what is wrong with it.
//!
//! ```text
//! ┌──────────┬─────────────────┬──────────────────┬────────────┐
//! │ InHeader │ fixed arguments │ names, or data   │ extensions │
//! │ 40 bytes │ by the opcode   │ names end in NUL │ 8·n bytes  │
//! └──────────┴─────────────────┴──────────────────┴────────────┘
//! ```

mod cursor;
mod decode;
mod error;
mod operation;

pub use error::{DecodeError, DecodeProblem};
pub use operation::{
    Access, BlockMap, CopyFileRange, Create, Fallocate, Flush, Forget, Forgets, Fsync, GetAttributes, GetExtendedAttribute,
    GetLock, Ioctl, Link, ListExtendedAttributes, Lookup, MakeDirectory, MakeNode, Name, Open, Operation, Poll, Read,
    ReadDirectory, ReadLink, Release, Remove, RemoveExtendedAttribute, Rename, Retrieved, Seek, SetAttributes,
    SetExtendedAttribute, SetLock, Statfs, Statx, Symlink, SyncFileSystem, TemporaryFile, TimeChange, Write,
};

use zerocopy::FromBytes;

use crate::abi::{self, InHeader, Opcode};
use crate::ids::{RequestId, SessionId};

/// Which call of which process a request stems from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    pub id: RequestId,
    /// The kernel sends the request for at least the second time: an earlier process may have carried it out.
    pub resent: bool,
    pub session: SessionId,
    pub uid: u32,
    pub gid: u32,
    /// The thread, as the mount's pid namespace numbers it; 0 where the kernel itself asks.
    pub pid: u32,
    /// The parent's group, where a creating caller is in it but has another one as its own (`CREATE_SUPP_GROUP`).
    pub supplementary_group: Option<u32>,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    pub caller: Caller,
    /// The number that the reply must carry.
    pub unique: u64,
    pub opcode: Opcode,
    pub operation: Operation<'a>,
}

impl<'a> Request<'a> {
    /// Decodes what one read of the device returned. `session` is passed through to [`Caller`].
    pub fn decode(bytes: &'a [u8], session: SessionId) -> Result<Self, DecodeError> {
        let (header, body) = split(bytes)?;
        let problem = |problem| DecodeError { unique: header.unique, opcode: header.opcode, problem };
        let opcode = Opcode::from_code(header.opcode).ok_or_else(|| problem(DecodeProblem::UnknownOpcode))?;
        let extension_bytes = usize::from(header.extension_words) * abi::RECORD_ALIGNMENT;
        let arguments_end = body.len().checked_sub(extension_bytes).ok_or_else(|| problem(DecodeProblem::Truncated))?;
        let (arguments, extensions) = body.split_at(arguments_end);
        let caller = Caller {
            id: RequestId(header.unique & !abi::UNIQUE_RESEND),
            resent: header.unique & abi::UNIQUE_RESEND != 0,
            session,
            uid: header.uid,
            gid: header.gid,
            pid: header.pid,
            supplementary_group: decode::supplementary_group(extensions).map_err(problem)?,
        };
        let operation = decode::operation(opcode, &header, arguments).map_err(problem)?;
        Ok(Request { caller, unique: header.unique, opcode, operation })
    }
}

/// The header and what follows it, if `bytes` are as long as the header says.
fn split(bytes: &[u8]) -> Result<(InHeader, &[u8]), DecodeError> {
    let Ok((header, body)) = InHeader::read_from_prefix(bytes) else {
        return Err(DecodeError { unique: 0, opcode: 0, problem: DecodeProblem::Truncated });
    };
    if header.len as usize != bytes.len() {
        let problem = DecodeProblem::Length { said: header.len as usize, read: bytes.len() };
        return Err(DecodeError { unique: header.unique, opcode: header.opcode, problem });
    }
    Ok((header, body))
}

#[cfg(test)]
mod tests;
