//! Devices.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use types::limits::DEVICE_NUMBERS;
use types::{DeviceId, DeviceUuid, ErrorKind, NodeId};

use super::commands;
use crate::error::ManagerError;
use crate::kind::{Numbers, Record};
use crate::limits::{DEVICE_NUMBER_LIMIT, MAX_DEVICE_PATH_BYTES, MAX_DEVICES};
use crate::manager::Manager;
use crate::operation::{Operation, Refusal};
use crate::snapshot::{CommandIndex, Edit, ImpossibleState, Snapshot, check_number};

/// A device of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceRecord {
    pub id: DeviceId,
    pub uuid: DeviceUuid,
    /// Where it was last found.
    pub path: String,
    pub state: DeviceState,
    pub capacity_bytes: u64,
    /// Which node serves it; none if it was never said.
    pub node: Option<NodeId>,
}

/// What a device is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceState {
    /// Reads and writes.
    Active,
    /// Reads only, while its data is moved away.
    Draining,
    /// Nothing.
    Failed,
    /// Nothing: a person has put another one in its place. It counts as missing until it is known that nothing is lost with it.
    Replaced,
}

/// Device numbers that an import skips: those of the disks that came to a server within the second that its newest copy lacks. There are 16 bits of them for
/// all times.
pub const IMPORT_SKIPPED_DEVICES: u32 = 64;

impl Record for DeviceRecord {
    type Key = DeviceId;

    const TAG: u8 = 4;
    const NAME: &'static str = "device";
    const NUMBERS: Option<Numbers> =
        Some(Numbers { first: 0, limit: DEVICE_NUMBER_LIMIT as u64, skipped: IMPORT_SKIPPED_DEVICES as u64 });

    fn is_at(&self, key: &DeviceId) -> bool {
        self.id == *key
    }

    fn check(&self, key: &DeviceId, state: &Snapshot) -> Result<(), ImpossibleState> {
        Ok(check_number(Self::NAME, u64::from(key.0), state.devices.next)?)
    }
}

commands! {
    Device,
    /// Commands about devices.
    DeviceCommand: AddDevice, UpdateDevice, SetDeviceState, RemoveDevice, PlaceDevice,
}

impl Snapshot {
    /// A device by its number.
    pub fn device(&self, id: DeviceId) -> Option<&Arc<DeviceRecord>> {
        self.devices.get(&id)
    }

    /// All devices by number.
    pub fn devices(&self) -> impl Iterator<Item = &Arc<DeviceRecord>> {
        self.devices.values()
    }

    /// The number that the next device will get.
    pub fn next_device(&self) -> DeviceId {
        DeviceId(self.devices.next as u32)
    }
}

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
            id: DeviceId(edit.take_number::<DeviceRecord>() as u32),
            uuid: self.uuid,
            path: self.path.clone(),
            state: DeviceState::Active,
            capacity_bytes: self.capacity_bytes,
            node: None,
        });
        Ok(edit.set(device.id, device))
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
        Ok(edit.set(device.id, device))
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
        Ok(edit.set(device.id, device))
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
        Ok(edit.set(device.id, device))
    }
}

/// Forgets a device that is no longer in use, and what other kinds know of it. Its number is not given out again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveDevice {
    pub id: DeviceId,
}

impl Operation for RemoveDevice {
    type Reply = ();
    type Refusal = DeviceError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<(), DeviceError> {
        let device = find(edit, self.id)?;
        if device.state == DeviceState::Active {
            return Err(DeviceError::InUse { id: self.id });
        }
        edit.remove::<DeviceRecord>(&self.id);
        super::forget_device(edit, &device);
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

impl Manager {
    /// Takes a device into the cluster and gives it its number.
    pub async fn add_device(
        &self,
        uuid: DeviceUuid,
        path: &str,
        capacity_bytes: u64,
    ) -> Result<Arc<DeviceRecord>, ManagerError<DeviceError>> {
        self.propose(AddDevice { uuid, path: path.to_owned(), capacity_bytes }).await
    }

    /// Notes where a device was found and how large it is now.
    pub async fn update_device(
        &self,
        id: DeviceId,
        path: &str,
        capacity_bytes: u64,
    ) -> Result<Arc<DeviceRecord>, ManagerError<DeviceError>> {
        self.propose(UpdateDevice { id, path: path.to_owned(), capacity_bytes }).await
    }

    /// Changes what a device is used for.
    pub async fn set_device_state(
        &self,
        id: DeviceId,
        state: DeviceState,
    ) -> Result<Arc<DeviceRecord>, ManagerError<DeviceError>> {
        self.propose(SetDeviceState { id, state }).await
    }

    /// Forgets a device that is drained or has failed.
    pub async fn remove_device(&self, id: DeviceId) -> Result<(), ManagerError<DeviceError>> {
        self.propose(RemoveDevice { id }).await
    }

    /// Says which node serves a device.
    pub async fn place_device(
        &self,
        id: DeviceId,
        node: Option<NodeId>,
    ) -> Result<Arc<DeviceRecord>, ManagerError<DeviceError>> {
        self.propose(PlaceDevice { id, node }).await
    }
}
