//! Messages between a server and the keeper: a byte for the kind, eight for the mount's key, and its label.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fuse::{Errno, receive_descriptors, send_descriptors};

use super::KeeperError;

/// The longest label of a mount: its folder's path and the volume's name, as the server writes them.
pub const MAX_LABEL_BYTES: usize = 8192;

const HEAD_BYTES: usize = 9;

/// One message.
#[derive(Debug)]
pub enum Message {
    /// A record and a label; the mount's handover follows.
    Keep {
        key: u64,
        label: Vec<u8>,
        record: OwnedFd,
    },
    Release {
        key: u64,
    },
    Take,
    /// As `Keep`, in the other direction.
    Held {
        key: u64,
        label: Vec<u8>,
        record: OwnedFd,
    },
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Keep = 1,
    Release = 2,
    Take = 3,
    Held = 4,
    Done = 5,
}

impl Message {
    pub fn send(&self, socket: impl AsFd) -> Result<(), KeeperError> {
        match self {
            Message::Keep { key, label, record } => send(socket, Kind::Keep, *key, label, &[record.as_fd()]),
            Message::Held { key, label, record } => send(socket, Kind::Held, *key, label, &[record.as_fd()]),
            Message::Release { key } => send(socket, Kind::Release, *key, &[], &[]),
            Message::Take => send(socket, Kind::Take, 0, &[], &[]),
            Message::Done => send(socket, Kind::Done, 0, &[], &[]),
        }
    }

    /// None where the other side has closed the connection.
    pub fn receive(socket: impl AsFd) -> Result<Option<Message>, KeeperError> {
        let mut bytes = vec![0; HEAD_BYTES + MAX_LABEL_BYTES];
        let (read, descriptors) = receive_descriptors(socket, &mut bytes)?;
        if read == 0 {
            return Ok(None);
        }
        Message::decode(&bytes[..read], descriptors).map(Some).ok_or(KeeperError::Message)
    }

    /// None where the bytes are no message.
    pub fn decode(bytes: &[u8], mut descriptors: Vec<OwnedFd>) -> Option<Message> {
        let (kind, rest) = bytes.split_first()?;
        let (key, label) = rest.split_first_chunk()?;
        let (key, label) = (u64::from_le_bytes(*key), label.to_vec());
        let kind =
            [Kind::Keep, Kind::Release, Kind::Take, Kind::Held, Kind::Done].into_iter().find(|one| *one as u8 == *kind)?;
        let carries = matches!(kind, Kind::Keep | Kind::Held);
        if descriptors.len() != usize::from(carries) || label.len() > MAX_LABEL_BYTES || (!carries && !label.is_empty()) {
            return None;
        }
        match (kind, descriptors.pop()) {
            (Kind::Keep, Some(record)) => Some(Message::Keep { key, label, record }),
            (Kind::Held, Some(record)) => Some(Message::Held { key, label, record }),
            (Kind::Release, None) => Some(Message::Release { key }),
            (Kind::Take, None) => Some(Message::Take),
            (Kind::Done, None) => Some(Message::Done),
            _ => None,
        }
    }
}

fn send(socket: impl AsFd, kind: Kind, key: u64, label: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), KeeperError> {
    if label.len() > MAX_LABEL_BYTES {
        return Err(Errno::MSGSIZE.into());
    }
    Ok(send_descriptors(socket, &[&[kind as u8], &key.to_le_bytes(), label], descriptors)?)
}
