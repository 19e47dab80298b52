//! Records as former versions wrote them. They are read, never written.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use types::{CellId, DeviceId, DeviceUuid, GatewayId, Generation, NodeId, Token};

use super::{CellRecord, DeviceRecord, DeviceState, InstalledView, Member};
use crate::snapshot::NextIds;

/// A device before it had a node.
#[derive(Serialize, Deserialize)]
pub(crate) struct FormerDeviceRecord {
    id: DeviceId,
    uuid: DeviceUuid,
    path: String,
    state: DeviceState,
    capacity_bytes: u64,
}

impl From<FormerDeviceRecord> for DeviceRecord {
    fn from(former: FormerDeviceRecord) -> DeviceRecord {
        let FormerDeviceRecord { id, uuid, path, state, capacity_bytes } = former;
        DeviceRecord { id, uuid, path, state, capacity_bytes, node: None }
    }
}

/// The next ids before there were nodes.
#[derive(Serialize, Deserialize)]
pub(crate) struct FirstNextIds {
    bucket: u64,
    device: u32,
}

impl From<FirstNextIds> for NextIds {
    fn from(former: FirstNextIds) -> NextIds {
        NextIds { bucket: former.bucket, device: former.device, ..NextIds::default() }
    }
}

/// The next ids before there were shards.
#[derive(Serialize, Deserialize)]
pub(crate) struct SecondNextIds {
    bucket: u64,
    device: u32,
    node: u32,
}

impl From<SecondNextIds> for NextIds {
    fn from(former: SecondNextIds) -> NextIds {
        let SecondNextIds { bucket, device, node } = former;
        NextIds { bucket, device, node, ..NextIds::default() }
    }
}

/// A cell before it kept the tables of former views.
#[derive(Serialize, Deserialize)]
pub(crate) struct FormerCellRecord {
    id: CellId,
    installed: Option<InstalledView>,
    members: BTreeMap<GatewayId, Member>,
    removing: BTreeSet<GatewayId>,
    ended: BTreeSet<GatewayId>,
    undecided: BTreeMap<GatewayId, Member>,
    fences: BTreeMap<NodeId, Token>,
    generation: Generation,
    last_gateway: GatewayId,
}

impl From<FormerCellRecord> for CellRecord {
    fn from(former: FormerCellRecord) -> CellRecord {
        let FormerCellRecord { id, installed, members, removing, ended, undecided, fences, generation, last_gateway } = former;
        let former_tables = Vec::new();
        CellRecord { id, installed, members, removing, ended, undecided, fences, generation, last_gateway, former_tables }
    }
}
