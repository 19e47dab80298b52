//! Locks of one inode: ranges that are held, and requests that wait.

use std::collections::VecDeque;

use fuse::{Errno, Lock, LockKind, LockOwner, Reply, RequestId};

#[derive(Clone, Copy, Debug)]
struct Held {
    owner: LockOwner,
    flock: bool,
    lock: Lock,
}

#[derive(Debug)]
struct Waiter {
    owner: LockOwner,
    flock: bool,
    lock: Lock,
    reply: Reply<()>,
}

#[derive(Debug, Default)]
pub struct Locks {
    held: Vec<Held>,
    waiters: VecDeque<Waiter>,
}

impl Locks {
    pub fn conflict(&self, owner: LockOwner, flock: bool, lock: &Lock) -> Option<Lock> {
        let conflicts = |held: &&Held| {
            held.flock == flock
                && held.owner != owner
                && held.lock.start <= lock.end
                && lock.start <= held.lock.end
                && (held.lock.kind == LockKind::Exclusive || lock.kind == LockKind::Exclusive)
        };
        self.held.iter().find(conflicts).map(|held| held.lock)
    }

    pub fn set(&mut self, owner: LockOwner, flock: bool, lock: Lock, wait: bool, reply: Reply<()>) {
        if lock.kind == LockKind::Unlock || self.conflict(owner, flock, &lock).is_none() {
            self.apply(owner, flock, lock);
            // A grant stands, whether the call was interrupted meanwhile or not.
            reply.ok(());
            self.grant();
        } else if !wait {
            reply.error(Errno::AGAIN);
        } else if reply.is_interrupted() {
            reply.error(Errno::INTR);
        } else {
            self.waiters.push_back(Waiter { owner, flock, lock, reply });
        }
    }

    /// Replaces what the owner holds of the range.
    fn apply(&mut self, owner: LockOwner, flock: bool, lock: Lock) {
        let mut kept = Vec::with_capacity(self.held.len() + 2);
        for held in self.held.drain(..) {
            let other = held.flock != flock || held.owner != owner;
            if other || held.lock.end < lock.start || lock.end < held.lock.start {
                kept.push(held);
                continue;
            }
            if held.lock.start < lock.start {
                kept.push(Held { lock: Lock { end: lock.start - 1, ..held.lock }, ..held });
            }
            if held.lock.end > lock.end {
                kept.push(Held { lock: Lock { start: lock.end + 1, ..held.lock }, ..held });
            }
        }
        if lock.kind != LockKind::Unlock {
            kept.push(Held { owner, flock, lock });
        }
        self.held = kept;
    }

    pub fn release(&mut self, owner: LockOwner, flock: bool) {
        self.held.retain(|held| held.flock != flock || held.owner != owner);
        self.grant();
    }

    fn grant(&mut self) {
        for waiter in std::mem::take(&mut self.waiters) {
            if self.conflict(waiter.owner, waiter.flock, &waiter.lock).is_none() {
                self.apply(waiter.owner, waiter.flock, waiter.lock);
                waiter.reply.ok(());
            } else {
                self.waiters.push_back(waiter);
            }
        }
    }

    /// Ends the wait of an interrupted request. False where it does not wait here.
    pub fn interrupt(&mut self, id: RequestId) -> bool {
        let Some(index) = self.waiters.iter().position(|waiter| waiter.reply.id() == id) else { return false };
        if let Some(waiter) = self.waiters.remove(index) {
            waiter.reply.error(Errno::INTR);
        }
        true
    }
}
