//! The images below clones: what all their devices in sync have of layers that have ended.
//!
//! A parent's holder that tidies fills a newer blob, then frees the older one; the rows of two devices come from two moments. So a part could show
//! neither. The rows are therefore asked for until each part was twice the same: what happens to a blob of an ended layer never comes undone, so that
//! was its state in between.
//!
//! A snapshot may be removed before its blobs are asked for; they are gone then, and its parts would read as zeros. So the record is looked at again
//! after the last round, and what it lacks then is no snapshot.

use super::cluster::ClusterStores;
use super::placing::ClusterPlacement;
use super::records::view_of;
use crate::image::{Ancestor, Ancestors, Placement};
use crate::registry::{Snapshot, View};
use crate::stores::BlobRow;
use env::Env;
use futures_util::future::join_all;
use manager::Manager;
use net::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use types::{DeviceId, ImageId, NodeId};

/// How often the rows are asked for.
const MAX_ROUNDS: usize = 20;
/// Between two rounds, from the second on.
const ROUND_PAUSE: Duration = Duration::from_millis(200);

/// Finds them.
pub struct ClusterAncestors {
    pub env: Env,
    pub manager: Arc<Manager>,
    pub stores: Arc<ClusterStores>,
    pub placement: Arc<ClusterPlacement>,
}

/// What devices have of each part.
type Parts = BTreeMap<u32, Vec<(DeviceId, BlobRow)>>;

/// Parts of which the rows of one moment are known, and others.
#[derive(Default)]
struct Collected {
    settled: Parts,
    before: Option<Parts>,
}

impl Collected {
    /// Takes a round; whether all parts are settled.
    fn add(&mut self, round: Parts) -> bool {
        let Some(before) = self.before.replace(round) else { return false };
        let now = self.before.as_ref().expect("just put there");
        let indexes: BTreeSet<u32> = before.keys().chain(now.keys()).copied().collect();
        let mut are_all_settled = true;
        for index in indexes {
            if self.settled.contains_key(&index) {
                continue;
            }
            match now.get(&index) {
                Some(rows) if before.get(&index) == Some(rows) => drop(self.settled.insert(index, rows.clone())),
                _ => are_all_settled = false,
            }
        }
        are_all_settled
    }

    fn rows(self) -> Vec<(DeviceId, Vec<BlobRow>)> {
        let mut rows: BTreeMap<DeviceId, Vec<BlobRow>> = BTreeMap::new();
        for (device, row) in self.settled.into_values().flatten() {
            rows.entry(device).or_default().push(row);
        }
        rows.into_iter().collect()
    }
}

impl ClusterAncestors {
    /// One round: the rows of layers that have ended.
    async fn round(&self, view: &View) -> Result<Parts, String> {
        let silent: BTreeSet<DeviceId> =
            self.placement.silent_among(&view.devices).into_iter().map(|(device, _)| device).collect();
        let ask = |device: DeviceId| {
            let is_silent = silent.contains(&device);
            async move {
                if is_silent {
                    return (device, Err("its node is silent".to_owned()));
                }
                (device, self.stores.rows(device, view.id).await.map_err(|error| error.to_string()))
            }
        };
        let told = join_all(view.devices.iter().copied().map(ask)).await;
        let mut parts = Parts::new();
        let mut missing = Vec::new();
        for (device, rows) in told {
            match rows {
                Ok(rows) => {
                    for row in rows.into_iter().filter(|row| row.at.id.layer < view.layer) {
                        parts.entry(row.at.id.index).or_default().push((device, row));
                    }
                }
                Err(reason) => missing.push((device, reason)),
            }
        }
        check_enough(view, &missing, |device| self.placement.host_of(device))?;
        Ok(parts)
    }
}

/// Refuses if a blob may be on none of the devices that answered.
fn check_enough(
    view: &View,
    missing: &[(DeviceId, String)],
    host_of: impl Fn(DeviceId) -> Option<NodeId>,
) -> Result<(), String> {
    let Some((device, reason)) = missing.first() else { return Ok(()) };
    match view.survives(missing.iter().map(|(device, _)| (*device, host_of(*device)))) {
        true => Ok(()),
        false => Err(format!("{} devices do not tell their blobs, device {device} because {reason}", missing.len())),
    }
}

impl Ancestors for ClusterAncestors {
    fn ancestor(&self, image: ImageId) -> BoxFuture<'_, Result<Ancestor, String>> {
        Box::pin(async move {
            self.manager.fresh().await.map_err(|error| error.to_string())?;
            let state = self.manager.snapshot();
            let record = state.image(image).ok_or_else(|| format!("there is no image {image} any more"))?;
            let mut view = view_of(record);
            let mut collected = Collected::default();
            for round in 0..MAX_ROUNDS {
                if round > 1 {
                    self.env.sleep(ROUND_PAUSE).await;
                }
                if collected.add(self.round(&view).await?) {
                    self.manager.fresh().await.map_err(|error| error.to_string())?;
                    view.snapshots =
                        still_there(view.snapshots, self.manager.snapshot().image(image).map(|now| view_of(now).snapshots));
                    return Ok(Ancestor { view, rows: collected.rows() });
                }
            }
            Err(format!("blobs of {} are being moved: try again when its snapshots are removed", record.name))
        })
    }
}

/// The snapshots that an image had before, without those that it has not any more. None: the image is gone.
fn still_there(before: Vec<Snapshot>, now: Option<Vec<Snapshot>>) -> Vec<Snapshot> {
    let now = now.unwrap_or_default();
    before.into_iter().filter(|snapshot| now.iter().any(|there| there.layer == snapshot.layer)).collect()
}

#[cfg(test)]
mod tests;
