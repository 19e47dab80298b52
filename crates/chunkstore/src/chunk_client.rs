//! The client library: put, get, modify, delete, relocate, locate (docs/rfd/0012).
//!
//! ```text
//!   call ─► machine (client) ─► sends ─► tasks ─► nodes, hosts, units
//!              ▲                              │
//!              └──── events, or a timeout ◄───┘   deliveries
//! ```

mod messenger;
mod ways;
mod whereabouts;

pub use whereabouts::{CopySeen, Whereabouts};

use std::sync::Arc;

use bytes::Bytes;
use env::Env;
use format::chunk_block::BLOCK_DATA_BYTES;
use format::chunk_command::ClientCall;
use format::chunk_id::ChunkId;
use tokio::sync::{Semaphore, mpsc};
use types::{DeviceId, ErrorKind};

use crate::client::{Access, Event, Intent, NewChunk, Next, Outcome, Put};
use crate::deliveries::Deliveries;
use crate::limits::{
    CALL_PATIENCE, CLIENT_PATIENCE, MAX_EVENTS, MAX_PUT_TRIES, MAX_TAKE_BACKS, MAX_TELLS, PUT_PAUSE, QUICK_PUT_TRIES,
};
use crate::maintenance::Refusal;
use crate::message::NodeRefusal;
use crate::protocol::{UnitAnswer, UnitRequest};
use crate::reach::Reach;
use messenger::Messenger;
use ways::Ways;

/// Why a call did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    #[error("there is no such chunk")]
    NotFound,
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("a node refused: {0}")]
    RefusedByNode(NodeRefusal),
    #[error("{found} bytes; a chunk has between 1 and {BLOCK_DATA_BYTES}")]
    Size { found: usize },
    #[error("no shard takes chunks: no node has space for them, or the first one has just begun")]
    NoShard,
    #[error(
        "the cluster does not know the chunk's shard, which may have been opened after the copy from which its manager was rebuilt"
    )]
    ShardLost,
    /// What was to be changed may have been changed, or may be yet.
    #[error("nodes that are needed do not answer; it is not known whether it was done")]
    Unavailable,
}

impl ChunkError {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            ChunkError::NotFound => ErrorKind::NotFound,
            ChunkError::Refused(refusal) => refusal.kind(),
            ChunkError::RefusedByNode(NodeRefusal::Full) => ErrorKind::Full,
            ChunkError::RefusedByNode(NodeRefusal::TooLong) | ChunkError::Size { .. } => ErrorKind::Invalid,
            ChunkError::RefusedByNode(_) => ErrorKind::Conflict,
            ChunkError::NoShard | ChunkError::ShardLost | ChunkError::Unavailable => ErrorKind::Unavailable,
        }
    }
}

/// One of the machines.
trait Machine {
    fn step(&mut self, event: Event) -> Next;
}

impl Machine for Put {
    fn step(&mut self, event: Event) -> Next {
        Put::step(self, event)
    }
}

impl Machine for Access {
    fn step(&mut self, event: Event) -> Next {
        Access::step(self, event)
    }
}

/// A client.
#[derive(Clone)]
pub struct ChunkClient {
    env: Env,
    ways: Arc<Ways>,
    deliveries: Arc<Deliveries>,
    /// Where answers that come from elsewhere are delivered.
    reply_address: String,
    /// One permit for each message that nobody waits for.
    tells: Arc<Semaphore>,
}

impl ChunkClient {
    /// `deliveries` is served at `reply_address`.
    pub fn new(env: &Env, reach: Arc<dyn Reach>, deliveries: Arc<Deliveries>, reply_address: String) -> ChunkClient {
        let ways = Arc::new(Ways::new(env, reach));
        let tells = Arc::new(Semaphore::new(MAX_TELLS as usize));
        ChunkClient { env: env.clone(), ways, deliveries, reply_address, tells }
    }

    /// Waits for the messages that calls have left behind: for a process that ends.
    pub async fn finish(&self) {
        drop(self.tells.acquire_many(MAX_TELLS).await);
    }

    /// Stores a chunk; returns when it is durable in all copies and can be found.
    pub async fn put(&self, content: Bytes, copies: u8) -> Result<ChunkId, ChunkError> {
        let bytes = u32::try_from(content.len()).unwrap_or(u32::MAX);
        if content.is_empty() || bytes > BLOCK_DATA_BYTES {
            return Err(ChunkError::Size { found: content.len() });
        }
        // Where there was a shard there is another one in a moment.
        let knows_shards = || !self.ways.map().shards.is_empty();
        if !knows_shards() {
            self.ways.reach.refresh().await;
            if !knows_shards() {
                return Err(ChunkError::NoShard);
            }
        }
        let mut outcome = Outcome::Unavailable;
        for tried in 0..MAX_PUT_TRIES {
            if tried >= QUICK_PUT_TRIES {
                self.env.sleep(PUT_PAUSE).await;
            }
            let call = self.env.random_u64();
            let call = ClientCall { session: (call >> 32) as u32, request: call as u32 };
            let (mut put, next) = Put::begin(NewChunk { call, bytes, copies }, content.clone());
            outcome = self.run(&mut put, next).await;
            if let Some(id) = put.uncommitted() {
                self.take_back(id);
            }
            // At other places: the former registration runs out.
            let is_worth_trying = matches!(
                outcome,
                Outcome::Unavailable
                    | Outcome::RefusedByNode(_)
                    | Outcome::Refused(Refusal::NotPending | Refusal::NoPlacesYet | Refusal::Busy)
            );
            if !is_worth_trying {
                break;
            }
        }
        match outcome {
            Outcome::Stored(id) => Ok(id),
            other => Err(error_of(other)),
        }
    }

