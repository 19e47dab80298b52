//! Records as former versions wrote them. They are read, never written.

use serde::{Deserialize, Serialize};
use types::{DeviceId, DeviceUuid};

use super::{DeviceRecord, DeviceState};
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
pub(crate) struct FormerNextIds {
    bucket: u64,
    device: u32,
}

impl From<FormerNextIds> for NextIds {
    fn from(former: FormerNextIds) -> NextIds {
        NextIds { bucket: former.bucket, device: former.device, ..NextIds::default() }
    }
}
