//! Which epoch a write belongs to, and when an epoch is over (paper section 3.4; RFD 2, decision 11).
//!
//! Every operation that puts an entry into the index (a write, a relocation) enters the present epoch when it is dispatched and
//! leaves it when its entry is published or given up. A checkpoint advances the epoch and waits until nobody is left in the
//! one before: then that epoch's entries are complete, and everything not yet checkpointed stands behind the log positions
//! read before the advance.
//!
//! Invariant: at most two epochs have members, the present one and the one that was present before it. One of the two numbers is odd: members are
//! counted by that.

use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;
use types::Epoch;

/// An operation in an epoch, which it leaves when this is dropped: also with its future.
pub struct InEpoch<'a> {
    epochs: &'a Epochs,
    epoch: Epoch,
}

/// The present epoch and the number of operations in it and in its predecessor.
pub struct Epochs {
    present: AtomicU64,
    members: [AtomicU64; 2],
    left: Notify,
}

impl Epochs {
    pub fn starting_at(epoch: Epoch) -> Self {
        Epochs { present: AtomicU64::new(epoch.0), members: [AtomicU64::new(0), AtomicU64::new(0)], left: Notify::new() }
    }

    pub fn present(&self) -> Epoch {
        Epoch(self.present.load(Ordering::SeqCst))
    }

    /// Joins the present epoch for as long as what is returned lives.
    pub fn stay(&self) -> InEpoch<'_> {
        InEpoch { epochs: self, epoch: self.enter() }
    }

    /// Joins the present epoch. Pair with [`Epochs::leave`].
    pub fn enter(&self) -> Epoch {
        loop {
            let epoch = self.present.load(Ordering::SeqCst);
            self.count(epoch).fetch_add(1, Ordering::SeqCst);
            // Only a member that was counted before the advance keeps the epoch open; else it counts for the next one.
            if self.present.load(Ordering::SeqCst) == epoch {
                return Epoch(epoch);
            }
            self.leave(Epoch(epoch));
        }
    }

    pub fn leave(&self, epoch: Epoch) {
        let before = self.count(epoch.0).fetch_sub(1, Ordering::SeqCst);
        assert!(before > 0, "an operation left an epoch that it had not entered");
        if before == 1 && self.present.load(Ordering::SeqCst) != epoch.0 {
            self.left.notify_waiters();
        }
    }

    /// The epoch to begin next on the way to this one: that one, or first another whose members are not counted with those of the present one.
    pub fn step_towards(&self, epoch: Epoch) -> Epoch {
        let present = self.present();
        match (epoch.0 - present.0) % 2 {
            1 => epoch,
            _ => Epoch(present.0 + 1),
        }
    }

    /// Begins an epoch that is a [step](Epochs::step_towards) away; returns the one that ended. The one before that must have drained.
    pub fn advance_to(&self, next: Epoch) -> Epoch {
        // That it has drained can't be asserted by its count: a straggler of `enter` may just be counting itself in and out.
        let ended = self.present.load(Ordering::SeqCst);
        assert!(next.0 > ended && (next.0 - ended) % 2 == 1, "epoch {next} can't begin while {ended} is the present one");
        self.present.store(next.0, Ordering::SeqCst);
        Epoch(ended)
    }

    /// Waits until nobody is left in `epoch`.
    pub async fn drained(&self, epoch: Epoch) {
        loop {
            let left = self.left.notified();
            tokio::pin!(left);
            left.as_mut().enable();
            if self.count(epoch.0).load(Ordering::SeqCst) == 0 {
                return;
            }
            left.await;
        }
    }

    fn count(&self, epoch: u64) -> &AtomicU64 {
        &self.members[(epoch % 2) as usize]
    }
}

impl InEpoch<'_> {
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }
}

impl Drop for InEpoch<'_> {
    fn drop(&mut self) {
        self.epochs.leave(self.epoch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test]
    async fn an_epoch_ends_when_its_last_member_leaves() {
        let epochs = Arc::new(Epochs::starting_at(Epoch(7)));
        let first = epochs.enter();
        assert_eq!(first, Epoch(7));
        assert_eq!(epochs.advance_to(Epoch(8)), Epoch(7));
        assert_eq!(epochs.enter(), Epoch(8));
        let drained = tokio::spawn({
            let epochs = epochs.clone();
            async move { epochs.drained(Epoch(7)).await }
        });
        tokio::task::yield_now().await;
        assert!(!drained.is_finished());
        epochs.leave(first);
        drained.await.unwrap();
    }

    /// Caught: one step whatever the numbers. Members of both epochs would be counted together, and the one that ended would never drain.
    #[tokio::test]
    async fn an_epoch_far_ahead_is_two_steps_away_at_most() {
        for goal in [1_000_000, 1_000_001] {
            let epochs = Epochs::starting_at(Epoch(7));
            let mut steps = 0;
            while epochs.present() < Epoch(goal) {
                let _before = epochs.enter();
                let ended = epochs.advance_to(epochs.step_towards(Epoch(goal)));
                let after = epochs.enter();
                assert!(futures_util::poll!(std::pin::pin!(epochs.drained(ended))).is_pending());
                epochs.leave(ended);
                assert!(futures_util::poll!(std::pin::pin!(epochs.drained(ended))).is_ready());
                epochs.leave(after);
                steps += 1;
            }
            assert_eq!((epochs.present(), steps <= 2), (Epoch(goal), true), "{steps} steps");
        }
    }

    #[tokio::test]
    async fn a_future_that_is_dropped_leaves_its_epoch() {
        let epochs = Epochs::starting_at(Epoch(7));
        let mut operation = Box::pin(async {
            let stay = epochs.stay();
            std::future::pending::<()>().await;
            drop(stay);
        });
        assert!(futures_util::poll!(&mut operation).is_pending());
        let ended = epochs.advance_to(Epoch(8));
        assert!(futures_util::poll!(std::pin::pin!(epochs.drained(ended))).is_pending());
        drop(operation);
        assert!(futures_util::poll!(std::pin::pin!(epochs.drained(ended))).is_ready());
    }

    #[test]
    fn concurrent_members_never_outlive_a_drained_epoch() {
        let epochs = Arc::new(Epochs::starting_at(Epoch(1)));
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let epochs = epochs.clone();
                std::thread::spawn(move || {
                    for _ in 0..20_000 {
                        let epoch = epochs.enter();
                        let present = epochs.present();
                        assert!(present == epoch || present.0 == epoch.0 + 1, "{present} while in {epoch}");
                        epochs.leave(epoch);
                    }
                })
            })
            .collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for _ in 0..500 {
                let ended = epochs.advance_to(Epoch(epochs.present().0 + 1));
                epochs.drained(ended).await;
            }
        });
        for worker in workers {
            worker.join().unwrap();
        }
    }
}
