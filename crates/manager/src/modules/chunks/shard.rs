//! Shards of the chunk store: opened one after another, sealed when they are full, never removed.
//!
//! ```text
//!            open (none is open, and the number is the expected one)        seal
//!   (none) ─────────────────────────────────────────────────────────▶ open ──────▶ sealed
//! ```

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use types::{ErrorKind, NodeId};

use super::ShardRecord;
use super::limits::{MAX_SHARD_CHUNKS, MAX_SHARD_HOSTS, MAX_SHARD_MEMBERS, MAX_SHARDS};
use super::record::is_node_list;
use crate::operation::{Operation, Refusal};
use crate::snapshot::{CommandIndex, Edit, Snapshot};

/// Why a change of the shards was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShardError {
    #[error("there is no shard {shard}")]
    NotFound { shard: u32 },
    #[error("shard {shard} is open; seal it before the next one")]
    StillOpen { shard: u32 },
    #[error("expected {expected} for the next shard, found {found}")]
    Stale { expected: u32, found: u32 },
    #[error("the cluster has {MAX_SHARDS} shards and takes no more")]
    TooMany,
    #[error("a shard has a capacity of 1 to {MAX_SHARD_CHUNKS} chunks, not {found}")]
    Capacity { found: u64 },
    #[error("a unit has 1 to {MAX_SHARD_MEMBERS} different members")]
    Members,
    #[error("a shard has 1 to {MAX_SHARD_HOSTS} different hosts")]
    Hosts,
    #[error("there is no node {node}")]
    NoSuchNode { node: NodeId },
}

impl Refusal for ShardError {
    fn kind(&self) -> ErrorKind {
        match self {
            ShardError::NotFound { .. } | ShardError::NoSuchNode { .. } => ErrorKind::NotFound,
            ShardError::StillOpen { .. } => ErrorKind::Conflict,
            ShardError::Stale { .. } => ErrorKind::PreconditionFailed,
            ShardError::TooMany => ErrorKind::Full,
            ShardError::Capacity { .. } | ShardError::Members | ShardError::Hosts => ErrorKind::Invalid,
        }
    }
}

/// Opens the next shard and gives it its number, if that is the expected one: of two monitors one opens it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenShard {
    pub expected_next: u32,
    pub capacity: u64,
    pub members: Vec<NodeId>,
    pub hosts: Vec<NodeId>,
}

impl Operation for OpenShard {
    type Reply = Arc<ShardRecord>;
    type Refusal = ShardError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<ShardRecord>, ShardError> {
        let (expected, found) = (self.expected_next, edit.state.next_shard());
        if expected != found {
            return Err(ShardError::Stale { expected, found });
        }
        if let Some(open) = edit.state.open_shard() {
            return Err(ShardError::StillOpen { shard: open.id });
        }
        if edit.state.shards.len() >= MAX_SHARDS {
            return Err(ShardError::TooMany);
        }
        if !(1..=MAX_SHARD_CHUNKS).contains(&self.capacity) {
            return Err(ShardError::Capacity { found: self.capacity });
        }
        check_members(edit.state, &self.members, &[])?;
        check_hosts(edit.state, &self.hosts, &[])?;
        let (members, hosts) = (self.members.clone(), self.hosts.clone());
        let (id, capacity, founders) = (edit.take_number::<ShardRecord>() as u32, self.capacity, members.clone());
        let shard = ShardRecord { id, capacity, founders, members, hosts, is_open: true };
        Ok(edit.set(id, Arc::new(shard)))
    }
}

/// The shard takes no registrations any more. Sealing it again changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealShard {
    pub shard: u32,
}

impl Operation for SealShard {
    type Reply = Arc<ShardRecord>;
    type Refusal = ShardError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<ShardRecord>, ShardError> {
        let before = find(edit.state, self.shard)?;
        if !before.is_open {
            return Ok(before);
        }
        Ok(edit.set(self.shard, Arc::new(ShardRecord { is_open: false, ..ShardRecord::clone(&before) })))
    }
}

/// Says which nodes host the shard's lookup units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetShardHosts {
    pub shard: u32,
    pub hosts: Vec<NodeId>,
}

impl Operation for SetShardHosts {
    type Reply = Arc<ShardRecord>;
    type Refusal = ShardError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<ShardRecord>, ShardError> {
        let before = find(edit.state, self.shard)?;
        check_hosts(edit.state, &self.hosts, &before.hosts)?;
        Ok(edit.set(self.shard, Arc::new(ShardRecord { hosts: self.hosts.clone(), ..ShardRecord::clone(&before) })))
    }
}

/// Says which nodes are members of the shard's unit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetShardMembers {
    pub shard: u32,
    pub members: Vec<NodeId>,
}

impl Operation for SetShardMembers {
    type Reply = Arc<ShardRecord>;
    type Refusal = ShardError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<ShardRecord>, ShardError> {
        let before = find(edit.state, self.shard)?;
        check_members(edit.state, &self.members, &before.members)?;
        Ok(edit.set(self.shard, Arc::new(ShardRecord { members: self.members.clone(), ..ShardRecord::clone(&before) })))
    }
}

fn find(state: &Snapshot, shard: u32) -> Result<Arc<ShardRecord>, ShardError> {
    state.shard(shard).cloned().ok_or(ShardError::NotFound { shard })
}

fn check_members(state: &Snapshot, members: &[NodeId], before: &[NodeId]) -> Result<(), ShardError> {
    if !is_node_list(members, MAX_SHARD_MEMBERS) {
        return Err(ShardError::Members);
    }
    check_new_nodes(state, members, before)
}

fn check_hosts(state: &Snapshot, hosts: &[NodeId], before: &[NodeId]) -> Result<(), ShardError> {
    if !is_node_list(hosts, MAX_SHARD_HOSTS) {
        return Err(ShardError::Hosts);
    }
    check_new_nodes(state, hosts, before)
}

/// Those that come must be there; those that stay may be gone, since they are replaced one after another.
fn check_new_nodes(state: &Snapshot, nodes: &[NodeId], before: &[NodeId]) -> Result<(), ShardError> {
    let is_missing = |node: &&NodeId| !before.contains(node) && state.node(**node).is_none();
    match nodes.iter().find(is_missing) {
        Some(node) => Err(ShardError::NoSuchNode { node: *node }),
        None => Ok(()),
    }
}
