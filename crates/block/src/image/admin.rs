//! What changes an image's record: snapshots, rollback, size, the end (docs/rfd/0024, "Layers").
//!
//! The caller sees these operations through, in a task of its own. One that is dropped while its command is under way ends the holder.
//!
//! A command that switches the layer, or makes the image smaller, must be known to have been carried out or not before the holder goes on.
//! It is sent again until there is an answer, for a named time. Without one the holder ends, and the next one reads the record.

use super::error::{ImageError, ImageErrorKind};
use super::limits::{MAX_REQUESTS, REGISTRY_PATIENCE, REGISTRY_PAUSE, SECTOR_BYTES};
use super::lineage::{self, Lineage};
use super::{Image, MAX_BYTES};
use crate::registry::{Recorded, RegistryError, View};
use net::BoxFuture;

impl Image {
    /// Ends the newest layer under a name. Writes wait for one command, whatever the image's size; reads go on.
    pub async fn snapshot(&self, name: &str) -> Result<(), ImageError> {
        let _admin = self.admin.lock().await;
        // A layer that has ended is read by others than the holder: any copy must do.
        self.compare_all().await?;
        let gate = self.close_gate().await?;
        let ended = self.view().layer;
        let registry = &*self.outside.registry;
        let view = self.decide(|| registry.snapshot(self.id, self.token, name, ended)).await?;
        self.adopt(view)?;
        drop(gate);
        Ok(())
    }

    /// Takes a snapshot's name away, then frees what no view needs. Reads and writes go on.
    ///
    /// If the caller goes away meanwhile, or a device fails, the name is gone, and [`Image::tidy`] does the rest.
    pub async fn remove_snapshot(&self, name: &str) -> Result<(), ImageError> {
        let admin = self.admin.lock().await;
        self.check_open()?;
        let registry = &*self.outside.registry;
        let had = self.view().snapshots.iter().any(|snapshot| snapshot.name == name);
        match self.send(|| registry.remove_snapshot(self.id, self.token, name)).await {
            Ok(view) => self.adopt(view)?,
            // An earlier attempt took effect, and its answer was lost.
            Err(RegistryError::NoSuchSnapshot) if had => {
                let mut view = self.view();
                view.snapshots.retain(|snapshot| snapshot.name != name);
                self.adopt(view)?;
            }
            Err(error) => return Err(self.refused(error)),
        }
        drop(admin);
        self.tidy().await
    }

    /// Makes the image what it was at a snapshot, its size too. What was written since is lost, unless a later snapshot has it.
    pub async fn rollback(&self, name: &str) -> Result<(), ImageError> {
        let admin = self.admin.lock().await;
        let gate = self.close_gate().await?;
        let ended = self.view().layer;
        let registry = &*self.outside.registry;
        let view = self.decide(|| registry.rollback(self.id, self.token, name, ended)).await?;
        self.adopt(view)?;
        drop(gate);
        drop(admin);
        self.tidy().await
    }

    /// Changes the size. What lies beyond a smaller size is lost: `allow_shrink` says that this is meant.
    pub async fn resize(&self, size_bytes: u64, allow_shrink: bool) -> Result<(), ImageError> {
        if !size_bytes.is_multiple_of(SECTOR_BYTES) || size_bytes > MAX_BYTES {
            return Err(ImageError::invalid(format!("a size is a multiple of {SECTOR_BYTES}, at most {MAX_BYTES}")));
        }
        let _admin = self.admin.lock().await;
        self.check_open()?;
        let before = self.view().size_bytes;
        let registry = &*self.outside.registry;
        if size_bytes < before {
            if !allow_shrink {
                return Err(ImageError::invalid(format!(
                    "the image has {before} bytes; allow it to shrink, or give a greater size"
                )));
            }
            let shrinking = Shrinking::begin(self, size_bytes).await?;
            self.clear_beyond(size_bytes, before).await?;
            let view = self.decide(|| registry.set_size(self.id, self.token, size_bytes)).await?;
            self.adopt(view)?;
            std::mem::forget(shrinking);
            return Ok(());
        }
        // A request that ends with the image goes on to the end of its part, where nothing is. So the end moves while no write is under way.
        let gate = self.close_gate().await?;
        let view = self.decide(|| registry.set_size(self.id, self.token, size_bytes)).await?;
        self.adopt(view)?;
        drop(gate);
        Ok(())
    }