    /// Ends a chunk whose id nobody will ever be told: it may be committed. In the background, and no more than some tries.
    fn take_back(&self, id: ChunkId) {
        let Ok(permit) = self.tells.clone().try_acquire_owned() else { return };
        let client = self.clone();
        self.env.spawn(async move {
            for _ in 0..MAX_TAKE_BACKS {
                match client.ways.ask_unit(id.shard, &UnitRequest::Revoke(id)).await {
                    Some(UnitAnswer::Refused(Refusal::NotPending)) => {
                        // Who can't reach all copies now leaves a chunk that takes room.
                        _ = client.delete(id).await;
                        break;
                    }
                    // What was too busy for the commit is so for this.
                    Some(UnitAnswer::Refused(Refusal::Busy) | UnitAnswer::Unknown) => client.env.sleep(PUT_PAUSE).await,
                    _ => break,
                }
            }
            drop(permit);
        });
    }

    /// A chunk's content.
    pub async fn get(&self, id: ChunkId) -> Result<Bytes, ChunkError> {
        match self.access(id, Intent::Get).await? {
            Outcome::Content(content) => Ok(content),
            other => Err(error_of(other)),
        }
    }

    /// Replaces a chunk's content, which may not be longer than it was when the chunk was put.
    pub async fn modify(&self, id: ChunkId, content: Bytes) -> Result<(), ChunkError> {
        if content.len() > BLOCK_DATA_BYTES as usize {
            return Err(ChunkError::Size { found: content.len() });
        }
        let intent = Intent::Modify { writer: self.env.random_u64(), content };
        self.change(id, intent).await
    }

    /// Ends a chunk.
    pub async fn delete(&self, id: ChunkId) -> Result<(), ChunkError> {
        self.change(id, Intent::Delete).await
    }

    /// Begins to move the copy on one device to another, or to one that the unit's leader chooses.
    pub async fn relocate(&self, id: ChunkId, from: DeviceId, to: Option<DeviceId>) -> Result<(), ChunkError> {
        self.know_shard(id).await?;
        let request = UnitRequest::Relocate { id, from, to };
        match self.ways.ask_unit(id.shard, &request).await {
            Some(UnitAnswer::Done) => Ok(()),
            Some(UnitAnswer::Refused(Refusal::Unknown)) => Err(ChunkError::NotFound),
            Some(UnitAnswer::Refused(refusal)) => Err(refusal.into()),
            _ => Err(ChunkError::Unavailable),
        }
    }

    /// How many chunks would be lost with these devices; none if a shard's unit does not say.
    pub async fn last_copies(&self, devices: &[DeviceId]) -> Option<u64> {
        let map = self.ways.map();
        let mut count = 0;
        for shard in map.shards.iter().map(|place| place.shard) {
            let request = UnitRequest::LastCopies { shard, devices: devices.to_vec() };
            match self.ways.ask_unit(shard, &request).await {
                Some(UnitAnswer::Counted(found)) => count += found,
                _ => return None,
            }
        }
        Some(count)
    }

    async fn change(&self, id: ChunkId, intent: Intent) -> Result<(), ChunkError> {
        match self.access(id, intent).await? {
            Outcome::Done => Ok(()),
            other => Err(error_of(other)),
        }
    }

    async fn access(&self, id: ChunkId, intent: Intent) -> Result<Outcome, ChunkError> {
        self.know_shard(id).await?;
        let host = self.env.random_below(u64::from(u32::MAX)) as u32;
        let (mut access, next) = Access::begin(id, intent, host);
        Ok(self.run(&mut access, next).await)
    }

    /// An id of a shard that there is not is nobody's.
    async fn know_shard(&self, id: ChunkId) -> Result<(), ChunkError> {
        let is_known = || self.ways.map().shard(id.shard).is_some();
        if is_known() {
            return Ok(());
        }
        // Only a map that is surely new says that there is no such shard.
        let is_fresh = self.ways.reach.refresh().await;
        match is_known() {
            true => Ok(()),
            false if is_fresh && id.shard.0 < self.ways.map().next_shard => Err(ChunkError::ShardLost),
            false if is_fresh => Err(ChunkError::NotFound),
            false => Err(ChunkError::Unavailable),
        }
    }

    async fn run(&self, machine: &mut impl Machine, first: Next) -> Outcome {
        let (events, mut inbox) = mpsc::channel(MAX_EVENTS);
        let mut messenger = Messenger::new(self, events);
        let until = self.env.now() + CALL_PATIENCE;
        let mut next = first;
        loop {
            next.sends.into_iter().for_each(|send| messenger.send(send));
            if let Some(outcome) = next.outcome {
                return outcome;
            }
            if self.env.now() >= until {
                return Outcome::Unavailable;
            }
            let event = tokio::select! {
                biased;
                event = inbox.recv() => event.expect("the messenger has a sender"),
                () = self.env.sleep(CLIENT_PATIENCE) => Event::Timeout,
            };
            next = machine.step(event);
        }
    }
}

fn error_of(outcome: Outcome) -> ChunkError {
    match outcome {
        Outcome::NotFound => ChunkError::NotFound,
        Outcome::Refused(refusal) => refusal.into(),
        Outcome::RefusedByNode(refusal) => ChunkError::RefusedByNode(refusal),
        Outcome::Unavailable => ChunkError::Unavailable,
        Outcome::Stored(_) | Outcome::Content(_) | Outcome::Done => unreachable!("no failure: {outcome:?}"),
    }
}

#[cfg(test)]
mod tests;
