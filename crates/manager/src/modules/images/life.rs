//! From the creation of an image to its purge.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use types::{ImageEpoch, ImageId, LayerOf, Token};

use super::limits::{IMAGE_ROOM_BYTES, MAX_CLONE_DEPTH, MAX_IMAGE_COPIES, MAX_IMAGES};
use super::name::check_image_name;
use super::record::{Redundancy, clone_depth, is_image_size};
use super::{FIRST_LAYER, ImageError, ImageRecord, check_room, held, present, set, trashed};
use crate::operation::Operation;
use crate::snapshot::{CommandIndex, Edit, Snapshot};

/// A snapshot of an image: what a clone begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentSnapshot {
    pub image: ImageId,
    pub snapshot: String,
}

/// Makes an image, or a clone of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateImage {
    pub name: String,
    pub size_bytes: u64,
    pub copies: u8,
    pub created_ms: u64,
    pub parent: Option<ParentSnapshot>,
}

impl Operation for CreateImage {
    type Reply = Arc<ImageRecord>;
    type Refusal = ImageError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<ImageRecord>, ImageError> {
        check_free_name(edit.state, &self.name)?;
        check_size(self.size_bytes)?;
        if !(1..=MAX_IMAGE_COPIES).contains(&self.copies) {
            return Err(ImageError::Copies { found: self.copies });
        }
        let parent = self.parent.as_ref().map(|parent| parent.layer(edit.state, self.size_bytes)).transpose()?;
        if edit.state.images.len() >= MAX_IMAGES {
            return Err(ImageError::TooMany);
        }
        check_room(edit.state, IMAGE_ROOM_BYTES)?;
        let image = ImageRecord {
            id: ImageId(edit.take_number::<ImageRecord>()),
            name: self.name.clone(),
            size_bytes: self.size_bytes,
            created_ms: self.created_ms,
            layer: FIRST_LAYER,
            branches: Vec::new(),
            snapshots: Vec::new(),
            parent,
            token: Token(0),
            holder: None,
            copies: self.copies,
            devices: Vec::new(),
            epoch: ImageEpoch(0),
            redundancy: Redundancy { hosts: self.copies, devices: self.copies },
            short_hosts: Vec::new(),
            is_settled: true,
            removed_ms: None,
            has_losses: false,
            is_purging: false,
        };
        Ok(set(edit, image))
    }
}

impl ParentSnapshot {
    /// The layer that a clone of this size names.
    fn layer(&self, state: &Snapshot, size_bytes: u64) -> Result<LayerOf, ImageError> {
        let image = present(state, self.image)?;
        let no_such_snapshot = || ImageError::NoSuchSnapshot { name: self.snapshot.clone() };
        let snapshot = image.snapshot(&self.snapshot).ok_or_else(no_such_snapshot)?;
        if size_bytes < snapshot.size_bytes {
            return Err(ImageError::CloneSize { least: snapshot.size_bytes });
        }
        if clone_depth(state, image) >= MAX_CLONE_DEPTH {
            return Err(ImageError::CloneDepth);
        }
        Ok(LayerOf { image: image.id, layer: snapshot.layer })
    }
}

/// Gives an image another name. It is to be closed: its holder serves it under the name that it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenameImage {
    pub id: ImageId,
    pub name: String,
}

impl Operation for RenameImage {
    type Reply = Arc<ImageRecord>;
    type Refusal = ImageError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<ImageRecord>, ImageError> {
        let image = present(edit.state, self.id)?;
        if image.name == self.name {
            return Ok(Arc::clone(image));
        }
        let mut image = closed(edit.state, self.id)?;
        check_free_name(edit.state, &self.name)?;
        image.name = self.name.clone();
        Ok(set(edit, image))
    }
}

/// Changes the size of an image: of one that is open with its holder's token, of one that is closed without. Only a holder makes it
/// smaller: it knows the blobs beyond the new end, whose content would show again after the next growth.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResizeImage {
    pub id: ImageId,
    pub token: Option<Token>,
    pub size_bytes: u64,
}

impl Operation for ResizeImage {
    type Reply = Arc<ImageRecord>;
    type Refusal = ImageError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<ImageRecord>, ImageError> {
        check_size(self.size_bytes)?;
        let mut image = match self.token {
            Some(token) => held(edit.state, self.id, token)?,
            None => closed(edit.state, self.id)?,
        };
        if self.token.is_none() && self.size_bytes < image.size_bytes {
            return Err(ImageError::ShrinksClosed);
        }
        image.size_bytes = self.size_bytes;
        Ok(set(edit, image))
    }
}

