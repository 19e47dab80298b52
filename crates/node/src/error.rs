//! Why a node does not start.

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
    #[error("the manager: {0}")]
    State(String),
}
