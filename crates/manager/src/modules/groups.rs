//! Placed groups: consensus groups beside the manager's own, and which nodes are their members (docs/rfd/0022). What a group replicates is
//! its kind's affair.
//!
//! ```text
//!            found                     set members                    end
//!   (none) ────────▶ founders = members ──────────▶ other members ──────────▶ (none)
//! ```
//!
//! The record says where the group is to be; crate `groups` has the group follow it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use types::{ErrorKind, NodeId};

use super::{commands, needs_group};
use crate::error::ManagerError;
use crate::kind::{Key, Record};
use crate::manager::Manager;
use crate::operation::{Operation, Refusal};
use crate::snapshot::{CommandIndex, Edit, ImpossibleState, Snapshot, check_number};

/// Most placed groups of a cluster.
pub const MAX_GROUPS: usize = 65_536;

/// Most members of a group: while one replaces another, both may be there.
pub const MAX_GROUP_MEMBERS: usize = 7;

/// What a group replicates. All kinds of the program stand in the list below, so that no number is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupKind(pub u8);

impl GroupKind {
    /// Maintenance units of the chunk store, by shard.
    pub const CHUNK_UNITS: GroupKind = GroupKind(1);
    /// Trees of file volumes.
    pub const FILE_TREES: GroupKind = GroupKind(2);
    /// Records of the contents of file volumes: where their copies are.
    pub const FILE_CONTENTS: GroupKind = GroupKind(3);
}

/// Which group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupKey {
    pub kind: GroupKind,
    pub number: u32,
}

/// Where a group is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRecord {
    pub key: GroupKey,
    /// Members that the group begins with, whichever of them begins it: two that began with different ones would be two groups.
    pub founders: Vec<NodeId>,
    /// Nodes among them may be gone, until they are replaced.
    pub members: Vec<NodeId>,
}

impl Key for GroupKey {
    fn encode(&self) -> Vec<u8> {
        [&[self.kind.0], &self.number.to_be_bytes()[..]].concat()
    }

    fn decode(bytes: &[u8]) -> Option<GroupKey> {
        let (kind, number) = bytes.split_first()?;
        Some(GroupKey { kind: GroupKind(*kind), number: u32::decode(number)? })
    }
}

impl Record for GroupRecord {
    type Key = GroupKey;

    const TAG: u8 = 15;
    const NAME: &'static str = "group";

    fn is_at(&self, key: &GroupKey) -> bool {
        self.key == *key
    }

    fn check(&self, key: &GroupKey, state: &Snapshot) -> Result<(), ImpossibleState> {
        check_number("groups", state.groups.len() as u64, MAX_GROUPS as u64 + 1)?;
        let checks = [
            (is_node_list(&self.founders, MAX_GROUP_MEMBERS), "founders that no group has"),
            (is_node_list(&self.members, MAX_GROUP_MEMBERS), "members that no group has"),
        ];
        checks.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, what)| Err(Self::refuse(key, what)))
    }
}

/// Whether this may be a list of nodes: at least one, at most `most`, none twice.
pub(crate) fn is_node_list(nodes: &[NodeId], most: usize) -> bool {
    let is_first = |(at, node): (usize, &NodeId)| !nodes[..at].contains(node);
    (1..=most).contains(&nodes.len()) && nodes.iter().enumerate().all(is_first)
}

/// The first of these nodes that comes and is not there. Those that stay may be gone, since they are replaced one after another.
pub(crate) fn missing_node(state: &Snapshot, nodes: &[NodeId], before: &[NodeId]) -> Option<NodeId> {
    nodes.iter().copied().find(|node| !before.contains(node) && state.node(*node).is_none())
}

commands! {
    Groups,
    /// Commands about placed groups.
    GroupCommand: FoundGroup, SetGroupMembers, EndGroup,
}

/// Why a change of the groups was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    #[error("there is no such group")]
    NotFound,
    #[error("the group exists already")]
    AlreadyExists,
    #[error("the cluster has {MAX_GROUPS} groups and takes no more")]
    TooMany,
    #[error("a group has 1 to {MAX_GROUP_MEMBERS} different members")]
    Members,
    #[error("something counts on the group: end that first")]
    InUse,
    #[error("there is no node {node}")]
    NoSuchNode { node: NodeId },
}

