//! Placement groups of the volume engine: which nodes have them, under which view (docs/rfd/0026, 0027).
//!
//! ```text
//!             name                  activate            name
//!   (none) ─────────► named, not active ──────► active ──────► named, not active ...
//! ```
//!
//! Invariants:
//! - A view is named only after the newest one, and its primary and voters are of the last active membership or were its learners.
//! - Only the newest view becomes active.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use types::{ErrorKind, NodeId, ViewNumber};

use super::commands;
use super::groups::is_node_list;
use crate::error::ManagerError;
use crate::kind::Record;
use crate::manager::Manager;
use crate::operation::{Operation, Refusal};
use crate::snapshot::{CommandIndex, Edit, ImpossibleState, Snapshot, check_number};

/// Placement groups of a cluster. The number is fixed for ever: keys are mapped to groups by it.
pub const PLACEMENT_GROUPS: u32 = 16;
/// Most members of a group, learners included.
pub const MAX_PLACEMENT_MEMBERS: usize = 8;

/// The last view that became active.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveMembership {
    pub view: ViewNumber,
    pub primary: NodeId,
    pub voters: Vec<NodeId>,
    pub learners: Vec<NodeId>,
}

/// The newest view of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementRecord {
    pub group: u32,
    pub view: ViewNumber,
    pub primary: NodeId,
    pub voters: Vec<NodeId>,
    pub learners: Vec<NodeId>,
    pub is_active: bool,
    /// The last active view before this one; none if there was none.
    pub base: Option<ActiveMembership>,
}

impl PlacementRecord {
    /// The last active membership: this one, if it is active.
    pub fn active(&self) -> Option<ActiveMembership> {
        if !self.is_active {
            return self.base.clone();
        }
        let (primary, voters, learners) = (self.primary, self.voters.clone(), self.learners.clone());
        Some(ActiveMembership { view: self.view, primary, voters, learners })
    }

    /// All members, the voters first.
    pub fn members(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.voters.iter().chain(&self.learners).copied()
    }
}

impl Record for PlacementRecord {
    type Key = u32;

    const TAG: u8 = 18;
    const NAME: &'static str = "placement group";

    fn is_at(&self, key: &u32) -> bool {
        self.group == *key
    }

    fn check(&self, key: &u32, _: &Snapshot) -> Result<(), ImpossibleState> {
        check_number(Self::NAME, u64::from(*key), u64::from(PLACEMENT_GROUPS))?;
        let members: Vec<NodeId> = self.members().collect();
        let is_sound = is_node_list(&members, MAX_PLACEMENT_MEMBERS) && self.voters.contains(&self.primary);
        if is_sound { Ok(()) } else { Err(Self::refuse(key, "members that no group has")) }
    }
}

commands! {
    Placements,
    /// Commands about placement groups.
    PlacementCommand: NamePlacement, ActivatePlacement,
}

/// Why a change of a placement group was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    #[error("another view was named meanwhile")]
    NotNewest,
    #[error("a placement group has 1 to {MAX_PLACEMENT_MEMBERS} different members, its primary among the voters")]
    Members,
    #[error("the primary of a view was a voter of the last active one; its voters were members of it")]
    NotOfBase,
    #[error("there is no placement group {group}")]
    NoSuchGroup { group: u32 },
    #[error("there is no node {node}")]
    NoSuchNode { node: NodeId },
}

impl Refusal for PlacementError {
    fn kind(&self) -> ErrorKind {
        match self {
            PlacementError::Members => ErrorKind::Invalid,
            PlacementError::NoSuchGroup { .. } | PlacementError::NoSuchNode { .. } => ErrorKind::NotFound,
            PlacementError::NotNewest | PlacementError::NotOfBase => ErrorKind::Conflict,
        }
    }
}

/// Names the next view of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamePlacement {
    pub group: u32,
    /// The newest view; none before the first one.
    pub after: Option<ViewNumber>,
    pub primary: NodeId,
    pub voters: Vec<NodeId>,
    pub learners: Vec<NodeId>,
}

impl NamePlacement {
    fn check(&self, state: &Snapshot, base: Option<&ActiveMembership>) -> Result<(), PlacementError> {
        let members: Vec<NodeId> = self.voters.iter().chain(&self.learners).copied().collect();
        if !is_node_list(&members, MAX_PLACEMENT_MEMBERS) || !self.voters.contains(&self.primary) {
            return Err(PlacementError::Members);
        }
        if let Some(node) = members.iter().find(|node| state.node(**node).is_none()) {
            return Err(PlacementError::NoSuchNode { node: *node });
        }
        let may_vote = |base: &ActiveMembership, node: &NodeId| base.voters.contains(node) || base.learners.contains(node);
        match base {
            Some(base) if !base.voters.contains(&self.primary) => Err(PlacementError::NotOfBase),
            Some(base) if !self.voters.iter().all(|node| may_vote(base, node)) => Err(PlacementError::NotOfBase),
            _ => Ok(()),
        }
    }
}

impl Operation for NamePlacement {
    type Reply = Arc<PlacementRecord>;
    type Refusal = PlacementError;

    fn apply(&self, index: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<PlacementRecord>, PlacementError> {
        let before = edit.state.placement(self.group).cloned();
        if self.group >= PLACEMENT_GROUPS {
            return Err(PlacementError::NoSuchGroup { group: self.group });
        }
        if before.as_ref().map(|record| record.view) != self.after {
            return Err(PlacementError::NotNewest);
        }
        let base = match &before {
            // Whoever was named first holds nothing yet, and neither do others.
            Some(record) if record.base.is_none() && !record.is_active => None,
            Some(record) => record.active(),
            None => None,
        };
        self.check(edit.state, base.as_ref())?;
        let NamePlacement { group, primary, voters, learners, .. } = self.clone();
        let view = ViewNumber(index.0);
        let record = PlacementRecord { group, view, primary, voters, learners, is_active: false, base };
        Ok(edit.set(group, Arc::new(record)))
    }
}

/// Records that the newest view of a group is active.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivatePlacement {
    pub group: u32,
    pub view: ViewNumber,
}

impl Operation for ActivatePlacement {
    type Reply = Arc<PlacementRecord>;
    type Refusal = PlacementError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<PlacementRecord>, PlacementError> {
        let group = self.group;
        let record = edit.state.placement(group).cloned().ok_or(PlacementError::NoSuchGroup { group })?;
        if record.view != self.view {
            return Err(PlacementError::NotNewest);
        }
        Ok(edit.set(group, Arc::new(PlacementRecord { is_active: true, ..PlacementRecord::clone(&record) })))
    }
}

impl Snapshot {
    /// The newest view of a placement group.
    pub fn placement(&self, group: u32) -> Option<&Arc<PlacementRecord>> {
        self.placements.get(&group)
    }

    /// All placement groups, by number.
    pub fn placements(&self) -> impl Iterator<Item = &Arc<PlacementRecord>> {
        self.placements.values()
    }
}

/// What a command about a group answers.
type PlacementReply = Result<Arc<PlacementRecord>, ManagerError<PlacementError>>;

impl Manager {
    /// Names the next view of a placement group.
    pub async fn name_placement(&self, next: NamePlacement) -> PlacementReply {
        self.propose(next).await
    }

    /// Records that a view is active, if it is the newest.
    pub async fn activate_placement(&self, group: u32, view: ViewNumber) -> PlacementReply {
        self.propose(ActivatePlacement { group, view }).await
    }
}
