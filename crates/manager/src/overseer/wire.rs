//! Heartbeats and their answers as they are sent.
//!
//! ```text
//!   version 1 byte | postcard(Heartbeat or Answer)
//! ```

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use types::{CellId, DeviceId, GatewayId, NodeId, ViewNumber};

use crate::limits::MAX_DEVICES;

/// The version that is written; 3: nodes say that they leave, and what time it is; 2: and what they have applied; 1: the first.
pub const HEARTBEAT_VERSION: u8 = 3;

/// Longest heartbeat and answer. [`MAX_DEVICES`] with their usage, each reported by everybody, fit.
pub const MAX_HEARTBEAT_BYTES: usize = 256 * 1024;

/// What a node says of itself, its gateway in a cell, and what it can't reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    pub cell: CellId,
    pub node: NodeId,
    /// Its registered gateway; none if it has not registered one.
    pub gateway: Option<GatewayId>,
    /// The view that the gateway has installed; 0 for none.
    pub view: ViewNumber,
    /// It would answer reads under that view. The lease that is granted counts from before this was sent.
    pub wants_lease: bool,
    /// A learner that has what it needs to join: the checkpoint, and its peers' notices.
    pub is_loadable: bool,
    /// The founder under that view has recovered everything, and it is in a checkpoint.
    pub founding_done: bool,
    /// Removed gateways of whom it has processed `Decided` under that view.
    pub decided: BTreeSet<GatewayId>,
    /// The leader of that view: all undecided gateways are recovered, and it is in a checkpoint.
    pub recovered: bool,
    /// Members that do not answer it.
    pub unreachable_gateways: BTreeSet<GatewayId>,
    /// Devices of other nodes, or its own, that do not answer it.
    pub unreachable_devices: BTreeSet<DeviceId>,
    /// Its own devices that take no writes.
    pub failed_devices: BTreeSet<DeviceId>,
    /// Its own devices that are there.
    pub devices: Vec<DeviceReport>,
    /// The view whose fences, and those of all views before, its devices hold durably.
    pub fences: ViewNumber,
    /// The last of the manager's commands that it has applied.
    pub applied: u64,
    /// The node is about to stop: its devices are to be written to no more.
    pub leaves: bool,
    /// Its wall clock. Nothing is decided by it.
    pub wall_clock_ms: u64,
}

/// How much a device holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceReport {
    pub device: DeviceId,
    pub total_bytes: u64,
    pub free_bytes: u64,
}

/// The answer to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The newest view: who has another asks for it.
    pub view: ViewNumber,
    /// The gateway that has a lease of that view, from when it asked.
    pub lease: Result<GatewayId, Refused>,
}

/// Why there is no lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refused {
    #[error("no lease was asked for")]
    NotWanted,
    /// Or the node is not. One that was removed finds out by it.
    #[error("the gateway is not registered for this node; register again")]
    NotRegistered,
    #[error("the gateway is not in the view yet")]
    NotInView,
    #[error("the gateway is to leave the view; register again")]
    Removing,
    #[error("the gateway has another view than the newest")]
    OtherView,
    #[error("the node has not applied for long what the manager decided")]
    Behind,
}

/// Bytes that are no heartbeat and no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    #[error("{found} bytes; the longest heartbeat has {MAX_HEARTBEAT_BYTES}")]
    Length { found: usize },
    #[error("expected heartbeats of version {HEARTBEAT_VERSION}, found {found:?}; use the same Trilith everywhere")]
    Version { found: Option<u8> },
    #[error("not a heartbeat")]
    Body(#[source] postcard::Error),
    #[error("{left} bytes behind a heartbeat")]
    Trailing { left: usize },
    #[error("a heartbeat about {found} devices; a cluster has at most {MAX_DEVICES}")]
    Devices { found: usize },
    #[error("device {device} with {free_bytes} of {total_bytes} bytes free")]
    Usage { device: DeviceId, total_bytes: u64, free_bytes: u64 },
}

impl Heartbeat {
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    pub fn decode(bytes: &[u8]) -> Result<Heartbeat, WireError> {
        let heartbeat: Heartbeat = decode(bytes)?;
        let Heartbeat { devices, unreachable_devices, failed_devices, .. } = &heartbeat;
        let found = devices.len().max(unreachable_devices.len()).max(failed_devices.len());
        if found > MAX_DEVICES {
            return Err(WireError::Devices { found });
        }
        if let Some(wrong) = devices.iter().find(|report| report.free_bytes > report.total_bytes) {
            let DeviceReport { device, total_bytes, free_bytes } = *wrong;
            return Err(WireError::Usage { device, total_bytes, free_bytes });
        }
        Ok(heartbeat)
    }

    /// Whether a device of the node is there and takes writes.
    pub(super) fn serves(&self, device: DeviceId) -> bool {
        self.devices.iter().any(|report| report.device == device) && !self.failed_devices.contains(&device)
    }
}

impl Answer {
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    pub fn decode(bytes: &[u8]) -> Result<Answer, WireError> {
        decode(bytes)
    }
}

fn encode(message: &impl Serialize) -> Vec<u8> {
    postcard::to_extend(message, vec![HEARTBEAT_VERSION]).expect("encoding into memory cannot fail")
}

fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, WireError> {
    if bytes.len() > MAX_HEARTBEAT_BYTES {
        return Err(WireError::Length { found: bytes.len() });
    }
    match bytes.split_first() {
        Some((&HEARTBEAT_VERSION, body)) => match postcard::take_from_bytes(body).map_err(WireError::Body)? {
            (message, []) => Ok(message),
            (_, rest) => Err(WireError::Trailing { left: rest.len() }),
        },
        other => Err(WireError::Version { found: other.map(|(version, _)| *version) }),
    }
}
