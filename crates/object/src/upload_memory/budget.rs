//! Which upload gets memory next, as a state machine without I/O.
//!
//! ```text
//!            take: room                                hand over           give back
//!  limit ───────────────▶ unfinished chunk of a holder ─────────▶ engine ───────────▶ limit
//!            take: none ─▶ queue, first come first served
//! ```
//!
//! Bytes with the engine come back by themselves. Bytes of an unfinished chunk come back only if its client sends on, or if its
//! holder is asked and hands over what it has. Therefore the rule:
//!
//! | what waits in the queue | who is asked |
//! |---|---|
//! | no more than comes back by itself, and what is free | none |
//! | more | the holders that took nothing for longest, until it suffices |
//!
//! Invariants
//! - No more than the limit is lent.
//! - While a take waits, memory is on its way back, or the holder of every unfinished chunk was asked.
//! - Takes are served in their order: a large one is not overtaken by small ones.

use std::collections::{BTreeMap, VecDeque};

use hashbrown::HashMap;

/// An upload that takes memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct HolderId(u64);

/// Orders takes in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn(u64);

/// Something that a holder must learn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// What it waited for is lent to it.
    Granted(HolderId),
    /// It must hand over its unfinished chunk, or give it up.
    Asked(HolderId),
}

/// Notices in the order in which they came about.
pub(super) type Notices = Vec<Notice>;

/// The memory of all uploads.
#[derive(Debug)]
pub(super) struct Budget {
    limit: usize,
    /// Lent, with holders or with the engine.
    lent: usize,
    /// Of that, what unfinished chunks hold whose holders were not asked.
    kept: usize,
    /// What the queue wants together.
    wanted: usize,
    queue: VecDeque<HolderId>,
    holders: HashMap<HolderId, Holder>,
    /// Holders that were not asked and have an unfinished chunk, by their last take.
    oldest: BTreeMap<Turn, HolderId>,
    next_holder: u64,
    next_turn: u64,
}

#[derive(Debug, Default)]
struct Holder {
    /// Bytes lent for its unfinished chunk.
    chunk: usize,
    /// Its last take, while it is among the oldest.
    turn: Option<Turn>,
    is_asked: bool,
    /// Bytes that it waits for.
    wants: usize,
}

impl Budget {
    pub(super) fn new(limit: usize) -> Budget {
        Budget {
            limit,
            lent: 0,
            kept: 0,
            wanted: 0,
            queue: VecDeque::new(),
            holders: HashMap::new(),
            oldest: BTreeMap::new(),
            next_holder: 0,
            next_turn: 0,
        }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    pub(super) fn lent(&self) -> usize {
        self.lent
    }

    /// Takes that wait.
    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// A new holder, which has nothing yet.
    pub(super) fn enter(&mut self) -> HolderId {
        let id = HolderId(self.next_holder);
        self.next_holder += 1;
        self.holders.insert(id, Holder::default());
        id
    }

    /// Lends so many bytes for the holder's unfinished chunk; `false` if it has to wait for [`Notice::Granted`].
    pub(super) fn take(&mut self, id: HolderId, bytes: usize, notices: &mut Notices) -> bool {
        assert!(0 < bytes && bytes <= self.limit, "a take of {bytes} bytes of {}", self.limit);
        assert!(self.holder(id).wants == 0, "a holder waits for one take at a time");
        if self.queue.is_empty() && self.lent + bytes <= self.limit {
            self.lend(id, bytes);
            return true;
        }
        self.holder(id).wants = bytes;
        self.wanted += bytes;
        self.queue.push_back(id);
        self.ask(notices);
        false
    }

    /// The holder's chunk is with the engine, or was given up: what it holds comes back by itself.
    pub(super) fn hand_over(&mut self, id: HolderId) {
        let holder = self.holder(id);
        let (chunk, turn) = (holder.chunk, holder.turn.take());
        holder.chunk = 0;
        holder.is_asked = false;
        if let Some(turn) = turn {
            self.oldest.remove(&turn);
            self.kept -= chunk;
        }
    }

    /// So many bytes are free again.
    pub(super) fn give_back(&mut self, bytes: usize, notices: &mut Notices) {
        self.lent = self.lent.checked_sub(bytes).expect("no more comes back than was lent");
        self.serve(notices);
    }

    /// The holder waits no longer.
    pub(super) fn withdraw(&mut self, id: HolderId, notices: &mut Notices) {
        let wants = std::mem::take(&mut self.holder(id).wants);
        if wants > 0 {
            self.wanted -= wants;
            self.queue.retain(|waiting| *waiting != id);
            self.serve(notices);
        }
    }

    /// The holder ends. What it has comes back by [`Budget::give_back`].
    pub(super) fn leave(&mut self, id: HolderId, notices: &mut Notices) {
        self.hand_over(id);
        self.withdraw(id, notices);
        self.holders.remove(&id);
    }

    fn holder(&mut self, id: HolderId) -> &mut Holder {
        self.holders.get_mut(&id).expect("a holder is known until it leaves")
    }

    fn lend(&mut self, id: HolderId, bytes: usize) {
        self.lent += bytes;
        let turn = Turn(self.next_turn);
        self.next_turn += 1;
        let holder = self.holders.get_mut(&id).expect("a holder is known until it leaves");
        holder.chunk += bytes;
        // One that was asked is about to hand over this too.
        if holder.is_asked {
            return;
        }
        self.kept += bytes;
        if let Some(before) = holder.turn.replace(turn) {
            self.oldest.remove(&before);
        }
        self.oldest.insert(turn, id);
    }

    /// Lends to the first in the queue for as long as there is room, then asks for what the rest needs.
    fn serve(&mut self, notices: &mut Notices) {
        while let Some(&id) = self.queue.front() {
            let wants = self.holder(id).wants;
            if self.lent + wants > self.limit {
                break;
            }
            self.queue.pop_front();
            self.holder(id).wants = 0;
            self.wanted -= wants;
            self.lend(id, wants);
            notices.push(Notice::Granted(id));
        }
        self.ask(notices);
    }

    /// Asks the oldest until what waits is covered by what is free or comes back.
    fn ask(&mut self, notices: &mut Notices) {
        while self.wanted > self.limit - self.kept {
            let Some((_, id)) = self.oldest.pop_first() else { return };
            let holder = self.holder(id);
            holder.turn = None;
            holder.is_asked = true;
            let chunk = holder.chunk;
            self.kept -= chunk;
            notices.push(Notice::Asked(id));
        }
    }
}

#[cfg(test)]
mod tests;
