//! Answers guests of a volume: the node asks the leaders for them, and for nothing but their volume.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use env::Instant;
use manager::{FilePartitionId, FileTreeId, FileVolumeRecord, Snapshot};
use net::{BoxFuture, Refusal, Request, Service};
use parking_lot::Mutex;
use serde::Serialize;
use subsystem::Surroundings;
use types::FileVolumeId;

use super::contents::{ContentWay, Contents};
use super::trees::Trees;
use crate::asking::Way;
use crate::asking::content::{Carried, ContentAsk};
use crate::asking::guest::{GuestAsk, GuestVolume};
use crate::asking::tree::{TreeAnswer, TreeAsk};

/// What the guests of one volume can call.
pub struct GuestService {
    pub around: Surroundings,
    pub volume: FileVolumeId,
    pub trees: Arc<Trees>,
    pub contents: Arc<Contents>,
    /// To the partitions of the volume that were asked for.
    pub ways: Mutex<BTreeMap<FilePartitionId, Arc<ContentWay>>>,
}

impl GuestService {
    /// The volume's record in the manager's state, as long as the volume is there.
    fn record<'a>(&self, state: &'a Snapshot) -> Result<&'a Arc<FileVolumeRecord>, String> {
        let record = state.file_volume(self.volume).filter(|record| !record.is_removing);
        record.ok_or_else(|| format!("volume {} was removed", self.volume))
    }

    /// A guest is let to the trees of its volume alone, and asks them what clients ask.
    async fn ask_tree(
        &self,
        record: &FileVolumeRecord,
        tree: FileTreeId,
        ask: TreeAsk,
        until: Option<Instant>,
    ) -> Result<TreeAnswer, String> {
        if !record.trees.contains(&tree) || !ask.is_of_clients() {
            return Err(format!("the volume has no tree {} that answers this", tree.0));
        }
        let answer = self.trees.way(tree).ask(ask, until).await;
        // A guest outlives this machine.
        self.trees.settle().await?;
        answer
    }

    /// A guest is let to the partitions of its volume alone.
    async fn ask_content(
        &self,
        record: &FileVolumeRecord,
        partition: FilePartitionId,
        ask: ContentAsk,
        until: Option<Instant>,
    ) -> Result<Carried, String> {
        if record.partition(partition).is_none() {
            return Err(format!("the volume has no data partition {}", partition.0));
        }
        let way = {
            let mut ways = self.ways.lock();
            ways.entry(partition).or_insert_with(|| Arc::new(self.contents.way(partition))).clone()
        };
        way.ask(ask, until).await
    }
}

impl Service for GuestService {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            let ask: GuestAsk = postcard::from_bytes(&request.payload).map_err(Refusal::new)?;
            let state = self.around.manager.snapshot();
            let (record, until) = (self.record(&state), Some(request.deadline));
            match (record, ask) {
                (Err(reason), _) => answer(&Err::<(), String>(reason)),
                (Ok(record), GuestAsk::Tree(number, ask)) => {
                    answer(&self.ask_tree(record, FileTreeId(number), ask, until).await)
                }
                (Ok(record), GuestAsk::Content(number, ask)) => {
                    answer(&self.ask_content(record, FilePartitionId(number), ask, until).await)
                }
                (Ok(record), GuestAsk::Volume) => {
                    let addresses = state.nodes().map(|node| node.address.clone()).collect();
                    let partitions = record.partitions.iter().map(|partition| partition.id.0).collect();
                    let trees = record.trees.iter().map(|tree| tree.0).collect();
                    answer(&Ok::<_, String>(GuestVolume { name: record.name.clone(), addresses, partitions, trees }))
                }
            }
        })
    }
}

fn answer<T: Serialize>(told: &Result<T, String>) -> Result<Bytes, Refusal> {
    Ok(postcard::to_stdvec(told).map_err(Refusal::new)?.into())
}
