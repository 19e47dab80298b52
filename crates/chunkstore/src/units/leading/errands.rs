//! Errands to nodes that have no answer yet: none is sent twice meanwhile, and no node has too many.

use std::collections::{BTreeMap, BTreeSet};

use format::chunk_id::ChunkId;
use format::chunk_place::BlockPlace;
use types::NodeId;

use crate::leader::Errand;
use crate::limits::{MAX_DUTIES, MAX_MENDS, MAX_MOVE_ERRANDS};

/// Names an errand.
pub type ErrandKey = (Errand, ChunkId, BlockPlace);

/// What errands are for. Each has permits of its own: what there is most of, as erasures after a mass deletion, keeps nothing else waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Share {
    /// Copies end, are forgotten, or are asked what they are.
    Copies,
    /// Steps of relocations.
    Moves,
    /// Contents that are written again.
    Mends,
}

impl Share {
    pub fn of(errand: Errand) -> Share {
        match errand {
            Errand::Erase | Errand::Forget { .. } | Errand::Discard { .. } | Errand::Audit { .. } => Share::Copies,
            Errand::Move { .. } => Share::Moves,
            Errand::Mend => Share::Mends,
        }
    }

    /// Errands that may be under way.
    pub fn permits(self) -> usize {
        match self {
            Share::Copies => MAX_DUTIES,
            Share::Moves => MAX_MOVE_ERRANDS,
            Share::Mends => MAX_MENDS,
        }
    }

    /// Of these with one node: another one that answers late leaves room for the others.
    pub fn permits_of_node(self) -> usize {
        self.permits() / 2
    }
}

/// Those that are under way.
#[derive(Debug, Default)]
pub struct Errands {
    under_way: BTreeSet<ErrandKey>,
    of_nodes: BTreeMap<(NodeId, Share), usize>,
}

impl Errands {
    /// Whether it is to be sent: it is not under way, and its node has fewer than `most` of its share.
    pub fn begin(&mut self, node: NodeId, key: ErrandKey, most: usize) -> bool {
        let count = self.of_nodes.entry((node, Share::of(key.0))).or_default();
        let is_begun = *count < most && self.under_way.insert(key);
        *count += usize::from(is_begun);
        is_begun
    }

    pub fn is_under_way(&self, key: &ErrandKey) -> bool {
        self.under_way.contains(key)
    }

    /// It was answered, or waited for long enough.
    pub fn end(&mut self, node: NodeId, key: &ErrandKey) {
        // A former leadership's errand is none of these.
        if self.under_way.remove(key)
            && let Some(count) = self.of_nodes.get_mut(&(node, Share::of(key.0)))
        {
            *count = count.saturating_sub(1);
        }
    }
}
