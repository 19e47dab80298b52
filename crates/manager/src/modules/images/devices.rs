//! Which devices have copies of an image, and which of these count (docs/rfd/0024, rules 8 and 9).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use types::{DeviceId, ImageEpoch, ImageId, NodeId, Token};

use super::limits::DEVICE_ROOM_BYTES;
use super::{ImageDevice, ImageError, ImageRecord, Redundancy, check_room, held, set};
use crate::modules::device::DeviceState;
use crate::operation::Operation;
use crate::snapshot::{CommandIndex, Edit};

/// Adds devices, in sync, before the holder places the first blob on them. Those that the image uses already stay as they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UseDevices {
    pub id: ImageId,
    pub token: Token,
    pub devices: Vec<DeviceId>,
}

impl Operation for UseDevices {
    type Reply = Arc<ImageRecord>;
    type Refusal = ImageError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<ImageRecord>, ImageError> {
        let mut image = held(edit.state, self.id, self.token)?;
        let before = image.devices.len();
        for &device in &self.devices {
            let Err(at) = image.position(device) else { continue };
            let record = edit.state.device(device).ok_or(ImageError::NoSuchDevice { device })?;
            // What is on a device that is drained or has failed will move away.
            if record.state != DeviceState::Active {
                return Err(ImageError::NotWritable { device });
            }
            image.devices.insert(at, ImageDevice { device, out_since: None });
        }
        check_room(edit.state, (image.devices.len() - before) * DEVICE_ROOM_BYTES)?;
        Ok(set(edit, image))
    }
}

/// Takes devices out: their copies count no more. Begins an epoch, also if all of them are out already; those keep the epoch in which they
/// went out. With no device it changes the redundancy alone, for blobs that begin with fewer copies than the others have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetDeviceOut {
    pub id: ImageId,
    pub token: Token,
    pub devices: Vec<DeviceId>,
    pub redundancy: Redundancy,
    /// A host beside which each blob has copies on as many hosts as the redundancy says: its other devices may go, too.
    pub short_host: Option<NodeId>,
}

impl Operation for SetDeviceOut {
    /// With the new epoch.
    type Reply = Arc<ImageRecord>;
    type Refusal = ImageError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<ImageRecord>, ImageError> {
        let mut image = held(edit.state, self.id, self.token)?;
        set_redundancy(&mut image, self.redundancy)?;
        image.short_hosts.extend(self.short_host.filter(|_| image.copies > 1));
        image.epoch = ImageEpoch(image.epoch.0 + 1);
        for &device in &self.devices {
            let at = image.position(device).map_err(|_| ImageError::NotUsed { device })?;
            image.devices[at].out_since.get_or_insert(image.epoch);
        }
        if !self.devices.is_empty() && image.devices.iter().all(|used| used.out_since.is_some()) {
            return Err(ImageError::LastInSync);
        }
        Ok(set(edit, image))
    }
}

/// A device has all that it lacked: its copies count again. Of one that is in sync it changes the redundancy alone, for blobs that have got
/// another copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetDeviceIn {
    pub id: ImageId,
    pub token: Token,
    pub device: DeviceId,
    pub redundancy: Redundancy,
}

impl Operation for SetDeviceIn {
    type Reply = Arc<ImageRecord>;
    type Refusal = ImageError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<ImageRecord>, ImageError> {
        let mut image = held(edit.state, self.id, self.token)?;
        set_redundancy(&mut image, self.redundancy)?;
        let at = image.position(self.device).map_err(|_| ImageError::NotUsed { device: self.device })?;
        image.devices[at].out_since = None;
        Ok(set(edit, image))
    }
}

fn set_redundancy(image: &mut ImageRecord, found: Redundancy) -> Result<(), ImageError> {
    if !found.is_of(image.copies) {
        return Err(ImageError::Redundancy { found, copies: image.copies });
    }
    image.redundancy = found;
    image.short_hosts.clear();
    Ok(())
}
