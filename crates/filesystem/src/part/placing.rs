//! Which data partitions volumes have. It acts where the manager leads, and all that it decides are records there (docs/rfd/0030).
//!
//! ```text
//!   each node ─► what its devices have and have room for ─► Scene: where the next partition is to be ─► the manager's records
//! ```

mod choice;
pub mod copies;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use env::Instant;
use futures_util::future::join_all;
use groups::choice::Heard;
use groups::limits::HEARD_AGE;
use manager::{FileVolumeRecord, Snapshot};
use subsystem::Surroundings;

use super::contents::{Contents, NodeContents};
use choice::{Said, Scene};

/// Between two looks for volumes that have no partition.
const TICK: Duration = Duration::from_millis(200);
/// Between two looks at the room of all.
const LOOK: Duration = Duration::from_secs(2);

/// The work, on one node.
pub struct Placer {
    pub around: Surroundings,
    pub contents: Arc<Contents>,
}

impl Placer {
    /// For as long as the node lives.
    pub async fn run(self) {
        let env = &self.around.env;
        let mut leads_since: Option<Instant> = None;
        let mut next_look = env.now();
        loop {
            env.sleep(TICK).await;
            if !self.around.manager.is_leader() {
                leads_since = None;
                continue;
            }
            let since = *leads_since.get_or_insert(env.now());
            let is_new = |volume: &Arc<FileVolumeRecord>| volume.partitions.is_empty() && !volume.is_removing;
            let lacks_all = self.around.manager.snapshot().file_volumes().any(is_new);
            if !lacks_all && env.now() < next_look {
                continue;
            }
            next_look = env.now() + LOOK;
            if self.around.manager.fresh().await.is_err() {
                continue;
            }
            let is_all = env.now().saturating_duration_since(since) >= HEARD_AGE;
            self.place(is_all).await;
        }
    }

    /// Gives volumes the partitions that they are to have now. `is_all`: the nodes have had the time to be heard.
    async fn place(&self, is_all: bool) {
        let state = self.around.manager.snapshot();
        if state.file_volumes().next().is_none() {
            return;
        }
        let said = self.ask(&state).await;
        let mut refused = BTreeSet::new();
        loop {
            let state = self.around.manager.snapshot();
            let heard = Heard::of(&state, (self.around.silent)(), is_all);
            let scene = Scene::new(&state, &said, &heard);
            let mut volumes = state.file_volumes().filter(|volume| !volume.is_removing && !refused.contains(&volume.id));
            let Some((volume, addition)) = volumes.find_map(|volume| Some((volume, scene.next(volume)?))) else { return };
            let (nodes, devices) = (addition.members.clone(), addition.devices.clone());
            match self.around.manager.add_file_partition(addition).await {
                Ok(_) => tracing::info!(volume = volume.name, ?nodes, ?devices, "a volume gets a data partition"),
                Err(error) => {
                    tracing::warn!(volume = volume.name, %error, "a volume does not get a data partition now");
                    refused.insert(volume.id);
                }
            }
        }
    }

    /// What all nodes say of what they have.
    async fn ask(&self, state: &Snapshot) -> Said {
        let asked = state.nodes().map(|node| async move {
            match node.id == self.around.me {
                true => Some(NodeContents::of(&self.contents)),
                false => NodeContents::ask(&self.around, node).await.ok(),
            }
        });
        let mut said = Said::default();
        for NodeContents { devices, led } in join_all(asked).await.into_iter().flatten() {
            said.rooms.extend(devices);
            said.partitions.extend(led.into_iter().map(|(partition, copies, room)| (partition, (copies, room))));
        }
        said
    }
}
