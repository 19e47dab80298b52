//! Answers guests of a volume: the node asks the leaders for them, and for nothing but their volume.

use std::sync::Arc;

use bytes::Bytes;
use manager::{FileVolumeRecord, Snapshot};
use net::{BoxFuture, Refusal, Request, Service};
use serde::Serialize;
use subsystem::Surroundings;
use types::FileVolumeId;

use super::contents::ContentWay;
use super::trees::TreeWay;
use crate::asking::Way;
use crate::asking::guest::{GuestAsk, GuestVolume};

/// What the guests of one volume can call.
pub struct GuestService {
    pub around: Surroundings,
    pub volume: FileVolumeId,
    pub tree: TreeWay,
    pub contents: ContentWay,
}

impl GuestService {
    /// The volume's record in the manager's state, as long as the volume is there.
    fn record<'a>(&self, state: &'a Snapshot) -> Result<&'a Arc<FileVolumeRecord>, String> {
        let record = state.file_volume(self.volume).filter(|record| !record.is_removing);
        record.ok_or_else(|| format!("volume {} was removed", self.volume))
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
                (Ok(_), GuestAsk::Tree(ask)) => answer(&self.tree.ask(ask, until).await),
                (Ok(_), GuestAsk::Content(ask)) => answer(&self.contents.ask(ask, until).await),
                (Ok(record), GuestAsk::Volume) => {
                    let addresses = state.nodes().map(|node| node.address.clone()).collect();
                    answer(&Ok::<_, String>(GuestVolume { name: record.name.clone(), addresses }))
                }
            }
        })
    }
}

fn answer<T: Serialize>(told: &Result<T, String>) -> Result<Bytes, Refusal> {
    Ok(postcard::to_stdvec(told).map_err(Refusal::new)?.into())
}
