//! The way to other nodes, shared by all groups: requests, and heartbeats that travel together.
//!
//! ```text
//!   tick ── every group that is led here: "say something" ──► Raft ── heartbeat for node 2 ──┐
//!                                                                  ── heartbeat for node 3 ──┤
//!   after HEARTBEAT_GATHERING: one message for node 2, one for node 3  ◄── outboxes ─────────┘
//! ```
//!
//! Raft's own timer for heartbeats is off. A heartbeat between two ticks comes from a read that asks for confirmation: it leaves
//! at once, with whatever else waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use env::Env;
use net::CallError;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::id::NodeId;
use crate::limits::{MAX_HEARTBEATS_PER_MESSAGE, REQUEST_LIMIT};
use crate::message::{Answer, Append, AppendAnswer, Ask, MessageError, Request, decode, encode};
use crate::transport::{Peer, Transport};

/// Why a peer did not answer.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("node {node} answered nonsense: {cause}")]
    Nonsense { node: NodeId, cause: MessageError },
    #[error("node {node} answered something else: {found}")]
    Unexpected { node: NodeId, found: &'static str },
    #[error("node {node} said nothing about this group")]
    Silent { node: NodeId },
    #[error("the rows to be sent can't be read: {reason}")]
    Rows { reason: String },
}

type Waiting = (Append, oneshot::Sender<Result<AppendAnswer, AskError>>);

#[derive(Default)]
struct Outbox {
    waiting: Vec<Waiting>,
    /// Somebody will send what waits.
    is_scheduled: bool,
}

/// Messages sent.
#[derive(Debug, Default)]
pub(crate) struct LinkCounters {
    pub(crate) requests: AtomicU64,
    pub(crate) heartbeat_messages: AtomicU64,
    pub(crate) heartbeats: AtomicU64,
}

/// The links of one node. Clones share them.
#[derive(Clone)]
pub(crate) struct Links {
    inner: Arc<Inner>,
}

struct Inner {
    env: Env,
    node: NodeId,
    transport: Arc<dyn Transport>,
    outboxes: Mutex<BTreeMap<Peer, Outbox>>,
    /// Nodes whose logs have no room for longer states, as they said when they last answered.
    crowded: Mutex<BTreeSet<NodeId>>,
    /// A tick is collecting.
    is_gathering: AtomicBool,
    counters: LinkCounters,
}

impl Links {
    pub(crate) fn new(env: &Env, node: NodeId, transport: Arc<dyn Transport>) -> Self {
        let inner = Inner {
            env: env.clone(),
            node,
            transport,
            outboxes: Mutex::default(),
            crowded: Mutex::default(),
            is_gathering: AtomicBool::new(false),
            counters: LinkCounters::default(),
        };
        Links { inner: Arc::new(inner) }
    }

    pub(crate) fn counters(&self) -> &LinkCounters {
        &self.inner.counters
    }

    /// Nodes whose logs have no room for longer states, of those that heartbeats go to.
    pub(crate) fn crowded(&self) -> BTreeSet<NodeId> {
        self.inner.crowded.lock().clone()
    }

    fn note_crowded(&self, node: NodeId, is_crowded: bool) {
        let mut crowded = self.inner.crowded.lock();
        if is_crowded {
            crowded.insert(node);
        } else {
            crowded.remove(&node);
        }
    }

    /// Asks a peer.
    pub(crate) async fn ask(&self, peer: &Peer, ask: Ask, limit: Duration) -> Result<Answer, AskError> {
        self.inner.counters.requests.fetch_add(1, Ordering::Relaxed);
        self.send(peer, ask, limit).await
    }

    async fn send(&self, peer: &Peer, ask: Ask, limit: Duration) -> Result<Answer, AskError> {
        let inner = &self.inner;
        let request = encode(&Request { from: inner.node, to: peer.node, ask });
        let deadline = inner.env.now() + limit;
        let answer = inner.transport.call(peer, Bytes::from(request), deadline).await?;
        decode(&answer).map_err(|cause| AskError::Nonsense { node: peer.node, cause })
    }

