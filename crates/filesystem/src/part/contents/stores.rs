//! The stores of contents on this node's devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use device::VolumeOwner;
use subsystem::Surroundings;
use types::DeviceId;

use crate::data::store::ExtentStore;
use crate::data::{DataRoom, Extents};

/// All of them.
pub struct Stores {
    stores: BTreeMap<DeviceId, Arc<ExtentStore>>,
}

impl Stores {
    pub async fn open(around: &Surroundings) -> Result<Stores, String> {
        let mut stores = BTreeMap::new();
        for device in &around.devices {
            let store = ExtentStore::open(&around.env, device.volume(VolumeOwner::Files)).await;
            stores.insert(device.id(), Arc::new(store.map_err(|error| error.to_string())?));
        }
        Ok(Stores { stores })
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<ExtentStore>> {
        self.stores.values()
    }

    pub fn get(&self, device: DeviceId) -> Option<&Arc<ExtentStore>> {
        self.stores.get(&device)
    }

    /// The room of each device that takes writes.
    pub fn rooms(&self) -> Vec<(DeviceId, DataRoom)> {
        let takes_writes = self.stores.iter().filter(|(_, store)| !store.is_stuck());
        takes_writes.map(|(device, store)| (*device, store.room())).collect()
    }

    /// The device with the most room.
    pub fn roomiest(&self) -> Option<DeviceId> {
        self.rooms().into_iter().max_by_key(|(_, room)| room.free_bytes).map(|(device, _)| device)
    }
}
