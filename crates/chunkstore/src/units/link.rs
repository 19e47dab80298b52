//! The way to one lookup host: updates in their order, one at a time, snapshots in pieces.
//!
//! What does not arrive is not sent again here: the host finds a gap, or reports that it is behind, and gets a snapshot. That takes the place of all
//! older that waits, so that no more than one snapshot waits, and one is under way.

use std::collections::VecDeque;
use std::sync::Arc;

use env::Env;
use format::chunk_update::{LookupChange, LookupUpdate};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::asking::ask_host;
use crate::leader::SnapshotPlace;
use crate::limits::{HOST_PATIENCE, MAX_UPDATES_WAITING, PIECE_BYTES};
use crate::lookup::Received;
use crate::protocol::{HostAnswer, HostRequest, SnapshotPiece};
use crate::reach::Reach;
use types::NodeId;

/// A host's queue. The task behind it ends with this.
pub struct Link {
    waiting: Arc<Mutex<Waiting>>,
    wake: mpsc::Sender<()>,
}

/// What is to be sent.
#[derive(Default)]
struct Waiting(VecDeque<LookupUpdate>);

/// What the leader is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// By the host.
    Heard(Received),
    /// This snapshot is not under way any more, wherever it came to.
    SnapshotOver(SnapshotPlace),
}

impl Link {
    /// `tell` is told what the host says, in the order in which it says it.
    pub fn open(env: &Env, reach: Arc<dyn Reach>, host: NodeId, tell: impl Fn(Told) + Send + Sync + 'static) -> Link {
        let (wake, mut woken) = mpsc::channel::<()>(1);
        let waiting: Arc<Mutex<Waiting>> = Arc::default();
        let (link_env, queue) = (env.clone(), waiting.clone());
        let next = move || queue.lock().0.pop_front();
        env.spawn(async move {
            while woken.recv().await.is_some() {
                while let Some(update) = next() {
                    let (place, is_snapshot) = (place_of(&update), is_snapshot(&update));
                    if let Some(received) = send(&link_env, &*reach, host, update).await {
                        tell(Told::Heard(received));
                    }
                    // After the answer: a host that could not use it is not sent another one at once.
                    if is_snapshot {
                        tell(Told::SnapshotOver(place));
                    }
                }
            }
        });
        Link { waiting, wake }
    }

    /// Dropped if the host is so slow that its queue is full.
    pub fn send(&self, update: LookupUpdate) {
        if !self.waiting.lock().push(update) {
            tracing::debug!("a lookup host is slow: it will need a snapshot");
        }
        // If it is full, the task is told already.
        _ = self.wake.try_send(());
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.waiting.lock().0.clear();
    }
}

impl Waiting {
    /// Whether there is room for it. What comes here need not come in its order: a snapshot that a newer one has overtaken is not needed.
    fn push(&mut self, update: LookupUpdate) -> bool {
        if is_snapshot(&update) {
            let place = place_of(&update);
            if self.0.iter().any(|waiting| is_snapshot(waiting) && place_of(waiting) > place) {
                return true;
            }
            // Its place is that of the update that follows it.
            self.0.retain(|waiting| place_of(waiting) >= place && !is_snapshot(waiting));
            self.0.push_front(update);
            self.0.truncate(MAX_UPDATES_WAITING);
            return true;
        }
        let has_room = self.0.len() < MAX_UPDATES_WAITING;
        if has_room {
            self.0.push_back(update);
        }
        has_room
    }
}

fn place_of(update: &LookupUpdate) -> SnapshotPlace {
    (update.stream, update.number)
}

fn is_snapshot(update: &LookupUpdate) -> bool {
    matches!(update.change, LookupChange::Snapshot(_))
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
        // It has lost the pieces before: the others are of no use to it.
        if matches!(last, Some(Received::NeedsSnapshot(_))) {
            break;
        }
    }
    last
}

fn received(answer: HostAnswer) -> Option<Received> {
    if let HostAnswer::Received(received) = answer { Some(received) } else { None }
}

#[cfg(test)]
mod tests {
    use format::chunk_id::{ChunkNumber, ShardId};
    use format::chunk_update::Stream;

    use super::*;

    fn update(number: u64, change: LookupChange) -> LookupUpdate {
        let stream = Stream { shard: ShardId(1), term: 1, generation: 0 };
        LookupUpdate { stream, number, horizon: ChunkNumber(number), change }
    }

    #[test]
    fn a_snapshot_takes_the_place_of_all_that_waits_before_it() {
        let mut waiting = Waiting::default();
        let keyed = |number| update(number, LookupChange::Keyed(Vec::new()));
        let snapshot = |number| update(number, LookupChange::Snapshot(vec![1]));
        for number in 0..MAX_UPDATES_WAITING as u64 {
            assert!(waiting.push(keyed(number)));
        }
        assert!(!waiting.push(keyed(MAX_UPDATES_WAITING as u64)), "it is full");
        let last = MAX_UPDATES_WAITING as u64;
        for number in [last, last + 1] {
            assert!(waiting.push(snapshot(number)) && waiting.push(keyed(number)));
        }
        assert_eq!(waiting.0, [snapshot(last + 1), keyed(last + 1)]);
    }

    /// It is made under a lock, and sent when that is free again: a new stream could begin in between, and the host never got its first snapshot.
    #[test]
    fn a_snapshot_takes_the_place_of_nothing_newer() {
        let mut waiting = Waiting::default();
        let of = |generation, number, change| {
            let update = update(number, change);
            LookupUpdate { stream: Stream { generation, ..update.stream }, ..update }
        };
        let snapshot = |generation, number| of(generation, number, LookupChange::Snapshot(vec![1]));
        let keyed = |generation, number| of(generation, number, LookupChange::Keyed(Vec::new()));
        assert!(waiting.push(keyed(0, 5)) && waiting.push(snapshot(1, 0)) && waiting.push(keyed(1, 0)));
        assert!(waiting.push(snapshot(0, 5)));
        assert_eq!(waiting.0, [snapshot(1, 0), keyed(1, 0)]);
        assert!(waiting.push(keyed(1, 1)) && waiting.push(snapshot(1, 1)));
        assert_eq!(waiting.0, [snapshot(1, 1), keyed(1, 1)], "what it has not follows it");
        for number in 2..2 * MAX_UPDATES_WAITING as u64 {
            waiting.push(keyed(1, number));
        }
        assert!(waiting.push(snapshot(1, 1)));
        assert_eq!((waiting.0.len(), waiting.0.front()), (MAX_UPDATES_WAITING, Some(&snapshot(1, 1))));
    }
}
