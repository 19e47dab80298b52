//! A gateway's holds on the targets of its cell: direct for the devices of its node, over the network for the others. Devices are asked beside each
//! other: a host that is dead, or a disk that hangs, keeps no other one waiting.

use crate::fences::writer;
use crate::node::Inner;
use futures_util::future::join_all;
use logstore::LogStore;
use manager::{DeviceState, Snapshot};
use net::BoxFuture;
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
        used_devices(&self.manager.snapshot())
    }

    /// A hold on a device.
    pub(crate) async fn hold(&self, device: DeviceId, writer: Writer) -> Result<Arc<dyn LogTarget>, TargetFailure> {
        if let Some(target) = self.targets.iter().find(|target| target.device().id() == device) {
            let is_only = self.is_sole && self.targets.len() == 1;
            let hold = if is_only { LocalTarget::patient } else { LocalTarget::new };
            return Ok(Arc::new(hold(target.clone(), writer)));
        }
        Ok(Arc::new(RemoteTarget::connect(&self.env, self.ways.to(device), device, writer).await?))
    }

    /// Whether a device's node serves it at present; none if this node has no gateway to ask with.
    pub(crate) async fn is_served(&self, device: DeviceId) -> Option<bool> {
        let writer = self.vitals.get().registered.map(|registered| writer(self.id, registered.token))?;
        Some(self.hold(device, writer).await.is_ok())
    }

    /// Holds on all devices that can be reached, and those that can't.
    pub(crate) async fn hold_all(&self, writer: Writer) -> (Vec<Arc<dyn LogTarget>>, Vec<DeviceId>) {
        let mut holding: Vec<BoxFuture<'_, Result<Arc<dyn LogTarget>, DeviceId>>> = Vec::new();
        for device in self.cell_devices() {
            let hold = async move {
                self.hold(device, writer).await.map_err(|error| {
                    tracing::warn!(device = device.0, %error, "a device of the cell can't be reached");
                    device
                })
            };
            holding.push(Box::pin(hold));
        }
        apart(join_all(holding).await)
    }

    /// Fences these writers at devices and drains them; those where it was done, and those where it was not.
    pub(crate) async fn fence_and_drain_all(
        &self,
        held: Vec<Arc<dyn LogTarget>>,
        fences: &[Writer],
    ) -> (Vec<Arc<dyn LogTarget>>, Vec<DeviceId>) {
        let mut fencing: Vec<BoxFuture<'_, Result<Arc<dyn LogTarget>, DeviceId>>> = Vec::new();
        for target in held {
            let fence = async move {
                match self.fence_and_drain(target.id(), fences).await {
                    Ok(()) => Ok(target),
                    Err(error) => {
                        env::mark("node: a founding without a device");
                        tracing::warn!(%error, "a device can't be fenced: it counts as missing");
                        Err(target.id())
                    }
                }
            };
            fencing.push(Box::pin(fence));
        }
        apart(join_all(fencing).await)
    }

    /// Gets hold of devices that come later, until the engine has left its cell, and tells it meanwhile what becomes of them.
    pub(crate) async fn keep_holds(self: Arc<Self>, store: LogStore, writer: Writer) {
        while !store.is_deposed() {
            let unreachable = self.telling_of_devices(&store, self.hold_others(&store, writer)).await;
            if store.is_deposed() {
                // The next incarnation has none of this one's holds, and reports for itself.
                return;
            }
            self.vitals.change(|present| present.unreachable_devices = unreachable);
            self.env.sleep(LOOK_INTERVAL).await;
        }
    }

    /// Gets hold of the devices that the engine has none on; those that can't be reached.
    async fn hold_others(&self, store: &LogStore, writer: Writer) -> BTreeSet<DeviceId> {
        let mut others = self.cell_devices();
        others.retain(|device| !store.has_target(*device));
        let mut holding: Vec<BoxFuture<'_, Option<DeviceId>>> = Vec::new();
        for device in others {
            holding.push(Box::pin(self.hold_one(store, writer, device)));
        }
        join_all(holding).await.into_iter().flatten().collect()
    }

    /// Gives the engine a hold on a device; the device, if it can't be reached.
    async fn hold_one(&self, store: &LogStore, writer: Writer, device: DeviceId) -> Option<DeviceId> {
        match self.hold(device, writer).await {
            Ok(target) => {
                store.add_target(target);
                None
            }
            Err(_) => Some(device),
        }
    }

    /// Carries out this work, and tells the engine before it, and as long as it lasts, which devices there are: a host that is dead answers late, or never.
    async fn telling_of_devices<T>(&self, store: &LogStore, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        loop {
            let state = self.manager.snapshot();
            store.set_devices(used_devices(&state));
            store.set_replaced(devices_in(&state, |state| state == DeviceState::Replaced));
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = self.env.sleep(LOOK_INTERVAL) => {}
            }
        }
    }
}

/// What was had, and what was not.
fn apart<T, E>(outcomes: Vec<Result<T, E>>) -> (Vec<T>, Vec<E>) {
    let (mut had, mut missing) = (Vec::new(), Vec::new());
    for outcome in outcomes {
        match outcome {
            Ok(value) => had.push(value),
            Err(value) => missing.push(value),
        }
    }
    (had, missing)
}

fn used_devices(state: &Snapshot) -> BTreeSet<DeviceId> {
    devices_in(state, |state| state != DeviceState::Failed)
}

/// The devices in certain states.
pub(crate) fn devices_in(state: &Snapshot, is_wanted: impl Fn(DeviceState) -> bool) -> BTreeSet<DeviceId> {
    state.devices().filter(|device| is_wanted(device.state)).map(|device| device.id).collect()
}
