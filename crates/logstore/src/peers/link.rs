//! The sending end of a stream to one gateway.

use super::Directory;
use super::item::Item;
use super::wire::{self, HEAD_BYTES};
use crate::machine::Message;
use crate::stats::{Counter, LogStoreStats};
use bytes::Bytes;
use env::Env;
use net::{CallError, MAX_PAYLOAD_BYTES};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use types::{GatewayId, ViewNumber};

/// A batch has at most so many bytes, but one of a single longer item: a manifest may be nearly as long as a call can be.
const BATCH_BYTES: usize = 256 * 1024;
const _: () = assert!(BATCH_BYTES < MAX_PAYLOAD_BYTES);
/// Bytes that wait for a gateway that takes nothing. Writes wait for its answers, so a healthy cell stays far below; beyond this the
/// stream is broken, and its gateway must leave the cell.
const MAX_WAITING_BYTES: usize = 1 << 30;
/// How long one call may take before the batch is sent again.
const CALL_PATIENCE: Duration = Duration::from_secs(5);
/// How long what can wait does: for others to travel with.
const GATHER_TIME: Duration = Duration::from_millis(1);
/// How long a gateway may not be open yet before that counts as a failure: one that joins is in the view before it is open, and to remove it for
/// that would begin everything again.
const OPENING_PATIENCE: Duration = Duration::from_secs(10);
/// Pause before a batch that was not taken is sent again.
const RESEND_PAUSE: Duration = Duration::from_millis(20);

/// A stream to one gateway. Items are taken at once and sent by a task.
pub(crate) struct Link {
    to: GatewayId,
    waiting: Mutex<Waiting>,
    /// Something is to be sent now.
    wake: Notify,
    /// Something is to be sent soon.
    wake_soon: Notify,
    closed: AtomicBool,
    /// Given up: its gateway can't be told any more what it misses.
    given_up: AtomicBool,
    most_waiting_bytes: usize,
    /// The last call was not answered.
    failing: AtomicBool,
    /// Of all streams of this gateway.
    counted: Counted,
}

/// The counters of [`LogStoreStats`] that streams keep.
struct Counted {
    items: Arc<Counter>,
    batches: Arc<Counter>,
}

#[derive(Default)]
struct Waiting {
    /// Encoded items; the last piece is filled until it is long enough.
    pieces: VecDeque<Piece>,
    bytes: usize,
}

struct Piece {
    bytes: Vec<u8>,
    count: u32,
    /// What the receiver confirms by taking the items in.
    confirmations: Vec<Message>,
}

impl Waiting {
    fn append(&mut self, item: &Item) {
        if self.pieces.is_empty() {
            self.pieces.push_back(Piece::new());
        }
        let piece = self.pieces.back_mut().expect("made above");
        let before = piece.bytes.len();
        wire::encode_item(item, &mut piece.bytes);
        self.bytes += piece.bytes.len() - before;
        if piece.bytes.len() > BATCH_BYTES && piece.count > 0 {
            let mut next = Piece::new();
            next.bytes.extend(piece.bytes.drain(before..));
            self.pieces.push_back(next);
        }
        let piece = self.pieces.back_mut().expect("there is one");
        piece.count += 1;
        if let Item::Key { message, .. } = item {
            piece.confirmations.extend(message.confirmation());
        }
    }
}

impl Piece {
    fn new() -> Piece {
        Piece { bytes: vec![0; HEAD_BYTES], count: 0, confirmations: Vec::new() }
    }
}

/// Who is told what a gateway has confirmed, by name.
pub(crate) trait Confirmed: Send + Sync {
    fn confirmed(&self, by: GatewayId, confirmation: Message);
}

impl Link {
    pub fn new(to: GatewayId, stats: &LogStoreStats) -> Arc<Link> {
        let counted = Counted { items: stats.peer_items.clone(), batches: stats.peer_batches.clone() };
        Arc::new(Link {
            to,
            waiting: Mutex::default(),
            wake: Notify::new(),
            wake_soon: Notify::new(),
            closed: AtomicBool::new(false),
            given_up: AtomicBool::new(false),
            most_waiting_bytes: MAX_WAITING_BYTES,
            failing: AtomicBool::new(false),
            counted,
        })
    }

    /// Queues an item. Its place in the stream is its place among the calls of this.
    pub fn push(&self, item: &Item) {
        let mut waiting = self.waiting.lock();
        if self.closed.load(Ordering::Relaxed) {
            return;
        }
        waiting.append(item);
        if waiting.bytes > self.most_waiting_bytes {
            tracing::error!(gateway = self.to.0, "a gateway takes nothing: its stream is given up");
            self.closed.store(true, Ordering::Relaxed);
            self.given_up.store(true, Ordering::Relaxed);
            *waiting = Waiting::default();
        }
        drop(waiting);
        self.counted.items.add(1);
        match item.can_wait() {
            true => self.wake_soon.notify_one(),
            false => self.wake.notify_one(),
        }
    }

    /// Sends now what waits for something to travel with.
    pub fn hurry(&self) {
        if !self.waiting.lock().pieces.is_empty() {
            self.wake.notify_one();
        }
    }

