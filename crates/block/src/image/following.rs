//! A device that was out comes back (docs/rfd/0024, rule 9).
//!
//! It lacks at most the blobs whose epoch on others is that in which it went out, or later. Of the others its copies are as good as theirs, and
//! take all changes from the first moment. Those that it may lack are compared, one after the other, and then take changes too. A blob that it
//! has and the image has not is freed. When nothing is left, it joins.
//!
//! Any failure of the device ends this, and nothing is lost by it: in the record the device is out, with the same epoch.

use format::blob_header::BlobState;
use types::{BLOB_BYTES, BlobId, DeviceId, ImageEpoch};

use super::error::{Fault, ImageError};
use super::limits::FOLLOW_PATIENCE;
use super::map::Place;
use super::range_lock::Mode;
use super::{Image, State};
use crate::stores::BlobRow;

impl Image {
    /// Brings a device up to date that is out, and puts it in.
    pub(crate) async fn follow(&self, device: DeviceId) -> Result<(), ImageError> {
        let since = self.view().out.iter().find(|(out, _)| *out == device).map(|(_, since)| *since);
        let Some(since) = since else { return Ok(()) };
        self.seats.add(device);
        let mut left = Vec::new();
        self.enter_for(device, FOLLOW_PATIENCE, |state, rows| left = state.begin_following(device, since, rows)).await?;
        for id in left {
            if let Err(fault) = self.catch_up(id, device).await {
                self.stop_following(device);
                return Err(fault.into());
            }
        }
        self.join(device).await
    }

    /// One blob that the device may lack, or has too much.
    async fn catch_up(&self, id: BlobId, device: DeviceId) -> Result<(), Fault> {
        if self.needs_mending(id.index) {
            self.mend_part(id.index).await?;
        }
        let _guard = self.locks.acquire(id.index, 0..BLOB_BYTES, Mode::Exclusive).await;
        self.settle().await?;
        let is_wanted = {
            let state = self.state.lock();
            if !state.following.contains(&device) {
                return Err(Fault::Device(device, "it failed while it was brought up to date".to_owned()));
            }
            state.lacks_copy(id) && state.map.blob(id.index, id.layer).is_some_and(|blob| !blob.freeing)
        };
        if !is_wanted {
            env::mark("images: a blob of a returned device freed");
            return self.free_on(device, id).await;
        }
        let place = self.sync_copy(id, device).await?;
        let mut state = self.state.lock();
        let is_following = state.following.contains(&device);
        if let Some(blob) = state.map.blob_mut(id.index, id.layer).filter(|_| is_following) {
            env::mark("images: a blob brought up to date");
            blob.following.push(place);
        }
        Ok(())
    }

    /// Frees a blob of a device if it is there.
    pub(crate) async fn free_on(&self, device: DeviceId, id: BlobId) -> Result<(), Fault> {
        match self.sums(device, id).await {
            Err(Fault::Absent(_)) => Ok(()),
            Ok(found) => self.free_copy(id, Place { device, block: found.row.at.block }).await,
            Err(fault) => Err(fault),
        }
    }
}

impl State {
    /// What the device has and needs no comparison takes changes from now on. Returns the rest.
    fn begin_following(&mut self, device: DeviceId, since: ImageEpoch, rows: &[BlobRow]) -> Vec<BlobId> {
        if self.view.devices.contains(&device) {
            return Vec::new();
        }
        self.map.unfollow(device);
        self.following.insert(device);
        let mut left = Vec::new();
        for row in rows {
            let id = row.at.id;
            let lacks_copy = self.lacks_copy(id);
            match self.map.blob_mut(id.index, id.layer) {
                Some(blob)
                    if lacks_copy
                        && row.state == BlobState::Whole
                        && blob.epoch < since
                        && (blob.owned, blob.data) == (row.owned, row.data)
                        && !blob.freeing =>
                {
                    env::mark("images: a blob that a returned device did not lack");
                    blob.following.push(Place { device, block: row.at.block });
                }
                _ => left.push(id),
            }
        }
        left
    }

    /// Whether a blob has fewer copies than it shall have.
    pub(crate) fn lacks_copy(&self, id: BlobId) -> bool {
        let wanted = usize::from(self.view.copies);
        self.map.blob(id.index, id.layer).is_some_and(|blob| blob.copies.len() < wanted)
    }
}
