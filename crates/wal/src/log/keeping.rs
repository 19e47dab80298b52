//! Records that are kept in the log's tail: they outlive the process, and wait for others on their way to the segments.

use std::sync::Arc;

use env::Instant;
use tokio::sync::oneshot;

use super::{KEPT_DELAY, State, Wal, Writer};
use crate::Lsn;
use crate::error::{AppendError, Failure, OpenError};
use crate::recovery::Replay;
use crate::tail::{Ring, Tail, records_from};

/// Waits until a record is durable, with all before it.
pub(super) struct SettleWaiter {
    lsn: Lsn,
    done: oneshot::Sender<Result<(), AppendError>>,
}

impl Wal {
    /// Writes to the segments what the process before has kept, then begins the tail anew.
    pub(super) async fn take_tail(&self, tail: Arc<dyn Tail>, replay: Replay<'_>) -> Result<(), OpenError> {
        let next = self.inner.state.lock().next_lsn;
        let kept = records_from(tail.as_ref(), self.inner.log_id, next)?;
        let mut pending = Vec::new();
        for payload in kept {
            env::mark("wal: a record of the tail");
            let room = self.reserve(payload.len()).await?;
            let record = room.append(payload.clone())?;
            replay(record.lsn(), &payload);
            pending.push(record);
        }
        for record in pending {
            record.await?;
        }
        self.inner.state.lock().ring = Some(Ring::begin(tail, &self.inner.env, self.inner.log_id)?);
        Ok(())
    }

    /// From now on records go into the tail, if the log has one. Whether it has.
    pub fn begin_keeping(&self) -> bool {
        let mut state = self.inner.state.lock();
        state.keeps = state.ring.as_ref().is_some_and(Ring::is_sound);
        state.keeps
    }

    /// Waits until all kept records are durable.
    pub async fn settle(&self) -> Result<(), AppendError> {
        let settled = {
            let mut state = self.inner.state.lock();
            if state.durable_lsn >= state.last_kept {
                return Ok(());
            }
            if let Some(failure) = &state.failure {
                return Err(AppendError::Poisoned(Arc::clone(failure)));
            }
            let (done, settled) = oneshot::channel();
            let lsn = state.last_kept;
            state.settling.push(SettleWaiter { lsn, done });
            state.hurry = state.hurry.max(lsn);
            settled
        };
        self.inner.hurried.notify_one();
        settled.await.unwrap_or_else(|_| Err(AppendError::Poisoned(Arc::new(Failure::Abandoned))))
    }
}

impl State {
    /// Whether the record outlives the process from now on.
    pub(super) fn keep(&mut self, lsn: Lsn, payload: &[u8]) -> bool {
        let durable = self.durable_lsn;
        self.keeps && self.ring.as_mut().is_some_and(|ring| ring.keep(lsn, payload, durable))
    }

    /// Tells each of those whose records are durable.
    pub(super) fn tell_settled(&mut self) {
        let durable = self.durable_lsn;
        for settled in self.settling.extract_if(.., |settled| settled.lsn <= durable) {
            // It may have lost interest.
            drop(settled.done.send(Ok(())));
        }
    }

    /// Tells all of them that the log has ended.
    pub(super) fn end_settling(&mut self, failure: &Arc<Failure>) {
        for settled in self.settling.drain(..) {
            drop(settled.done.send(Err(AppendError::Poisoned(Arc::clone(failure)))));
        }
    }
}

impl Writer {
    /// Waits for others where only kept records wait.
    pub(super) async fn next_batch(&mut self) -> Option<Vec<Vec<u8>>> {
        while let Some(until) = self.gathers_until() {
            tokio::select! {
                biased;
                () = self.inner.hurried.notified() => {}
                () = self.inner.env.sleep_until(until) => break,
            }
        }
        self.take_batch()
    }

    /// Until when the records in the queue may wait for others.
    fn gathers_until(&self) -> Option<Instant> {
        let state = self.inner.state.lock();
        let first = state.queue.front()?.waiter.lsn;
        let until = state.kept_since? + KEPT_DELAY;
        (state.hurry < first && self.inner.env.now() < until).then_some(until)
    }
}
