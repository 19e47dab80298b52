//! What a server says of itself: the JSON of `/status`, which `trilith status` prints.
//!
//! Fields are only ever added. A reader ignores those that it does not know.

use serde::{Deserialize, Serialize};
use std::fmt;
use subsystem::StatusLine;

/// A server's state at one moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    pub version: String,
    /// Whether S3 requests are served now.
    pub ready: bool,
    pub cluster: Option<String>,
    pub uptime_ms: u64,
    /// Where S3 listens.
    pub s3_address: Option<String>,
    pub buckets: u64,
    /// Copies that new objects get, on as many devices that take writes.
    pub copies: u64,
    pub devices: Vec<DeviceStatus>,
    pub engine: Option<EngineStatus>,
    #[serde(default)]
    pub uploads: UploadsStatus,
    /// The cell that the server belongs to; none while it starts.
    #[serde(default)]
    pub cell: Option<CellStatus>,
    /// What the node's subsystems say, a line each.
    #[serde(default)]
    pub subsystems: Vec<StatusLine>,
    /// What deserves a person's attention, most pressing first.
    pub warnings: Vec<Warning>,
}

/// The gateways, nodes and devices of a cluster, as one member of the manager knows them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CellStatus {
    /// The number of the cell's view; 0 before the first.
    pub view: u64,
    /// Gateways in the view.
    pub gateways: usize,
    /// The node whose gateway recovers, checkpoints and collects.
    pub leader: Option<String>,
    /// The node that leads the manager.
    pub manager_leader: Option<String>,
    /// Copies of each new object.
    pub copies: usize,
    /// Gateways that left, and whose writes are not decided yet.
    pub undecided: Vec<u16>,
    /// Devices that alone may have copies of what was written a moment ago, as that of a first node when a second one joins. While there
    /// are such devices, the loss of one stops all writes until it is back; a checkpoint ends this.
    pub alone: Vec<u32>,
    /// Parts of the index that the leader is still to look through for what lacks copies; none if the node that was asked does not know.
    #[serde(default)]
    pub repair_left: Option<u64>,
    /// Addresses of members of the manager whose nodes are not registered: they are joining, or their join ended half-way.
    #[serde(default)]
    pub unregistered: Vec<String>,
    pub nodes: Vec<CellNode>,
    pub devices: Vec<CellDevice>,
}

/// A node of the cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CellNode {
    pub name: String,
    pub address: String,
    /// Empty of a node without a gateway.
    pub s3_address: String,
    pub admin_address: String,
    pub version: String,
    /// Its gateway is in the view.
    pub serves: bool,
    /// It is there, and its gateway waits for a place in the view, which has as many as it may have.
    #[serde(default)]
    pub waits: bool,
    /// It does not answer the node that was asked.
    #[serde(default)]
    pub is_silent: bool,
    /// It counts for the manager's quorums.
    pub votes: bool,
    /// How far its clock is ahead of that of the node that was asked; negative: behind. None if they agree, or it does not answer.
    #[serde(default)]
    pub clock_off_ms: Option<i64>,
}

impl CellNode {
    /// What its gateway does.
    pub fn gateway(&self) -> NodeGateway {
        match (self.serves, self.waits) {
            (true, _) => NodeGateway::Serves,
            (false, true) => NodeGateway::Waits,
            (false, false) if self.s3_address.is_empty() && !self.is_silent => NodeGateway::None,
            (false, false) => NodeGateway::Away,
        }
    }
}

/// What a node's gateway does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeGateway {
    /// It answers clients.
    Serves,
    /// It has no place in the view, which has as many as it may have.
    Waits,
    /// The node is there, and leaves S3 to others.
    None,
    /// It is out of the view, or the node does not answer.
    Away,
}

impl fmt::Display for NodeGateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NodeGateway::Serves => "serves",
            NodeGateway::Waits => "waits",
            NodeGateway::None => "none",
            NodeGateway::Away => "away",
        })
    }
}

/// A device of the cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CellDevice {
    pub device: u32,
    pub node: Option<String>,
    /// New objects are written to it.
    pub is_written: bool,
    /// `active`, `draining`, `failed` or `replaced`, as the manager has it; empty from a version that did not say.
    #[serde(default)]
    pub state: String,
    pub capacity_bytes: u64,
}

/// One device.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DeviceStatus {
    pub device: u32,
    pub uuid: String,
    pub path: String,
    /// `active`, `draining` or `failed` as the manager has it; `missing` if no disk of this server holds it; `read-only` after a
    /// failed write.
    pub state: String,
    pub capacity_bytes: u64,
    /// Objects: in zones that are not free, with their padding and what waits to be collected.
    pub used_bytes: u64,
    /// The other parts of the system.
    pub owned: Vec<OwnedSpace>,
    /// In zones that new objects may still take. The other parts may take most of them, too.
    pub free_bytes: u64,
    pub zones: u32,
    pub free_zones: u32,
    /// The write whose failure ended all writing to this device.
    pub poisoned_by: Option<String>,
    pub corrupt_reads: u64,
    /// What scrubs have read since the start, and the damaged frames in it, those that nobody needs among them.
    #[serde(default)]
    pub scrubbed_bytes: u64,
    #[serde(default)]
    pub scrub_damage: u64,
}

/// What a part of the system has of a device beside the objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnedSpace {
    /// `chunks`.
    pub owner: String,
    pub bytes: u64,
}

/// The log engine's figures.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EngineStatus {
    /// Keys of the index: objects, parts of uploads and tombstones that are still needed.
    pub keys: u64,
    pub index_bytes: u64,
    /// Of the keys those that are kept without their hashes, with `index = "ludo"`.
    #[serde(default)]
    pub sealed_keys: u64,
    /// Names that no checkpoint covers: a start after a crash walks the log for them.
    pub unsaved_names: u64,
    pub epoch: u64,
    pub writes: u64,
    pub cached_reads: u64,
    pub device_reads: u64,
    pub checkpoints: u64,
    pub collected_zones: u64,
    pub relocated_bytes: u64,
    pub failed_copies: u64,
    pub repaired_reads: u64,
    /// Copies that this gateway found damaged, by reads and scrubs.
    #[serde(default)]
    pub damaged_copies: u64,
    /// As leader of its cell: copies that it made again in the stead of damaged ones, and those that it could not.
    #[serde(default)]
    pub healed_copies: u64,
    #[serde(default)]
    pub unhealed_copies: u64,
    /// Damaged copies that wait.
    #[serde(default)]
    pub suspect_copies: u64,
    /// Keys that can't be answered while a device is missing.
    pub undecidable_keys: u64,
}

/// The memory of uploads in hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UploadsStatus {
    pub memory_limit_bytes: u64,
    pub memory_used_bytes: u64,
    /// Uploads that wait for memory.
    pub waiting: u64,
    /// Uploads that were told to slow down since the start.
    pub refused: u64,
}

/// Something that deserves attention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    pub severity: Severity,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub advice: String,
}

/// How pressing it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something does not work, or will soon stop to.
    Error,
    /// Worth knowing: a choice with consequences.
    Notice,
}

impl Warning {
    pub fn error(what: impl Into<String>, advice: impl Into<String>) -> Warning {
        Warning { severity: Severity::Error, what: what.into(), advice: advice.into() }
    }

    pub fn notice(what: impl Into<String>, advice: impl Into<String>) -> Warning {
        Warning { severity: Severity::Notice, what: what.into(), advice: advice.into() }
    }
}
