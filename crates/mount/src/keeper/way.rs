//! The server's way to its mount keeper: starts it when there is something to keep, and again when it is gone.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fuse::Mount;
use parking_lot::Mutex;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, recv, socket_with,
};

use super::message::Message;
use super::{KeeperError, MAX_MOUNTS, SOCKET};

/// How long the keeper may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections that wait to be accepted.
const BACKLOG: i32 = 4;
const OWNER_ONLY: u32 = 0o600;

/// Starts the keeper's process with its listening socket.
type Start = Box<dyn Fn(OwnedFd) -> io::Result<()> + Send + Sync>;

/// A mount that the keeper holds for a server that has ended.
#[derive(Debug)]
pub struct Held {
    pub(crate) key: u64,
    pub label: Vec<u8>,
    pub record: File,
    pub(crate) mount: Mount,
}

/// The keeper of one data folder.
pub struct Keeper {
    folder: PathBuf,
    start: Start,
    way: Mutex<Way>,
}

#[derive(Default)]
struct Way {
    connection: Option<OwnedFd>,
    /// What the keeper is to hold, the oldest first.
    kept: Vec<Held>,
}

impl Keeper {
    /// No process is started yet.
    pub fn new(folder: &Path, start: Start) -> Keeper {
        Keeper { folder: folder.to_owned(), start, way: Mutex::default() }
    }

    /// Has a mount held from now on.
    pub(crate) fn keep(&self, held: Held) -> Result<(), KeeperError> {
        let mut way = self.way.lock();
        let at = match way.kept.iter().position(|known| known.key == held.key) {
            Some(at) => {
                way.kept[at] = held;
                at
            }
            None => {
                way.kept.push(held);
                way.kept.len() - 1
            }
        };
        let sent = match &way.connection {
            Some(connection) if send(connection, &way.kept[at]).is_ok() => return Ok(()),
            _ => self.begin_anew(&mut way),
        };
        if sent.is_err() {
            way.kept.remove(at);
        }
        sent
    }

    /// A mount is over.
    pub(crate) fn release(&self, key: u64) {
        let mut way = self.way.lock();
        let before = way.kept.len();
        way.kept.retain(|kept| kept.key != key);
        let sent = way.connection.as_ref().filter(|_| way.kept.len() < before).map(|it| Message::Release { key }.send(it));
        if let Some(Err(error)) = sent {
            tracing::debug!(%error, "the mount keeper was not told that a mount is over");
        }
        if way.kept.is_empty() {
            way.connection = None;
        }
    }

    /// What a server before has left, the oldest first. Nothing where no keeper runs.
    pub fn take(&self) -> Result<Vec<Held>, KeeperError> {
        let mut way = self.way.lock();
        let Some(connection) = self.connect()? else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        Message::Take.send(&connection)?;
        loop {
            match Message::receive(&connection)? {
                Some(Message::Held { key, label, record }) if found.len() < MAX_MOUNTS => {
                    let mount = Mount::receive(&connection)?;
                    found.push(Held { key, label, record: record.into(), mount });
                }
                Some(Message::Done) => break,
                _ => return Err(KeeperError::Message),
            }
        }
        // What is not kept again is released one by one.
        way.kept = found.iter().map(Held::try_clone).collect::<Result<_, _>>()?;
        way.connection = Some(connection);
        Ok(found)
    }

    /// Starts another keeper where the one before is gone, and gives it what it is to hold. True where that was done.
    pub fn look(&self) -> Result<bool, KeeperError> {
        let mut way = self.way.lock();
        if way.kept.is_empty() || way.connection.as_ref().is_some_and(is_open) {
            return Ok(false);
        }
        self.begin_anew(&mut way).map(|()| true)
    }

    fn begin_anew(&self, way: &mut Way) -> Result<(), KeeperError> {
        way.connection = None;
        let listener = self.listen()?;
        (self.start)(listener).map_err(KeeperError::Start)?;
        let connection = self.connect()?.ok_or(KeeperError::Message)?;
        for held in &way.kept {
            send(&connection, held)?;
        }
        way.connection = Some(connection);
        Ok(())
    }

    /// None where no process listens.
    fn connect(&self) -> Result<Option<OwnedFd>, KeeperError> {
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        set_patience(&socket, PATIENCE)?;
        match self.with_address(|address| Ok(connect(&socket, address)?)) {
            Ok(()) => Ok(Some(socket)),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The server has locked the folder: a socket that is there belongs to a keeper that has ended, or that is given up.
    fn listen(&self) -> Result<OwnedFd, KeeperError> {
        match std::fs::remove_file(self.folder.join(SOCKET)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        self.with_address(|address| Ok(bind(&socket, address)?))?;
        // Before it listens nobody can connect.
        std::fs::set_permissions(self.folder.join(SOCKET), Permissions::from_mode(OWNER_ONLY))?;
        listen(&socket, BACKLOG)?;
        Ok(socket)
    }

    /// The system limits a socket's path to 107 bytes, so it leads through a descriptor of the folder.
    fn with_address<T>(&self, act: impl FnOnce(&SocketAddrUnix) -> io::Result<T>) -> io::Result<T> {
        let folder = File::open(&self.folder)?;
        act(&SocketAddrUnix::new(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd()))?)
    }
}

impl Held {
    pub(crate) fn new(key: u64, label: &[u8], record: &File, mount: &Mount) -> Result<Held, KeeperError> {
        Ok(Held { key, label: label.to_vec(), record: record.try_clone()?, mount: mount.try_clone()? })
    }

    fn try_clone(&self) -> Result<Held, KeeperError> {
        Held::new(self.key, &self.label, &self.record, &self.mount)
    }

    /// Whether the mount still lies on its folder: one that was detached lives on without it.
    pub fn is_in_place(&self) -> bool {
        fuse::is_mounted(self.mount.point()).unwrap_or(true)
    }
}

/// An empty file for the record of a mount's client: memory, which the keeper holds too.
pub fn new_record() -> io::Result<File> {
    Ok(memfd_create("trilith-mount", MemfdFlags::CLOEXEC)?.into())
}

/// Has the keeper hold a mount, and waits until it does.
fn send(connection: &OwnedFd, held: &Held) -> Result<(), KeeperError> {
    let record = held.record.try_clone()?.into();
    Message::Keep { key: held.key, label: held.label.clone(), record }.send(connection)?;
    held.mount.send(connection)?;
    match Message::receive(connection)? {
        Some(Message::Done) => Ok(()),
        _ => Err(KeeperError::Message),
    }
}

fn is_open(connection: &OwnedFd) -> bool {
    let mut byte = [0; 1];
    matches!(recv(connection, &mut byte[..], RecvFlags::PEEK | RecvFlags::DONTWAIT), Err(Errno::AGAIN))
}

pub(super) fn set_patience(socket: &OwnedFd, patience: Duration) -> io::Result<()> {
    set_socket_timeout(socket, Timeout::Recv, Some(patience))?;
    Ok(set_socket_timeout(socket, Timeout::Send, Some(patience))?)
}
