//! Clients of the chunk store at all nodes.

use super::super::host::process_of;
use super::super::world::{Running, World};
use super::history::{ChunkHistories, Value};
use crate::cluster::host::chunks_of;
use crate::content::content;
use crate::draw::Draw;
use bytes::Bytes;
use chunkstore::chunk_client::ChunkError;
use chunkstore::maintenance::Refusal;
use chunkstore::message::Found;
use format::chunk_id::ChunkId;
use model::register::{Call, Outcome};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longest content.
const MOST_BYTES: u64 = 60_000;
/// How long a call may take: the client's own limit, and then some.
const CALL_LIMIT: Duration = Duration::from_secs(200);
/// How long a client rests after a call without an answer: histories of many such calls take long to judge.
const AFTER_FAILURE: Duration = Duration::from_millis(500);
const NOBODY_RUNS: Duration = Duration::from_millis(20);

pub struct ChunkUser {
    pub world: Arc<World>,
    pub histories: Arc<ChunkHistories>,
    pub draw: Draw,
    pub is_over: Arc<AtomicBool>,
}

/// The value that a content stands for; none for bytes that nobody put.
fn value_of(bytes: &Bytes) -> Option<Value> {
    let value = Value::from_le_bytes(*bytes.first_chunk()?);
    (content(value, bytes.len()) == bytes).then_some(value)
}

impl ChunkUser {
    pub async fn run(mut self) {
        while !self.is_over.load(Ordering::Relaxed) {
            let running = self.world.running();
            if running.is_empty() {
                self.world.env.sleep(NOBODY_RUNS).await;
                continue;
            }
            let at = &running[self.draw.below(running.len() as u64) as usize];
            self.step(at).await;
            let think = self.draw.duration(self.world.scenario.workload.think);
            self.world.env.sleep(think).await;
        }
    }

    async fn step(&mut self, node: &Running) {
        let ids = self.histories.ids();
        if ids.is_empty() || self.draw.percent(15) {
            return self.put(node).await;
        }
        // Newer chunks are asked for more often: they are the ones that change.
        let back = self.draw.below(ids.len().min(4) as u64) as usize;
        let id = ids[ids.len() - 1 - back];
        match self.draw.below(20) {
            0..=9 => self.get(node, id).await,
            10..=16 => self.modify(node, id).await,
            17 => self.delete(node, id).await,
            _ => self.relocate(node, id).await,
        }
    }

    /// The outcome of a call at a node, unless the node's process ends first.
    async fn ask<T>(&self, node: &Running, call: impl Future<Output = Result<T, ChunkError>>) -> Option<Result<T, ChunkError>> {
        let process = process_of(&node.env);
        tokio::select! {
            biased;
            () = process.ended() => None,
            outcome = node.env.within(call) => Some(outcome),
            () = self.world.env.sleep(CALL_LIMIT) => {
                self.histories.violate(format!("a call at node {} never ends", node.number));
                None
            }
        }
    }

    /// Notes a call that did not do what it should, and rests.
    async fn failed(&self, error: Option<ChunkError>) {
        let what = match error {
            None => "chunks: the client's node ended",
            Some(ChunkError::Unavailable) => "chunks: unavailable",
            Some(ChunkError::NoShard) => "chunks: no shard",
            Some(ChunkError::Refused(Refusal::NoPlaces)) => "chunks: no places",
            Some(ChunkError::Refused(_)) => "chunks: refused",
            Some(ChunkError::RefusedByNode(_)) => "chunks: refused by a node",
            Some(error @ (ChunkError::NotFound | ChunkError::ShardLost | ChunkError::Size { .. })) => {
                return self.histories.violate(format!("{error}, unasked for"));
            }
        };
        self.histories.count(what);
        self.world.env.sleep(AFTER_FAILURE).await;
    }

    fn fresh(&mut self) -> (Value, Bytes) {
        let value = self.histories.next_value();
        (value, content(value, 8 + self.draw.below(MOST_BYTES) as usize))
    }

    async fn put(&mut self, node: &Running) {
        let (value, bytes) = self.fresh();
        match self.ask(node, chunks_of(&node.node).client.put(bytes, 3)).await {
            Some(Ok(id)) => self.histories.was_put(id, value),
            other => self.failed(other.and_then(Result::err)).await,
        }
    }

    pub async fn get(&self, node: &Running, id: ChunkId) {
        let call = self.histories.call(id, Call::Read);
        match self.ask(node, chunks_of(&node.node).client.get(id)).await {
            Some(Ok(bytes)) => match value_of(&bytes) {
                Some(value) => self.histories.answer(id, call, Outcome::Read(Some(value))),
                None => self.histories.violate(format!("{id}: {} bytes that nobody put", bytes.len())),
            },
            Some(Err(ChunkError::NotFound)) => self.histories.answer(id, call, Outcome::Read(None)),
            other => self.failed(other.and_then(Result::err)).await,
        }
    }

    /// A modification of a chunk that is gone tells that, like a read.
    async fn modify(&mut self, node: &Running, id: ChunkId) {
        let (value, _) = self.fresh();
        // Never longer than the shortest that was put.
        let bytes = content(value, 8);
        let (write, read) = (self.histories.call(id, Call::Write(Some(value))), self.histories.call(id, Call::Read));
        match self.ask(node, chunks_of(&node.node).client.modify(id, bytes)).await {
            Some(Ok(())) => {
                self.histories.withdraw(id, read);
                self.histories.answer(id, write, Outcome::Written);
            }
            Some(Err(ChunkError::NotFound)) => {
                self.histories.withdraw(id, write);
                self.histories.answer(id, read, Outcome::Read(None));
            }
            other => {
                self.histories.withdraw(id, read);
                self.failed(other.and_then(Result::err)).await;
            }
        }
    }

    async fn delete(&self, node: &Running, id: ChunkId) {
        let call = self.histories.call(id, Call::Write(None));
        match self.ask(node, chunks_of(&node.node).client.delete(id)).await {
            Some(Ok(()) | Err(ChunkError::NotFound)) => self.histories.answer(id, call, Outcome::Written),
            other => self.failed(other.and_then(Result::err)).await,
        }
    }

    /// Moves a copy; that it can't be moved now changes nothing.
    async fn relocate(&mut self, node: &Running, id: ChunkId) {
        let client = &chunks_of(&node.node).client;
        let Some(Ok(whereabouts)) = self.ask(node, client.locate(id)).await else { return };
        let Found::Known { places, .. } = whereabouts.unit else { return };
        let places = places.as_slice();
        let from = places[self.draw.below(places.len() as u64) as usize].device();
        if let Some(Ok(())) = self.ask(node, client.relocate(id, from, None)).await {
            self.histories.count("chunks: a relocation begun");
        }
    }
}
