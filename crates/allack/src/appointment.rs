//! What the manager tells the members of a group.

use std::time::Duration;

use types::{NodeId, Token, ViewNumber};

use crate::limits::MAX_MEMBERS;

/// A view of one group.
///
/// The manager names a view only if its primary is a voter of the last active membership (`base`). It records a view as active only when
/// asked by its primary, and only while it is the newest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appointment {
    /// The manager's index; greater than that of every earlier view of the group.
    pub view: ViewNumber,
    /// Of the primary's appointment: the view since which it is primary without a restart. For fences at targets.
    pub token: Token,
    pub primary: NodeId,
    /// All of them acknowledge. The primary is one.
    pub voters: Vec<NodeId>,
    /// They get everything, and nothing waits for them.
    pub learners: Vec<NodeId>,
    /// The voters of the last view that was recorded as active; none while the group has had none. Then all logs are empty.
    pub base: Option<Vec<NodeId>>,
    /// How long the lease of another primary may last from now on.
    pub former_lease: Duration,
}

/// Why there is no such view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppointmentError {
    #[error("view {view} names {found} members; a group has at most {MAX_MEMBERS}")]
    TooMany { view: ViewNumber, found: usize },
    #[error("view {view} names node {node} twice")]
    Twice { view: ViewNumber, node: NodeId },
    #[error("node {node} is primary of view {view} and no voter of it")]
    NoVoter { view: ViewNumber, node: NodeId },
    #[error("node {node} is primary of view {view} and was no voter of the last active view: name one that was")]
    NotOfBase { view: ViewNumber, node: NodeId },
}

impl Appointment {
    pub fn check(&self) -> Result<(), AppointmentError> {
        let (view, node) = (self.view, self.primary);
        let members: Vec<NodeId> = self.members().collect();
        if members.len() > MAX_MEMBERS {
            return Err(AppointmentError::TooMany { view, found: members.len() });
        }
        let twice = members.iter().enumerate().find(|(index, node)| members[..*index].contains(node));
        if let Some((_, node)) = twice {
            return Err(AppointmentError::Twice { view, node: *node });
        }
        if !self.voters.contains(&node) {
            return Err(AppointmentError::NoVoter { view, node });
        }
        match &self.base {
            Some(base) if !base.contains(&node) => Err(AppointmentError::NotOfBase { view, node }),
            _ => Ok(()),
        }
    }

    pub fn members(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.voters.iter().chain(&self.learners).copied()
    }

    /// The voters whose logs decide.
    pub(crate) fn deciding(&self) -> impl Iterator<Item = NodeId> + '_ {
        let counts = |voter: &NodeId| self.base.as_ref().is_none_or(|base| base.contains(voter));
        self.voters.iter().copied().filter(counts)
    }
}
