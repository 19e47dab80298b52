//! Locks of files: taking them, waiting for them, giving them up, and the lease without which they may not be relied on.
//!
//! - Which owners may have locked something is known here, so that the close of a file without locks asks nothing.
//! - A wait is the client's own: it asks what is in the way, with pauses that grow. What this client gives up wakes one that waits for the same file.
//! - A client that was resumed does not know which owners have locked something before it: until the tree says that its session has no locks, it asks
//!   the tree for the close of every file.
//! - The kernel does not wait for the end of a last close. What the close gives up is free for each question of the same client that comes after it.
//! - A fcntl lock for which its owner would wait for good, because another owner of the client waits for it in turn, is refused.
//! - The tree takes the locks of a session away that it has not heard of for a lease. The client relies on them for a shorter time after the *sending* of
//!   its last question that was answered. What was locked there when they were taken away can't be used until it is unlocked or closed.
//! - An exclusive client has no locks at the trees: its kernel has them. It relies on its lease all the same, because its session may end without it.
//! - Locks are at the tree of their file. Each tree that the client has locks at is asked, and takes its own away (docs/rfd/0031).

mod circles;
mod closing;
mod lease;
mod table;

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use self::circles::Wait;
pub use self::table::Locks;
use super::{Client, ClientError, FileHandle};
use crate::ids::Ino;
use crate::meta::limits::MAX_FILE_BYTES;
use crate::meta::{Attributes, Command, Done, Found, Lock, LockFamily, LockOwner, LockRange, MetaError, MetaSession, Query};

/// The first pause of a wait.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// The longest pause of a wait, where few wait.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause grows by so much with each that waits: all together ask so often that the tree bears it.
const PAUSE_FOR_EACH: Duration = Duration::from_millis(1);

fn is_whole(range: &LockRange) -> bool {
    range.first == 0 && range.last >= MAX_FILE_BYTES
}

impl Client {
    /// Locks a range of a file; the file as it is then.
    pub async fn lock(&self, ino: Ino, handle: FileHandle, lock: Lock) -> Result<Attributes, ClientError> {
        self.locks.closing.over(ino).await;
        if self.commands.has_ended() {
            return Err(MetaError::NoSession.into());
        }
        self.check_lease().await?;
        let owner = lock.owner;
        if self.locks.find(ino, owner).is_some_and(|holding| holding.is_lost) {
            return Err(MetaError::LocksLost.into());
        }
        self.locks.note(ino, owner, handle, false);
        match self.commands.send(Command::Lock { ino, lock }).await {
            Ok(Done::Locked { attributes, locks_lost }) => {
                self.locks.note(ino, owner, handle, true);
                // The answer may be late, and the lock taken away again: a lease that holds now says that it is not.
                let is_of_now = self.hear_of_locks(ino.tree(), locks_lost);
                self.check_lease().await?;
                let is_lost = !is_of_now || self.locks.find(ino, owner).is_none_or(|holding| holding.is_lost);
                if is_lost { Err(MetaError::LocksLost.into()) } else { Ok(attributes) }
            }
            Ok(other) => Err(ClientError::unexpected(&other)),
            Err(error) => {
                // Where nothing answered it may be locked: it is given up with the rest of its owner.
                if matches!(error, ClientError::Meta(_)) {
                    self.locks.refused(ino, owner);
                }
                Err(error)
            }
        }
    }

    /// Locks a range of a file when nothing is in the way any more. It ends without the lock when `stopped` does.
    pub async fn lock_waiting(
        &self,
        ino: Ino,
        handle: FileHandle,
        lock: Lock,
        stopped: impl Future<Output = ()>,
    ) -> Result<Attributes, ClientError> {
        let mut stopped = pin!(stopped);
        let waiter = self.locks.wait_for(ino, lock.owner);
        loop {
            // A lock that is granted stands: this part is not interrupted.
            match self.lock(ino, handle, lock).await {
                Err(ClientError::Meta(MetaError::Locked)) => {}
                other => return other,
            }
            // As Linux has it: a flock is given up before it becomes one of another kind. Two that wait for each other would wait for good.
            if lock.owner.family == LockFamily::Flock && self.locks.find(ino, lock.owner).is_some() {
                self.unlock(ino, lock.owner, LockRange::ALL).await?;
            }
            let mut pause = FIRST_PAUSE;
            loop {
                let look = async {
                    tokio::select! {
                        () = waiter.freed.notified() => {}
                        () = self.commands.env().sleep(pause) => {}
                    }
                    self.is_in_the_way(ino, lock).await
                };
                let in_the_way = tokio::select! {
                    () = &mut stopped => return Err(ClientError::Interrupted),
                    in_the_way = look => in_the_way?,
                };
                if !in_the_way {
                    break;
                }
                pause = (pause * 2).min(self.locks.longest_pause());
            }
        }
    }

