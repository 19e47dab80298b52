//! Locks: what the kernel asks of fcntl and flock, and the calls that wait for them.

use std::collections::HashMap;

use filesystem::client::Client;
use filesystem::client::ClientError;
use filesystem::meta::{LockFamily, LockOwner, LockRange};
use fuse::request::{GetLock, SetLock};
use fuse::{Lock, LockKind, RequestId};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::convert::ino;

/// Calls that wait for a lock, by their request. The sessions of a mount bound them.
#[derive(Debug, Default)]
pub struct Waits {
    stops: Mutex<HashMap<RequestId, oneshot::Sender<()>>>,
}

impl Waits {
    /// A call begins to wait. What is returned ends when the call is interrupted.
    pub fn begin(&self, id: RequestId) -> oneshot::Receiver<()> {
        let (stop, stopped) = oneshot::channel();
        self.stops.lock().insert(id, stop);
        stopped
    }

    pub fn end(&self, id: RequestId) {
        self.stops.lock().remove(&id);
    }

    /// A call that does not wait is answered soon anyway.
    pub fn interrupt(&self, id: RequestId) {
        if let Some(stop) = self.stops.lock().remove(&id) {
            // A call that was answered just now does not wait any more.
            stop.send(()).ok();
        }
    }
}

fn family(is_flock: bool) -> LockFamily {
    if is_flock { LockFamily::Flock } else { LockFamily::Fcntl }
}

/// The owner and the range that a request is about.
pub fn place(request: &SetLock) -> (LockOwner, LockRange) {
    let owner = LockOwner { family: family(request.flock), number: request.owner.0 };
    (owner, LockRange { first: request.lock.start, last: request.lock.end })
}

pub fn wanted(request: &SetLock) -> filesystem::meta::Lock {
    let (owner, range) = place(request);
    let is_exclusive = request.lock.kind == LockKind::Exclusive;
    filesystem::meta::Lock { owner, range, is_exclusive, pid: request.lock.pid }
}

/// The lock that is in the way of the one that is asked about; an unlocked range where none is.
pub async fn in_the_way(client: &Client, request: &GetLock) -> Result<Lock, ClientError> {
    let owner = LockOwner { family: LockFamily::Fcntl, number: request.owner.0 };
    let wanted = filesystem::meta::Lock {
        owner,
        range: LockRange { first: request.lock.start, last: request.lock.end },
        is_exclusive: request.lock.kind == LockKind::Exclusive,
        pid: request.lock.pid,
    };
    Ok(match client.lock_in_the_way(ino(request.node), wanted).await? {
        None => Lock { kind: LockKind::Unlock, ..request.lock },
        Some((_, found)) => Lock {
            start: found.range.first,
            end: found.range.last,
            kind: if found.is_exclusive { LockKind::Exclusive } else { LockKind::Shared },
            pid: found.pid,
        },
    })
}
