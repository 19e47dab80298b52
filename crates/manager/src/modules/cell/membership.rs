//! Who may be in a cell's view: registering, and being told to go (docs/rfd/0005). What changes the view itself is in [`super::view`].

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use topology::{TableError, ViewError};
use types::{CellId, DeviceId, ErrorKind, GatewayId, Generation, NodeId, Token, ViewNumber};

use super::{CellRecord, Member};
use crate::limits::{GENERATION_LIMIT, MAX_CELLS, MAX_LEARNERS};
use crate::operation::{Operation, Refusal};
use crate::snapshot::{CommandIndex, Edit};

/// Why a change of a cell was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CellError {
    #[error("there is no cell {cell}")]
    NotFound { cell: CellId },
    #[error("cell {cell} exists already")]
    AlreadyExists { cell: CellId },
    #[error("the cluster has {MAX_CELLS} cells and takes no more")]
    TooMany,
    #[error("there is no node {node}")]
    NoSuchNode { node: NodeId },
    #[error("{MAX_LEARNERS} gateways wait to join already")]
    TooManyLearners,
    #[error("expected view {expected}, found {found}")]
    Stale { expected: ViewNumber, found: ViewNumber },
    #[error("gateway {gateway} is not registered")]
    NotRegistered { gateway: GatewayId },
    #[error("gateway {gateway} of this node was registered meanwhile")]
    Newer { gateway: GatewayId },
    #[error("gateway {gateway} is not in the view")]
    NotInView { gateway: GatewayId },
    #[error("gateway {gateway} is in the view")]
    InView { gateway: GatewayId },
    #[error("gateway {gateway} is to leave the view")]
    Removing { gateway: GatewayId },
    #[error("gateway {gateway} would leave the view although its lease may be renewed; begin its removal first")]
    NotRemoving { gateway: GatewayId },
    #[error("gateway {gateway} joins when nobody leaves, nobody is undecided and nobody recovers everything")]
    Unsettled { gateway: GatewayId },
    #[error("nobody in the cell recovers everything from the devices under this view")]
    NotFounding,
    #[error("there is no device {device} that takes writes")]
    NotWritable { device: DeviceId },
    #[error(transparent)]
    View(#[from] ViewError),
    #[error(transparent)]
    Table(#[from] TableError),
    #[error("numbers of views or generations are used up")]
    UsedUp,
    #[error("writes of {limit} former tables are in no checkpoint yet; another table has to wait for one")]
    TooManyTables { limit: usize },
}

impl Refusal for CellError {
    fn kind(&self) -> ErrorKind {
        match self {
            CellError::NotFound { .. } | CellError::NoSuchNode { .. } | CellError::NotRegistered { .. } => ErrorKind::NotFound,
            CellError::Stale { .. } => ErrorKind::PreconditionFailed,
            CellError::TooMany | CellError::TooManyLearners | CellError::UsedUp | CellError::TooManyTables { .. } => {
                ErrorKind::Full
            }
            CellError::View(_) | CellError::Table(_) => ErrorKind::Invalid,
            CellError::AlreadyExists { .. }
            | CellError::Newer { .. }
            | CellError::NotInView { .. }
            | CellError::InView { .. }
            | CellError::Removing { .. }
            | CellError::NotRemoving { .. }
            | CellError::Unsettled { .. }
            | CellError::NotFounding
            | CellError::NotWritable { .. } => ErrorKind::Conflict,
        }
    }
}

/// Makes a cell that has no gateway yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateCell {
    pub cell: CellId,
    /// The newest generation under which anything was written in it; 0 if nothing was.
    pub generation: Generation,
}

impl Operation for CreateCell {
    type Reply = ();
    type Refusal = CellError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<(), CellError> {
        if edit.state.cell(self.cell).is_some() {
            return Err(CellError::AlreadyExists { cell: self.cell });
        }
        if edit.state.cells.len() >= MAX_CELLS {
            return Err(CellError::TooMany);
        }
        if self.generation.0 >= GENERATION_LIMIT {
            return Err(CellError::UsedUp);
        }
        edit.set_cell(CellRecord::new(self.cell, self.generation));
        Ok(())
    }
}

/// A gateway's number and token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    pub gateway: GatewayId,
    pub token: Token,
}

