//! What is known of copies that are not as they were written: what nodes report of themselves, and what an audit did not find.

use std::collections::{BTreeMap, BTreeSet};

use env::Instant;
use format::chunk_command::CopyOf;
use format::chunk_id::ChunkId;
use format::chunk_place::BlockPlace;
use types::NodeId;

use crate::limits::{DAMAGED_AGE, MAX_MISSING, ROTTEN_AGE};
use crate::protocol::DamagedBlock;
use crate::wire::limits::{MAX_DAMAGED, MAX_ROTTEN};

/// Copies and blocks.
#[derive(Debug, Default)]
pub struct Ailing {
    /// What each node has said last.
    reported: BTreeMap<NodeId, Reported>,
    /// Copies that are not there though the unit's state says so.
    missing: BTreeSet<(ChunkId, BlockPlace)>,
}

#[derive(Debug, Default)]
struct Reported {
    /// And when: where there are more than one report has, each has other ones.
    rotten: BTreeMap<(ChunkId, BlockPlace), Instant>,
    /// The same, and whether they are condemned.
    damaged: BTreeMap<BlockPlace, (bool, Instant)>,
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
    pub fn hear(&mut self, now: Instant, node: NodeId, rotten: Vec<CopyOf>, damaged: Vec<DamagedBlock>) {
        if rotten.is_empty() && damaged.is_empty() {
            self.reported.remove(&node);
            return;
        }
        let (is_part, is_part_damaged) = (rotten.len() >= MAX_ROTTEN, damaged.len() >= MAX_DAMAGED);
        let reported = self.reported.entry(node).or_default();
        reported.rotten.retain(|_, at| is_part && now.saturating_duration_since(*at) < ROTTEN_AGE);
        reported.rotten.extend(rotten.into_iter().map(|copy| ((copy.id, copy.place), now)));
        reported.damaged.retain(|_, (_, at)| is_part_damaged && now.saturating_duration_since(*at) < DAMAGED_AGE);
        reported.damaged.extend(damaged.into_iter().map(|block| (block.place, (block.is_condemned, now))));
    }

    /// It was written again.
    pub fn mended(&mut self, id: ChunkId, place: BlockPlace) {
        self.reported.values_mut().for_each(|reported| _ = reported.rotten.remove(&(id, place)));
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
            reported.rotten.retain(|(id, _), _| !ids.contains(id));
        }
    }

    /// Keeps what is still so.
    pub fn keep_missing(&mut self, is_so: impl Fn(&(ChunkId, BlockPlace)) -> bool) {
        self.missing.retain(is_so);
    }

    pub fn found(&self) -> Found {
        let rotten = self.reported.values().flat_map(|reported| reported.rotten.keys()).copied();
        let damaged = self.reported.values().flat_map(|reported| &reported.damaged);
        Found {
            rotten: rotten.collect(),
            missing: self.missing.clone(),
            blocks: damaged.map(|(place, (is_condemned, _))| (*place, *is_condemned)).collect(),
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
