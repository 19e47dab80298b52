//! Block images (docs/rfd/0024): their sizes, snapshots and layers, which node has each open, and on which devices its blobs are. The blobs
//! themselves are known to the devices and to the holder alone.
//!
//! ```text
//!            create            remove             purge
//!   (none) ─────────▶ present ─────────▶ trash ─────────▶ (none)
//!                        ◀─────────────────┘
//!                              restore
//! ```
//!
//! Invariants:
//! - Names of images that are not in the trash differ. An id is for ever.
//! - An image in the trash is closed and has no clones.
//! - The snapshot that a clone begins with stays, and so does its image.
//! - What changes blobs, or which of them count, names the token of the holder; it is refused if the holder is another.
//!
//! An import keeps the images of the copy, closed. It skips layers and epochs, so that none is given out twice. It does not know which devices
//! were added, taken out or put in after the copy. Before an import, [`Snapshot::recover_images`] adds what the devices know: those with blobs of
//! an image, and images that are younger than the copy.

mod devices;
mod error;
mod hold;
mod layers;
mod life;
pub mod limits;
mod name;
mod record;
mod recover;

use std::sync::Arc;

use types::{DeviceId, ImageId, Layer, NodeId, Token};

use self::limits::MAX_IMAGES_BYTES;
use super::commands;
use crate::error::ManagerError;
use crate::manager::Manager;
use crate::snapshot::{Edit, Snapshot};

pub use devices::{SetDeviceIn, SetDeviceOut, UseDevices};
pub use error::ImageError;
pub use hold::{CloseImage, OpenImage, UnlockImage};
pub use layers::{RemoveImageSnapshot, RollbackImage, SnapshotImage};
pub use life::{
    AcceptLosses, BeginPurge, CreateImage, FlattenImage, ParentSnapshot, PurgeImage, RemoveImage, RenameImage, ResizeImage,
    RestoreImage,
};
pub use name::{InvalidImageName, check_image_name};
pub use record::{
    Branch, FIRST_LAYER, IMPORT_SKIPPED_IMAGE_EPOCHS, IMPORT_SKIPPED_IMAGES, IMPORT_SKIPPED_LAYERS, ImageDevice, ImageHolder,
    ImageRecord, Redundancy, SnapshotRecord, survives,
};
pub use recover::{FoundImage, RecoveredImage};

commands! {
    Images,
    /// Commands about block images.
    ImageCommand: CreateImage, RenameImage, OpenImage, CloseImage, UnlockImage, ResizeImage, SnapshotImage, RemoveImageSnapshot,
        RollbackImage, RemoveImage, RestoreImage, PurgeImage, FlattenImage, UseDevices, SetDeviceOut, SetDeviceIn,
        BeginPurge, AcceptLosses,
}

/// An image to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewImage {
    pub name: String,
    pub size_bytes: u64,
    pub copies: u8,
    /// The snapshot that it is a clone of; none if it begins empty.
    pub parent: Option<ParentSnapshot>,
}

impl Snapshot {
    /// An image by its id, also in the trash.
    pub fn image(&self, id: ImageId) -> Option<&Arc<ImageRecord>> {
        self.images.get(&id)
    }

    /// An image by its name. Those in the trash have none.
    pub fn image_named(&self, name: &str) -> Option<&Arc<ImageRecord>> {
        self.images.values().find(|image| image.removed_ms.is_none() && image.name == name)
    }

    /// The lowest id that no image has had. An import counts ids as given out that may have been.
    pub fn next_image(&self) -> ImageId {
        ImageId(self.images.next)
    }

    /// All images by id, those in the trash among them.
    pub fn images(&self) -> impl Iterator<Item = &Arc<ImageRecord>> {
        self.images.values()
    }

    /// The images that begin with a snapshot of this one, by id, those in the trash among them.
    pub fn clones_of(&self, id: ImageId) -> impl Iterator<Item = &Arc<ImageRecord>> {
        self.images.values().filter(move |image| image.parent.is_some_and(|parent| parent.image == id))
    }
}

fn find(state: &Snapshot, id: ImageId) -> Result<&Arc<ImageRecord>, ImageError> {
    state.image(id).ok_or(ImageError::NotFound { id })
}

/// An image that is not in the trash.
fn present(state: &Snapshot, id: ImageId) -> Result<&Arc<ImageRecord>, ImageError> {
    find(state, id).and_then(|image| if image.removed_ms.is_none() { Ok(image) } else { Err(ImageError::Trashed { id }) })
}

/// An image that is in the trash.
fn trashed(state: &Snapshot, id: ImageId) -> Result<&Arc<ImageRecord>, ImageError> {
    find(state, id).and_then(|image| if image.removed_ms.is_some() { Ok(image) } else { Err(ImageError::NotTrashed { id }) })
}

/// A copy of an image whose holder has the token, to be changed.
fn held(state: &Snapshot, id: ImageId, token: Token) -> Result<ImageRecord, ImageError> {
    let image = present(state, id)?;
    if image.holder.is_none() {
        return Err(ImageError::Closed);
    }
    if image.token != token {
        return Err(ImageError::OtherToken { found: image.token });
    }
    Ok(ImageRecord::clone(image))
}

fn set(edit: &mut Edit<'_>, image: ImageRecord) -> Arc<ImageRecord> {
    edit.set(image.id, Arc::new(image))
}

