//! The records of the state. Shapes are durable: postcard writes fields and variants by position, so new ones go last, under a
//! new version of what contains them.

use serde::{Deserialize, Serialize};
use types::{BucketId, ClusterId, DeviceId, DeviceUuid, Epoch, Generation, NodeId};

mod cell;
mod former;
mod node;
mod shard;

pub use cell::{CellRecord, InstalledView, Member};
pub(crate) use former::{FirstNextIds, FormerCellRecord, FormerDeviceRecord, SecondNextIds};
pub use node::NodeRecord;
pub(crate) use shard::is_node_list;
pub use shard::{Bulk, BulkOwner, GrantedRun, ShardRecord, VolumeRecord};

/// What the cluster is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterRecord {
    pub id: ClusterId,
    /// Newest version of the durable formats that may be written. It only rises: an older binary must refuse.
    pub format_version: u32,
    pub created_ms: u64,
}

/// A device of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceRecord {
    pub id: DeviceId,
    pub uuid: DeviceUuid,
    /// Where it was last found.
    pub path: String,
    pub state: DeviceState,
    pub capacity_bytes: u64,
    /// Which node serves it; none if it was never said.
    pub node: Option<NodeId>,
}

/// What a device is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceState {
    /// Reads and writes.
    Active,
    /// Reads only, while its data is moved away.
    Draining,
    /// Nothing.
    Failed,
    /// Nothing: a person has put another one in its place. It counts as missing until it is known that nothing is lost with it.
    Replaced,
}

/// One incarnation of a bucket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketRecord {
    pub id: BucketId,
    pub name: String,
    pub created_ms: u64,
    /// The user who made it.
    pub owner: String,
    pub engine: BucketEngine,
    pub etag: EtagMode,
    /// The policy document as it was put, JSON.
    pub policy: Option<Vec<u8>>,
    pub state: BucketState,
}

/// Which engine keeps the objects of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BucketEngine {
    Log,
    Volume,
}

/// How the ETags of a bucket's objects are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EtagMode {
    /// MD5 of the content, as S3 does.
    Md5,
    /// Something cheaper that clients must treat as opaque.
    Fast,
}

/// Where a bucket is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BucketState {
    Active,
    /// Takes no writes while the object layer verifies that it is empty.
    Deleting(Removal),
}

/// One attempt to remove a bucket: the index of the command that began it. What an attempt has verified says nothing once another has begun,
/// because writes may have been let in between the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removal(pub u64);

/// An access key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credential {
    pub access_key: String,
    pub secret: String,
    pub user: String,
    /// May do everything. There is at most one, set from the environment at start.
    pub is_root: bool,
}

impl std::fmt::Debug for Credential {
    /// Without the secret, which must not reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Credential { access_key, user, is_root, .. } = self;
        write!(f, "Credential {{ access_key: {access_key:?}, user: {user:?}, is_root: {is_root} }}")
    }
}

/// The checkpoint manifest of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestRecord {
    pub epoch: Epoch,
    /// Opaque here: the log engine's.
    pub bytes: Vec<u8>,
}

/// The replica-set table in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaTableRecord {
    pub generation: Generation,
    /// Opaque here: `topology`'s.
    pub bytes: Vec<u8>,
}
