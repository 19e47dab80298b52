//! The members of a cell, numbered (RFD 2, decision 4).
//!
//! A view selects who takes part: whose notices a write waits for, and which member serialises the freezes of a key. It permits nothing by
//! itself: reads are permitted by leases, writes by tokens.

use serde::{Deserialize, Serialize};
use types::{GatewayId, KeyHash, ViewNumber};

/// Most gateways of a cell: what they tell each other grows with the square of their number (paper section 3.8).
pub const MAX_CELL_GATEWAYS: usize = 5;

/// One membership of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "ViewFields")]
pub struct View {
    number: ViewNumber,
    /// Ascending, distinct.
    members: Vec<GatewayId>,
}

/// A view as it is written down; reading it checks it.
#[derive(Deserialize)]
struct ViewFields {
    number: ViewNumber,
    members: Vec<GatewayId>,
}

impl TryFrom<ViewFields> for View {
    type Error = ViewError;

    fn try_from(fields: ViewFields) -> Result<Self, ViewError> {
        View::new(fields.number, fields.members)
    }
}

/// Why there is no such view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    #[error("a cell has at least one gateway")]
    Empty,
    #[error("a cell has at most {MAX_CELL_GATEWAYS} gateways, not {found}")]
    TooMany { found: usize },
}

impl View {
    pub fn new(number: ViewNumber, mut members: Vec<GatewayId>) -> Result<Self, ViewError> {
        members.sort_unstable();
        members.dedup();
        match members.len() {
            0 => Err(ViewError::Empty),
            found if found > MAX_CELL_GATEWAYS => Err(ViewError::TooMany { found }),
            _ => Ok(View { number, members }),
        }
    }

    pub fn number(&self) -> ViewNumber {
        self.number
    }

    /// Ascending.
    pub fn members(&self) -> &[GatewayId] {
        &self.members
    }

    pub fn contains(&self, gateway: GatewayId) -> bool {
        self.members.binary_search(&gateway).is_ok()
    }

    /// The member that serialises the freezes of a key (decision 18). Members agree about it because they agree about the view.
    pub fn home(&self, hash: &KeyHash) -> GatewayId {
        self.members[hash.placement_bits() as usize % self.members.len()]
    }

    /// The view after this one.
    pub fn next(&self, members: Vec<GatewayId>) -> Result<Self, ViewError> {
        View::new(ViewNumber(self.number.0 + 1), members)
    }

    /// Members of this view that are not in `next`: their leases must end before it begins.
    pub fn leaving(&self, next: &View) -> impl Iterator<Item = GatewayId> {
        self.members.iter().copied().filter(|member| !next.contains(*member))
    }
}

#[cfg(test)]
mod tests;
