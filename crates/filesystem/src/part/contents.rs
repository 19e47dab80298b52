//! Contents of files on devices: of this node, called directly, and of others, asked by their service.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use net::{BoxFuture, Caller, Refusal, Request, Service, ServiceTag};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use subsystem::Surroundings;
use types::DeviceId;

use crate::data::store::ExtentStore;
use crate::data::{DataError, DataPartition, DataRoom, Extents};
use crate::ids::ExtentId;

/// How long another node may take for a request.
const PATIENCE: Duration = Duration::from_secs(10);

/// The stores of this node's devices, and ways to others.
pub struct Contents {
    around: Surroundings,
    stores: BTreeMap<DeviceId, Arc<ExtentStore>>,
}

impl Contents {
    /// Opens the stores of this node's devices.
    pub async fn open(around: &Surroundings) -> Result<Contents, String> {
        let mut stores = BTreeMap::new();
        for device in &around.devices {
            stores.insert(device.id(), Arc::new(super::open_store(around, device).await?));
        }
        Ok(Contents { around: around.clone(), stores })
    }

    pub fn stores(&self) -> impl Iterator<Item = &Arc<ExtentStore>> {
        self.stores.values()
    }

    pub fn store(&self, device: DeviceId) -> Option<&Arc<ExtentStore>> {
        self.stores.get(&device)
    }

    /// The device of this node with the most room.
    pub fn roomiest(&self) -> Option<DeviceId> {
        self.stores.iter().max_by_key(|(_, store)| store.room().free_bytes).map(|(device, _)| *device)
    }

    /// The contents on a device.
    pub fn partition(&self, device: DeviceId) -> Arc<dyn DataPartition> {
        match self.stores.get(&device) {
            Some(store) => store.clone(),
            None => Arc::new(Elsewhere { around: self.around.clone(), device, room: Mutex::default() }),
        }
    }
}

/// A request about the contents on a device.
#[derive(Serialize, Deserialize)]
struct Asked {
    device: u32,
    ask: Ask,
}

#[derive(Serialize, Deserialize)]
enum Ask {
    Create,
    Append { extent: ExtentId, offset: u64, data: Vec<u8> },
    Overwrite { extent: ExtentId, offset: u64, data: Vec<u8> },
    Read { extent: ExtentId, offset: u64, len: u64 },
    Punch { extent: ExtentId, offset: u64, len: u64 },
    Remove { extent: ExtentId },
}

/// An answer, and the room that there is.
#[derive(Serialize, Deserialize)]
struct Told {
    told: Result<Answer, DataError>,
    room: DataRoom,
}

#[derive(Serialize, Deserialize)]
enum Answer {
    Done,
    Created(ExtentId),
    Content(Vec<u8>),
}

/// Serves the contents of this node's devices to others.
pub struct ContentService(pub Arc<Contents>);

impl Service for ContentService {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            let Asked { device, ask } = postcard::from_bytes(&request.payload).map_err(Refusal::new)?;
            let store = self.0.store(DeviceId(device)).ok_or_else(|| Refusal::new("the device is not on this node"))?;
            let told = carry_out(&**store, ask).await;
            let told = Told { told, room: store.room() };
            Ok(postcard::to_stdvec(&told).map_err(Refusal::new)?.into())
        })
    }
}

async fn carry_out(partition: &dyn DataPartition, ask: Ask) -> Result<Answer, DataError> {
    match ask {
        Ask::Create => return partition.create().await.map(Answer::Created),
        Ask::Append { extent, offset, data } => partition.append(extent, offset, data.into()).await?,
        Ask::Overwrite { extent, offset, data } => partition.overwrite(extent, offset, data.into()).await?,
        Ask::Read { extent, offset, len } => {
            return partition.read(extent, offset, len as usize).await.map(|content| Answer::Content(content.to_vec()));
        }
        Ask::Punch { extent, offset, len } => partition.punch(extent, offset, len).await?,
        Ask::Remove { extent } => partition.remove(extent).await?,
    }
    Ok(Answer::Done)
}

/// Contents on a device of another node.
struct Elsewhere {
    around: Surroundings,
    device: DeviceId,
    /// As the last answer said.
    room: Mutex<DataRoom>,
}

impl Elsewhere {
    fn way(&self) -> Result<Arc<dyn Caller>, DataError> {
        let state = self.around.manager.snapshot();
        let node = state.device(self.device).and_then(|device| device.node).and_then(|node| state.node(node));
        let node = node.ok_or_else(|| DataError::Unavailable(format!("device {} is on no node", self.device)))?;
        Ok(self.around.callers.to_node(node, ServiceTag::FILE_CONTENTS))
    }

    async fn ask(&self, ask: Ask) -> Result<Answer, DataError> {
        let unavailable = |reason: String| DataError::Unavailable(format!("device {}: {reason}", self.device));
        let asked = Asked { device: self.device.0, ask };
        let asked = postcard::to_stdvec(&asked).map_err(|error| unavailable(error.to_string()))?;
        let answer = self.way()?.call(asked.into(), self.around.env.now() + PATIENCE).await;
        let answer = answer.map_err(|error| unavailable(error.to_string()))?;
        let Told { told, room } = postcard::from_bytes(&answer).map_err(|error| unavailable(error.to_string()))?;
        *self.room.lock() = room;
        told
    }

    async fn done(&self, ask: Ask) -> Result<(), DataError> {
        self.ask(ask).await.map(drop)
    }
}

impl Extents for Elsewhere {
    fn append(&self, extent: ExtentId, offset: u64, data: Bytes) -> BoxFuture<'_, Result<(), DataError>> {
        Box::pin(self.done(Ask::Append { extent, offset, data: data.to_vec() }))
    }

    fn overwrite(&self, extent: ExtentId, offset: u64, data: Bytes) -> BoxFuture<'_, Result<(), DataError>> {
        Box::pin(self.done(Ask::Overwrite { extent, offset, data: data.to_vec() }))
    }

    fn read(&self, extent: ExtentId, offset: u64, len: usize) -> BoxFuture<'_, Result<Bytes, DataError>> {
        Box::pin(async move {
            match self.ask(Ask::Read { extent, offset, len: len as u64 }).await? {
                Answer::Content(content) if content.len() == len => Ok(content.into()),
                _ => Err(DataError::Unavailable("an answer to another question".to_owned())),
            }
        })
    }

    fn punch(&self, extent: ExtentId, offset: u64, len: u64) -> BoxFuture<'_, Result<(), DataError>> {
        Box::pin(self.done(Ask::Punch { extent, offset, len }))
    }

    fn remove(&self, extent: ExtentId) -> BoxFuture<'_, Result<(), DataError>> {
        Box::pin(self.done(Ask::Remove { extent }))
    }

    fn room(&self) -> DataRoom {
        *self.room.lock()
    }
}

impl DataPartition for Elsewhere {
    fn create(&self) -> BoxFuture<'_, Result<ExtentId, DataError>> {
        Box::pin(async move {
            match self.ask(Ask::Create).await? {
                Answer::Created(extent) => Ok(extent),
                _ => Err(DataError::Unavailable("an answer to another question".to_owned())),
            }
        })
    }
}
