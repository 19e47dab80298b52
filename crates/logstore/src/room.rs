//! Waiting for room (RFD 2, decision 22): a write that a full device refuses waits for collection as long as that gets
//! anywhere, and is refused when it does not.
//!
//! The background works in rounds and counts what they free. Who waits asks for a round of its own: one that had begun before may
//! have looked before there was anything to free.

use crate::store::Inner;
use crate::watched::Watched;
use env::Instant;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a write waits for room in all.
const ROOM_PATIENCE: Duration = Duration::from_secs(10);

/// How long a write whose copy failed waits before it is tried again.
const VIEW_LOOK: Duration = Duration::from_millis(100);

/// What the rounds of the background have done.
#[derive(Clone, Copy, Default)]
struct Rounds {
    begun: u64,
    ended: u64,
    freed_zones: u64,
    /// The last one failed, and the next one is a while away.
    has_failed: bool,
}

/// Who waits for room, and what there is to be told.
#[derive(Default)]
pub(crate) struct Room {
    rounds: Watched<Rounds>,
    is_wanted: AtomicBool,
}

impl Room {
    /// Whether a write has been refused since the last time that this was asked.
    pub fn take_wanted(&self) -> bool {
        self.is_wanted.swap(false, Ordering::AcqRel)
    }

    pub fn round_begins(&self) {
        self.rounds.change(|rounds| rounds.begun += 1);
    }

    /// A zone was freed, and copies have not taken as much.
    pub fn room_made(&self) {
        self.rounds.change(|rounds| rounds.freed_zones += 1);
    }

    pub fn round_ends(&self, has_failed: bool) {
        self.rounds.change(|rounds| {
            rounds.ended += 1;
            rounds.has_failed = has_failed;
        });
    }
}

/// The patience of one write.
#[derive(Default)]
pub(crate) struct Patience {
    ends: Option<Instant>,
}

impl Patience {
    /// Another gateway collects: it sees itself that a device is full.
    async fn wait_for_leader(&mut self, inner: &Inner) -> bool {
        let now = inner.env.now();
        let ends = *self.ends.get_or_insert(now + ROOM_PATIENCE);
        inner.env.sleep(VIEW_LOOK).await;
        now < ends
    }

    /// A copy failed: true if it is worth another try, because the cell may get a view without the device that failed. What failed may have
    /// been written all the same; another try stands above it.
    pub async fn wait_for_view(&mut self, inner: &Inner) -> bool {
        if inner.is_alone() || inner.is_deposed() {
            return false;
        }
        let now = inner.env.now();
        let ends = *self.ends.get_or_insert(now + ROOM_PATIENCE);
        inner.env.sleep(VIEW_LOOK).await;
        now < ends && !inner.is_deposed()
    }

    /// A device is full: true when there is room again, or may be, false when the write is to be refused.
    pub async fn wait(&mut self, inner: &Inner) -> bool {
        let room = &inner.background.room;
        if !inner.leads() {
            return self.wait_for_leader(inner).await;
        }
        let seen = room.rounds.get();
        let now = inner.env.now();
        let ends = *self.ends.get_or_insert(now + ROOM_PATIENCE);
        if seen.has_failed || now >= ends {
            return false;
        }
        room.is_wanted.store(true, Ordering::Release);
        inner.background.wake();
        tokio::select! {
            biased;
            after = room.rounds.wait_for(|now| now.freed_zones > seen.freed_zones || now.ended > seen.begun) => {
                after.freed_zones > seen.freed_zones
            }
            () = inner.env.sleep(ends - now) => false,
        }
    }
}
