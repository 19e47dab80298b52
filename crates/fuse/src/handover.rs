//! Passing a mount's descriptors to another process, over a unix socket.
//!
//! One message: a record, the mount point, and the descriptors as ancillary data. Both ends run the same program, so the record has no
//! version.

use std::ffi::OsStr;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::init::Negotiated;
use crate::session::MAX_THREADS;

/// A mount point's longest path (`PATH_MAX`).
const MAX_POINT_BYTES: usize = 4096;

/// Why a mount could not be passed on or taken over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandoverError {
    #[error("the socket to the other process failed: {0}")]
    Socket(Errno),
    #[error("what was received is no mount: {0}")]
    Message(&'static str),
    #[error("the mount's INIT was not answered yet: start a session first")]
    NotNegotiated,
    #[error("{count} descriptors are more than the {MAX_THREADS} of a session")]
    TooManyDescriptors { count: usize },
}

#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Record {
    flags: u64,
    minor: u32,
    max_readahead_bytes: u32,
    max_write_bytes: u32,
    point_bytes: u32,
    descriptors: u32,
    max_background: u16,
    request_timeout_s: u16,
}

const _: () = assert!(size_of::<Record>() == 32);

const ANCILLARY_BYTES: usize = rustix::cmsg_space!(ScmRights(MAX_THREADS));

/// What goes from process to process.
#[derive(Debug)]
pub(crate) struct Handover<D> {
    pub(crate) descriptors: Vec<D>,
    pub(crate) negotiated: Negotiated,
    pub(crate) point: PathBuf,
}

impl Handover<BorrowedFd<'_>> {
    pub(crate) fn send(&self, socket: impl AsFd) -> Result<(), HandoverError> {
        let count = self.descriptors.len();
        if count > MAX_THREADS {
            return Err(HandoverError::TooManyDescriptors { count });
        }
        let point = self.point.as_os_str().as_bytes();
        let record = Record {
            flags: self.negotiated.flags,
            minor: self.negotiated.minor,
            max_readahead_bytes: self.negotiated.max_readahead_bytes,
            max_write_bytes: self.negotiated.max_write_bytes,
            point_bytes: point.len() as u32,
            descriptors: count as u32,
            max_background: self.negotiated.max_background,
            request_timeout_s: self.negotiated.request_timeout_s,
        };
        send_descriptors(socket, &[record.as_bytes(), point], &self.descriptors)
    }
}

impl Handover<OwnedFd> {
    pub(crate) fn receive(socket: impl AsFd) -> Result<Self, HandoverError> {
        let mut bytes = [0; size_of::<Record>() + MAX_POINT_BYTES];
        let (read, descriptors) = receive_descriptors(socket, &mut bytes).map_err(HandoverError::Socket)?;
        let (record, rest) = Record::read_from_prefix(&bytes[..read]).map_err(|_| HandoverError::Message("it is too short"))?;
        if record.descriptors as usize != descriptors.len() || descriptors.is_empty() {
            return Err(HandoverError::Message("descriptors are missing: the limit of open files may be reached"));
        }
        if rest.len() != record.point_bytes as usize {
            return Err(HandoverError::Message("the mount point is cut off"));
        }
        let negotiated = Negotiated {
            minor: record.minor,
            flags: record.flags,
            max_readahead_bytes: record.max_readahead_bytes,
            max_write_bytes: record.max_write_bytes,
            max_background: record.max_background,
            request_timeout_s: record.request_timeout_s,
        };
        Ok(Handover { descriptors, negotiated, point: Path::new(OsStr::from_bytes(rest)).to_owned() })
    }
}

/// Sends one message of these parts, and descriptors with it.
pub fn send_descriptors(socket: impl AsFd, parts: &[&[u8]], descriptors: &[BorrowedFd<'_>]) -> Result<(), HandoverError> {
    let mut space = [MaybeUninit::uninit(); ANCILLARY_BYTES];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(HandoverError::TooManyDescriptors { count: descriptors.len() });
    }
    let slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let sent = sendmsg(socket, &slices, &mut ancillary, SendFlags::NOSIGNAL).map_err(HandoverError::Socket)?;
    match sent == parts.iter().map(|part| part.len()).sum::<usize>() {
        true => Ok(()),
        false => Err(HandoverError::Message("it was sent in part: use a socket that nothing else is written to")),
    }
}

/// One message of at most `bytes` and the descriptors that came with it, which are closed at an exec.
pub fn receive_descriptors(socket: impl AsFd, bytes: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); ANCILLARY_BYTES];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(Errno::MSGSIZE);
    }
    Ok((received.bytes, descriptors))
}

#[cfg(test)]
mod tests;
