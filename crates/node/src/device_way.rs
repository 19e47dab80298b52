//! The way to a device, wherever it is at present: a disk may be carried to another node, and a node may get another address, while a gateway
//! keeps its hold.

use crate::TARGETS;
use crate::callers::Callers;
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use env::Instant;
use manager::{Manager, NodeRecord};
use net::{BoxFuture, CallError, Caller};
use std::sync::Arc;
use types::DeviceId;

/// Calls the target of a device at the node that has it, by what the manager says at the time of the call.
pub(crate) struct DeviceWay {
    manager: Arc<Manager>,
    callers: Callers,
    device: DeviceId,
    present: ArcSwapOption<ToNode>,
}

/// The way that was taken last.
struct ToNode {
    node: Arc<NodeRecord>,
    caller: Arc<dyn Caller>,
}

impl DeviceWay {
    pub fn new(manager: Arc<Manager>, callers: Callers, device: DeviceId) -> DeviceWay {
        DeviceWay { manager, callers, device, present: ArcSwapOption::empty() }
    }

    fn caller(&self) -> Result<Arc<ToNode>, CallError> {
        let nowhere =
            || CallError::NotSent { address: format!("device {}", self.device), reason: "no node serves it".to_owned() };
        let node = self.manager.node_of(self.device).ok_or_else(nowhere)?;
        if let Some(present) = self.present.load_full().filter(|present| Arc::ptr_eq(&present.node, &node)) {
            return Ok(present);
        }
        let caller = self.callers.to_node(&node, TARGETS);
        let present = Arc::new(ToNode { node, caller });
        self.present.store(Some(present.clone()));
        Ok(present)
    }
}

impl Caller for DeviceWay {
    fn call(&self, payload: Bytes, deadline: Instant) -> BoxFuture<'_, Result<Bytes, CallError>> {
        let present = self.caller();
        Box::pin(async move { present?.caller.call(payload, deadline).await })
    }
}