    /// Whether the gateway did not answer the last call, or the stream was given up: then it stays so until the gateway leaves.
    pub fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed) || self.given_up.load(Ordering::Relaxed)
    }

    /// Ends the stream: its gateway is in no view any more.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.waiting.lock().pieces.clear();
        self.wake.notify_one();
    }

    fn next(&self) -> Option<Piece> {
        let mut waiting = self.waiting.lock();
        let piece = waiting.pieces.pop_front()?;
        waiting.bytes -= piece.bytes.len() - HEAD_BYTES;
        Some(piece)
    }

    /// Sends batch after batch until the stream is closed.
    pub async fn run(self: Arc<Self>, env: Env, me: GatewayId, directory: Arc<dyn Directory>, confirmed: Arc<dyn Confirmed>) {
        let mut number = 0;
        while !self.closed.load(Ordering::Relaxed) {
            tokio::select! {
                biased;
                () = self.wake.notified() => {}
                () = self.wake_soon.notified() => tokio::select! {
                    biased;
                    () = self.wake.notified() => {}
                    () = env.sleep(GATHER_TIME) => {}
                },
            }
            // As many as wait now: what comes later is woken for anew.
            let pieces = self.waiting.lock().pieces.len();
            for _ in 0..pieces {
                let Some(Piece { mut bytes, count, confirmations }) = self.next() else { break };
                number += 1;
                self.counted.batches.add(1);
                bytes[..HEAD_BYTES].copy_from_slice(&wire::head(me, self.to, number, count));
                let Some(view) = self.deliver(&env, &*directory, Bytes::from(bytes)).await else { return };
                // Of another view than the receiver's it was not taken in.
                let counts = confirmations.into_iter().filter(|confirmation| confirmation.view() == Some(view));
                counts.for_each(|confirmation| confirmed.confirmed(self.to, confirmation));
            }
        }
    }

    /// Sends a batch until it is taken in; the receiver's view then. None if the stream was closed first.
    async fn deliver(&self, env: &Env, directory: &dyn Directory, batch: Bytes) -> Option<ViewNumber> {
        let mut not_open_since = None;
        while !self.closed.load(Ordering::Relaxed) {
            if let Some(caller) = directory.caller(self.to) {
                match caller.call(batch.clone(), env.now() + CALL_PATIENCE).await {
                    Ok(answer) => {
                        self.failing.store(false, Ordering::Relaxed);
                        match wire::decode_answer(&answer) {
                            Ok(view) => return Some(view),
                            Err(error) => tracing::error!(gateway = self.to.0, %error, "an answer that can't be read"),
                        }
                    }
                    Err(error) => {
                        let now = env.now();
                        let opens = is_not_open(&error) && now - *not_open_since.get_or_insert(now) < OPENING_PATIENCE;
                        if !opens && !self.failing.swap(true, Ordering::Relaxed) {
                            tracing::info!(gateway = self.to.0, %error, "a gateway does not hear");
                        }
                    }
                }
            }
            env::mark("gateway: a batch sent again");
            env.sleep(RESEND_PAUSE).await;
        }
        None
    }
}

fn is_not_open(error: &CallError) -> bool {
    matches!(error, CallError::Refused { refusal, .. } if refusal.is_early)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Caught: a stream that is given up and looks well. Its gateway stayed in the view, and all writes waited for it.
    #[test]
    fn a_stream_that_is_given_up_fails_until_its_gateway_leaves() {
        let mut link = Link::new(GatewayId(2), &LogStoreStats::default());
        Arc::get_mut(&mut link).expect("nobody else has it").most_waiting_bytes = 100;
        let question = Item::Ask { question: 1 };
        link.push(&question);
        assert!(!link.is_failing());
        (0..20).for_each(|_| link.push(&question));
        assert!(link.is_failing());
        // A batch that was under way is taken in.
        link.failing.store(false, Ordering::Relaxed);
        assert!(link.is_failing());
    }

    /// Caught: an item that joins what waits, however long it is. The longest manifest behind a few questions made a batch that no call takes: it was sent again
    /// until its receiver had left, and then to the next one.
    #[test]
    fn the_longest_item_can_be_sent_behind_others() {
        let link = Link::new(GatewayId(2), &LogStoreStats::default());
        let question = Item::Ask { question: 1 };
        let questions = BATCH_BYTES / 9 - 100;
        let manifest = Item::Installed { manifest: vec![7; 4 * 1024 * 1024] };
        (0..questions).for_each(|_| link.push(&question));
        link.push(&manifest);
        link.push(&question);
        let sent: Vec<Vec<Item>> = std::iter::from_fn(|| link.next())
            .map(|Piece { mut bytes, count, .. }| {
                assert!(bytes.len() <= MAX_PAYLOAD_BYTES, "{} bytes", bytes.len());
                bytes[..HEAD_BYTES].copy_from_slice(&wire::head(GatewayId(1), GatewayId(2), 1, count));
                wire::Batch::decode(&bytes).unwrap().items
            })
            .collect();
        assert_eq!(sent.iter().map(Vec::len).collect::<Vec<_>>(), [questions, 1, 1]);
        assert_eq!((&sent[1][0], &sent[2][0]), (&manifest, &question));
        assert_eq!(link.waiting.lock().bytes, 0);
    }
}
