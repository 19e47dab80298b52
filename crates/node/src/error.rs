//! Why a node does not start.

use types::DeviceId;

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error("opening the consensus log: {0}")]
    Consensus(#[from] consensus::OpenError),
    #[error("opening the manager: {0}")]
    Manager(#[from] manager::OpenReplicatedError),
    #[error("listening at {address}: {cause}")]
    Listen { address: String, cause: std::io::Error },
    #[error("opening the target of a device: {0}")]
    Target(#[from] target::TargetOpenError),
    #[error("the cluster does not take this node: {0}")]
    Unfit(String),
    #[error(
        "this node is the first one of its cluster, or has a vote in the manager: it keeps the role `manager`. To have it without, remove it \
         and join an empty folder"
    )]
    NeedsManager,
    #[error(
        "this node has a vote in the manager at {known}, and is to listen at {address}, where nobody looks for it. Start it at {known}; or \
         remove it from the cluster and join an empty folder at {address}"
    )]
    Moved { known: String, address: String },
    #[error("another process runs at {address} with this node's identity: is this folder a copy? Two nodes never share one")]
    Twin { address: String },
    #[error("this node's part of the manager has stopped: {0}")]
    Stopped(String),
    #[error(
        "the members of this cluster's manager say that this node is none of them: it was removed from the cluster. Join an empty \
         folder instead"
    )]
    Removed,
    #[error("noting that this node takes part: {0}")]
    Noting(String),
    #[error(
        "device {device} is served by node {node}, or opened there at this moment: one of the two disks is a copy, or both nodes reach the same one. If it was carried over, stop {node} \
         first, or start it without; a copy is erased by `trilith device format --overwrite`"
    )]
    Served { device: DeviceId, node: String },
    #[error("the manager: {0}")]
    State(String),
}
