//! A value that tasks wait to see change.
//!
//! Like tokio's channel of this name, but whoever waits is woken in the order in which they began to wait. tokio's wakes them in an order
//! that it draws by itself, so a simulation that uses it does not replay.

use parking_lot::{RwLock, RwLockReadGuard};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tokio::sync::Notify;

/// The value as it is now. Keep it short: whoever changes the value waits for it.
pub type Ref<'a, T> = RwLockReadGuard<'a, T>;

struct Shared<T> {
    value: RwLock<T>,
    /// How often the value was changed.
    version: AtomicU64,
    changed: Notify,
    senders: AtomicUsize,
    receivers: AtomicUsize,
}

/// All senders are gone: the value never changes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody can change the value any more")
    }
}

impl std::error::Error for Closed {}

/// Changes the value.
pub struct Sender<T>(Arc<Shared<T>>);

/// Sees the value change.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

/// A value and who waits for it.
pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(value);
    let receiver = sender.subscribe();
    (sender, receiver)
}

impl<T> Sender<T> {
    pub fn new(value: T) -> Sender<T> {
        Sender(Arc::new(Shared {
            value: RwLock::new(value),
            version: AtomicU64::new(0),
            changed: Notify::new(),
            senders: AtomicUsize::new(1),
            receivers: AtomicUsize::new(0),
        }))
    }

    /// Changes the value; gives it back if nobody would see it.
    pub fn send(&self, value: T) -> Result<(), T> {
        if self.0.receivers.load(Ordering::Acquire) == 0 {
            return Err(value);
        }
        self.send_replace(value);
        Ok(())
    }

    /// Changes the value, whether somebody sees it or not; returns the former one.
    pub fn send_replace(&self, value: T) -> T {
        let mut former = value;
        self.send_if_modified(|current| {
            std::mem::swap(current, &mut former);
            true
        });
        former
    }

    /// Lets `modify` change the value; those who wait are told if it says that it did.
    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        {
            let mut value = self.0.value.write();
            if !modify(&mut value) {
                return false;
            }
            self.0.version.fetch_add(1, Ordering::Release);
        }
        self.0.changed.notify_waiters();
        true
    }

    pub fn borrow(&self) -> Ref<'_, T> {
        self.0.value.read()
    }

    /// Sees what comes from here on.
    pub fn subscribe(&self) -> Receiver<T> {
        self.0.receivers.fetch_add(1, Ordering::AcqRel);
        let seen = self.0.version.load(Ordering::Acquire);
        Receiver { shared: self.0.clone(), seen }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.0.senders.fetch_add(1, Ordering::AcqRel);
        Sender(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.0.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.changed.notify_waiters();
        }
    }
}

impl<T> Receiver<T> {
    /// Waits for a value that this receiver has not seen; it counts as seen then.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        let Receiver { shared, seen } = self;
        loop {
            let changed = shared.changed.notified();
            tokio::pin!(changed);
            // Before the version is looked at, so that no change falls between.
            changed.as_mut().enable();
            let version = shared.version.load(Ordering::Acquire);
            if version != *seen {
                *seen = version;
                return Ok(());
            }
            if shared.senders.load(Ordering::Acquire) == 0 {
                return Err(Closed);
            }
            changed.await;
        }
    }

    pub fn borrow(&self) -> Ref<'_, T> {
        self.shared.value.read()
    }

    /// The value, which counts as seen.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let value = self.shared.value.read();
        // Under the lock: the version is that of this value.
        self.seen = self.shared.version.load(Ordering::Acquire);
        value
    }

    /// Whether there is a value that this receiver has not seen.
    pub fn has_changed(&self) -> bool {
        self.shared.version.load(Ordering::Acquire) != self.seen
    }

    /// Waits until the value is as wanted.
    pub async fn wait_for(&mut self, is_wanted: impl Fn(&T) -> bool) -> Result<Ref<'_, T>, Closed> {
        while !is_wanted(&self.borrow_and_update()) {
            self.changed().await?;
        }
        Ok(self.borrow())
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        self.shared.receivers.fetch_add(1, Ordering::AcqRel);
        Receiver { shared: self.shared.clone(), seen: self.seen }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.shared.receivers.fetch_sub(1, Ordering::AcqRel);
    }
}

impl<T: Default> Default for Sender<T> {
    fn default() -> Sender<T> {
        Sender::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sender").field(&*self.borrow()).finish()
    }
}

impl<T: fmt::Debug> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Receiver").field(&*self.borrow()).finish()
    }
}

#[cfg(test)]
mod tests;
