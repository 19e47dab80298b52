//! What a gateway's shards share: the view that they have installed, and the counters.

use std::sync::atomic::{AtomicU64, Ordering};
use topology::View;
use types::{GatewayId, KeyHash, ViewNumber};

/// What a gateway's writes promise to readers at the other gateways (paper section 3.7, "weaker consistency").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// Writes are announced, and readers of a key that is being written ask the writer: nobody reads an older version after somebody
    /// read a newer one.
    #[default]
    Linearizable,
    /// Nothing is announced; a write is acknowledged when every member has published it. A read that begins after the acknowledgement sees
    /// the write or a newer one; until then some gateways may answer with the new version and others with the old one.
    ReadAfterWrite,
}

/// One view of a cell, as a member of it sees it.
#[derive(Clone, Debug)]
pub struct Cell {
    me: GatewayId,
    view: View,
    others: Vec<GatewayId>,
    consistency: Consistency,
}

impl Cell {
    /// `me` is a member of the view: a gateway outside of it serves nothing (RFD 5, rule 9).
    pub fn new(me: GatewayId, view: View) -> Self {
        assert!(view.contains(me), "a gateway is a member of its own view");
        let others = view.members().iter().copied().filter(|member| *member != me).collect();
        Cell { me, view, others, consistency: Consistency::default() }
    }

    /// The same with another promise of this gateway's writes.
    pub fn writing(self, consistency: Consistency) -> Self {
        Cell { consistency, ..self }
    }

    /// Whether this gateway announces its writes.
    pub fn announces(&self) -> bool {
        self.consistency == Consistency::Linearizable
    }

    pub fn me(&self) -> GatewayId {
        self.me
    }

    pub fn others(&self) -> &[GatewayId] {
        &self.others
    }

    pub fn view(&self) -> &View {
        &self.view
    }

    pub fn number(&self) -> ViewNumber {
        self.view.number()
    }

    /// The member that serialises the freezes of a key (decision 18).
    pub fn home(&self, hash: &KeyHash) -> GatewayId {
        self.view.home(hash)
    }
}

/// A gateway's counters, shared by its shards. Both start above everything an earlier incarnation used.
#[derive(Debug)]
pub struct SequenceSource {
    /// Writes alone: a checkpoint's watermark of a gateway is the end of a run without holes (decision 11).
    writes: AtomicU64,
    /// Reads and freezes.
    questions: AtomicU64,
}

impl SequenceSource {
    pub fn starting_at(first: u64) -> Self {
        SequenceSource { writes: AtomicU64::new(first), questions: AtomicU64::new(first) }
    }

    /// Draws a write's number.
    pub fn draw(&self) -> u64 {
        self.writes.fetch_add(1, Ordering::Relaxed)
    }

    /// The number that the next write will have, or one before.
    pub fn next(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Draws the number of a read or a freeze.
    pub(super) fn draw_question(&self) -> u64 {
        self.questions.fetch_add(1, Ordering::Relaxed)
    }
}
