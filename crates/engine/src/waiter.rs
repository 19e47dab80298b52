//! Who waits for a write.

use crate::traits::EngineFuture;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use tokio::sync::Notify;

tokio::task_local! {
    static PRESENT: Waiter;
}

/// Who waits for a write. Once nobody does any more, what is under way of it goes on to its end, and nothing of it is begun anew: the client that was
/// not answered may have written the key again meanwhile.
#[derive(Clone, Default)]
pub struct Waiter(Option<Arc<Presence>>);

#[derive(Default)]
struct Presence {
    has_left: AtomicBool,
    leaves: Notify,
}

/// A write's future, which knows who waits for it. It outlives that wait: whoever leaves has it polled by somebody else.
pub struct Attended<T> {
    waiter: Waiter,
    write: EngineFuture<'static, T>,
}

impl Waiter {
    /// One that may leave. The default one never does: the engine itself.
    pub fn new() -> Waiter {
        Waiter(Some(Arc::default()))
    }

    /// Who waits for what is being polled.
    pub fn present() -> Waiter {
        PRESENT.try_with(Waiter::clone).unwrap_or_default()
    }

    /// Carries a write out for this one.
    pub fn attend<T>(&self, write: EngineFuture<'static, T>) -> Attended<T> {
        Attended { waiter: self.clone(), write }
    }

    /// Nobody waits any more.
    pub fn leave(&self) {
        if let Some(presence) = &self.0 {
            presence.has_left.store(true, Ordering::Release);
            presence.leaves.notify_waiters();
        }
    }

    pub fn has_left(&self) -> bool {
        self.0.as_ref().is_some_and(|presence| presence.has_left.load(Ordering::Acquire))
    }

    /// Returns when nobody waits any more.
    pub async fn left(&self) {
        let Some(presence) = &self.0 else { return pending().await };
        // A `Notified` hears of what comes after it was made.
        let leaves = presence.leaves.notified();
        if !self.has_left() {
            leaves.await;
        }
    }
}

impl<T> Future for Attended<T> {
    type Output = <EngineFuture<'static, T> as Future>::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Attended { waiter, write } = &mut *self;
        PRESENT.sync_scope(waiter.clone(), || write.as_mut().poll(context))
    }
}

#[cfg(test)]
mod tests {
    use super::Waiter;

    #[tokio::test]
    async fn a_write_knows_who_waits_for_it() {
        let waiter = Waiter::new();
        let write = waiter.attend(Box::pin(async {
            let waiter = Waiter::present();
            waiter.left().await;
            Ok(waiter.has_left())
        }));
        let write = tokio::spawn(write);
        tokio::task::yield_now().await;
        assert!(!write.is_finished());
        waiter.leave();
        assert!(write.await.expect("it ends").expect("heard of it"));
        waiter.left().await;
        assert!(!Waiter::present().has_left(), "the engine's own");
    }
}