/// The image needs its parent no more: its own layers have all that it reads there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlattenImage {
    pub id: ImageId,
    pub token: Token,
}

impl Operation for FlattenImage {
    type Reply = Arc<ImageRecord>;
    type Refusal = ImageError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<ImageRecord>, ImageError> {
        let mut image = held(edit.state, self.id, self.token)?;
        image.parent.take().ok_or(ImageError::NotClone)?;
        Ok(set(edit, image))
    }
}

/// Puts an image into the trash, with its snapshots if it has some and that is asked for. Its name is free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveImage {
    pub id: ImageId,
    pub with_snapshots: bool,
    pub removed_ms: u64,
}

impl Operation for RemoveImage {
    type Reply = Arc<ImageRecord>;
    type Refusal = ImageError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<ImageRecord>, ImageError> {
        let mut image = closed(edit.state, self.id)?;
        if let Some(clone) = edit.state.clones_of(self.id).next() {
            return Err(ImageError::Cloned { clone: clone.id, name: clone.name.clone() });
        }
        if !image.snapshots.is_empty() && !self.with_snapshots {
            return Err(ImageError::Snapshots { count: image.snapshots.len() });
        }
        image.holder = None;
        image.removed_ms = Some(self.removed_ms);
        Ok(set(edit, image))
    }
}

/// Takes an image out of the trash, as it was, under a name that is free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreImage {
    pub id: ImageId,
    pub name: String,
}

impl Operation for RestoreImage {
    type Reply = Arc<ImageRecord>;
    type Refusal = ImageError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<ImageRecord>, ImageError> {
        let mut image = ImageRecord::clone(trashed(edit.state, self.id)?);
        if image.is_purging {
            return Err(ImageError::Purging { id: self.id });
        }
        check_free_name(edit.state, &self.name)?;
        image.name = self.name.clone();
        image.removed_ms = None;
        Ok(set(edit, image))
    }
}

/// The blobs of an image in the trash are about to be freed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeginPurge {
    pub id: ImageId,
}

impl Operation for BeginPurge {
    type Reply = Arc<ImageRecord>;
    type Refusal = ImageError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<ImageRecord>, ImageError> {
        let image = ImageRecord { is_purging: true, ..ImageRecord::clone(trashed(edit.state, self.id)?) };
        Ok(set(edit, image))
    }
}

/// It is known that blobs of an image may be lost, and it is to be opened all the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptLosses {
    pub id: ImageId,
}

impl Operation for AcceptLosses {
    type Reply = Arc<ImageRecord>;
    type Refusal = ImageError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<ImageRecord>, ImageError> {
        let image = ImageRecord { has_losses: false, ..ImageRecord::clone(present(edit.state, self.id)?) };
        Ok(set(edit, image))
    }
}

/// Forgets an image that is in the trash. Its blobs belong to no image from then on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgeImage {
    pub id: ImageId,
}

impl Operation for PurgeImage {
    type Reply = ();
    type Refusal = ImageError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<(), ImageError> {
        // What is in the trash has no clones: it was not removed while it had some, and gets none there.
        trashed(edit.state, self.id)?;
        edit.remove::<ImageRecord>(&self.id);
        Ok(())
    }
}

/// A copy of an image that no node has open but a keeper, to be changed.
fn closed(state: &Snapshot, id: ImageId) -> Result<ImageRecord, ImageError> {
    let image = present(state, id)?;
    match image.holder.filter(|holder| !holder.is_keeper) {
        None => Ok(ImageRecord::clone(image)),
        Some(holder) => Err(ImageError::Held { node: holder.node, token: image.token, since_ms: holder.since_ms }),
    }
}

fn check_free_name(state: &Snapshot, name: &str) -> Result<(), ImageError> {
    check_image_name(name)?;
    match state.image_named(name) {
        Some(image) => Err(ImageError::AlreadyExists { id: image.id, name: name.to_owned() }),
        None => Ok(()),
    }
}

fn check_size(found: u64) -> Result<(), ImageError> {
    if is_image_size(found) { Ok(()) } else { Err(ImageError::Size { found }) }
}