impl Refusal for GroupError {
    fn kind(&self) -> ErrorKind {
        match self {
            GroupError::NotFound | GroupError::NoSuchNode { .. } => ErrorKind::NotFound,
            GroupError::AlreadyExists | GroupError::InUse => ErrorKind::Conflict,
            GroupError::TooMany => ErrorKind::Full,
            GroupError::Members => ErrorKind::Invalid,
        }
    }
}

/// Says where a new group is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundGroup {
    pub key: GroupKey,
    pub members: Vec<NodeId>,
}

impl FoundGroup {
    /// Refuses what can't be founded.
    pub(crate) fn check(&self, state: &Snapshot) -> Result<(), GroupError> {
        if state.groups.contains_key(&self.key) {
            return Err(GroupError::AlreadyExists);
        }
        if state.groups.len() >= MAX_GROUPS {
            return Err(GroupError::TooMany);
        }
        check_members(state, &self.members, &[])
    }
}

impl Operation for FoundGroup {
    type Reply = Arc<GroupRecord>;
    type Refusal = GroupError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<GroupRecord>, GroupError> {
        self.check(edit.state)?;
        let (key, members) = (self.key, self.members.clone());
        Ok(edit.set(key, Arc::new(GroupRecord { key, founders: members.clone(), members })))
    }
}

/// Says which nodes are a group's members from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetGroupMembers {
    pub key: GroupKey,
    pub members: Vec<NodeId>,
}

impl Operation for SetGroupMembers {
    type Reply = Arc<GroupRecord>;
    type Refusal = GroupError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<GroupRecord>, GroupError> {
        let before = edit.state.group(self.key).cloned().ok_or(GroupError::NotFound)?;
        check_members(edit.state, &self.members, &before.members)?;
        Ok(edit.set(self.key, Arc::new(GroupRecord { members: self.members.clone(), ..GroupRecord::clone(&before) })))
    }
}

/// Ends a group: its members forget what it replicated. Its key is not to be used again: a member that was away would begin the new group with
/// what it has of the old one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndGroup {
    pub key: GroupKey,
}

impl Operation for EndGroup {
    type Reply = ();
    type Refusal = GroupError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<(), GroupError> {
        if edit.state.group(self.key).is_none() {
            return Err(GroupError::NotFound);
        }
        if needs_group(edit.state, self.key) {
            return Err(GroupError::InUse);
        }
        edit.remove::<GroupRecord>(&self.key);
        Ok(())
    }
}

fn check_members(state: &Snapshot, members: &[NodeId], before: &[NodeId]) -> Result<(), GroupError> {
    if !is_node_list(members, MAX_GROUP_MEMBERS) {
        return Err(GroupError::Members);
    }
    missing_node(state, members, before).map_or(Ok(()), |node| Err(GroupError::NoSuchNode { node }))
}

impl Snapshot {
    /// Where a group is to be.
    pub fn group(&self, key: GroupKey) -> Option<&Arc<GroupRecord>> {
        self.groups.get(&key)
    }

    /// All groups of a kind by number.
    pub fn groups_of(&self, kind: GroupKind) -> impl Iterator<Item = &Arc<GroupRecord>> {
        let (first, last) = (GroupKey { kind, number: 0 }, GroupKey { kind, number: u32::MAX });
        self.groups.range(first..=last).map(|(_, record)| record)
    }
}

impl Manager {
    /// Says where a new group is to be.
    pub async fn found_group(&self, key: GroupKey, members: Vec<NodeId>) -> Result<Arc<GroupRecord>, ManagerError<GroupError>> {
        self.propose(FoundGroup { key, members }).await
    }

    /// Says which nodes are a group's members from now on.
    pub async fn set_group_members(
        &self,
        key: GroupKey,
        members: Vec<NodeId>,
    ) -> Result<Arc<GroupRecord>, ManagerError<GroupError>> {
        self.propose(SetGroupMembers { key, members }).await
    }

    /// Ends a group.
    pub async fn end_group(&self, key: GroupKey) -> Result<(), ManagerError<GroupError>> {
        self.propose(EndGroup { key }).await
    }
}
