//! Where the gateways of the cell are, by what the manager says.

use crate::CELL;
use logstore::Directory;
use manager::Manager;
use net::{Caller, ServiceTag};
use std::sync::Arc;
use subsystem::Callers;
use types::{DeviceId, GatewayId};

/// Finds gateways.
pub(crate) struct Gateways {
    pub manager: Arc<Manager>,
    pub callers: Callers,
}

impl Directory for Gateways {
    fn caller(&self, gateway: GatewayId) -> Option<Arc<dyn Caller>> {
        let state = self.manager.snapshot();
        let node = state.cell(CELL)?.members.get(&gateway)?.node;
        Some(self.callers.to_node(state.node(node)?, ServiceTag::GATEWAYS))
    }

    fn beside(&self, device: DeviceId) -> Option<GatewayId> {
        let state = self.manager.snapshot();
        let node = state.device(device)?.node?;
        state.cell(CELL)?.members.iter().find(|(_, member)| member.node == node).map(|(gateway, _)| *gateway)
    }
}
