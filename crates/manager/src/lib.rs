//! The manager: what a cluster must agree on. Devices, buckets, credentials, checkpoint manifests, the replica-set table, tokens, starts,
//! nodes, cells and their views, the chunk store's shards and volumes, block images, file volumes.
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
mod command;
mod entry;
mod error;
mod export;
mod kind;
pub mod limits;
mod manager;
mod membership;
pub mod modules;
mod name;
mod operation;
pub mod overseer;
mod published;
mod replicated;
mod snapshot;
mod table;

#[cfg(test)]
mod tests;

pub use command::{Command, CommandError, apply};
pub use entry::EntryError;
pub use error::{
    FreshError, ImportError, ImportReplicatedError, ManagerError, MembershipError, OpenError, OpenReplicatedError, ProposeError,
};
pub use export::{DecodeExportError, EXPORT_VERSION, IMPORT_SKIPPED_COMMANDS};
pub use manager::Manager;
pub use membership::{GroupMember, MemberRole, ReplicationStatus, member_id};
pub use modules::bucket::{
    BucketEngine, BucketError, BucketRecord, BucketState, CreateBucket, CreateBucketError, EtagMode, IMPORT_SKIPPED_BUCKETS,
    MarkBucketDeleting, NewBucket, ReactivateBucket, Removal, RemoveBucket, SetBucketPolicy,
};
pub use modules::cell::{
    BeginRemoval, CellError, CellRecord, CreateCell, FinishFounding, FinishRecovery, ForgetTables, FoundView,
    IMPORT_SKIPPED_GATEWAYS, IMPORT_SKIPPED_GENERATIONS, IMPORT_SKIPPED_VIEWS, InstallView, InstalledView, LeaveCell, Member,
    RegisterGateway, Registered,
};
pub use modules::chunks::{
    Bulk, BulkOwner, GrantBulk, GrantedRun, IMPORT_SKIPPED_BLOCKS, IMPORT_SKIPPED_SHARDS, OpenShard, RegisterVolume,
    ReleaseBulk, SealShard, SetShardHosts, ShardError, ShardRecord, VolumeError, VolumeRecord,
};
pub use modules::cluster::{ClusterError, ClusterRecord, ConfigError, InitCluster, RaiseFormatVersion, SetConfig};
pub use modules::credential::{AddCredential, Credential, CredentialError, ROOT_USER, RemoveCredential, SetRootCredential};
pub use modules::device::{
    AddDevice, DeviceError, DeviceRecord, DeviceState, IMPORT_SKIPPED_DEVICES, PlaceDevice, RemoveDevice, SetDeviceState,
    UpdateDevice,
};
pub use modules::files::{
    AddFilePartition, AddFileTree, CreateFileVolume, FileClass, FilePartition, FilePartitionId, FileQuota, FileTreeId,
    FileVolumeError, FileVolumeRecord, ForgetFileVolume, IMPORT_SKIPPED_FILE_VOLUMES, MAX_FILE_PARTITIONS, MAX_FILE_TREES,
    MAX_FILE_VOLUME_NAME_BYTES, MAX_FILE_VOLUMES, RemoveFileVolume, ResizeFileVolume,
};
pub use modules::groups::{EndGroup, FoundGroup, GroupError, GroupKey, GroupKind, GroupRecord, SetGroupMembers};
pub use modules::images::{
    AcceptLosses, BeginPurge, Branch, CloseImage, CreateImage, FIRST_LAYER, FlattenImage, FoundImage,
    IMPORT_SKIPPED_IMAGE_EPOCHS, IMPORT_SKIPPED_IMAGES, IMPORT_SKIPPED_LAYERS, ImageDevice, ImageError, ImageHolder,
    ImageRecord, InvalidImageName, NewImage, OpenImage, ParentSnapshot, PurgeImage, RecoveredImage, Redundancy, RemoveImage,
    RemoveImageSnapshot, RenameImage, ResizeImage, RestoreImage, RollbackImage, SetDeviceIn, SetDeviceOut, SnapshotImage,
    SnapshotRecord, UnlockImage, UseDevices, check_image_name, survives,
};
pub use modules::log::{
    BeginStart, BeginStartError, IMPORT_SKIPPED_STARTS, InstallCellManifest, InstallManifest, InstallManifestError,
    InstallReplicaTable, InstallReplicaTableError, ManifestRecord, ReplicaTableRecord, TakeToken, TakeTokenError,
};
pub use modules::node::{IMPORT_SKIPPED_NODES, NodeError, NodeRecord, RegisterNode, RemoveNode};
pub use modules::placements::{
    ActivatePlacement, ActiveMembership, MAX_PLACEMENT_MEMBERS, NamePlacement, PLACEMENT_GROUPS, PlacementError,
    PlacementRecord,
};
pub use name::{
    InvalidBucketName, InvalidCredential, MAX_BUCKET_NAME_BYTES, MIN_BUCKET_NAME_BYTES, check_bucket_name, check_credential,
};
pub use operation::Refusal;
pub use replicated::{MANAGER_GROUP, ReplicatedOptions};
pub use snapshot::{CommandIndex, ImpossibleNumber, ImpossibleState, Snapshot};
pub use table::LoadError;
