//! Contents of relocations in the leader's memory: from the request for one until it has been brought. A node may lead many units, which all relocate when a node is
//! removed: they share what there is room for, and one slow target gets no more than half of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use env::Instant;
use format::chunk_id::ShardId;
use manager::Snapshot;
use parking_lot::Mutex;
use types::NodeId;

use super::{Leading, node_of};
use crate::limits::MAX_CONTENTS_BYTES;

/// The room for contents that all units of a node have together.
#[derive(Debug, Default)]
pub struct ContentRoom {
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    bytes: u32,
    /// Of these, such as are on their way to each node.
    of_targets: BTreeMap<NodeId, u32>,
}

/// What a content takes, until it is dropped.
#[derive(Debug)]
struct Permit {
    room: Arc<ContentRoom>,
    target: NodeId,
    bytes: u32,
}

impl ContentRoom {
    /// Room for a content, if there is some, for its target too. One that was not heard of lately gets one content at a time.
    fn take(self: &Arc<Self>, target: NodeId, bytes: u32, is_up: bool) -> Option<Permit> {
        let mut taken = self.taken.lock();
        let of_target = taken.of_targets.get(&target).copied().unwrap_or_default();
        let is_for_target = of_target == 0 || (is_up && of_target + bytes <= MAX_CONTENTS_BYTES / 2);
        if !is_for_target || taken.bytes + bytes > MAX_CONTENTS_BYTES {
            return None;
        }
        taken.bytes += bytes;
        taken.of_targets.insert(target, of_target + bytes);
        Some(Permit { room: self.clone(), target, bytes })
    }

    #[cfg(test)]
    pub fn taken_bytes(&self) -> u32 {
        self.taken.lock().bytes
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.room.taken.lock();
        taken.bytes -= self.bytes;
        let of_target = taken.of_targets.get_mut(&self.target).expect("it was taken for this target");
        *of_target -= self.bytes;
        if *of_target == 0 {
            taken.of_targets.remove(&self.target);
        }
    }
}

/// Those of one unit, by the number of their relocation.
#[derive(Debug, Default)]
pub struct Contents {
    held: BTreeMap<u64, Content>,
}

#[derive(Debug)]
struct Content {
    permit: Permit,
    /// It was asked for, and there is no answer yet.
    is_awaited: bool,
}

impl Contents {
    /// Whether a content may be asked for: there is room for it.
    fn begin(&mut self, room: &Arc<ContentRoom>, relocation: u64, target: NodeId, bytes: u32, is_up: bool) -> bool {
        if self.held.contains_key(&relocation) {
            return true;
        }
        let Some(permit) = room.take(target, bytes, is_up) else { return false };
        self.held.insert(relocation, Content { permit, is_awaited: true });
        true
    }

    fn end(&mut self, relocation: u64) {
        self.held.remove(&relocation);
    }
}

impl Leading {
    /// Whether a relocation's content, of this length at most, may be asked for now.
    pub fn begin_content(
        &mut self,
        now: Instant,
        state: &Snapshot,
        shard: ShardId,
        room: &Arc<ContentRoom>,
        (relocation, bytes): (u64, u32),
    ) -> bool {
        let target = self.leader.target_of(relocation).and_then(|to| node_of(state, to));
        let Some(target) = target else { return false };
        let is_up = self.is_new(now) || !self.is_silent(now, state, shard, target);
        self.contents.begin(room, relocation, target, bytes, is_up)
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
        let held: Vec<(u64, NodeId)> = held.map(|(relocation, content)| (*relocation, content.permit.target)).collect();
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
