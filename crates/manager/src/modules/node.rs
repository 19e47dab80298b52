//! Nodes: the processes that the cluster consists of.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use types::{CellId, DeviceId, ErrorKind, GatewayId, NodeId, NodeIdentity};

use super::cell::CellRecord;
use super::commands;
use crate::error::ManagerError;
use crate::kind::{Numbers, Record};
use crate::limits::{MAX_FENCED_NODES, MAX_NODE_TEXT_BYTES, MAX_NODES, NODE_NUMBER_LIMIT};
use crate::manager::Manager;
use crate::operation::{Operation, Refusal};
use crate::snapshot::{CommandIndex, Edit, ImpossibleState, Snapshot, check_number};

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

/// Numbers of nodes that an import skips.
pub const IMPORT_SKIPPED_NODES: u32 = 1 << 12;

impl Record for NodeRecord {
    type Key = NodeId;

    const TAG: u8 = 11;
    const NAME: &'static str = "node";
    /// From 1, so that 0 can mean none in records.
    const NUMBERS: Option<Numbers> =
        Some(Numbers { first: 1, limit: NODE_NUMBER_LIMIT as u64, skipped: IMPORT_SKIPPED_NODES as u64 });

    fn is_at(&self, key: &NodeId) -> bool {
        self.id == *key
    }

    fn check(&self, key: &NodeId, state: &Snapshot) -> Result<(), ImpossibleState> {
        Ok(check_number(Self::NAME, u64::from(key.0), state.nodes.next)?)
    }
}

commands! {
    Node,
    /// Commands about nodes.
    NodeCommand: RegisterNode, RemoveNode,
}

impl Snapshot {
    /// A node by its number.
    pub fn node(&self, id: NodeId) -> Option<&Arc<NodeRecord>> {
        self.nodes.get(&id)
    }

    /// The host of a node, as the first node that is there.
    pub fn host_of(&self, node: NodeId) -> Option<NodeId> {
        let host = &self.node(node)?.host;
        self.nodes().find(|other| other.host == *host).map(|first| first.id)
    }

    /// All nodes by number.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<NodeRecord>> {
        self.nodes.values()
    }
}

/// Why a change of the nodes was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    #[error("there is no node {id}")]
    NotFound { id: NodeId },
    #[error("node {id} has that name already; give this one another")]
    NameTaken { id: NodeId },
    #[error("node {id} has that cluster address already; give this one another, or remove node {id} first")]
    AddressTaken { id: NodeId },
    #[error("a node needs a name and a cluster address")]
    Empty,
    #[error("a text of {found} bytes about a node; the longest is {MAX_NODE_TEXT_BYTES}")]
    TextLength { found: usize },
    #[error("the cluster has {MAX_NODES} nodes and takes no more")]
    TooMany,
    #[error(
        "devices keep fences of at most {MAX_FENCED_NODES} nodes, those that were removed among them, and there are as many; the \
         cluster takes no more nodes"
    )]
    TooManyFences,
    #[error("gateway {gateway} of cell {cell} runs on node {id}; stop it first")]
    HasGateway { id: NodeId, cell: CellId, gateway: GatewayId },
    #[error("device {device} is on node {id}; remove it, or say where it went first")]
    HasDevice { id: NodeId, device: DeviceId },
}

impl Refusal for NodeError {
    fn kind(&self) -> ErrorKind {
        match self {
            NodeError::NotFound { .. } => ErrorKind::NotFound,
            NodeError::Empty | NodeError::TextLength { .. } => ErrorKind::Invalid,
            NodeError::TooMany | NodeError::TooManyFences => ErrorKind::Full,
            NodeError::NameTaken { .. }
            | NodeError::AddressTaken { .. }
            | NodeError::HasGateway { .. }
            | NodeError::HasDevice { .. } => ErrorKind::Conflict,
        }
    }
}

/// Takes a node into the cluster, or notes what has changed about one: the identity says which. Its number and the time of its first
/// registration stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterNode {
    pub identity: NodeIdentity,
    pub name: String,
    pub address: String,
    pub admin_address: String,
    pub s3_address: String,
    pub host: String,
    pub rack: String,
    pub zone: String,
    pub version: String,
    pub joined_ms: u64,
}

