//! The way to one lookup host: updates in their order, one at a time, snapshots in pieces.
//!
//! What does not arrive is not sent again here: the host finds a gap, or reports that it is behind, and gets a snapshot.

use std::sync::Arc;

use env::Env;
use format::chunk_update::LookupUpdate;
use tokio::sync::mpsc;

use crate::asking::ask_host;
use crate::limits::{HOST_PATIENCE, MAX_UPDATES_WAITING, PIECE_BYTES};
use crate::lookup::Received;
use crate::protocol::{HostAnswer, HostRequest, SnapshotPiece};
use crate::reach::Reach;
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
                if let Some(received) = send(&link_env, &*reach, host, update).await {
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

async fn send(env: &Env, reach: &dyn Reach, host: NodeId, update: LookupUpdate) -> Option<Received> {
    let (stream, number) = (update.stream, update.number);
    let bytes = update.encode();
    if bytes.len() <= PIECE_BYTES {
        return received(ask_host(env, reach, host, &HostRequest::Update(update), HOST_PATIENCE).await?);
    }
    let total_bytes = u32::try_from(bytes.len()).ok()?;
    let mut last = None;
    for offset in (0..bytes.len()).step_by(PIECE_BYTES) {
        let end = bytes.len().min(offset + PIECE_BYTES);
        let piece = SnapshotPiece { stream, number, total_bytes, offset: offset as u32, bytes: bytes[offset..end].to_vec() };
        let answer = ask_host(env, reach, host, &HostRequest::Piece(piece), HOST_PATIENCE).await?;
        last = received(answer).or(last);
    }
    last
}

fn received(answer: HostAnswer) -> Option<Received> {
    if let HostAnswer::Received(received) = answer { Some(received) } else { None }
}
