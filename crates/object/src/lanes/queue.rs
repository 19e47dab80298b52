//! The contents under way on one thread, and the passes over them.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::content::Content;
use super::kernel::{BLOCK_BYTES, LANES, State, advance};

/// Most blocks of a content in one run: 16 KiB, so that eight fit a second-level cache and nobody waits long for a pass.
const MAX_RUN_BLOCKS: usize = 256;

/// Bytes after which other work of the thread gets its turn: some 70 µs with eight contents, and 0.5 ms with one.
const MAX_PASS_BYTES: usize = 256 * 1024;

/// A content keeps at most this much waiting before its sender must pause.
const MAX_WAITING_BYTES: usize = 256 * 1024;

/// Turns that others get to bring more contents before a pass, as long as some have not brought anything. More gain nothing.
const MAX_TURNS: usize = 4;

/// Less than this is hashed at once: a turn through the scheduler costs about as much as 2 KiB.
const MIN_SHARED_BYTES: usize = 4 * 1024;

thread_local! {
    static QUEUE: Arc<Queue> = Arc::default();
}

/// All contents under way of a thread. A content stays in the queue where it began, wherever its task runs.
#[derive(Default)]
struct Queue {
    contents: Mutex<Contents>,
}

#[derive(Default)]
struct Contents {
    slots: Vec<Option<Content>>,
    free: Vec<usize>,
    /// Where the next pass begins to look, so that every content gets its turn.
    next: usize,
}

/// The MD5 of one content under way.
pub(crate) struct Md5Content {
    queue: Arc<Queue>,
    /// `None` once it is finished.
    slot: Option<usize>,
}

impl Md5Content {
    pub(crate) fn new() -> Self {
        let queue = QUEUE.with(Arc::clone);
        let slot = Some(queue.contents.lock().insert(Content::new()));
        Md5Content { queue, slot }
    }

    /// Takes the next piece. Waits while too much is not hashed yet.
    pub(crate) async fn update(&mut self, piece: Bytes) {
        let Some(slot) = self.slot else { return };
        self.queue.contents.lock().content(slot).push(piece);
        self.hash_down_to(slot, MAX_WAITING_BYTES).await;
    }

    /// Waits until nothing is left to hash but for less than a block.
    pub(crate) async fn catch_up(&mut self) {
        if let Some(slot) = self.slot {
            self.hash_down_to(slot, 0).await;
        }
    }

    pub(crate) async fn finish(mut self) -> [u8; 16] {
        let slot = self.slot.expect("finished only here");
        self.hash_down_to(slot, 0).await;
        self.slot = None;
        self.queue.contents.lock().remove(slot).finish()
    }

    /// Waits until at most this much of the content is left to hash.
    async fn hash_down_to(&self, slot: usize, bytes: usize) {
        for turn in 0..MAX_TURNS {
            if !self.queue.contents.lock().is_worth_a_turn(slot, bytes, turn) {
                break;
            }
            tokio::task::yield_now().await;
        }
        while !self.queue.hashed_down_to(slot, bytes) {
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Md5Content {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.queue.contents.lock().remove(slot);
        }
    }
}

impl Queue {
    /// Runs a pass unless so little is left to hash already; says whether it is then.
    fn hashed_down_to(&self, slot: usize, bytes: usize) -> bool {
        let mut contents = self.contents.lock();
        if contents.content(slot).waiting_bytes() > bytes {
            contents.pass();
        }
        contents.content(slot).waiting_bytes() <= bytes
    }
}

impl Contents {
    fn insert(&mut self, content: Content) -> usize {
        if let Some(slot) = self.free.pop() {
            self.slots[slot] = Some(content);
            return slot;
        }
        self.slots.push(Some(content));
        self.slots.len() - 1
    }

    fn remove(&mut self, slot: usize) -> Content {
        self.free.push(slot);
        self.slots[slot].take().expect("a slot is emptied by its owner, once")
    }

    fn content(&mut self, slot: usize) -> &mut Content {
        self.slots[slot].as_mut().expect("a slot is emptied by its owner, once")
    }

    /// Whether a content that wants to be hashed down to so many bytes lets others bring theirs first: always once, then while
    /// lanes stay empty for which there are contents.
    fn is_worth_a_turn(&mut self, slot: usize, bytes: usize, turn: usize) -> bool {
        let waiting = self.content(slot).waiting_bytes();
        if waiting <= bytes || waiting < MIN_SHARED_BYTES {
            return false;
        }
        let open = self.slots.len() - self.free.len();
        turn == 0 || self.slots.iter().flatten().filter(|content| !content.run().is_empty()).count() < open.min(LANES)
    }

    /// Hashes what waits, up to a bound.
    fn pass(&mut self) {
        let mut hashed_bytes = 0;
        while hashed_bytes < MAX_PASS_BYTES {
            let chosen = self.choose();
            if chosen.is_empty() {
                return;
            }
            let blocks = chosen.iter().map(|slot| self.run(*slot).len()).min().unwrap_or_default().min(MAX_RUN_BLOCKS);
            let states = self.advanced(&chosen, blocks);
            for (slot, state) in chosen.iter().zip(states) {
                let content = self.content(*slot);
                content.state = state;
                content.consume(blocks);
            }
            hashed_bytes += blocks * BLOCK_BYTES * chosen.len();
        }
    }

    /// The states of contents after their next blocks.
    fn advanced(&self, chosen: &[usize], blocks: usize) -> SmallVec<[State; LANES]> {
        let mut states: SmallVec<[State; LANES]> = chosen.iter().map(|slot| self.state(*slot)).collect();
        let runs: SmallVec<[_; LANES]> = chosen.iter().map(|slot| &self.run(*slot)[..blocks]).collect();
        advance(&mut states, &runs);
        states
    }

    /// The next contents that have whole blocks waiting.
    fn choose(&mut self) -> SmallVec<[usize; LANES]> {
        let slots = self.slots.len();
        let in_turn = (0..slots).map(|step| (self.next + step) % slots);
        let chosen: SmallVec<[usize; LANES]> = in_turn.filter(|slot| !self.run(*slot).is_empty()).take(LANES).collect();
        self.next = chosen.last().map_or(0, |last| last + 1);
        chosen
    }

    fn run(&self, slot: usize) -> &[[u8; BLOCK_BYTES]] {
        self.slots[slot].as_ref().map_or(&[], Content::run)
    }

    fn state(&self, slot: usize) -> State {
        self.slots[slot].as_ref().map_or_else(State::default, |content| content.state)
    }
}