/// Registers a new incarnation of a node's gateway, as a learner. To be proposed by the process that holds the node's data folder, once a
/// former incarnation within it has stopped answering: so nobody waits for the former one's lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterGateway {
    pub cell: CellId,
    pub node: NodeId,
    /// The newest of the node's gateways that has stopped ([`CellRecord::newest_of`]). One that was registered since lives: a proposal can come late,
    /// also one of a process that was killed and whose successor has registered meanwhile.
    pub former: Token,
}

impl Operation for RegisterGateway {
    type Reply = Registered;
    type Refusal = CellError;

    fn apply(&self, index: CommandIndex, edit: &mut Edit<'_>) -> Result<Registered, CellError> {
        let mut cell = find(edit, self.cell)?;
        if edit.state.node(self.node).is_none() {
            return Err(CellError::NoSuchNode { node: self.node });
        }
        let of_node: Vec<(GatewayId, Token)> = cell.of_node(self.node).collect();
        if let Some((gateway, _)) = of_node.iter().find(|(_, token)| *token > self.former) {
            return Err(CellError::Newer { gateway: *gateway });
        }
        of_node.into_iter().for_each(|(gateway, _)| end(&mut cell, gateway));
        if cell.learners().count() >= MAX_LEARNERS {
            return Err(CellError::TooManyLearners);
        }
        let gateway = next_gateway(&cell);
        let token = Token(index.0);
        cell.last_gateway = gateway;
        cell.members.insert(gateway, Member { node: self.node, token });
        edit.set_cell(cell);
        Ok(Registered { gateway, token })
    }
}

/// The number after the newest one, without 0 and those in use.
fn next_gateway(cell: &CellRecord) -> GatewayId {
    let mut next = cell.last_gateway;
    loop {
        next = GatewayId(next.0.wrapping_add(1));
        // Both lists have limits far below the count of numbers.
        if next.0 != 0 && !cell.members.contains_key(&next) && !cell.undecided.contains_key(&next) {
            return next;
        }
    }
}

/// A gateway has stopped: a member leaves without anybody waiting for its lease, a learner is forgotten.
fn end(cell: &mut CellRecord, gateway: GatewayId) {
    if cell.is_in_view(gateway) {
        cell.removing.insert(gateway);
        cell.ended.insert(gateway);
    } else {
        cell.members.remove(&gateway);
    }
}

/// Ends the renewing of members' leases. A view without them follows when these have ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeginRemoval {
    pub cell: CellId,
    pub view: ViewNumber,
    /// May be all members: then the cell is to be founded anew.
    pub gateways: BTreeSet<GatewayId>,
}

impl Operation for BeginRemoval {
    type Reply = ();
    type Refusal = CellError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<(), CellError> {
        let mut cell = find_under(edit, self.cell, self.view)?;
        if let Some(gateway) = self.gateways.iter().find(|gateway| !cell.is_in_view(**gateway)) {
            return Err(CellError::NotInView { gateway: *gateway });
        }
        cell.removing.extend(&self.gateways);
        edit.set_cell(cell);
        Ok(())
    }
}

/// A gateway has stopped answering for good, and says so itself. It may be the last one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaveCell {
    pub cell: CellId,
    pub gateway: GatewayId,
}

impl Operation for LeaveCell {
    type Reply = ();
    type Refusal = CellError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<(), CellError> {
        let mut cell = find(edit, self.cell)?;
        if !cell.members.contains_key(&self.gateway) {
            return Err(CellError::NotRegistered { gateway: self.gateway });
        }
        end(&mut cell, self.gateway);
        edit.set_cell(cell);
        Ok(())
    }
}

pub(super) fn find(edit: &Edit<'_>, cell: CellId) -> Result<CellRecord, CellError> {
    edit.state.cell(cell).map(|record| CellRecord::clone(record)).ok_or(CellError::NotFound { cell })
}

/// The cell if its view is still the expected one.
pub(super) fn find_under(edit: &Edit<'_>, cell: CellId, expected: ViewNumber) -> Result<CellRecord, CellError> {
    let record = find(edit, cell)?;
    let found = record.view_number();
    if found == expected { Ok(record) } else { Err(CellError::Stale { expected, found }) }
}
