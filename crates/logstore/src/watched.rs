//! A value that tasks wait to see change. Unlike a channel of its kind it wakes them in the order in which they began to wait, so
//! that a simulation replays from its seed.

use parking_lot::Mutex;
use tokio::sync::Notify;

/// A value and who waits for it to change.
#[derive(Default)]
pub(crate) struct Watched<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T: Copy> Watched<T> {
    pub fn get(&self) -> T {
        *self.value.lock()
    }

    /// Changes the value and wakes whoever waits.
    pub fn change(&self, change: impl FnOnce(&mut T)) {
        change(&mut self.value.lock());
        self.changed.notify_waiters();
    }

    /// Waits until the value is as wanted; the value then.
    pub async fn wait_for(&self, is_wanted: impl Fn(&T) -> bool) -> T {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Before the value is looked at, so that no change falls between.
            changed.as_mut().enable();
            let value = self.get();
            if is_wanted(&value) {
                return value;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test]
    async fn those_who_wait_are_woken_in_their_order() {
        let (watched, woken) = (Arc::new(Watched::<u32>::default()), Arc::new(Mutex::new(Vec::new())));
        let mut waiting = tokio::task::JoinSet::new();
        for number in 0..50 {
            let (watched, woken) = (watched.clone(), woken.clone());
            waiting.spawn(async move {
                watched.wait_for(|value| *value > 1).await;
                woken.lock().push(number);
            });
        }
        for _ in 0..2 {
            tokio::task::yield_now().await;
            assert!(woken.lock().is_empty());
            watched.change(|value| *value += 1);
        }
        waiting.join_all().await;
        assert_eq!(*woken.lock(), (0..50).collect::<Vec<_>>());
        assert_eq!(watched.wait_for(|value| *value == 2).await, 2);
    }
}
