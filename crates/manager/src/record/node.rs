//! Nodes: the processes that the cluster consists of.

use serde::{Deserialize, Serialize};
use types::{NodeId, NodeIdentity};

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    pub id: NodeId,
    /// What its data folder says it is. Everything else may change.
    pub identity: NodeIdentity,
    /// What people call it; no two nodes have one name.
    pub name: String,
    /// Where the other nodes reach it; no two nodes have one address.
    pub address: String,
    pub admin_address: String,
    /// Where its gateway serves clients; empty of a node without one.
    pub s3_address: String,
    /// The machine it runs on: what fails together with it.
    pub host: String,
    pub rack: String,
    pub zone: String,
    /// Of the program.
    pub version: String,
    /// When it was registered first.
    pub joined_ms: u64,
}
