//! The backing of a manager that is alone: log, apply, publish, materialise.
//!
//! ```text
//!   propose ─▶ wal (durable) ─▶ apply in order ─▶ kv batch with the index ─▶ published snapshot ─▶ reply
//!                                                     │ every so often
//!                                                     └─▶ kv.persist ─▶ wal.truncate_before
//! ```
//!
//! Invariants:
//! - Nothing is applied before it is durable, and everything is applied in the order of the log.
//! - The log is shortened only up to a command whose effect a persist has covered.
//! - A proposal whose future is dropped runs to its end all the same.

use std::collections::VecDeque;
use std::sync::Arc;

use env::Env;
use kv::Kv;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use wal::{AppendError, Lsn, OpenOptions, Pending, SegmentStore, Wal};

use crate::command::{Command, apply_noting, replay};
use crate::entry::EntryKey;
use crate::error::{ManagerError, OpenError, ProposeError};
use crate::limits::{PERSIST_INTERVAL_COMMANDS, PERSIST_INTERVAL_SEGMENTS};
use crate::operation::Operation;
use crate::published::Published;
use crate::snapshot::{CommandIndex, Snapshot};
use crate::table;

/// A manager of one member, on its log and its materialised state.
pub(crate) struct Alone {
    env: Env,
    wal: Wal,
    kv: Arc<dyn Kv>,
    published: Arc<Published>,
    core: Mutex<Core>,
}

struct Core {
    state: Snapshot,
    /// Commands in the log that are not applied yet, in its order.
    waiting: VecDeque<Waiting>,
    /// Commands applied since the last persist began.
    unpersisted: u64,
    is_persisting: bool,
    failure: Option<ProposeError>,
}

struct Waiting {
    index: CommandIndex,
    carry_out: CarryOut,
}

/// Applies a command of ours and returns how to tell its proposer, once the effect can be seen.
type CarryOut = Box<dyn FnOnce(&mut Vec<EntryKey>, &mut Snapshot) -> Tell + Send>;
type Tell = Box<dyn FnOnce() + Send>;

impl Alone {
    /// Reads the log beyond `state`, which may begin no earlier than `begin_at`.
    pub(crate) async fn start(
        env: &Env,
        store: Arc<dyn SegmentStore>,
        kv: Arc<dyn Kv>,
        mut state: Snapshot,
        begin_at: Lsn,
    ) -> Result<Arc<Alone>, OpenError> {
        let options = OpenOptions { keep_from: Lsn(state.applied.0).next(), begin_at };
        let mut touched = Vec::new();
        let mut replayed = 0;
        let mut refused = None;
        let mut replay_record = |Lsn(index): Lsn, bytes: &[u8]| {
            let index = CommandIndex(index);
            replayed += 1;
            match Command::decode(bytes) {
                Ok(command) if refused.is_none() => replay(index, &command, &mut touched, &mut state),
                Ok(_) => {}
                Err(cause) => drop(refused.get_or_insert(OpenError::Command { index, cause })),
            }
        };
        let wal = Wal::open(env, store, options, &mut replay_record).await?;
        if let Some(refused) = refused {
            return Err(refused);
        }
        if replayed > 0 {
            // Durable at once: the log may have been left with no room for another command.
            kv.commit(table::batch(&state, touched))?;
            kv.persist()?;
            wal.truncate_before(Lsn(state.applied.0).next());
        }
        let alone = Alone {
            env: env.clone(),
            wal,
            kv,
            published: Arc::new(Published::new(&state)),
            core: Mutex::new(Core { state, waiting: VecDeque::new(), unpersisted: 0, is_persisting: false, failure: None }),
        };
        Ok(Arc::new(alone))
    }

    /// What readers see.
    pub(crate) fn published(&self) -> &Arc<Published> {
        &self.published
    }

