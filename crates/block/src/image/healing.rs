//! Copies that blobs lack, and those that they have too many.
//!
//! A blob lacks a copy when a device was given up or is drained, is out for [`HEAL_DELAY`], or when there are more hosts than there were. The new
//! copy begins as *partial*: it counts from when it is whole. Its part is locked for that long.

use types::{BLOB_BYTES, BlobId, DeviceId};

use super::Image;
use super::error::{Fault, ImageError};
use super::limits::HEAL_DELAY;
use super::map::{Blob, Place, redundancy_of};
use super::range_lock::Mode;
use super::standing::keeps_short_hosts;
use crate::registry::View;

impl Image {
    /// Looks through all blobs once.
    pub(crate) async fn heal(&self) -> Result<(), ImageError> {
        if self.waits_for_devices() {
            return Ok(());
        }
        let blobs: Vec<BlobId> = {
            let state = self.state.lock();
            let wanting = state.map.blobs().filter(|(index, blob)| self.is_wanting(&state.view, *index, blob));
            wanting.map(|(index, blob)| BlobId { image: self.id, index, layer: blob.layer }).collect()
        };
        let env = &self.outside.env;
        let (mut outcome, mut full) = (Ok(()), Vec::new());
        for id in blobs {
            self.check_open()?;
            let began = env.now();
            match self.heal_blob(id, &full).await {
                Err(Fault::NoSpace(device)) => full.push(device),
                healed => outcome = outcome.and(healed.map_err(ImageError::from)),
            }
            // Clients have half of the time.
            env.sleep(env.now().saturating_duration_since(began)).await;
        }
        outcome
    }

    /// Whether a device is out that may come back soon.
    fn waits_for_devices(&self) -> bool {
        let now = self.outside.env.now();
        let mut gone = self.gone.lock();
        let view = self.view();
        gone.retain(|device, _| view.out.iter().any(|(out, _)| out == device));
        view.out.iter().filter(|(device, _)| !self.outside.placement.is_leaving(*device)).any(|(device, _)| {
            let since = *gone.entry(*device).or_insert(now);
            self.outside.placement.host_of(*device).is_some() && now.saturating_duration_since(since) < HEAL_DELAY
        })
    }

    /// Whether a blob has too few copies, or two on one host, while there is another host; or too many.
    fn is_wanting(&self, view: &View, index: u32, blob: &Blob) -> bool {
        let wanted = usize::from(view.copies);
        wanted > 1 && !blob.freeing && (blob.copies.len() > wanted || self.place_for(view, index, blob, &[]).is_some())
    }

    /// Where a copy would make the blob safer.
    fn place_for(&self, view: &View, index: u32, blob: &Blob, full: &[DeviceId]) -> Option<DeviceId> {
        let wanted = view.copies;
        let placement = &self.outside.placement;
        let host_of = |device| placement.host_of(device);
        let (left, held): (Vec<DeviceId>, Vec<DeviceId>) =
            blob.copies.iter().map(|place| place.device).partition(|device| placement.is_leaving(*device));
        let now = redundancy_of(held.iter().copied(), wanted, host_of);
        if !held.is_empty() && now.hosts >= wanted {
            return None;
        }
        let mut without = placement.devices();
        without.retain(|device| !view.devices.contains(device));
        without.extend(full.iter().chain(&left));
        let id = BlobId { image: self.id, index, layer: blob.layer };
        let device = *placement.places(id, 1, &held, &without).first()?;
        let then = redundancy_of(held.iter().copied().chain([device]), wanted, host_of);
        (held.is_empty() || then != now).then_some(device)
    }

    async fn heal_blob(&self, id: BlobId, full: &[DeviceId]) -> Result<(), Fault> {
        if self.needs_mending(id.index) {
            self.mend_part(id.index).await?;
        }
        let _guard = self.locks.acquire(id.index, 0..BLOB_BYTES, Mode::Exclusive).await;
        self.settle().await?;
        let (view, blob) = {
            let state = self.state.lock();
            (state.view.clone(), state.map.blob(id.index, id.layer).cloned())
        };
        let Some(blob) = blob.filter(|blob| blob.is_equal && !blob.freeing) else { return Ok(()) };
        if let Some(device) = self.place_for(&view, id.index, &blob, full) {
            return self.add_copy(id, device).await;
        }
        let Some((place, staying)) = self.spare_copy(usize::from(view.copies), &blob) else { return Ok(()) };
        // Those that stay may be on fewer hosts, where the copy leaves its device.
        self.allow(&staying).await?;
        match self.forget_spare(id, place) {
            true => self.free_spare(id, place).await,
            false => Ok(()),
        }
    }

