//! Cells of several gateways: who is in one, its view, and the tables that its views brought (docs/rfd/0005).

mod membership;
mod record;
mod tables;
mod view;

use std::collections::BTreeSet;
use std::sync::Arc;

use types::{CellId, DeviceId, GatewayId, Generation, NodeId, Token, ViewNumber};

use super::commands;
use crate::error::ManagerError;
use crate::manager::Manager;
use crate::overseer::Proposal;
use crate::snapshot::{Edit, Snapshot};

pub use membership::{BeginRemoval, CellError, CreateCell, LeaveCell, RegisterGateway, Registered};
pub use record::{
    CellRecord, IMPORT_SKIPPED_GATEWAYS, IMPORT_SKIPPED_GENERATIONS, IMPORT_SKIPPED_VIEWS, InstalledView, Member,
};
pub use tables::ForgetTables;
pub use view::{FinishFounding, FinishRecovery, FoundView, InstallView};

commands! {
    Cell,
    /// Commands about cells.
    CellCommand:
        CreateCell,
        RegisterGateway,
        BeginRemoval,
        LeaveCell,
        InstallView,
        FoundView,
        FinishRecovery,
        FinishFounding,
        ForgetTables,
}

impl Edit<'_> {
    pub(crate) fn set_cell(&mut self, cell: CellRecord) {
        self.set(cell.id, Arc::new(cell));
    }
}

impl Snapshot {
    /// A cell's gateways and view; none before [`crate::CreateCell`].
    pub fn cell(&self, id: CellId) -> Option<&Arc<CellRecord>> {
        self.cells.get(&id)
    }

    /// All cells by number.
    pub fn cells(&self) -> impl Iterator<Item = &Arc<CellRecord>> {
        self.cells.values()
    }
}

impl Manager {
    /// Forgets the tables of a cell's former views that are of lower generations: the installed checkpoint covers what went by them.
    pub async fn forget_tables(&self, cell: CellId, below: Generation) -> Result<(), ManagerError<CellError>> {
        self.propose(ForgetTables { cell, below }).await
    }

    /// Makes a cell that has no gateway yet. `generation` is the newest under which anything was written in it.
    pub async fn create_cell(&self, cell: CellId, generation: Generation) -> Result<(), ManagerError<CellError>> {
        self.propose(CreateCell { cell, generation }).await
    }

    /// Registers a new incarnation of a node's gateway. To be called by the process that holds the node's data folder, when its former
    /// incarnation has stopped answering: nobody waits for that one's lease. Refused while this member does not know of the node's newest gateway.
    pub async fn register_gateway(&self, cell: CellId, node: NodeId) -> Result<Registered, ManagerError<CellError>> {
        let former = self.snapshot().cell(cell).map_or(Token(0), |cell| cell.newest_of(node));
        self.propose(RegisterGateway { cell, node, former }).await
    }

    /// A gateway has stopped answering for good.
    pub async fn leave_cell(&self, cell: CellId, gateway: GatewayId) -> Result<(), ManagerError<CellError>> {
        self.propose(LeaveCell { cell, gateway }).await
    }

    /// Ends the renewing of members' leases, before a view without them.
    pub async fn begin_removal(
        &self,
        cell: CellId,
        view: ViewNumber,
        gateways: BTreeSet<GatewayId>,
    ) -> Result<(), ManagerError<CellError>> {
        self.propose(BeginRemoval { cell, view, gateways }).await
    }

    /// Installs the view after the expected one; its number.
    pub async fn install_view(
        &self,
        cell: CellId,
        expected: ViewNumber,
        members: BTreeSet<GatewayId>,
        devices: BTreeSet<DeviceId>,
    ) -> Result<ViewNumber, ManagerError<CellError>> {
        self.propose(InstallView { cell, expected, members, devices }).await
    }

    /// Installs a view of one learner, which recovers everything from the devices; its number.
    pub async fn found_view(
        &self,
        cell: CellId,
        expected: ViewNumber,
        gateway: GatewayId,
        devices: BTreeSet<DeviceId>,
    ) -> Result<ViewNumber, ManagerError<CellError>> {
        self.propose(FoundView { cell, expected, gateway, devices }).await
    }

    /// What these gateways may have written is decided.
    pub async fn finish_recovery(
        &self,
        cell: CellId,
        view: ViewNumber,
        gateways: BTreeSet<GatewayId>,
    ) -> Result<(), ManagerError<CellError>> {
        self.propose(FinishRecovery { cell, view, gateways }).await
    }

    /// The founder has recovered everything.
    pub async fn finish_founding(
        &self,
        cell: CellId,
        view: ViewNumber,
        gateway: GatewayId,
    ) -> Result<(), ManagerError<CellError>> {
        self.propose(FinishFounding { cell, view, gateway }).await
    }

    /// Carries out what an overseer proposes. A refusal is no failure: what it was made for has changed meanwhile.
    pub async fn carry_out(&self, proposal: Proposal) -> Result<(), ManagerError<CellError>> {
        match proposal {
            Proposal::BeginRemoval(operation) => self.propose(operation).await,
            Proposal::InstallView(operation) => self.propose(operation).await.map(|_| ()),
            Proposal::FoundView(operation) => self.propose(operation).await.map(|_| ()),
            Proposal::FinishRecovery(operation) => self.propose(operation).await,
            Proposal::FinishFounding(operation) => self.propose(operation).await,
        }
    }
}
