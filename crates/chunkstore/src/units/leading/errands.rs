//! Errands to nodes that have no answer yet: none is sent twice meanwhile, and no node has too many.

use std::collections::{BTreeMap, BTreeSet};

use format::chunk_id::ChunkId;
use format::chunk_place::BlockPlace;
use types::NodeId;

use crate::leader::Errand;

/// Names an errand.
pub type ErrandKey = (Errand, ChunkId, BlockPlace);

/// Those that are under way.
#[derive(Debug, Default)]
pub struct Errands {
    under_way: BTreeSet<ErrandKey>,
    of_nodes: BTreeMap<NodeId, usize>,
}

impl Errands {
    /// Whether it is to be sent: it is not under way, and its node has fewer than `most`.
    pub fn begin(&mut self, node: NodeId, key: ErrandKey, most: usize) -> bool {
        let count = self.of_nodes.entry(node).or_default();
        let is_begun = *count < most && self.under_way.insert(key);
        *count += usize::from(is_begun);
        is_begun
    }

    /// It was answered, or waited for long enough.
    pub fn end(&mut self, node: NodeId, key: &ErrandKey) {
        // A former leadership's errand is none of these.
        if self.under_way.remove(key)
            && let Some(count) = self.of_nodes.get_mut(&node)
        {
            *count = count.saturating_sub(1);
        }
    }
}