    /// Sends a heartbeat, together with others.
    pub(crate) async fn heartbeat(&self, peer: &Peer, heartbeat: Append) -> Result<AppendAnswer, AskError> {
        let (sender, answer) = oneshot::channel();
        let goes_at_once = {
            let mut outboxes = self.inner.outboxes.lock();
            let outbox = outboxes.entry(peer.clone()).or_default();
            outbox.waiting.push((heartbeat, sender));
            let is_first = !std::mem::replace(&mut outbox.is_scheduled, true);
            is_first && !self.inner.is_gathering.load(Ordering::Acquire)
        };
        if goes_at_once {
            let (links, peer) = (self.clone(), peer.clone());
            self.inner.env.spawn(async move {
                // Others that are ready now come along.
                tokio::task::yield_now().await;
                links.empty_outbox(&peer).await;
            });
        }
        answer.await.unwrap_or(Err(AskError::Silent { node: peer.node }))
    }

    /// From now on heartbeats wait for [`Links::end_gathering`].
    pub(crate) fn begin_gathering(&self) {
        self.inner.is_gathering.store(true, Ordering::Release);
    }

    /// Sends what was collected, one message for each peer.
    pub(crate) fn end_gathering(&self) {
        self.inner.is_gathering.store(false, Ordering::Release);
        let peers: Vec<Peer> = {
            let mut outboxes = self.inner.outboxes.lock();
            // Peers come and go with memberships.
            outboxes.retain(|_, outbox| !outbox.waiting.is_empty());
            outboxes.keys().cloned().collect()
        };
        for peer in peers {
            let links = self.clone();
            self.inner.env.spawn(async move { links.empty_outbox(&peer).await });
        }
    }

    async fn empty_outbox(&self, peer: &Peer) {
        let waiting = {
            let mut outboxes = self.inner.outboxes.lock();
            let Some(outbox) = outboxes.get_mut(peer) else { return };
            outbox.is_scheduled = false;
            std::mem::take(&mut outbox.waiting)
        };
        let mut waiting: Vec<Waiting> = waiting.into_iter().filter(|(_, sender)| !sender.is_closed()).collect();
        while !waiting.is_empty() {
            let rest = waiting.split_off(waiting.len().min(MAX_HEARTBEATS_PER_MESSAGE));
            self.send_heartbeats(peer, std::mem::replace(&mut waiting, rest)).await;
        }
    }

    async fn send_heartbeats(&self, peer: &Peer, waiting: Vec<Waiting>) {
        let (heartbeats, senders): (Vec<_>, Vec<_>) = waiting.into_iter().unzip();
        self.inner.counters.heartbeat_messages.fetch_add(1, Ordering::Relaxed);
        self.inner.counters.heartbeats.fetch_add(heartbeats.len() as u64, Ordering::Relaxed);
        let node = peer.node;
        let answer = self.send(peer, Ask::Heartbeats(heartbeats), REQUEST_LIMIT).await;
        // One that is not heard holds nobody up.
        self.note_crowded(node, matches!(answer, Ok(Answer::CrowdedHeartbeats(_))));
        let answers = match answer {
            Ok(Answer::Heartbeats(answers) | Answer::CrowdedHeartbeats(answers)) if answers.len() == senders.len() => {
                answers.into_iter().map(|answer| answer.ok_or(AskError::Silent { node })).collect()
            }
            Ok(_) => vec![Err(AskError::Unexpected { node, found: "no answer to heartbeats" }); senders.len()],
            Err(error) => vec![Err(error); senders.len()],
        };
        for (sender, answer) in senders.into_iter().zip(answers) {
            // Raft may have stopped waiting.
            drop(sender.send(answer));
        }
    }
}