    /// Puts an operation through the log and answers with what it did.
    pub(crate) async fn propose<O: Operation>(self: &Arc<Self>, operation: O) -> Result<O::Reply, ManagerError<O::Refusal>> {
        let command: Command = operation.clone().into();
        let bytes = command.encode();
        let room = self.wal.reserve(bytes.len()).await.map_err(propose_error)?;
        let (reply, replied) = oneshot::channel();
        let pending = {
            let mut core = self.core.lock();
            if let Some(failure) = &core.failure {
                return Err(failure.clone().into());
            }
            let pending = room.append(bytes).map_err(propose_error)?;
            let index = CommandIndex(pending.lsn().0);
            let carry_out: CarryOut = Box::new(move |touched, state| {
                let outcome = apply_noting(index, touched, state, |edit| operation.apply(index, edit));
                // The proposer may have lost interest.
                Box::new(move || drop(reply.send(outcome)))
            });
            core.waiting.push_back(Waiting { index, carry_out });
            pending
        };
        self.follow(pending);
        match replied.await {
            Ok(outcome) => outcome.map_err(ManagerError::Refused),
            Err(_) => Err(self.core.lock().failure.clone().unwrap_or(ProposeError::Abandoned).into()),
        }
    }

    /// Applies a command once it is durable.
    fn follow(self: &Arc<Self>, pending: Pending) {
        let alone = Arc::clone(self);
        self.env.spawn(async move {
            match pending.await {
                Ok(_) => alone.apply_durable(),
                Err(error) => alone.fail(propose_error(error)),
            }
        });
    }

    /// Applies all commands that are durable by now.
    fn apply_durable(self: &Arc<Self>) {
        let mut tell = Vec::new();
        let mut core = self.core.lock();
        if core.failure.is_some() {
            return;
        }
        let durable = CommandIndex(self.wal.durable_lsn().0);
        let mut touched = Vec::new();
        while core.waiting.front().is_some_and(|next| next.index <= durable) {
            let next = core.waiting.pop_front().expect("there is a front");
            core.unpersisted += 1;
            tell.push((next.carry_out)(&mut touched, &mut core.state));
        }
        if tell.is_empty() {
            return;
        }
        if let Err(cause) = self.kv.commit(table::batch(&core.state, touched)) {
            return fail(&mut core, ProposeError::Commit(Arc::new(cause)));
        }
        self.published.publish(&core.state);
        let log_is_long = self.wal.live_segment_count() > PERSIST_INTERVAL_SEGMENTS;
        let is_due = log_is_long || core.unpersisted >= PERSIST_INTERVAL_COMMANDS;
        if is_due && !std::mem::replace(&mut core.is_persisting, true) {
            let alone = Arc::clone(self);
            self.env.spawn(async move {
                let outcome = alone.persist().await;
                alone.core.lock().is_persisting = false;
                if let Err(failure) = outcome {
                    tracing::error!(%failure, "the manager takes no more commands");
                }
            });
        }
        drop(core);
        for tell in tell {
            tell();
        }
    }

    /// Makes the state durable by itself and shortens the log.
    pub(crate) async fn persist(self: &Arc<Self>) -> Result<(), ProposeError> {
        let covered = {
            let mut core = self.core.lock();
            core.unpersisted = 0;
            core.state.applied
        };
        let outcome = if self.kv.persist_waits() {
            let kv = Arc::clone(&self.kv);
            tokio::task::spawn_blocking(move || kv.persist()).await.map_err(|_| ProposeError::Abandoned)?
        } else {
            self.kv.persist()
        };
        if let Err(cause) = outcome {
            let failure = ProposeError::Persist(Arc::new(cause));
            self.fail(failure.clone());
            return Err(failure);
        }
        self.wal.truncate_before(Lsn(covered.0).next());
        Ok(())
    }

    /// Why it takes no more commands, if so.
    pub(crate) fn failure(&self) -> Option<ProposeError> {
        self.core.lock().failure.clone()
    }

    fn fail(&self, failure: ProposeError) {
        fail(&mut self.core.lock(), failure);
    }
}

/// Ends the taking of commands. Who waits for a reply learns it by the end of the channel.
fn fail(core: &mut Core, failure: ProposeError) {
    core.failure.get_or_insert(failure);
    core.waiting.clear();
}

fn propose_error(error: AppendError) -> ProposeError {
    match error {
        AppendError::RecordLength { found, most } => ProposeError::Length { found, most },
        error @ AppendError::Poisoned(_) => ProposeError::Log(error),
    }
}
