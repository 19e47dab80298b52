//! Copies of other nodes, asked by the primary.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use net::{BoxFuture, Refusal, Request, Service, ServiceTag};
use subsystem::Surroundings;
use types::{DeviceId, FileVolumeId, NodeId};

use super::Contents;
use crate::data::copies::ask::{Answer, Ask, Copy, CopyError};
use crate::data::copies::reign::Ways;

/// The longest that a primary waits for any answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Serves the copies on this node's devices to the primary of each volume.
pub struct CopyService(pub Arc<Contents>);

impl Service for CopyService {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            let (volume, device, ask): (u32, u32, Ask) = postcard::from_bytes(&request.payload).map_err(Refusal::new)?;
            let member = self.0.member(FileVolumeId(volume)).ok_or_else(|| Refusal::early("no member of the volume here"))?;
            let keeper = member.keeper(DeviceId(device)).ok_or_else(|| Refusal::new("the device is not on this node"))?;
            let answer = keeper.ask(ask).await;
            Ok(postcard::to_stdvec(&answer).map_err(Refusal::new)?.into())
        })
    }
}

/// Ways to the copies of a volume.
pub struct NodeWays {
    pub around: Surroundings,
    pub volume: FileVolumeId,
}

impl Ways for NodeWays {
    fn copy(&self, node: NodeId, device: DeviceId) -> Arc<dyn Copy> {
        Arc::new(Elsewhere { around: self.around.clone(), volume: self.volume, node, device })
    }
}

/// A copy on another node.
struct Elsewhere {
    around: Surroundings,
    volume: FileVolumeId,
    node: NodeId,
    device: DeviceId,
}

impl Copy for Elsewhere {
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<Answer, CopyError>> {
        Box::pin(async move {
            let silent = |reason: String| CopyError::Silent(reason);
            let state = self.around.manager.snapshot();
            let node = state.node(self.node).ok_or_else(|| silent("its node was removed".to_owned()))?;
            let request =
                postcard::to_stdvec(&(self.volume.0, self.device.0, ask)).map_err(|error| silent(error.to_string()))?;
            let caller = self.around.callers.to_node(node, ServiceTag::FILE_COPIES);
            let answer = caller.call(request.into(), self.around.env.now() + PATIENCE).await;
            let answer = answer.map_err(|error| silent(error.to_string()))?;
            postcard::from_bytes(&answer).map_err(|error| silent(error.to_string()))?
        })
    }
}