    /// Devices that copies have left count no more: they can be removed.
    pub(crate) async fn leave_devices(&self) -> Result<(), ImageError> {
        let (placement, mut outcome) = (&self.outside.placement, Ok(()));
        for device in self.view().devices.into_iter().filter(|device| placement.is_leaving(*device)) {
            let has_blobs = self.state.lock().map.blobs().any(|(_, blob)| blob.is_on(device));
            if !has_blobs {
                outcome = outcome.and(self.lose(device, "it is drained, and no blob is left there").await);
            }
        }
        outcome
    }

    /// A new copy. One that is not seen through is freed before anything else touches its part.
    async fn add_copy(&self, id: BlobId, device: DeviceId) -> Result<(), Fault> {
        self.state.lock().stray_copies.insert((id, device));
        self.note_unequal();
        match self.sync_copy(id, device).await {
            Ok(place) => {
                self.count_copy(id, place);
                Ok(())
            }
            Err(Fault::Device(device, reason)) => Ok(self.lose(device, &reason).await?),
            Err(fault) => Err(fault),
        }
    }

    fn count_copy(&self, id: BlobId, place: Place) {
        let mut state = self.state.lock();
        let is_in = state.view.devices.contains(&place.device);
        if let Some(blob) = state.map.blob_mut(id.index, id.layer).filter(|blob| is_in && !blob.is_on(place.device)) {
            env::mark("images: a copy made again");
            blob.copies.push(place);
            state.stray_copies.remove(&(id, place.device));
        }
    }

    /// A copy that the blob does not need, with the devices of those that stay: one that is to leave its device, or one without which the blob is
    /// on as many hosts. Copies that stay are as many as wanted, and none of them is to leave.
    fn spare_copy(&self, wanted: usize, blob: &Blob) -> Option<(Place, Vec<DeviceId>)> {
        let placement = &self.outside.placement;
        let stays = |device: &DeviceId| placement.host_of(*device).is_some() && !placement.is_leaving(*device);
        let hosts_of = |devices: &[DeviceId]| {
            redundancy_of(devices.iter().copied(), wanted as u8, |device| placement.host_of(device)).hosts
        };
        let all: Vec<DeviceId> = blob.copies.iter().map(|place| place.device).collect();
        let is_any_leaving = all.iter().any(|device| placement.is_leaving(*device));
        blob.copies.iter().copied().find_map(|place| {
            let staying: Vec<DeviceId> = all.iter().copied().filter(|device| *device != place.device).filter(stays).collect();
            let is_spare = match is_any_leaving {
                true => placement.is_leaving(place.device),
                false => hosts_of(&staying) == hosts_of(&all),
            };
            (staying.len() >= wanted && is_spare).then_some((place, staying))
        })
    }

    /// Takes a copy that is not needed out of the map. It counts for nothing from here on. False where that can't be now.
    fn forget_spare(&self, id: BlobId, place: Place) -> bool {
        let mut state = self.state.lock();
        let wanted = usize::from(state.view.copies);
        let is_needed = |blob: &Blob| {
            let staying = blob.copies.iter().map(|copy| copy.device).filter(|device| *device != place.device);
            let keeps_short = keeps_short_hosts(&state.view, staying, |device| self.outside.placement.host_of(device));
            blob.copies.len() <= wanted || !blob.is_on(place.device) || !keeps_short
        };
        if state.leaving.is_some() || state.map.blob(id.index, id.layer).is_none_or(is_needed) {
            return false;
        }
        let Some(blob) = state.map.blob_mut(id.index, id.layer) else { return false };
        blob.copies.retain(|copy| copy.device != place.device);
        state.stray_copies.insert((id, place.device));
        self.note_unequal();
        true
    }

    async fn free_spare(&self, id: BlobId, place: Place) -> Result<(), Fault> {
        match self.free_copy(id, place).await {
            Ok(()) => {
                self.state.lock().stray_copies.remove(&(id, place.device));
                Ok(())
            }
            Err(Fault::Device(device, reason)) => Ok(self.lose(device, &reason).await?),
            Err(fault) => Err(fault),
        }
    }
}