/// Refuses what would let the records of all images grow too much.
fn check_room(state: &Snapshot, added_bytes: usize) -> Result<(), ImageError> {
    let used_bytes: usize = state.images.values().map(|image| image.room_bytes()).sum();
    if added_bytes > 0 && used_bytes + added_bytes > MAX_IMAGES_BYTES { Err(ImageError::Room) } else { Ok(()) }
}

/// What a command about an image answers.
type ImageReply = Result<Arc<ImageRecord>, ManagerError<ImageError>>;

impl Manager {
    /// Makes an image, dated now.
    pub async fn create_image(&self, image: NewImage) -> ImageReply {
        let NewImage { name, size_bytes, copies, parent } = image;
        let created_ms = self.inner.env.wall_clock_ms();
        self.propose(CreateImage { name, size_bytes, copies, created_ms, parent }).await
    }

    /// Gives an image another name.
    pub async fn rename_image(&self, id: ImageId, name: &str) -> ImageReply {
        self.propose(RenameImage { id, name: name.to_owned() }).await
    }

    /// Opens an image on a node, now. `expected` is the token of a holder that is to be over; none if the image is to be closed. The record
    /// has the new token.
    pub async fn open_image(&self, id: ImageId, node: NodeId, expected: Option<Token>) -> ImageReply {
        let since_ms = self.inner.env.wall_clock_ms();
        self.propose(OpenImage { id, node, since_ms, expected, as_keeper: false }).await
    }

    /// Opens an image that is closed, or that the token's holder has left, to look after its copies.
    pub async fn keep_image(&self, id: ImageId, node: NodeId, expected: Option<Token>) -> ImageReply {
        let since_ms = self.inner.env.wall_clock_ms();
        self.propose(OpenImage { id, node, since_ms, expected, as_keeper: true }).await
    }

    /// Gives an image back that this token holds. `is_settled`: the copies of each blob are equal.
    pub async fn close_image(&self, id: ImageId, token: Token, is_settled: bool) -> ImageReply {
        self.propose(CloseImage { id, token, is_settled }).await
    }

    /// Ends the holder with this token without asking it.
    pub async fn unlock_image(&self, id: ImageId, token: Token) -> ImageReply {
        self.propose(UnlockImage { id, token }).await
    }

    /// Changes the size of an image that this token holds. Without a token: lets an image grow that is closed.
    pub async fn resize_image(&self, id: ImageId, token: Option<Token>, size_bytes: u64) -> ImageReply {
        self.propose(ResizeImage { id, token, size_bytes }).await
    }

    /// Makes a snapshot of the newest layer, dated now. The holder takes no writes meanwhile.
    pub async fn snapshot_image(&self, id: ImageId, token: Token, name: &str, ended: Layer) -> ImageReply {
        let created_ms = self.inner.env.wall_clock_ms();
        self.propose(SnapshotImage { id, token, name: name.to_owned(), created_ms, ended: Some(ended) }).await
    }

    /// Forgets a snapshot.
    pub async fn remove_image_snapshot(&self, id: ImageId, name: &str) -> ImageReply {
        self.propose(RemoveImageSnapshot { id, name: name.to_owned() }).await
    }

    /// Makes an image what a snapshot of it is.
    pub async fn rollback_image(&self, id: ImageId, token: Token, snapshot: &str, ended: Layer) -> ImageReply {
        self.propose(RollbackImage { id, token, snapshot: snapshot.to_owned(), ended: Some(ended) }).await
    }

    /// Puts an image into the trash, now.
    pub async fn remove_image(&self, id: ImageId, with_snapshots: bool) -> ImageReply {
        let removed_ms = self.inner.env.wall_clock_ms();
        self.propose(RemoveImage { id, with_snapshots, removed_ms }).await
    }

    /// Takes an image out of the trash.
    pub async fn restore_image(&self, id: ImageId, name: &str) -> ImageReply {
        self.propose(RestoreImage { id, name: name.to_owned() }).await
    }

    /// Says that the blobs of an image in the trash are about to be freed: it does not come back.
    pub async fn begin_image_purge(&self, id: ImageId) -> ImageReply {
        self.propose(BeginPurge { id }).await
    }

    /// Lets an image be opened that has lost blobs.
    pub async fn accept_image_losses(&self, id: ImageId) -> ImageReply {
        self.propose(AcceptLosses { id }).await
    }

    /// Forgets an image that is in the trash.
    pub async fn purge_image(&self, id: ImageId) -> Result<(), ManagerError<ImageError>> {
        self.propose(PurgeImage { id }).await
    }

    /// Says that an image needs its parent no more.
    pub async fn flatten_image(&self, id: ImageId, token: Token) -> ImageReply {
        self.propose(FlattenImage { id, token }).await
    }

    /// Adds devices to an image, before the first blob is placed on them.
    pub async fn use_image_devices(&self, id: ImageId, token: Token, devices: Vec<DeviceId>) -> ImageReply {
        self.propose(UseDevices { id, token, devices }).await
    }

    /// Takes devices of an image out. The record has the new epoch.
    pub async fn set_image_devices_out(
        &self,
        id: ImageId,
        token: Token,
        devices: Vec<DeviceId>,
        redundancy: Redundancy,
        short_host: Option<NodeId>,
    ) -> ImageReply {
        self.propose(SetDeviceOut { id, token, devices, redundancy, short_host }).await
    }

    /// Puts a device of an image back in sync.
    pub async fn set_image_device_in(&self, id: ImageId, token: Token, device: DeviceId, redundancy: Redundancy) -> ImageReply {
        self.propose(SetDeviceIn { id, token, device, redundancy }).await
    }
}