    /// Refuses further requests and waits for those under way. The owner gives the token back afterwards.
    pub fn close(&self) -> BoxFuture<'_, Result<(), ImageError>> {
        Box::pin(async move {
            self.check_open()?;
            self.end(ImageErrorKind::Closed);
            let _admin = self.admin.lock().await;
            // Requests before the gate: one that waits for space passes the gate again to learn that the image was closed.
            let _all = self.door.acquire_many(MAX_REQUESTS).await.expect("the door is never taken away");
            let _gate = self.gate.write().await;
            Ok(())
        })
    }

    /// Waits for the writes under way, and keeps others out.
    pub(super) async fn close_gate(&self) -> Result<tokio::sync::RwLockWriteGuard<'_, ()>, ImageError> {
        let gate = self.gate.write().await;
        // A write whose caller went away must not take effect in a layer that has ended.
        self.settle().await?;
        self.compare_all().await?;
        Ok(gate)
    }

    /// Carries a command out of which the holder must know the outcome.
    pub(super) async fn decide<'a>(&'a self, command: impl Fn() -> Recorded<'a>) -> Result<View, ImageError> {
        let undecided = Undecided(self);
        let answer = self.send(command).await;
        if !matches!(answer, Err(RegistryError::Unclear(_))) {
            std::mem::forget(undecided);
        }
        answer.map_err(|error| self.refused(error))
    }

    /// Sends a command until it is answered.
    pub(super) async fn send<'a>(&'a self, command: impl Fn() -> Recorded<'a>) -> Result<View, RegistryError> {
        let env = &self.outside.env;
        let mut deadline = None;
        loop {
            match command().await {
                Err(RegistryError::Unclear(reason)) => {
                    let deadline = *deadline.get_or_insert_with(|| env.now() + REGISTRY_PATIENCE);
                    if env.now() >= deadline {
                        return Err(RegistryError::Unclear(reason));
                    }
                    env.sleep(REGISTRY_PAUSE).await;
                }
                answer => return answer,
            }
        }
    }

    pub(super) fn refused(&self, error: RegistryError) -> ImageError {
        match error {
            RegistryError::Superseded => {
                self.end(ImageErrorKind::Superseded);
                ImageError::new(ImageErrorKind::Superseded, error.to_string())
            }
            RegistryError::NoSuchSnapshot | RegistryError::SnapshotExists | RegistryError::Refused(_) => {
                ImageError::invalid(error.to_string())
            }
            RegistryError::Unclear(reason) => ImageError::io(format!("whether the record has changed is unknown: {reason}")),
        }
    }

    /// Takes a record over that a command made.
    pub(super) fn adopt(&self, view: View) -> Result<(), ImageError> {
        lineage::check(&view).map_err(ImageError::io)?;
        let mut state = self.state.lock();
        state.lineage = Lineage::of(view.layer, &view.branches);
        state.size_bytes = view.size_bytes;
        // Which devices count is taken over by what changes it, in its order.
        let View { devices, out, redundancy, epoch, .. } = state.view.clone();
        state.view = View { devices, out, redundancy, epoch, ..view };
        Ok(())
    }
}

/// A command without a known outcome. Dropped, it ends the holder: its layer, or its size, may not be the record's.
struct Undecided<'a>(&'a Image);

impl Drop for Undecided<'_> {
    fn drop(&mut self) {
        tracing::error!(image = %self.0.id, "the image's record may have changed; the image must be opened again");
        self.0.end(ImageErrorKind::Closed);
    }
}

/// Nothing beyond the smaller size is served. Dropped, the record's size counts again.
struct Shrinking<'a>(&'a Image);

impl<'a> Shrinking<'a> {
    async fn begin(image: &'a Image, size_bytes: u64) -> Result<Shrinking<'a>, ImageError> {
        let gate = image.close_gate().await?;
        image.state.lock().size_bytes = size_bytes;
        drop(gate);
        Ok(Shrinking(image))
    }
}

impl Drop for Shrinking<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.size_bytes = state.view.size_bytes;
    }
}
