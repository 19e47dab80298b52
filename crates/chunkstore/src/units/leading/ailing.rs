//! What is known of copies that are not as they were written: what nodes report of themselves, and what an audit did not find.

use std::collections::{BTreeMap, BTreeSet};

use format::chunk_command::CopyOf;
use format::chunk_id::ChunkId;
use format::chunk_place::BlockPlace;
use types::NodeId;

use crate::limits::MAX_MISSING;
use crate::protocol::DamagedBlock;

/// Copies and blocks.
#[derive(Debug, Default)]
pub struct Ailing {
    /// What each node has said last.
    reported: BTreeMap<NodeId, Reported>,
    /// Copies that are not there though the unit's state says so.
    missing: BTreeSet<(ChunkId, BlockPlace)>,
}

#[derive(Debug)]
struct Reported {
    rotten: Vec<CopyOf>,
    damaged: Vec<DamagedBlock>,
}

/// All of it at one moment.
pub struct Found {
    /// Copies whose content can't be returned.
    pub rotten: BTreeSet<(ChunkId, BlockPlace)>,
    pub missing: BTreeSet<(ChunkId, BlockPlace)>,
    /// And whether they are condemned.
    pub blocks: BTreeMap<BlockPlace, bool>,
}

impl Ailing {
    pub fn hear(&mut self, node: NodeId, rotten: Vec<CopyOf>, damaged: Vec<DamagedBlock>) {
        match rotten.is_empty() && damaged.is_empty() {
            true => _ = self.reported.remove(&node),
            false => _ = self.reported.insert(node, Reported { rotten, damaged }),
        }
    }

    /// What nodes have said that there are not any more is nothing.
    pub fn keep_nodes(&mut self, is_there: impl Fn(NodeId) -> bool) {
        self.reported.retain(|node, _| is_there(*node));
    }

    /// What there is no room for is found by the next audit.
    pub fn miss(&mut self, id: ChunkId, place: BlockPlace) {
        if self.missing.len() < MAX_MISSING {
            self.missing.insert((id, place));
        }
    }

    /// What was believed of these is nothing: there are no such chunks.
    pub fn forget(&mut self, ids: &BTreeSet<ChunkId>) {
        self.missing.retain(|(id, _)| !ids.contains(id));
        for reported in self.reported.values_mut() {
            reported.rotten.retain(|copy| !ids.contains(&copy.id));
        }
    }

    /// Keeps what is still so.
    pub fn keep_missing(&mut self, is_so: impl Fn(&(ChunkId, BlockPlace)) -> bool) {
        self.missing.retain(is_so);
    }

    pub fn found(&self) -> Found {
        let rotten = self.reported.values().flat_map(|reported| &reported.rotten).map(|copy| (copy.id, copy.place));
        let damaged = self.reported.values().flat_map(|reported| &reported.damaged);
        Found {
            rotten: rotten.collect(),
            missing: self.missing.clone(),
            blocks: damaged.map(|block| (block.place, block.is_condemned)).collect(),
        }
    }
}

impl Found {
    /// Whether nothing is known against a copy.
    pub fn is_sound(&self, id: ChunkId, place: BlockPlace) -> bool {
        let copy = (id, place);
        !self.blocks.contains_key(&place) && !self.rotten.contains(&copy) && !self.missing.contains(&copy)
    }
}
