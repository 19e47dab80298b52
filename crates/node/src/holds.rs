//! A gateway's holds on the targets of its cell: direct for the devices of its node, over the network for the others.

use crate::device_way::DeviceWay;
use crate::fences::writer;
use crate::node::Inner;
use logstore::LogStore;
use manager::{DeviceState, Snapshot};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use target::{LocalTarget, LogTarget, RemoteTarget, TargetFailure, Writer};
use types::DeviceId;

/// How often a gateway looks for devices that it has no hold on.
const LOOK_INTERVAL: Duration = Duration::from_millis(300);

impl Inner {
    /// All devices that are to be written to or read from.
    pub(crate) fn cell_devices(&self) -> BTreeSet<DeviceId> {
        devices_in(&self.manager.snapshot(), |state| state != DeviceState::Failed)
    }

    /// A hold on a device.
    pub(crate) async fn hold(&self, device: DeviceId, writer: Writer) -> Result<Arc<dyn LogTarget>, TargetFailure> {
        if let Some(target) = self.targets.iter().find(|target| target.device().id() == device) {
            return Ok(Arc::new(LocalTarget::new(target.clone(), writer)));
        }
        let way = Arc::new(DeviceWay::new(self.manager.clone(), self.callers.clone(), device));
        Ok(Arc::new(RemoteTarget::connect(&self.env, way, device, writer).await?))
    }

    /// Whether a device's node serves it at present; none if this node has no gateway to ask with.
    pub(crate) async fn is_served(&self, device: DeviceId) -> Option<bool> {
        let writer = self.vitals.get().registered.map(|registered| writer(self.id, registered.token))?;
        Some(self.hold(device, writer).await.is_ok())
    }

    /// Holds on all devices that can be reached, and those that can't.
    pub(crate) async fn hold_all(&self, writer: Writer) -> (Vec<Arc<dyn LogTarget>>, Vec<DeviceId>) {
        let (mut held, mut missing) = (Vec::new(), Vec::new());
        for device in self.cell_devices() {
            match self.hold(device, writer).await {
                Ok(target) => held.push(target),
                Err(error) => {
                    tracing::warn!(device = device.0, %error, "a device of the cell can't be reached");
                    missing.push(device);
                }
            }
        }
        (held, missing)
    }

    /// Gets hold of devices that come later, until the engine has left its cell.
    pub(crate) async fn keep_holds(self: Arc<Self>, store: LogStore, writer: Writer) {
        while !store.is_deposed() {
            let mut unreachable = BTreeSet::new();
            let known = self.cell_devices();
            store.set_devices(known.clone());
            store.set_replaced(devices_in(&self.manager.snapshot(), |state| state == DeviceState::Replaced));
            for device in known.into_iter().filter(|device| !store.has_target(*device)) {
                match self.hold(device, writer).await {
                    Ok(target) => store.add_target(target),
                    Err(_) => drop(unreachable.insert(device)),
                }
            }
            if store.is_deposed() {
                // The next incarnation has none of this one's holds, and reports for itself.
                return;
            }
            self.vitals.change(|present| present.unreachable_devices = unreachable);
            self.env.sleep(LOOK_INTERVAL).await;
        }
    }
}

/// The devices in certain states.
pub(crate) fn devices_in(state: &Snapshot, is_wanted: impl Fn(DeviceState) -> bool) -> BTreeSet<DeviceId> {
    state.devices().filter(|device| is_wanted(device.state)).map(|device| device.id).collect()
}
