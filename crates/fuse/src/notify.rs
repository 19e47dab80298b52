//! Notifications: what a file system tells the kernel without being asked. Encoded here, sent by [`crate::Notifier`].
//!
//! Each is a header with unique 0 and the code in place of the error, and then its arguments.

use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::abi::{self, NotifyCode, OutHeader};
use crate::ids::NodeId;

/// The longest name that a notification carries: the kernel's limit for names in FUSE.
pub const MAX_NAME_BYTES: usize = 1024;

/// One notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification<'a> {
    /// Attributes are asked for anew; pages from `offset` on are dropped, all of them where `length` is 0. A negative offset keeps
    /// the pages.
    InvalidateInode { node: NodeId, offset: i64, length: i64 },
    /// The name is looked up anew. With `expire_only` a name in use stays until then, with its mounts.
    InvalidateEntry { parent: NodeId, name: &'a [u8], expire_only: bool },
    /// The name is gone: watchers are told so.
    Delete { parent: NodeId, child: NodeId, name: &'a [u8] },
    /// Puts data into the page cache.
    Store { node: NodeId, offset: u64, data: &'a [u8] },
    /// Asks for what the page cache holds: a `NotifyReply` with this number follows.
    Retrieve { number: u64, node: NodeId, offset: u64, size: u32 },
    /// All requests that were read and not answered are sent again.
    Resend,
}

impl Notification<'_> {
    /// Calls `send` with header and parts. ENAMETOOLONG and EFBIG are what does not fit the wire.
    pub(crate) fn encode<R>(&self, send: impl FnOnce(OutHeader, &[&[u8]]) -> R) -> Result<R, Errno> {
        match *self {
            Notification::InvalidateInode { node, offset, length } => {
                let wire = abi::NotifyInvalInodeOut { node: node.0, offset, length };
                Ok(frame(NotifyCode::InvalInode, &[wire.as_bytes()], send))
            }
            Notification::InvalidateEntry { parent, name, expire_only } => {
                let (name_bytes, flags) = (name_bytes(name)?, u32::from(expire_only));
                let wire = abi::NotifyInvalEntryOut { parent: parent.0, name_bytes, flags };
                Ok(frame(NotifyCode::InvalEntry, &[wire.as_bytes(), name, &[0]], send))
            }
            Notification::Delete { parent, child, name } => {
                let name_bytes = name_bytes(name)?;
                let wire = abi::NotifyDeleteOut { parent: parent.0, child: child.0, name_bytes, padding: 0 };
                Ok(frame(NotifyCode::Delete, &[wire.as_bytes(), name, &[0]], send))
            }
            Notification::Store { node, offset, data } => {
                let size = u32::try_from(data.len()).map_err(|_| Errno::FBIG)?;
                let wire = abi::NotifyStoreOut { node: node.0, offset, size, padding: 0 };
                Ok(frame(NotifyCode::Store, &[wire.as_bytes(), data], send))
            }
            Notification::Retrieve { number, node, offset, size } => {
                let wire = abi::NotifyRetrieveOut { notify_unique: number, node: node.0, offset, size, padding: 0 };
                Ok(frame(NotifyCode::Retrieve, &[wire.as_bytes()], send))
            }
            Notification::Resend => Ok(frame(NotifyCode::Resend, &[], send)),
        }
    }
}

fn name_bytes(name: &[u8]) -> Result<u32, Errno> {
    match name.len() {
        1..=MAX_NAME_BYTES => Ok(name.len() as u32),
        0 => Err(Errno::INVAL),
        _ => Err(Errno::NAMETOOLONG),
    }
}

fn frame<R>(code: NotifyCode, parts: &[&[u8]], send: impl FnOnce(OutHeader, &[&[u8]]) -> R) -> R {
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    send(OutHeader { len: (abi::OUT_HEADER_BYTES + bytes) as u32, error: code.code(), unique: 0 }, parts)
}

#[cfg(test)]
mod tests;
