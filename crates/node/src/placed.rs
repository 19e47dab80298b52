//! Devices that another node serves. A disk that comes with a start may be a copy of one, or the same one, that two machines reach: both nodes would take
//! writes under one number, and each disk would lack what the other one has.

use crate::TARGETS;
use crate::error::NodeError;
use crate::fences::writer;
use crate::node::OpenNode;
use target::RemoteTarget;
use types::{DeviceUuid, Token};

impl OpenNode {
    /// Refuses devices that the nodes serve which the manager has for them. Before anything is written to one of them, after the manager was heard. What a
    /// node does not serve, or where none answers, was carried over.
    pub async fn refuse_served(&self, devices: &[DeviceUuid]) -> Result<(), NodeError> {
        let state = self.manager.snapshot();
        for record in state.devices().filter(|record| devices.contains(&record.uuid)) {
            let other = record.node.filter(|node| *node != self.id()).and_then(|node| state.node(node));
            let Some(other) = other else { continue };
            // It writes nothing, and has no token to.
            let asks =
                RemoteTarget::connect(&self.env, self.callers.to_node(other, TARGETS), record.id, writer(self.id(), Token(0)));
            if asks.await.is_ok() {
                return Err(NodeError::Served { device: record.id, node: other.name.clone() });
            }
        }
        Ok(())
    }
}
