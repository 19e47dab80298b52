//! The manager: what a cluster must agree on. Devices, buckets, credentials, checkpoint manifests, the replica-set table, tokens, starts,
//! nodes, cells and their views, the chunk store's shards and volumes.
//!
//! It is a state machine ([`apply`]) under a log: the same commands in the same order give the same state, and nothing in it
//! asks for the time or for chance. [`Manager`] is its shell. Alone, a command is durable in `wal` before it is applied, and its
//! effect is kept in `kv`. With several members a command goes through a group of `consensus`, and every member keeps the state in memory.
//!
//! Who leaves a cell's view and who joins it is decided beside it, by an [`overseer`] at the leader.
//!
//! The data path never calls it. Readers take a [`Snapshot`], which is a few pointers.
#![forbid(unsafe_code)]

mod alone;
mod api;
mod command;
mod error;
mod export;
pub mod limits;
mod manager;
mod membership;
mod name;
mod operation;
pub mod overseer;
mod published;
mod record;
mod replicated;
mod snapshot;
mod table;

#[cfg(test)]
mod tests;

pub use api::NewBucket;
pub use command::{COMMAND_VERSION, Command, CommandError, apply};
pub use error::{
    FreshError, ImportError, ImportReplicatedError, ManagerError, MembershipError, OpenError, OpenReplicatedError, ProposeError,
};
pub use export::{
    DecodeExportError, EXPORT_VERSION, IMPORT_SKIPPED_BLOCKS, IMPORT_SKIPPED_BUCKETS, IMPORT_SKIPPED_COMMANDS,
    IMPORT_SKIPPED_DEVICES, IMPORT_SKIPPED_GATEWAYS, IMPORT_SKIPPED_GENERATIONS, IMPORT_SKIPPED_NODES, IMPORT_SKIPPED_SHARDS,
    IMPORT_SKIPPED_STARTS, IMPORT_SKIPPED_VIEWS,
};
pub use manager::Manager;
pub use membership::{GroupMember, MemberRole, ReplicationStatus, member_id};
pub use name::{
    InvalidBucketName, InvalidCredential, MAX_BUCKET_NAME_BYTES, MIN_BUCKET_NAME_BYTES, check_bucket_name, check_credential,
};
pub use operation::Refusal;
pub use operation::bucket::{
    BucketError, CreateBucket, CreateBucketError, MarkBucketDeleting, ReactivateBucket, RemoveBucket, SetBucketPolicy,
};
pub use operation::cell::{
    BeginStart, BeginStartError, InstallCellManifest, InstallManifest, InstallManifestError, InstallReplicaTable,
    InstallReplicaTableError, TakeToken, TakeTokenError,
};
pub use operation::cluster::{ClusterError, ConfigError, InitCluster, RaiseFormatVersion, SetConfig};
pub use operation::credential::{AddCredential, CredentialError, ROOT_USER, RemoveCredential, SetRootCredential};
pub use operation::device::{AddDevice, DeviceError, PlaceDevice, RemoveDevice, SetDeviceState, UpdateDevice};
pub use operation::membership::{BeginRemoval, CellError, CreateCell, LeaveCell, RegisterGateway, Registered};
pub use operation::node::{NodeError, RegisterNode, RemoveNode};
pub use operation::shard::{OpenShard, SealShard, SetShardHosts, SetShardMembers, ShardError};
pub use operation::tables::ForgetTables;
pub use operation::view::{FinishFounding, FinishRecovery, FoundView, InstallView};
pub use operation::volume::{GrantBulk, RegisterVolume, ReleaseBulk, VolumeError};
pub use record::{
    BucketEngine, BucketRecord, BucketState, Bulk, BulkOwner, CellRecord, ClusterRecord, Credential, DeviceRecord, DeviceState,
    EtagMode, GrantedRun, InstalledView, ManifestRecord, Member, NodeRecord, Removal, ReplicaTableRecord, ShardRecord,
    VolumeRecord,
};
pub use replicated::{MANAGER_GROUP, ReplicatedOptions};
pub use snapshot::{CommandIndex, ImpossibleNumber, ImpossibleState, Snapshot};
pub use table::LoadError;
