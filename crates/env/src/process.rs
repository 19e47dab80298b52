//! A simulated process: its tasks run, stand still while its clock goes on, or have ended in the middle of whatever they did.
//!
//! ```text
//!    runs ── pause ──► stands still          as SIGSTOP, or a virtual machine that its host does not run
//!      ▲───── resume ──────┘ │
//!      └──── end ────────────┴──► ended      as SIGKILL: no code of it runs any more, what it held is dropped
//! ```

use parking_lot::Mutex;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::task::{AbortHandle, JoinHandle};

/// Handles of tasks that are kept before those that have ended are looked for.
const FIRST_SWEEP: usize = 256;

/// The life of one simulated process; clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Process(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    /// Who was to run while the process stood still, in that order.
    waiting: Vec<Waker>,
    /// Who wants to know of the end.
    watching: Vec<Waker>,
    tasks: Vec<AbortHandle>,
    sweep_at: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Runs,
    Paused,
    Ended,
}

impl Process {
    /// Nothing of it runs until it is resumed.
    pub fn pause(&self) {
        let mut state = self.0.lock();
        if state.phase == Phase::Runs {
            state.phase = Phase::Paused;
        }
    }

    pub fn resume(&self) {
        let waiting = {
            let mut state = self.0.lock();
            if state.phase != Phase::Paused {
                return;
            }
            state.phase = Phase::Runs;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Nothing of it runs any more; its tasks are dropped when the runtime comes to them.
    pub fn end(&self) {
        let (tasks, watching) = {
            let mut state = self.0.lock();
            state.phase = Phase::Ended;
            state.waiting.clear();
            (std::mem::take(&mut state.tasks), std::mem::take(&mut state.watching))
        };
        tasks.iter().for_each(AbortHandle::abort);
        watching.into_iter().for_each(Waker::wake);
    }

    pub fn has_ended(&self) -> bool {
        self.0.lock().phase == Phase::Ended
    }

    /// Returns when it has ended.
    pub async fn ended(&self) {
        std::future::poll_fn(|context| {
            let mut state = self.0.lock();
            if state.phase == Phase::Ended {
                return Poll::Ready(());
            }
            note(&mut state.watching, context);
            Poll::Pending
        })
        .await;
    }

    /// A future as part of this process.
    pub(crate) fn run<F: Future>(&self, future: F) -> Run<F> {
        Run { process: self.clone(), future: Box::pin(future) }
    }

    pub(crate) fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let task = tokio::spawn(self.run(future));
        let mut state = self.0.lock();
        if state.phase == Phase::Ended {
            task.abort();
            return task;
        }
        state.tasks.push(task.abort_handle());
        if state.tasks.len() > state.sweep_at.max(FIRST_SWEEP) {
            state.tasks.retain(|task| !task.is_finished());
            state.sweep_at = 2 * state.tasks.len();
        }
        task
    }
}

fn note(wakers: &mut Vec<Waker>, context: &Context<'_>) {
    if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
        wakers.push(context.waker().clone());
    }
}

/// A future that is part of a process.
pub(crate) struct Run<F> {
    process: Process,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Run<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let phase = {
            let mut state = self.process.0.lock();
            if state.phase == Phase::Paused {
                note(&mut state.waiting, context);
            }
            state.phase
        };
        match phase {
            Phase::Runs => self.future.as_mut().poll(context),
            Phase::Paused | Phase::Ended => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests;