    /// Whether a lock that is waited for can't be granted yet. It is an error where it never could.
    async fn is_in_the_way(&self, ino: Ino, lock: Lock) -> Result<bool, ClientError> {
        let Some((session, found)) = self.lock_in_the_way(ino, lock).await? else { return Ok(false) };
        if lock.owner.family != LockFamily::Fcntl {
            return Ok(true);
        }
        if session != self.session() {
            self.locks.circles.end(lock.owner);
            return Ok(true);
        }
        let Some(circle) = self.locks.circles.begin(Wait { ino, lock, behind: found.owner }) else { return Ok(true) };
        for wait in &circle {
            let in_the_way = self.lock_in_the_way(wait.ino, wait.lock).await?;
            if in_the_way.is_none_or(|(session, found)| session != self.session() || found.owner != wait.behind) {
                return Ok(true);
            }
        }
        if self.locks.circles.stand(&circle) { Err(ClientError::Deadlock) } else { Ok(true) }
    }

    /// A lock that is in the way of another one, and the session that has it.
    pub async fn lock_in_the_way(&self, ino: Ino, lock: Lock) -> Result<Option<(MetaSession, Lock)>, ClientError> {
        self.locks.closing.over(ino).await;
        match self.commands.ask(Query::LockInTheWay { ino, session: self.session(), lock }).await? {
            Found::Lock(found) => Ok(found),
            other => Err(ClientError::unexpected(&other)),
        }
    }

    /// Gives up what an owner has locked of a range. An owner that has locked nothing of the file asks nothing of the tree.
    pub async fn unlock(&self, ino: Ino, owner: LockOwner, range: LockRange) -> Result<(), ClientError> {
        let holding = self.locks.find(ino, owner);
        if holding.is_none() && !self.locks.has_older_at(ino.tree()) {
            return Ok(());
        }
        if holding.is_none_or(|holding| !holding.is_lost) {
            self.commands.send(Command::Unlock { ino, owner, range }).await?;
        }
        if is_whole(&range) {
            self.locks.forget(ino, owner);
        }
        self.locks.wake_one(ino);
        Ok(())
    }

    /// An owner has none of a file any more, whether the tree can be told now or not.
    async fn unlock_all(&self, ino: Ino, owner: LockOwner) {
        if let Err(error) = self.unlock(ino, owner, LockRange::ALL).await {
            tracing::warn!(%error, "a lock of a file that was closed is given up later");
            self.locks.owe(ino, owner);
        }
    }

    /// A process has closed a descriptor of a file: its fcntl locks of the file are gone.
    pub async fn closed_by(&self, ino: Ino, process: u64) {
        if self.locks.has_some() {
            self.unlock_all(ino, LockOwner { family: LockFamily::Fcntl, number: process }).await;
        }
    }

    /// The last descriptor of an open file is closed: its flock is gone, and its locks of ranges.
    pub async fn closed(&self, ino: Ino, handle: FileHandle, flock_owner: Option<u64>) {
        // Before the first wait: the next question of the kernel may follow at once.
        let closing = self.locks.has_some().then(|| self.locks.closing.begin(ino));
        let mut owners = self.locks.by_handle(ino, handle);
        if let Some(number) = flock_owner.filter(|_| self.locks.has_older_at(ino.tree())) {
            // The kernel numbers an open file the same in both families.
            owners.extend([LockFamily::Flock, LockFamily::Fcntl].map(|family| LockOwner { family, number }));
        }
        for owner in owners {
            self.unlock_all(ino, owner).await;
        }
        drop(closing);
    }

    /// Locks the end of a file for the appends of this client; false where another one has it.
    pub(super) async fn lock_end(&self, ino: Ino) -> Result<bool, ClientError> {
        // Not by an open file: it is given up with the write.
        match self.lock(ino, FileHandle(0), Lock::of_end(self.session())).await {
            Ok(_) => {
                env::mark("files: the end of a file locked for an append");
                Ok(true)
            }
            Err(ClientError::Meta(MetaError::Locked)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn unlock_end(&self, ino: Ino) {
        self.unlock_all(ino, Lock::of_end(self.session()).owner).await;
    }
}

#[cfg(test)]
mod tests;
