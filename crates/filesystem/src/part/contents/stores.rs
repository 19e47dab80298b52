//! The stores of contents on this node's devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use device::VolumeOwner;
use subsystem::Surroundings;
use types::DeviceId;

use crate::data::Extents;
use crate::data::store::ExtentStore;

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

    /// The device with the most room.
    pub fn roomiest(&self) -> Option<DeviceId> {
        let takes_writes = self.stores.iter().filter(|(_, store)| !store.is_stuck());
        takes_writes.max_by_key(|(_, store)| store.room().free_bytes).map(|(device, _)| *device)
    }
}
