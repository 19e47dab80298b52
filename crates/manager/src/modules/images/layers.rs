//! Snapshots and rollbacks: the layers of an image.
//!
//! ```text
//!   layer 0 ── layer 1 ── layer 2         rollback to a: layer 3 begins above layer 0,
//!     │ a        │ b                      and no view needs layer 2 any more
//!     └─────────────────── layer 3
//! ```

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use types::{ImageId, Layer, LayerOf, Token};

use super::limits::{BRANCH_ROOM_BYTES, LAYER_LIMIT, MAX_IMAGE_BRANCHES, MAX_SNAPSHOTS, SNAPSHOT_ROOM_BYTES};
use super::name::check_image_name;
use super::{Branch, ImageError, ImageRecord, SnapshotRecord, check_room, held, present, set};
use crate::operation::Operation;
use crate::snapshot::{CommandIndex, Edit};

/// The newest layer becomes a snapshot, and another one takes the writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotImage {
    pub id: ImageId,
    pub token: Token,
    pub name: String,
    pub created_ms: u64,
    /// The layer that it ends; none: whichever is the newest. A command that is carried out late, after another one ended that layer, is refused.
    pub ended: Option<Layer>,
}

impl Operation for SnapshotImage {
    type Reply = Arc<ImageRecord>;
    type Refusal = ImageError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<ImageRecord>, ImageError> {
        let mut image = held(edit.state, self.id, self.token)?;
        check_image_name(&self.name)?;
        if image.snapshot(&self.name).is_some() {
            return Err(ImageError::SnapshotExists { name: self.name.clone() });
        }
        if image.snapshots.len() >= MAX_SNAPSHOTS {
            return Err(ImageError::TooManySnapshots);
        }
        check_room(edit.state, SNAPSHOT_ROOM_BYTES)?;
        let ended = begin_layer(&mut image, self.ended)?;
        let (name, size_bytes, created_ms) = (self.name.clone(), image.size_bytes, self.created_ms);
        image.snapshots.push(SnapshotRecord { name, layer: ended, size_bytes, created_ms });
        Ok(set(edit, image))
    }
}

/// Forgets a snapshot that no clone begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveImageSnapshot {
    pub id: ImageId,
    pub name: String,
}

impl Operation for RemoveImageSnapshot {
    type Reply = Arc<ImageRecord>;
    type Refusal = ImageError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<ImageRecord>, ImageError> {
        let mut image = ImageRecord::clone(present(edit.state, self.id)?);
        let layer = find(&image, &self.name)?.layer;
        let snapshot = LayerOf { image: self.id, layer };
        if let Some(clone) = edit.state.clones_of(self.id).find(|clone| clone.parent == Some(snapshot)) {
            return Err(ImageError::Cloned { clone: clone.id, name: clone.name.clone() });
        }
        image.snapshots.retain(|other| other.layer != layer);
        image.forget_branches();
        Ok(set(edit, image))
    }
}

/// The image becomes what a snapshot is, in a new layer above it. What was written since goes, unless another snapshot has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollbackImage {
    pub id: ImageId,
    pub token: Token,
    pub snapshot: String,
    /// As in [`SnapshotImage`].
    pub ended: Option<Layer>,
}

impl Operation for RollbackImage {
    type Reply = Arc<ImageRecord>;
    type Refusal = ImageError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<ImageRecord>, ImageError> {
        let mut image = held(edit.state, self.id, self.token)?;
        let SnapshotRecord { layer: base, size_bytes, .. } = *find(&image, &self.snapshot)?;
        check_room(edit.state, BRANCH_ROOM_BYTES)?;
        begin_layer(&mut image, self.ended)?;
        image.branches.push(Branch { layer: image.layer, base });
        image.forget_branches();
        if image.branches.len() > MAX_IMAGE_BRANCHES {
            return Err(ImageError::TooManyBranches);
        }
        image.size_bytes = size_bytes;
        Ok(set(edit, image))
    }
}

/// Begins the next layer; answers with the one before it.
fn begin_layer(image: &mut ImageRecord, wanted: Option<Layer>) -> Result<Layer, ImageError> {
    let ended = image.layer;
    if wanted.is_some_and(|wanted| wanted != ended) {
        return Err(ImageError::LayerEnded { newest: ended });
    }
    if ended.0 + 1 >= LAYER_LIMIT {
        return Err(ImageError::TooManyLayers);
    }
    image.layer = Layer(ended.0 + 1);
    Ok(ended)
}

fn find<'a>(image: &'a ImageRecord, name: &str) -> Result<&'a SnapshotRecord, ImageError> {
    image.snapshot(name).ok_or_else(|| ImageError::NoSuchSnapshot { name: name.to_owned() })
}
