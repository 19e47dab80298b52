//! What is lost for good: nobody will read there any more, and nobody is answered from there.

use std::collections::BTreeSet;

use format::chunk_place::BlockPlace;
use types::DeviceId;

/// Devices whose lease has ended, and blocks that their node has condemned.
#[derive(Debug, Default)]
pub struct Lost {
    devices: BTreeSet<DeviceId>,
    blocks: BTreeSet<BlockPlace>,
}

impl Lost {
    pub fn holds(&self, place: BlockPlace) -> bool {
        self.devices.contains(&place.device()) || self.blocks.contains(&place)
    }

    pub fn devices(&self) -> &BTreeSet<DeviceId> {
        &self.devices
    }

    pub fn blocks(&self) -> &BTreeSet<BlockPlace> {
        &self.blocks
    }

    pub fn is_empty(&self) -> bool {
        self.devices.is_empty() && self.blocks.is_empty()
    }

    pub(super) fn add_device(&mut self, device: DeviceId) -> bool {
        self.devices.insert(device)
    }

    pub(super) fn add_block(&mut self, place: BlockPlace) -> bool {
        self.blocks.insert(place)
    }
}
