//! Contents of relocations in the leader's memory: from the request for one until it has been brought. A node may lead many units, which all relocate when a node is
//! removed: they share what there is room for, and one slow target gets no more than half of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use env::Instant;
use format::chunk_id::ShardId;
use manager::Snapshot;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use types::NodeId;

use super::{Leading, node_of};
use crate::limits::MAX_CONTENTS_BYTES;

/// Those of one unit, by the number of their relocation.
#[derive(Debug, Default)]
pub struct Contents {
    held: BTreeMap<u64, Content>,
    /// Bytes on their way to each node.
    of_targets: BTreeMap<NodeId, u32>,
}

#[derive(Debug)]
struct Content {
    target: NodeId,
    bytes: u32,
    /// It was asked for, and there is no answer yet.
    is_awaited: bool,
    _permit: OwnedSemaphorePermit,
}

impl Contents {
    /// Whether a content may be asked for: there is room for it among all units', and for its target. One that was not heard of lately gets one at a time.
    fn begin(&mut self, all: &Arc<Semaphore>, relocation: u64, target: NodeId, bytes: u32, is_up: bool) -> bool {
        if self.held.contains_key(&relocation) {
            return true;
        }
        let of_target = self.of_targets.get(&target).copied().unwrap_or_default();
        let has_room = of_target == 0 || (is_up && of_target + bytes <= MAX_CONTENTS_BYTES / 2);
        let permit = has_room.then(|| all.clone().try_acquire_many_owned(bytes).ok()).flatten();
        let Some(permit) = permit else { return false };
        *self.of_targets.entry(target).or_default() += bytes;
        self.held.insert(relocation, Content { target, bytes, is_awaited: true, _permit: permit });
        true
    }

    fn end(&mut self, relocation: u64) {
        if let Some(Content { target, bytes, .. }) = self.held.remove(&relocation)
            && let Some(of_target) = self.of_targets.get_mut(&target)
        {
            *of_target -= bytes;
            if *of_target == 0 {
                self.of_targets.remove(&target);
            }
        }
    }
}

impl Leading {
    /// Whether a relocation's content, of this length at most, may be asked for now.
    pub fn begin_content(
        &mut self,
        now: Instant,
        state: &Snapshot,
        shard: ShardId,
        all: &Arc<Semaphore>,
        (relocation, bytes): (u64, u32),
    ) -> bool {
        let target = self.leader.target_of(relocation).and_then(|to| node_of(state, to));
        let Some(target) = target else { return false };
        let is_up = self.is_new(now) || !self.is_silent(now, state, shard, target);
        self.contents.begin(all, relocation, target, bytes, is_up)
    }

    /// It was answered, or not asked for after all: its room comes back unless the content is here.
    pub fn end_asking(&mut self, relocation: u64) {
        if let Some(content) = self.contents.held.get_mut(&relocation) {
            content.is_awaited = false;
        }
        self.end_content(relocation);
    }

    /// Its target has answered, or was waited for.
    pub fn end_content(&mut self, relocation: u64) {
        let is_awaited = self.contents.held.get(&relocation).is_some_and(|content| content.is_awaited);
        if !is_awaited && !self.leader.holds_content(relocation) {
            self.contents.end(relocation);
        }
    }

    /// Gives room back that is not needed any more; also that of contents that nobody takes now: they are asked for again.
    pub fn keep_contents(&mut self, now: Instant, state: &Snapshot, shard: ShardId) {
        let held = self.contents.held.iter().filter(|(_, content)| !content.is_awaited);
        let held: Vec<(u64, NodeId)> = held.map(|(relocation, content)| (*relocation, content.target)).collect();
        for (relocation, target) in held {
            if !self.is_new(now) && self.is_silent(now, state, shard, target) {
                self.leader.let_go(relocation);
            }
            self.end_content(relocation);
        }
    }
}

#[cfg(test)]
mod tests;
