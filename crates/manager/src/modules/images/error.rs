//! Why a change of the images was refused.

use types::{DeviceId, ErrorKind, ImageId, Layer, NodeId, Token};

use super::limits::{
    IMAGE_SECTOR_BYTES, LAYER_LIMIT, MAX_CLONE_DEPTH, MAX_IMAGE_BRANCHES, MAX_IMAGE_BYTES, MAX_IMAGE_COPIES, MAX_IMAGES,
    MAX_IMAGES_BYTES, MAX_SNAPSHOTS, MIN_IMAGE_BYTES,
};
use super::name::InvalidImageName;
use super::record::Redundancy;
use crate::operation::Refusal;

/// Why a change of the images was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    #[error(transparent)]
    Name(#[from] InvalidImageName),
    #[error(
        "an image has {MIN_IMAGE_BYTES} to {MAX_IMAGE_BYTES} bytes, a multiple of {IMAGE_SECTOR_BYTES}, not {found}; choose another size"
    )]
    Size { found: u64 },
    #[error("an image has 1 to {MAX_IMAGE_COPIES} copies, not {found}")]
    Copies { found: u8 },
    #[error("an image with {copies} copies can't have a redundancy of {} hosts and {} devices", found.hosts, found.devices)]
    Redundancy { found: Redundancy, copies: u8 },
    #[error("a clone is at least as large as the snapshot, {least} bytes; choose a larger size")]
    CloneSize { least: u64 },
    #[error("there is no image {id}; look at the list of images")]
    NotFound { id: ImageId },
    #[error("the image has no snapshot {name:?}; look at the list of its snapshots")]
    NoSuchSnapshot { name: String },
    #[error("there is no node {node}; look at the list of nodes")]
    NoSuchNode { node: NodeId },
    #[error("there is no device {device}; look at the list of devices")]
    NoSuchDevice { device: DeviceId },
    #[error("the image does not use device {device}; use it first")]
    NotUsed { device: DeviceId },
    #[error("image {id} has the name {name:?}; choose another name, or rename that image first")]
    AlreadyExists { id: ImageId, name: String },
    #[error("the image has a snapshot {name:?} already; choose another name, or remove that snapshot first")]
    SnapshotExists { name: String },
    #[error("image {id} is in the trash; restore it first")]
    Trashed { id: ImageId },
    #[error("image {id} is being purged; its blobs are being freed")]
    Purging { id: ImageId },
    #[error(
        "a device with parts of the image was given up, and these are lost; bring back what you need from elsewhere, or have the lost parts read as zeros: trilith image accept-losses"
    )]
    Losses,
    #[error("image {id} is not in the trash; remove it first")]
    NotTrashed { id: ImageId },
    #[error("node {node} has the image open with token {token}; close it there, or unlock it if that node is gone")]
    Held { node: NodeId, token: Token, since_ms: u64 },
    #[error("the image is not open; open it first")]
    Closed,
    #[error("the image was opened or unlocked since, with token {found}; look at it again and open it anew")]
    OtherToken { found: Token },
    #[error("only the holder of an image can make it smaller; open the image first")]
    ShrinksClosed,
    #[error("the image has {count} snapshots; remove them first, or remove the image together with them")]
    Snapshots { count: usize },
    #[error("image {clone} ({name:?}) is a clone of it; flatten or purge that image first")]
    Cloned { clone: ImageId, name: String },
    #[error("another command has ended that layer; the newest is {newest}: look at the image again")]
    LayerEnded { newest: Layer },
    #[error("the image is no clone: there is nothing to flatten")]
    NotClone,
    #[error("the parent is number {MAX_CLONE_DEPTH} of a row of clones, which is the longest; flatten the parent first")]
    CloneDepth,
    #[error("device {device} takes no writes; choose one that is active")]
    NotWritable { device: DeviceId },
    #[error("the image would have no device in sync; wait until one of them is there again")]
    LastInSync,
    #[error("the cluster has {MAX_IMAGES} images, those in the trash counted; purge some first")]
    TooMany,
    #[error("the records of all images have {MAX_IMAGES_BYTES} bytes together; remove snapshots or purge images first")]
    Room,
    #[error("the image has {MAX_SNAPSHOTS} snapshots and takes no more; remove some first")]
    TooManySnapshots,
    #[error("the layers of the image branch {MAX_IMAGE_BRANCHES} times; remove snapshots, or copy the image to a new one")]
    TooManyBranches,
    #[error("the image has had {LAYER_LIMIT} layers and can't have another; copy it to a new image")]
    TooManyLayers,
}

impl Refusal for ImageError {
    fn kind(&self) -> ErrorKind {
        match self {
            ImageError::Name(_)
            | ImageError::Size { .. }
            | ImageError::Copies { .. }
            | ImageError::Redundancy { .. }
            | ImageError::CloneSize { .. } => ErrorKind::Invalid,
            ImageError::NotFound { .. }
            | ImageError::NoSuchSnapshot { .. }
            | ImageError::NoSuchNode { .. }
            | ImageError::NoSuchDevice { .. }
            | ImageError::NotUsed { .. } => ErrorKind::NotFound,
            ImageError::AlreadyExists { .. }
            | ImageError::SnapshotExists { .. }
            | ImageError::Trashed { .. }
            | ImageError::NotTrashed { .. }
            | ImageError::Purging { .. }
            | ImageError::Losses
            | ImageError::Held { .. }
            | ImageError::Closed
            | ImageError::OtherToken { .. }
            | ImageError::ShrinksClosed
            | ImageError::Snapshots { .. }
            | ImageError::Cloned { .. }
            | ImageError::LayerEnded { .. }
            | ImageError::NotClone
            | ImageError::CloneDepth
            | ImageError::NotWritable { .. }
            | ImageError::LastInSync => ErrorKind::Conflict,
            ImageError::TooMany
            | ImageError::Room
            | ImageError::TooManySnapshots
            | ImageError::TooManyBranches
            | ImageError::TooManyLayers => ErrorKind::Full,
        }
    }
}
