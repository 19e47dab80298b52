//! The open shard's unit is asked now and then whether it is there. One that has lost most of its members takes no registrations, and only its leader says that a shard is full:
//! all puts of the cluster would wait for members that may never come back. So its shard is closed for it, and the monitor opens the next one.
//!
//! That is the manager's record: a unit that comes back finds its shard closed, and is sealed by its leader.

use std::sync::{Arc, Weak};
use std::time::Duration;

use env::{Env, Instant};
use format::chunk_id::{ChunkId, ChunkNonce, ChunkNumber, ShardId};
use manager::Manager;

use crate::limits::{CLIENT_UNIT_PATIENCE, MAX_OPEN_SILENCE, OPEN_LOOK, OPEN_SILENCE};
use crate::protocol::{UnitAnswer, UnitRequest};
use crate::reach::Reach;
use crate::unit_ways::UnitWays;

/// A node's part in this; it acts while the node leads the manager.
pub struct Opening {
    env: Env,
    manager: Arc<Manager>,
    units: UnitWays,
}

/// What is known of the open shard's unit.
#[derive(Debug)]
struct Silence {
    shard: u32,
    since: Option<Instant>,
    /// Closing it may not help: who asks may be the one that is cut off. So the next one has more time.
    patience: Duration,
}

impl Opening {
    /// Begins; the task ends with this.
    pub fn begin(env: &Env, manager: Arc<Manager>, reach: Arc<dyn Reach>) -> Arc<Opening> {
        let opening = Arc::new(Opening { env: env.clone(), manager, units: UnitWays::new(env, reach) });
        env.spawn(run(env.clone(), Arc::downgrade(&opening)));
        opening
    }

    async fn look(&self, silence: &mut Silence) {
        let open = self.manager.snapshot().open_shard().map(|shard| shard.id);
        let Some(shard) = open.filter(|_| self.manager.is_leader()) else { return silence.forget() };
        let began = self.env.now();
        // Whatever it says about that one.
        let any = ChunkId { shard: ShardId(shard), number: ChunkNumber(0), nonce: ChunkNonce(0) };
        let answer = self.units.ask(any.shard, &UnitRequest::Find(any), began + CLIENT_UNIT_PATIENCE).await;
        let is_there = matches!(answer, Some(UnitAnswer::Found(_)));
        if silence.hear(shard, began, self.env.now(), is_there) && self.manager.is_leader() {
            env::mark("chunks: an open shard without a quorum is closed");
            tracing::warn!(shard, "the open shard's unit does not answer: chunks go to the next one");
            if let Err(error) = self.manager.seal_shard(shard).await {
                tracing::warn!(shard, %error, "a shard without a quorum was not closed");
            }
        }
    }
}

impl Silence {
    fn new() -> Silence {
        Silence { shard: 0, since: None, patience: OPEN_SILENCE }
    }

    /// Somebody else leads the manager, or no shard is open.
    fn forget(&mut self) {
        self.since = None;
    }

    /// A unit was asked at `began`. Whether its shard is to be closed.
    fn hear(&mut self, shard: u32, began: Instant, now: Instant, is_there: bool) -> bool {
        if is_there {
            *self = Silence { shard, ..Silence::new() };
            return false;
        }
        if self.shard != shard {
            (self.shard, self.since) = (shard, None);
        }
        let since = *self.since.get_or_insert(began);
        let is_over = now.saturating_duration_since(since) >= self.patience;
        if is_over {
            (self.since, self.patience) = (None, (self.patience * 2).min(MAX_OPEN_SILENCE));
        }
        is_over
    }
}

async fn run(env: Env, opening: Weak<Opening>) {
    let mut silence = Silence::new();
    loop {
        env.sleep(OPEN_LOOK).await;
        let Some(opening) = opening.upgrade() else { return };
        opening.look(&mut silence).await;
    }
}

#[cfg(test)]
mod tests;
