//! The way to one lookup host: updates in their order, one at a time, snapshots in pieces.
//!
//! What does not arrive is not sent again here: the host finds a gap, or reports that it is behind, and gets a snapshot.

use std::sync::Arc;

use bytes::Bytes;
use env::Env;
use format::chunk_update::LookupUpdate;
use net::Caller;
use tokio::sync::mpsc;

use crate::limits::{HOST_PATIENCE, MAX_UPDATES_WAITING, PIECE_BYTES};
use crate::lookup::Received;
use crate::protocol::{HOSTS, HostAnswer, HostRequest, SnapshotPiece};
use crate::reach::Reach;
use crate::wire;
use types::NodeId;

/// A host's queue. The task behind it ends with this.
pub struct Link {
    updates: mpsc::Sender<LookupUpdate>,
}

impl Link {
    /// `heard` is told what the host says, in the order in which it says it.
    pub fn open(env: &Env, reach: Arc<dyn Reach>, host: NodeId, heard: impl Fn(Received) + Send + Sync + 'static) -> Link {
        let (updates, mut queue) = mpsc::channel::<LookupUpdate>(MAX_UPDATES_WAITING);
        let link_env = env.clone();
        env.spawn(async move {
            while let Some(update) = queue.recv().await {
                let map = reach.map();
                let Some(node) = map.node(host) else { continue };
                let caller = reach.to_node(node, HOSTS);
                if let Some(received) = send(&link_env, &*caller, update).await {
                    heard(received);
                }
            }
        });
        Link { updates }
    }

    /// Dropped if the host is so slow that its queue is full.
    pub fn send(&self, update: LookupUpdate) {
        if self.updates.try_send(update).is_err() {
            tracing::debug!("a lookup host is slow: it will need a snapshot");
        }
    }
}

async fn send(env: &Env, caller: &dyn Caller, update: LookupUpdate) -> Option<Received> {
    let (stream, number) = (update.stream, update.number);
    let bytes = Bytes::from(update.encode());
    if bytes.len() <= PIECE_BYTES {
        return ask(env, caller, &HostRequest::Update(update)).await;
    }
    let total_bytes = u32::try_from(bytes.len()).ok()?;
    let mut received = None;
    for offset in (0..bytes.len()).step_by(PIECE_BYTES) {
        let end = bytes.len().min(offset + PIECE_BYTES);
        let piece = SnapshotPiece { stream, number, total_bytes, offset: offset as u32, bytes: bytes[offset..end].to_vec() };
        let answer = call(env, caller, &HostRequest::Piece(piece)).await?;
        if let HostAnswer::Received(answer) = answer {
            received = Some(answer);
        }
    }
    received
}

async fn ask(env: &Env, caller: &dyn Caller, request: &HostRequest) -> Option<Received> {
    match call(env, caller, request).await? {
        HostAnswer::Received(received) => Some(received),
        _ => None,
    }
}

async fn call(env: &Env, caller: &dyn Caller, request: &HostRequest) -> Option<HostAnswer> {
    let answer = caller.call(wire::encode(request), env.now() + HOST_PATIENCE).await;
    wire::decode(&answer.ok()?).ok()
}
