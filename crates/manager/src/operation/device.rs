//! Devices.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use types::limits::DEVICE_NUMBERS;
use types::{DeviceId, DeviceUuid, ErrorKind, NodeId};

use super::{Operation, Refusal};
use crate::limits::{MAX_DEVICE_PATH_BYTES, MAX_DEVICES};
use crate::record::{DeviceRecord, DeviceState};
use crate::snapshot::{CommandIndex, Edit};

/// Why a change of the devices was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    #[error("there is no device {id}")]
    NotFound { id: DeviceId },
    #[error("the device is registered already, as number {id}")]
    AlreadyExists { id: DeviceId },
    #[error("device {id} is in use; drain it or mark it as failed first")]
    InUse { id: DeviceId },
    #[error("the cluster has {MAX_DEVICES} devices and takes no more")]
    TooMany,
    #[error("the cluster has given all of its {DEVICE_NUMBERS} device numbers, and gives none twice; it takes no other device")]
    NoNumber,
    #[error("a path of {found} bytes; the longest is {MAX_DEVICE_PATH_BYTES}")]
    PathLength { found: usize },
    #[error("there is no node {node}")]
    NoSuchNode { node: NodeId },
}

impl Refusal for DeviceError {
    fn kind(&self) -> ErrorKind {
        match self {
            DeviceError::NotFound { .. } | DeviceError::NoSuchNode { .. } => ErrorKind::NotFound,
            DeviceError::AlreadyExists { .. } | DeviceError::InUse { .. } => ErrorKind::Conflict,
            DeviceError::TooMany | DeviceError::NoNumber => ErrorKind::Full,
            DeviceError::PathLength { .. } => ErrorKind::Invalid,
        }
    }
}

/// Takes a device into the cluster and gives it a number that no device had before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddDevice {
    pub uuid: DeviceUuid,
    pub path: String,
    pub capacity_bytes: u64,
}

impl Operation for AddDevice {
    type Reply = Arc<DeviceRecord>;
    type Refusal = DeviceError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<DeviceRecord>, DeviceError> {
        check_path(&self.path)?;
        if let Some(existing) = edit.state.devices().find(|device| device.uuid == self.uuid) {
            return Err(DeviceError::AlreadyExists { id: existing.id });
        }
        if edit.state.devices.len() >= MAX_DEVICES {
            return Err(DeviceError::TooMany);
        }
        if edit.state.next_device().0 >= DEVICE_NUMBERS {
            return Err(DeviceError::NoNumber);
        }
        let device = Arc::new(DeviceRecord {
            id: DeviceId(edit.take_device_id()),
            uuid: self.uuid,
            path: self.path.clone(),
            state: DeviceState::Active,
            capacity_bytes: self.capacity_bytes,
            node: None,
        });
        edit.set_device(Arc::clone(&device));
        Ok(device)
    }
}

/// Notes where a device was found and how large it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateDevice {
    pub id: DeviceId,
    pub path: String,
    pub capacity_bytes: u64,
}

impl Operation for UpdateDevice {
    type Reply = Arc<DeviceRecord>;
    type Refusal = DeviceError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<DeviceRecord>, DeviceError> {
        check_path(&self.path)?;
        let before = find(edit, self.id)?;
        let path = self.path.clone();
        let device = Arc::new(DeviceRecord { path, capacity_bytes: self.capacity_bytes, ..DeviceRecord::clone(&before) });
        edit.set_device(Arc::clone(&device));
        Ok(device)
    }
}

/// Changes what a device is used for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetDeviceState {
    pub id: DeviceId,
    pub state: DeviceState,
}

impl Operation for SetDeviceState {
    type Reply = Arc<DeviceRecord>;
    type Refusal = DeviceError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<DeviceRecord>, DeviceError> {
        let before = find(edit, self.id)?;
        let device = Arc::new(DeviceRecord { state: self.state, ..DeviceRecord::clone(&before) });
        edit.set_device(Arc::clone(&device));
        Ok(device)
    }
}

/// Says which node serves a device; none: none of the cluster's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceDevice {
    pub id: DeviceId,
    pub node: Option<NodeId>,
}

impl Operation for PlaceDevice {
    type Reply = Arc<DeviceRecord>;
    type Refusal = DeviceError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<DeviceRecord>, DeviceError> {
        let before = find(edit, self.id)?;
        if let Some(node) = self.node
            && edit.state.node(node).is_none()
        {
            return Err(DeviceError::NoSuchNode { node });
        }
        let device = Arc::new(DeviceRecord { node: self.node, ..DeviceRecord::clone(&before) });
        edit.set_device(Arc::clone(&device));
        Ok(device)
    }
}

/// Forgets a device that is no longer in use, and its volume. Its number is not given out again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveDevice {
    pub id: DeviceId,
}

impl Operation for RemoveDevice {
    type Reply = ();
    type Refusal = DeviceError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<(), DeviceError> {
        if find(edit, self.id)?.state == DeviceState::Active {
            return Err(DeviceError::InUse { id: self.id });
        }
        edit.remove_device(self.id);
        edit.remove_volume(self.id);
        Ok(())
    }
}

fn find(edit: &Edit<'_>, id: DeviceId) -> Result<Arc<DeviceRecord>, DeviceError> {
    edit.state.device(id).cloned().ok_or(DeviceError::NotFound { id })
}

fn check_path(path: &str) -> Result<(), DeviceError> {
    if path.len() > MAX_DEVICE_PATH_BYTES {
        return Err(DeviceError::PathLength { found: path.len() });
    }
    Ok(())
}
