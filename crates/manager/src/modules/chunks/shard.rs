//! Shards of the chunk store: opened one after another, sealed when they are full, never removed.
//!
//! ```text
//!            open (none is open, and the number is the expected one)        seal
//!   (none) ─────────────────────────────────────────────────────────▶ open ──────▶ sealed
//! ```

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use types::{ErrorKind, NodeId};

use super::limits::{MAX_SHARD_CHUNKS, MAX_SHARD_HOSTS, MAX_SHARDS};
use super::{ShardRecord, unit_key};
use crate::modules::groups::{FoundGroup, GroupError, is_node_list, missing_node};
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
    #[error("its unit: {0}")]
    Unit(#[from] GroupError),
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
            ShardError::Unit(error) => error.kind(),
            ShardError::Capacity { .. } | ShardError::Hosts => ErrorKind::Invalid,
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

    fn apply(&self, index: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<ShardRecord>, ShardError> {
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
        let unit = FoundGroup { key: unit_key(found), members: self.members.clone() };
        unit.check(edit.state)?;
        check_hosts(edit.state, &self.hosts, &[])?;
        unit.apply(index, edit)?;
        let (id, capacity, hosts) = (edit.take_number::<ShardRecord>() as u32, self.capacity, self.hosts.clone());
        let shard = ShardRecord { id, capacity, hosts, is_open: true };
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

fn find(state: &Snapshot, shard: u32) -> Result<Arc<ShardRecord>, ShardError> {
    state.shard(shard).cloned().ok_or(ShardError::NotFound { shard })
}

fn check_hosts(state: &Snapshot, hosts: &[NodeId], before: &[NodeId]) -> Result<(), ShardError> {
    if !is_node_list(hosts, MAX_SHARD_HOSTS) {
        return Err(ShardError::Hosts);
    }
    missing_node(state, hosts, before).map_or(Ok(()), |node| Err(ShardError::NoSuchNode { node }))
}
