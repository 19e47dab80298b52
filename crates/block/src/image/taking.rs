//! Taking an image over: its devices tell their blobs.
//!
//! A device in sync that is silent may be the only one with a blob, as far as a holder can tell. The record says how many copies each blob has
//! at least: an image is opened if every blob has one that is not silent. Silent devices are then out.

use format::blob_header::BlobState;
use futures_util::future::join_all;
use types::{DeviceId, Layer};

use super::error::{Fault, ImageError, ImageErrorKind, OpenError};
use super::limits::OPEN_PATIENCE;
use super::map::lesser;
use super::{Image, State};
use crate::stores::BlobRow;

impl Image {
    pub(super) async fn take_over(&self) -> Result<(), OpenError> {
        let view = self.view();
        let enter = |device: DeviceId| async move {
            let entered = self.enter_for(device, OPEN_PATIENCE, |state, rows| state.take(device, rows)).await;
            (device, entered)
        };
        let mut silent: Vec<(DeviceId, String)> = Vec::new();
        for (device, entered) in join_all(view.devices.iter().copied().map(enter)).await {
            match entered {
                Ok(()) => {}
                Err(Fault::Device(_, reason)) => silent.push((device, reason)),
                Err(Fault::Error(error)) if error.kind == ImageErrorKind::Superseded => return Err(OpenError::Superseded),
                Err(fault) => silent.push((device, ImageError::from(fault).to_string())),
            }
        }
        self.check_silent(&silent)?;
        {
            let mut state = self.state.lock();
            if let Some(layer) = state.map.newest_layer().filter(|layer| *layer > view.layer) {
                let newest = view.layer;
                let why = format!("image {} has blobs of layer {layer}, its record ends at {newest}", self.id);
                return Err(OpenError::Damaged(why));
            }
            if !view.is_settled && view.copies > 1 {
                env::mark("images: taken over with copies that may differ");
                state.map.doubt_layer(view.layer);
                // After an import the record's layer is one that no holder had: writes may have been under way in the newest that has blobs.
                let unended = |layer: &Layer| view.snapshots.iter().all(|snapshot| snapshot.layer < *layer);
                if let Some(newest) = state.map.newest_layer().filter(unended) {
                    state.map.doubt_layer(newest);
                }
            }
        }
        self.note_unequal();
        self.record_what_counts(silent).await.map_err(|error| match error.kind {
            ImageErrorKind::Superseded => OpenError::Superseded,
            _ => OpenError::Unrecorded(error.to_string()),
        })
    }

    /// Whether every blob has a copy that is not silent.
    fn check_silent(&self, silent: &[(DeviceId, String)]) -> Result<(), OpenError> {
        let Some((device, reason)) = silent.first() else { return Ok(()) };
        let placement = &self.outside.placement;
        if self.view().survives(silent.iter().map(|(device, _)| (*device, placement.host_of(*device)))) {
            env::mark("images: taken over without a silent device");
            return Ok(());
        }
        Err(OpenError::Unreachable { device: *device, reason: reason.clone() })
    }

    /// Before anything is served: the record says which devices count, and no more copies than there are.
    async fn record_what_counts(&self, silent: Vec<(DeviceId, String)>) -> Result<(), ImageError> {
        let view = self.view();
        let silent: Vec<DeviceId> = silent.into_iter().map(|(device, _)| device).collect();
        let found = self.found_without(&self.state.lock(), None);
        let is_less = lesser(found, view.redundancy) != view.redundancy;
        // What was given up may be told again: from here on blobs may begin where the record does not count on any.
        if !silent.is_empty() || is_less || !view.short_hosts.is_empty() {
            let registry = &*self.outside.registry;
            let short_host = self.short_host(&self.state.lock(), &silent, found);
            let view = self.decide(|| registry.take_out(self.id, self.token, silent.clone(), found, short_host)).await?;
            self.adopt_standing(&mut self.state.lock(), view);
        }
        self.use_new_devices_if_possible().await
    }
}

impl State {
    /// What a device in sync tells when the image is opened.
    fn take(&mut self, device: DeviceId, rows: &[BlobRow]) {
        self.map.load(device, rows);
        let unfinished = rows.iter().filter(|row| row.state != BlobState::Whole);
        self.stray_copies.extend(unfinished.map(|row| (row.at.id, device)));
    }
}
