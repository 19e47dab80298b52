//! What a person asks a node about file volumes. The program's commands send it, the node's part answers.

use std::path::PathBuf;

use manager::{FileClass, FileQuota};
use net::ServiceTag;
use serde::{Deserialize, Serialize};

/// The service that answers [`Ask`].
pub const FILES: ServiceTag = ServiceTag::FILES;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    Create {
        name: String,
        quota: FileQuota,
        /// How many trees it begins with.
        trees: u32,
        class: FileClass,
    },
    List,
    Info {
        name: String,
    },
    Resize {
        name: String,
        quota: FileQuota,
    },
    Remove {
        name: String,
    },
    /// Mounts a volume on a folder of this node's machine until it is told otherwise.
    Mount {
        name: String,
        /// Absolute.
        point: PathBuf,
        options: MountOptions,
    },
    Unmount {
        point: PathBuf,
        how: UnmountHow,
    },
    Mounts,
}

/// How a volume is mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountOptions {
    pub is_read_only: bool,
    /// Only the server's own user may use it.
    pub is_private: bool,
    /// The next start of the server mounts it again.
    pub is_kept: bool,
    /// No other mount uses the volume as long as it is there, and the kernel buffers writes.
    pub is_exclusive: bool,
}

/// How a mount ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnmountHow {
    /// Refused while it is in use.
    Clean,
    /// What is open stays usable; the mount ends with its last use.
    Lazy,
    /// Calls under way fail.
    Force,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Told {
    Done,
    Volumes(Vec<VolumeInfo>),
    Mounts(Vec<MountInfo>),
    /// Nothing was done, or not all; the reason says what to do.
    Refused(String),
}

/// A file volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeInfo {
    pub id: u32,
    pub name: String,
    pub created_ms: u64,
    pub quota: FileQuota,
    /// Where its contents are.
    pub partitions: Vec<PartitionInfo>,
    pub is_removing: bool,
    /// What it has; none if a tree does not answer.
    pub usage: Option<VolumeUsage>,
    /// Where its names and inodes are.
    pub trees: Vec<TreeInfo>,
    /// What was asked for; whether it is in force is what each tree says.
    pub class: FileClass,
}

/// A tree of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeInfo {
    pub id: u32,
    /// None: it does not answer now.
    pub state: Option<TreeState>,
}

/// What a tree says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeState {
    /// The node that leads it, by its name; none if the node is gone.
    pub leader: Option<String>,
    pub inodes: u64,
    /// Class `ordered` is in force.
    pub is_ordered: bool,
}

/// A data partition of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionInfo {
    pub id: u32,
    /// None: it does not answer now.
    pub state: Option<PartitionState>,
}

/// What a data partition says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionState {
    pub copies: Vec<CopyInfo>,
    /// What its primary has, if there is one.
    pub has: Option<PartitionHas>,
}

/// What a data partition has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionHas {
    pub bytes: u64,
    pub extents: u64,
    /// Whether it is below its thresholds, and takes new extents.
    pub is_open: bool,
}

/// A copy of a data partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyInfo {
    /// The node that has it, by its name; none if the node is gone.
    pub node: Option<String>,
    pub device: u32,
    pub state: CopyState,
}

/// What a copy is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CopyState {
    /// It serves the partition, and is in sync.
    Primary,
    /// It is in sync, and about to serve.
    TakesOver,
    InSync,
    /// It lacks something: it is made again from the primary's.
    Out,
}

/// What a volume has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeUsage {
    pub bytes: u64,
    pub inodes: u64,
}

/// A mount of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountInfo {
    pub point: PathBuf,
    pub volume: String,
    pub options: MountOptions,
    /// False while the node waits for the volume, or for the folder.
    pub is_mounted: bool,
}
