//! The manager's records of images, as a holder sees and changes them.

use crate::registry::{Branch, Recorded, Registry, RegistryError, Snapshot, View};
use manager::{ImageError, ImageRecord, Manager, ManagerError, Redundancy};
use std::sync::Arc;
use types::{DeviceId, ImageId, Layer, NodeId, Token};

/// The records at the manager.
pub struct Records {
    pub manager: Arc<Manager>,
}

/// What a holder needs of a record.
pub fn view_of(record: &ImageRecord) -> View {
    let branch = |branch: &manager::Branch| Branch { layer: branch.layer, base: branch.base };
    let snapshot = |snapshot: &manager::SnapshotRecord| Snapshot { name: snapshot.name.clone(), layer: snapshot.layer };
    View {
        id: record.id,
        size_bytes: record.size_bytes,
        layer: record.layer,
        branches: record.branches.iter().map(branch).collect(),
        snapshots: record.snapshots.iter().map(snapshot).collect(),
        parent: record.parent,
        token: record.token,
        epoch: record.epoch,
        copies: record.copies,
        devices: record.devices.iter().filter(|used| used.out_since.is_none()).map(|used| used.device).collect(),
        out: record.devices.iter().filter_map(|used| Some((used.device, used.out_since?))).collect(),
        redundancy: record.redundancy,
        short_hosts: record.short_hosts.clone(),
        is_settled: record.is_settled,
    }
}

impl Records {
    /// Whether a command that ends a layer was carried out before, or can't be any more.
    fn after<'a>(
        &'a self,
        image: ImageId,
        token: Token,
        ended: Layer,
        was_done: impl Fn(&ImageRecord) -> bool + Send + 'a,
        command: impl Future<Output = Result<Arc<ImageRecord>, ManagerError<ImageError>>> + Send + 'a,
    ) -> Recorded<'a> {
        Box::pin(async move {
            self.manager.fresh().await.map_err(|error| RegistryError::Unclear(error.to_string()))?;
            let state = self.manager.snapshot();
            let record = state.image(image).filter(|record| record.token == token).ok_or(RegistryError::Superseded)?;
            if record.layer != ended {
                if !was_done(record) {
                    return Err(RegistryError::Superseded);
                }
                env::mark("images: a command about layers that was carried out before");
                return Ok(view_of(record));
            }
            answer(command.await)
        })
    }
}

impl Registry for Records {
    fn snapshot<'a>(&'a self, image: ImageId, token: Token, name: &'a str, ended: Layer) -> Recorded<'a> {
        let was_done = move |record: &ImageRecord| record.snapshot(name).is_some_and(|found| found.layer == ended);
        self.after(image, token, ended, was_done, self.manager.snapshot_image(image, token, name, ended))
    }

    fn remove_snapshot<'a>(&'a self, image: ImageId, _: Token, name: &'a str) -> Recorded<'a> {
        Box::pin(async move { answer(self.manager.remove_image_snapshot(image, name).await) })
    }

    fn rollback<'a>(&'a self, image: ImageId, token: Token, name: &'a str, ended: Layer) -> Recorded<'a> {
        let was_done = move |record: &ImageRecord| {
            let layer = record.snapshot(name).map(|found| found.layer);
            let newest = record.branches.last();
            newest.is_some_and(|branch| branch.layer.0 == ended.0 + 1 && Some(branch.base) == layer)
        };
        self.after(image, token, ended, was_done, self.manager.rollback_image(image, token, name, ended))
    }

    fn use_devices(&self, image: ImageId, token: Token, devices: Vec<DeviceId>) -> Recorded<'_> {
        Box::pin(async move { answer(self.manager.use_image_devices(image, token, devices).await) })
    }

    fn take_out(
        &self,
        image: ImageId,
        token: Token,
        devices: Vec<DeviceId>,
        redundancy: Redundancy,
        short_host: Option<NodeId>,
    ) -> Recorded<'_> {
        let set = self.manager.set_image_devices_out(image, token, devices, redundancy, short_host);
        Box::pin(async move { answer(set.await) })
    }

    fn put_in(&self, image: ImageId, token: Token, device: DeviceId, redundancy: Redundancy) -> Recorded<'_> {
        Box::pin(async move { answer(self.manager.set_image_device_in(image, token, device, redundancy).await) })
    }

    fn flatten(&self, image: ImageId, token: Token) -> Recorded<'_> {
        Box::pin(async move {
            match self.manager.flatten_image(image, token).await {
                // An earlier attempt took effect, and its answer was lost.
                Err(ManagerError::Refused(ImageError::NotClone)) => {
                    let state = self.manager.snapshot();
                    state.image(image).map(|record| view_of(record)).ok_or(RegistryError::Superseded)
                }
                flattened => answer(flattened),
            }
        })
    }

    fn set_size(&self, image: ImageId, token: Token, size_bytes: u64) -> Recorded<'_> {
        Box::pin(async move { answer(self.manager.resize_image(image, Some(token), size_bytes).await) })
    }
}

fn answer(answer: Result<Arc<ImageRecord>, ManagerError<ImageError>>) -> Result<View, RegistryError> {
    match answer {
        Ok(record) => Ok(view_of(&record)),
        Err(ManagerError::Refused(ImageError::OtherToken { .. } | ImageError::Closed | ImageError::LayerEnded { .. })) => {
            Err(RegistryError::Superseded)
        }
        Err(ManagerError::Refused(ImageError::NoSuchSnapshot { .. })) => Err(RegistryError::NoSuchSnapshot),
        Err(ManagerError::Refused(ImageError::SnapshotExists { .. })) => Err(RegistryError::SnapshotExists),
        Err(ManagerError::Refused(refusal)) => Err(RegistryError::Refused(refusal.to_string())),
        Err(ManagerError::Failed(error)) => Err(RegistryError::Unclear(error.to_string())),
    }
}
