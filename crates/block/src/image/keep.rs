//! What an open image does by itself: its devices and copies as they should be.
//!
//! | it finds | it does |
//! |---|---|
//! | a device that was given up | forgets its copies |
//! | a device that did not answer a read | asks it; takes it out if it is silent |
//! | a device that the image does not use yet | uses it |
//! | a part whose copies may differ | compares them |
//! | a device that is out and answers | brings it up to date, puts it in |
//! | blobs with fewer copies than wanted | copies them |

use types::DeviceId;

use super::Image;
use super::error::{Fault, ImageError};
use super::limits::{FOLLOW_PATIENCE, KEEP_PAUSE};

impl Image {
    /// Looks after the image until it ends.
    pub async fn keep(&self) {
        let env = self.outside.env.clone();
        while !self.has_ended() {
            if let Err(error) = self.keep_once().await {
                tracing::debug!(image = %self.id, %error, "the image is looked after again in a moment");
            }
            tokio::select! {
                () = env.sleep(KEEP_PAUSE) => {}
                () = self.keeper.notified() => {}
            }
        }
    }

    /// One look at everything. What fails is tried again at the next.
    pub async fn keep_once(&self) -> Result<(), ImageError> {
        self.check_open()?;
        self.forget_given_up().await?;
        self.ask_suspects().await?;
        self.use_new_devices().await?;
        self.compare_all().await?;
        self.free_leftovers().await?;
        for device in self.returned() {
            if let Err(error) = self.follow(device).await {
                self.check_open()?;
                tracing::debug!(image = %self.id, %device, %error, "the device stays out");
            }
        }
        if self.view().copies > 1 {
            self.heal().await?;
            self.raise_redundancy().await?;
        }
        Ok(())
    }

    /// Compares all copies that may differ.
    pub(crate) async fn compare_all(&self) -> Result<(), ImageError> {
        self.settle().await?;
        loop {
            let parts = self.unequal_parts();
            if parts.is_empty() {
                return Ok(());
            }
            for index in parts {
                self.mend_part(index).await?;
            }
        }
    }

    /// Devices that are out, and of which the cluster says that they answer.
    fn returned(&self) -> Vec<DeviceId> {
        let answering = self.outside.placement.devices();
        self.view().out.iter().map(|(device, _)| *device).filter(|device| answering.contains(device)).collect()
    }

    async fn forget_given_up(&self) -> Result<(), ImageError> {
        let view = self.view();
        let known = |device: &DeviceId| self.outside.placement.host_of(*device).is_some();
        let gone: Vec<DeviceId> = view.devices.iter().chain(view.out.iter().map(|(device, _)| device)).copied().collect();
        for device in gone.into_iter().filter(|device| !known(device)) {
            let _turn = self.standing.lock().await;
            let mut state = self.state.lock();
            state.view.devices.retain(|other| *other != device);
            state.view.out.retain(|(other, _)| *other != device);
            state.following.remove(&device);
            state.map.forget(device);
            if let Some(seat) = self.seats.of(device) {
                self.seats.dismiss(&seat);
            }
        }
        Ok(())
    }

    async fn ask_suspects(&self) -> Result<(), ImageError> {
        for seat in self.seats.all() {
            if !seat.is_suspect() || !self.view().devices.contains(&seat.device) {
                continue;
            }
            let device = seat.device;
            match self.enter_for(device, FOLLOW_PATIENCE, |state, rows| state.reconcile(device, rows)).await {
                Err(Fault::Device(device, reason)) if self.is_spare(device) => self.lose(device, &reason).await?,
                Err(fault) => return Err(fault.into()),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// Devices that may get blobs, and that the image does not use yet, are entered, then named in the record.
    async fn use_new_devices(&self) -> Result<(), ImageError> {
        let view = self.view();
        let is_known = |device: &DeviceId| view.devices.contains(device) || view.out.iter().any(|(out, _)| out == device);
        let mut new = self.outside.placement.devices();
        new.retain(|device| !is_known(device));
        for device in new {
            self.seats.add(device);
            let mut found = 0;
            self.enter_for(device, FOLLOW_PATIENCE, |_, rows| found = rows.len()).await?;
            if found > 0 {
                // The record was lost, and a copy of it came back.
                tracing::error!(image = %self.id, %device, found, "a device has blobs of the image that its record does not know");
                continue;
            }
            let _turn = self.standing.lock().await;
            let registry = &*self.outside.registry;
            let view = self.send(|| registry.use_devices(self.id, self.token, vec![device])).await;
            let view = view.map_err(|error| self.refused(error))?;
            self.adopt_standing(&mut self.state.lock(), view);
        }
        Ok(())
    }

    /// The same when the image is opened. What fails is tried again by [`Image::keep_once`].
    pub(crate) async fn use_new_devices_if_possible(&self) -> Result<(), ImageError> {
        let used = self.use_new_devices().await;
        self.check_open()?;
        if let Err(error) = used {
            tracing::warn!(image = %self.id, %error, "a device is not used yet");
        }
        Ok(())
    }

    async fn free_leftovers(&self) -> Result<(), ImageError> {
        let leftovers = std::mem::take(&mut self.state.lock().leftovers);
        for (device, id) in leftovers {
            let _guard = self.locks.acquire(id.index, 0..types::BLOB_BYTES, super::range_lock::Mode::Exclusive).await;
            self.settle().await?;
            let is_used = self.state.lock().map.blob(id.index, id.layer).is_some_and(|blob| blob.is_on(device));
            if !is_used && self.view().devices.contains(&device) {
                self.free_found(device, id).await?;
            }
        }
        Ok(())
    }
}
