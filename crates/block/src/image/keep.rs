//! What an open image does by itself: its devices and copies as they should be.
//!
//! | it finds | it does |
//! |---|---|
//! | a device that was given up | forgets its copies |
//! | a device that did not answer a read | asks it; takes it out if it is silent |
//! | a device that the image does not use yet | uses it |
//! | a part whose copies may differ | compares them; frees what was not finished |
//! | a device that is out and answers | brings it up to date, puts it in |
//! | blobs with fewer copies than wanted, or with copies on a device that is drained | copies them |
//! | a drained device without blobs | takes it out |

use types::DeviceId;

use super::Image;
use super::error::{Fault, ImageError};
use super::limits::{FOLLOW_PATIENCE, KEEP_PAUSE};
use super::map::lesser;

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

    /// One look at everything. What fails is tried again at the next, and keeps nothing else from being done. Returns the first failure.
    pub async fn keep_once(&self) -> Result<(), ImageError> {
        let mut outcome = self.check_open();
        let mut note = |done: Result<(), ImageError>| {
            if outcome.is_ok() {
                outcome = done;
            }
        };
        note(self.forget_given_up().await);
        note(self.ask_suspects().await);
        note(self.use_new_devices().await);
        note(self.compare_each().await);
        for device in self.returned() {
            note(self.follow(device).await);
        }
        if self.copies > 1 {
            note(self.heal().await);
            note(self.raise_redundancy().await);
            note(self.leave_devices().await);
        }
        outcome
    }

    /// Compares all copies that may differ, as far as that is possible.
    async fn compare_each(&self) -> Result<(), ImageError> {
        let mut outcome = self.settle().await;
        for index in self.unequal_parts() {
            outcome = outcome.and(self.mend_part(index).await);
        }
        outcome
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
        let used = view.devices.iter().chain(view.out.iter().map(|(device, _)| device)).copied();
        let gone: Vec<DeviceId> = used.filter(|device| self.outside.placement.host_of(*device).is_none()).collect();
        let is_less = {
            let state = self.state.lock();
            lesser(self.found_without(&state, None), state.view.redundancy) != state.view.redundancy
        };
        if gone.is_empty() && !is_less {
            return Ok(());
        }
        gone.into_iter().for_each(|device| self.forget(device));
        self.lower_redundancy().await
    }

    async fn ask_suspects(&self) -> Result<(), ImageError> {
        let mut outcome = Ok(());
        for seat in self.seats.all() {
            if !seat.is_suspect() || !self.view().devices.contains(&seat.device) {
                continue;
            }
            let device = seat.device;
            let asked = match self.enter_for(device, FOLLOW_PATIENCE, |state, rows| state.reconcile(device, rows)).await {
                Err(Fault::Device(device, reason)) if self.is_spare(device) => self.lose(device, &reason).await,
                asked => asked.map_err(ImageError::from),
            };
            outcome = outcome.and(asked);
        }
        outcome
    }

    /// Devices that may get blobs, and that the image does not use yet, are entered, then named in the record.
    async fn use_new_devices(&self) -> Result<(), ImageError> {
        let view = self.view();
        let is_known = |device: &DeviceId| view.devices.contains(device) || view.out.iter().any(|(out, _)| out == device);
        let mut new = self.outside.placement.devices();
        new.retain(|device| !is_known(device));
        let mut outcome = Ok(());
        for device in new {
            outcome = outcome.and(self.use_device(device).await);
        }
        outcome
    }

    async fn use_device(&self, device: DeviceId) -> Result<(), ImageError> {
        self.seats.add(device);
        let mut found = 0;
        self.enter_for(device, FOLLOW_PATIENCE, |_, rows| found = rows.len()).await?;
        if found > 0 {
            // The record was lost, and a copy of it came back.
            tracing::error!(image = %self.id, %device, found, "a device has blobs of the image that its record does not know");
            return Ok(());
        }
        let _turn = self.resolved_standing().await?;
        let registry = &*self.outside.registry;
        let view = self.send(|| registry.use_devices(self.id, self.token, vec![device])).await;
        let view = view.map_err(|error| self.refused(error))?;
        self.adopt_standing(&mut self.state.lock(), view);
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
}
