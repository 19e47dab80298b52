//! Work that goes on to its end when the caller gives up waiting for it.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use env::Env;

/// A future that is spawned as a task when it is dropped before its end.
pub struct Finishing<T: Send + 'static> {
    env: Env,
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
}

impl<T: Send + 'static> Finishing<T> {
    pub fn new(env: &Env, work: impl Future<Output = T> + Send + 'static) -> Finishing<T> {
        Finishing { env: env.clone(), work: Some(Box::pin(work)) }
    }
}

impl<T: Send + 'static> Future for Finishing<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let work = self.work.as_mut().expect("polled until it is ready");
        let outcome = ready!(work.as_mut().poll(context));
        self.work = None;
        Poll::Ready(outcome)
    }
}

impl<T: Send + 'static> Drop for Finishing<T> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            // The caller does not wait for the outcome any more.
            drop(self.env.spawn(async move { drop(work.await) }));
        }
    }
}