impl RegisterNode {
    fn check(&self) -> Result<(), NodeError> {
        let RegisterNode { name, address, admin_address, s3_address, host, rack, zone, version, .. } = self;
        if name.is_empty() || address.is_empty() {
            return Err(NodeError::Empty);
        }
        for text in [name, address, admin_address, s3_address, host, rack, zone, version] {
            if text.len() > MAX_NODE_TEXT_BYTES {
                return Err(NodeError::TextLength { found: text.len() });
            }
        }
        Ok(())
    }

    fn record(&self, id: NodeId, joined_ms: u64) -> NodeRecord {
        NodeRecord {
            id,
            identity: self.identity,
            name: self.name.clone(),
            address: self.address.clone(),
            admin_address: self.admin_address.clone(),
            s3_address: self.s3_address.clone(),
            host: self.host.clone(),
            rack: self.rack.clone(),
            zone: self.zone.clone(),
            version: self.version.clone(),
            joined_ms,
        }
    }
}

impl Operation for RegisterNode {
    type Reply = Arc<NodeRecord>;
    type Refusal = NodeError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<NodeRecord>, NodeError> {
        self.check()?;
        let mut known = None;
        for node in edit.state.nodes() {
            if node.identity == self.identity {
                known = Some(Arc::clone(node));
            } else if node.name == self.name {
                return Err(NodeError::NameTaken { id: node.id });
            } else if node.address == self.address {
                return Err(NodeError::AddressTaken { id: node.id });
            }
        }
        let record = match known {
            Some(known) => {
                let record = self.record(known.id, known.joined_ms);
                if *known == record {
                    return Ok(known);
                }
                record
            }
            None if edit.state.nodes.len() >= MAX_NODES => return Err(NodeError::TooMany),
            None if edit.state.nodes.len() + fences_of_gone(edit.state) >= MAX_FENCED_NODES => {
                return Err(NodeError::TooManyFences);
            }
            None => self.record(NodeId(edit.take_number::<NodeRecord>() as u32), self.joined_ms),
        };
        Ok(edit.set(record.id, Arc::new(record)))
    }
}

/// Fences of nodes that were removed. They stay for good: such a node may run without knowing that it was, and its token is as it
/// was.
fn fences_of_gone(state: &Snapshot) -> usize {
    let of_cell = |cell: &Arc<CellRecord>| cell.fences.keys().filter(|node| state.node(**node).is_none()).count();
    state.cells().map(of_cell).sum()
}

/// Forgets a node that serves no device and has no gateway in a view. Learners of it go with it. Its number is not given out again, and
/// fences of it stay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveNode {
    pub id: NodeId,
}

impl Operation for RemoveNode {
    type Reply = ();
    type Refusal = NodeError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<(), NodeError> {
        let id = self.id;
        if edit.state.node(id).is_none() {
            return Err(NodeError::NotFound { id });
        }
        if let Some(device) = edit.state.devices().find(|device| device.node == Some(id)) {
            return Err(NodeError::HasDevice { id, device: device.id });
        }
        let mut without = Vec::new();
        for cell in edit.state.cells() {
            let mut of_node = cell.members.iter().filter(|(_, member)| member.node == id).map(|(gateway, _)| *gateway);
            if let Some(gateway) = of_node.clone().find(|gateway| cell.is_in_view(*gateway)) {
                return Err(NodeError::HasGateway { id, cell: cell.id, gateway });
            }
            if of_node.next().is_some() {
                let mut cell = CellRecord::clone(cell);
                cell.members.retain(|_, member| member.node != id);
                without.push(cell);
            }
        }
        without.into_iter().for_each(|cell| edit.set_cell(cell));
        edit.remove::<NodeRecord>(&id);
        Ok(())
    }
}

impl Manager {
    /// Takes a node into the cluster, or notes what has changed about one.
    pub async fn register_node(&self, node: RegisterNode) -> Result<Arc<NodeRecord>, ManagerError<NodeError>> {
        self.propose(node).await
    }

    /// Forgets a node that serves no device and has no gateway in a view.
    pub async fn remove_node(&self, id: NodeId) -> Result<(), ManagerError<NodeError>> {
        self.propose(RemoveNode { id }).await
    }
}
