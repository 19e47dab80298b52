//! The keeper's process: a loop over its socket, the connections of servers, and a clock for mounts that others have ended.
//!
//! | what | limit | beyond it |
//! |---|---|---|
//! | mounts | [`MAX_MOUNTS`] | the connection is closed, and the server says that a mount dies with it |
//! | connections | [`MAX_CONNECTIONS`] | they wait to be accepted |
//! | a message that has begun | [`PATIENCE`] | the connection is closed |

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use fuse::Mount;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use super::message::Message;
use super::way::set_patience;
use super::{KeeperError, MAX_MOUNTS};

/// One server, and those that are starting or ending beside it.
const MAX_CONNECTIONS: usize = 4;

/// How long the rest of a message may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Between two looks for mounts that others have ended, where no server would say so.
const LOOK: Duration = Duration::from_secs(2);

struct Kept {
    key: u64,
    label: Vec<u8>,
    record: OwnedFd,
    mount: Mount,
}

#[derive(Default)]
struct Process {
    /// The oldest first.
    kept: Vec<Kept>,
    connections: Vec<OwnedFd>,
    /// A server has given up a mount: when none is left, none is expected.
    has_released: bool,
}

/// Holds mounts for the servers that connect to `listener`, until none is left.
pub fn run(listener: OwnedFd) -> io::Result<()> {
    let mut process = Process::default();
    loop {
        let events = process.wait(&listener)?;
        if events.timed_out {
            process.kept.retain(|kept| !kept.mount.is_over());
        }
        process.serve(&events.readable);
        if process.kept.is_empty() && (events.timed_out || process.has_released) {
            return Ok(());
        }
        if events.wants_in {
            process.accept(&listener)?;
        }
    }
}

struct Events {
    timed_out: bool,
    wants_in: bool,
    /// Which connections have something to read, the last ones first.
    readable: Vec<usize>,
}

impl Process {
    fn wait(&self, listener: &OwnedFd) -> io::Result<Events> {
        let mut waits: Vec<PollFd<'_>> = self.connections.iter().map(|one| PollFd::new(one, PollFlags::IN)).collect();
        if self.connections.len() < MAX_CONNECTIONS {
            waits.push(PollFd::new(listener, PollFlags::IN));
        }
        let look = Timespec { tv_sec: LOOK.as_secs() as i64, tv_nsec: 0 };
        // A server that is connected gives up mounts by itself.
        let timeout = (self.kept.is_empty() || self.connections.is_empty()).then_some(&look);
        let ready = match poll(&mut waits, timeout) {
            Err(Errno::INTR) => return Ok(Events { timed_out: false, wants_in: false, readable: Vec::new() }),
            ready => ready?,
        };
        let mut is_ready = waits.iter().map(|wait| !wait.revents().is_empty());
        let readable: Vec<usize> =
            is_ready.by_ref().take(self.connections.len()).enumerate().filter(|(_, is)| *is).map(|(at, _)| at).collect();
        let wants_in = is_ready.next().unwrap_or(false);
        Ok(Events { timed_out: ready == 0, wants_in, readable: readable.into_iter().rev().collect() })
    }

    fn accept(&mut self, listener: &OwnedFd) -> io::Result<()> {
        match accept_with(listener, SocketFlags::CLOEXEC) {
            Ok(connection) => {
                set_patience(&connection, PATIENCE)?;
                self.connections.push(connection);
                Ok(())
            }
            Err(Errno::INTR | Errno::AGAIN | Errno::CONNABORTED) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Serves a message of each of these connections; those that have ended, or speak otherwise, are closed.
    fn serve(&mut self, readable: &[usize]) {
        for at in readable {
            let connection = self.connections.swap_remove(*at);
            if let Ok(true) = self.serve_one(&connection) {
                self.connections.push(connection);
            }
        }
    }

    fn serve_one(&mut self, connection: &OwnedFd) -> Result<bool, KeeperError> {
        match Message::receive(connection)? {
            None => return Ok(false),
            Some(Message::Keep { key, label, record }) => {
                let mount = Mount::receive(connection)?;
                self.keep(Kept { key, label, record, mount })?;
                Message::Done.send(connection)?;
            }
            Some(Message::Release { key }) => {
                self.kept.retain(|kept| kept.key != key);
                self.has_released = true;
            }
            Some(Message::Take) => {
                for Kept { key, label, record, mount } in &self.kept {
                    let record = record.try_clone()?;
                    Message::Held { key: *key, label: label.clone(), record }.send(connection)?;
                    mount.send(connection.as_fd())?;
                }
                Message::Done.send(connection)?;
            }
            Some(Message::Held { .. } | Message::Done) => return Err(KeeperError::Message),
        }
        Ok(true)
    }

    fn keep(&mut self, new: Kept) -> Result<(), KeeperError> {
        let count = self.kept.len();
        match self.kept.iter_mut().find(|kept| kept.key == new.key) {
            Some(kept) => *kept = new,
            None if count >= MAX_MOUNTS => return Err(KeeperError::Full),
            None => self.kept.push(new),
        }
        Ok(())
    }
}
