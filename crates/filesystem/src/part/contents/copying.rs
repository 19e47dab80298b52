//! What nodes ask one another about contents: a primary asks copies, and the manager's leader asks what each node has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use manager::{FilePartitionId, NodeRecord};
use net::{BoxFuture, Refusal, Request, Service, ServiceTag};
use serde::{Deserialize, Serialize};
use subsystem::Surroundings;
use types::{DeviceId, NodeId};

use super::Contents;
use crate::data::copies::ask::{Answer, Ask, Copy, CopyError};
use crate::data::copies::reign::Ways;
use crate::data::{DataRoom, PartitionRoom};

/// The longest that a primary waits for any answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A request of another node.
#[derive(Serialize, Deserialize)]
enum CopyRequest {
    /// Of the primary of a partition.
    Copy { partition: FilePartitionId, device: DeviceId, ask: Ask },
    /// [`NodeContents`] are the answer.
    Node,
}

/// What a node has of files.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NodeContents {
    /// Devices that take writes.
    pub devices: Vec<(DeviceId, DataRoom)>,
    /// Partitions that it is the primary of.
    pub led: Vec<(FilePartitionId, BTreeMap<NodeId, DeviceId>, PartitionRoom)>,
}

impl NodeContents {
    pub fn of(contents: &Contents) -> NodeContents {
        let led = contents.led().into_iter().map(|(partition, record, room)| (partition, record.copies, room)).collect();
        NodeContents { devices: contents.stores().rooms(), led }
    }

    /// As a node says. The error says why it does not.
    pub async fn ask(around: &Surroundings, node: &NodeRecord) -> Result<NodeContents, String> {
        let request = postcard::to_stdvec(&CopyRequest::Node).map_err(|error| error.to_string())?;
        let caller = around.callers.to_node(node, ServiceTag::FILE_COPIES);
        let answer = caller.call(request.into(), around.env.now() + PATIENCE).await.map_err(|error| error.to_string())?;
        postcard::from_bytes(&answer).map_err(|error| error.to_string())
    }
}

/// Serves the copies on this node's devices to the primary of each partition.
pub struct CopyService(pub Arc<Contents>);

impl Service for CopyService {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            let answer = match postcard::from_bytes(&request.payload).map_err(Refusal::new)? {
                CopyRequest::Node => postcard::to_stdvec(&NodeContents::of(&self.0)),
                CopyRequest::Copy { partition, device, ask } => {
                    let member = self.0.member(partition).ok_or_else(|| Refusal::early("no member of the partition here"))?;
                    let keeper = member.keeper(device).ok_or_else(|| Refusal::new("the device is not on this node"))?;
                    postcard::to_stdvec(&keeper.ask(ask).await)
                }
            };
            Ok(answer.map_err(Refusal::new)?.into())
        })
    }
}

/// Ways to the copies of a partition.
pub struct NodeWays {
    pub around: Surroundings,
    pub partition: FilePartitionId,
}

impl Ways for NodeWays {
    fn copy(&self, node: NodeId, device: DeviceId) -> Arc<dyn Copy> {
        Arc::new(Elsewhere { around: self.around.clone(), partition: self.partition, node, device })
    }
}

/// A copy on another node.
struct Elsewhere {
    around: Surroundings,
    partition: FilePartitionId,
    node: NodeId,
    device: DeviceId,
}

impl Copy for Elsewhere {
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<Answer, CopyError>> {
        Box::pin(async move {
            let silent = |reason: String| CopyError::Silent(reason);
            let state = self.around.manager.snapshot();
            let node = state.node(self.node).ok_or_else(|| silent("its node was removed".to_owned()))?;
            let request = CopyRequest::Copy { partition: self.partition, device: self.device, ask };
            let request = postcard::to_stdvec(&request).map_err(|error| silent(error.to_string()))?;
            let caller = self.around.callers.to_node(node, ServiceTag::FILE_COPIES);
            let answer = caller.call(request.into(), self.around.env.now() + PATIENCE).await;
            let answer = answer.map_err(|error| silent(error.to_string()))?;
            postcard::from_bytes(&answer).map_err(|error| silent(error.to_string()))?
        })
    }
}
