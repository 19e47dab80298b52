//! Answers guests of a volume: the node asks the leaders for them, and for nothing but their volume.

use bytes::Bytes;
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
    /// The volume, as long as it is there.
    fn found(&self) -> Result<GuestVolume, String> {
        let state = self.around.manager.snapshot();
        let record = state.file_volume(self.volume).filter(|record| !record.is_removing);
        let record = record.ok_or_else(|| format!("volume {} was removed", self.volume))?;
        Ok(GuestVolume { name: record.name.clone(), addresses: state.nodes().map(|node| node.address.clone()).collect() })
    }
}

impl Service for GuestService {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            let ask: GuestAsk = postcard::from_bytes(&request.payload).map_err(Refusal::new)?;
            let found = match self.found() {
                Ok(found) => found,
                Err(reason) => return answer(&Err::<(), String>(reason)),
            };
            let until = Some(request.deadline);
            match ask {
                GuestAsk::Tree(ask) => answer(&self.tree.ask(ask, until).await),
                GuestAsk::Content(ask) => answer(&self.contents.ask(ask, until).await),
                GuestAsk::Volume => answer(&Ok::<_, String>(found)),
            }
        })
    }
}

fn answer<T: Serialize>(told: &Result<T, String>) -> Result<Bytes, Refusal> {
    Ok(postcard::to_stdvec(told).map_err(Refusal::new)?.into())
}
