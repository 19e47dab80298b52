//! File volumes (docs/rfd/0025): their names, quotas, trees and data partitions. Each tree is a placed group, and so is the record of where the copies of each partition are.
//!
//! ```text
//!            create            remove              forget
//!   (none) ─────────▶ present ─────────▶ removing ─────────▶ (none)
//!                      ▲   │
//!                      └───┘ add partition, add tree: the volume has one more
//! ```
//!
//! Invariants:
//! - Names of volumes differ, those being removed left out. An id is for ever.
//! - The groups of a volume are there as long as its record.
//! - Ids of volumes, of their trees and of partitions come from one counter: none is used twice, but for the first tree, whose id is the volume's. A volume loses no
//!   tree (docs/rfd/0031) and no partition (docs/rfd/0030).

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use types::{DeviceId, ErrorKind, FileVolumeId, NodeId};

use super::commands;
use super::device::{DeviceRecord, DeviceState};
use super::groups::{FoundGroup, GroupError, GroupKey, GroupKind, MAX_GROUP_MEMBERS};
use crate::error::ManagerError;
use crate::kind::{Key, Numbers, Record};
use crate::manager::Manager;
use crate::operation::{Operation, Refusal};
use crate::snapshot::{CommandIndex, Edit, ImpossibleState, Snapshot, check_number};

/// Most file volumes of a cluster. Each has a placed group for each of its trees, and one for each of its data partitions.
pub const MAX_FILE_VOLUMES: usize = 1_000;
/// Most trees of a file volume.
pub const MAX_FILE_TREES: usize = 64;
/// Most data partitions of a file volume.
pub const MAX_FILE_PARTITIONS: usize = 64;
/// Longest name of a file volume.
pub const MAX_FILE_VOLUME_NAME_BYTES: usize = 128;
/// Ids of file volumes that an import skips.
pub const IMPORT_SKIPPED_FILE_VOLUMES: u64 = 1 << 16;
/// No volume has this id, or a greater one: the number of a group has 32 bits.
const FILE_VOLUME_LIMIT: u64 = 1 << 31;

/// A file volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileVolumeRecord {
    pub id: FileVolumeId,
    pub name: String,
    pub created_ms: u64,
    pub quota: FileQuota,
    /// Its contents are being freed: it does not come back.
    pub is_removing: bool,
    /// Where its contents are, in the order of adding.
    pub partitions: Vec<FilePartition>,
    /// Where its names and inodes are, in the order of adding. The first has the root, and the volume's own number.
    pub trees: Vec<FileTreeId>,
    pub class: FileClass,
}

/// When a change of names or attributes is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileClass {
    /// When it is durable.
    #[default]
    Synchronous,
    /// When it outlives the process, where the trees have one member (docs/rfd/0032).
    Ordered,
}

/// A tree of a volume, for ever: its place among those of its volume stands in the numbers of its inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileTreeId(pub u32);

impl FileTreeId {
    /// The group that has it.
    pub fn group(self) -> GroupKey {
        GroupKey { kind: GroupKind::FILE_TREES, number: self.0 }
    }
}

/// A data partition, for ever: its number stands in the ids of its extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FilePartitionId(pub u32);

impl FilePartitionId {
    /// The group that has the record of its copies.
    pub fn group(self) -> GroupKey {
        GroupKey { kind: GroupKind::FILE_CONTENTS, number: self.0 }
    }
}

/// A data partition of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePartition {
    pub id: FilePartitionId,
    /// Where its copies are to be made, at most one device of a node. Which copies there are is what its group says.
    pub devices: Vec<DeviceId>,
}

/// What a file volume may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileQuota {
    /// Bytes of all files; none: as the device has room.
    pub bytes: Option<u64>,
    /// Files, directories and all else; none: as memory allows.
    pub inodes: Option<u64>,
}

impl FileVolumeRecord {
    /// A data partition of the volume.
    pub fn partition(&self, id: FilePartitionId) -> Option<&FilePartition> {
        self.partitions.iter().find(|partition| partition.id == id)
    }

    fn are_partitions(&self, state: &Snapshot) -> bool {
        let are_there = self.partitions.iter().all(|partition| {
            let is_given = u64::from(partition.id.0) < state.file_volumes.next;
            is_given && state.group(partition.id.group()).is_some() && partition.devices.len() <= MAX_GROUP_MEMBERS
        });
        are_there && self.partitions.len() <= MAX_FILE_PARTITIONS && self.partitions.is_sorted_by(|one, next| one.id < next.id)
    }

    fn are_trees(&self, state: &Snapshot) -> bool {
        let are_given = self.trees.iter().all(|tree| u64::from(tree.0) < state.file_volumes.next);
        let is_own = self.trees.first() == Some(&FileTreeId(self.id.0));
        are_given && is_own && self.trees.len() <= MAX_FILE_TREES && self.trees.is_sorted_by(|one, next| one < next)
    }
}

impl Key for FileVolumeId {
    fn encode(&self) -> Vec<u8> {
        self.0.to_be_bytes().to_vec()
    }

    fn decode(bytes: &[u8]) -> Option<FileVolumeId> {
        u32::decode(bytes).map(FileVolumeId)
    }
}

impl Record for FileVolumeRecord {
    type Key = FileVolumeId;

    const TAG: u8 = 17;
    const NAME: &'static str = "file volume";
    const NUMBERS: Option<Numbers> = Some(Numbers { first: 1, limit: FILE_VOLUME_LIMIT, skipped: IMPORT_SKIPPED_FILE_VOLUMES });

    fn is_at(&self, key: &FileVolumeId) -> bool {
        self.id == *key
    }

    fn check(&self, key: &FileVolumeId, state: &Snapshot) -> Result<(), ImpossibleState> {
        check_number(Self::NAME, u64::from(key.0), state.file_volumes.next)?;
        check_number("file volumes", state.file_volumes.len() as u64, MAX_FILE_VOLUMES as u64 + 1)?;
        let others = state.file_volumes.values().filter(|other| other.id != self.id && !other.is_removing);
        let is_taken = !self.is_removing && others.into_iter().any(|other| other.name == self.name);
        let checks = [
            (check_name(&self.name).is_ok(), "a name that no volume has"),
            (!is_taken, "the name of another volume"),
            (self.are_partitions(state), "data partitions that no volume has"),
            (self.are_trees(state), "trees that no volume has"),
        ];
        checks.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, what)| Err(Self::refuse(key, what)))
    }

    fn forget_device(edit: &mut Edit<'_>, device: &DeviceRecord) {
        let names = |volume: &&Arc<FileVolumeRecord>| volume.partitions.iter().any(|known| known.devices.contains(&device.id));
        let named: Vec<Arc<FileVolumeRecord>> = edit.state.file_volumes().filter(names).cloned().collect();
        for volume in named {
            let mut volume = FileVolumeRecord::clone(&volume);
            volume.partitions.iter_mut().for_each(|known| known.devices.retain(|id| *id != device.id));
            set(edit, volume);
        }
    }

    fn needs_group(state: &Snapshot, key: GroupKey) -> bool {
        match key.kind {
            GroupKind::FILE_TREES => state.file_tree(FileTreeId(key.number)).is_some(),
            GroupKind::FILE_CONTENTS => state.file_partition(FilePartitionId(key.number)).is_some(),
            _ => false,
        }
    }
}

commands! {
    Files,
    /// Commands about file volumes.
    FileCommand: CreateFileVolume, ResizeFileVolume, RemoveFileVolume, ForgetFileVolume, AddFilePartition, AddFileTree,
}

/// Why a change of the file volumes was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileVolumeError {
    #[error(
        "{name:?} can't be the name of a volume: take 1 to {MAX_FILE_VOLUME_NAME_BYTES} of the characters a-z, A-Z, 0-9, '.', '_' and '-', the first no '.' and no '-'"
    )]
    Name { name: String },
    #[error("a volume {name:?} exists already; choose another name, or remove that volume first")]
    AlreadyExists { name: String },
    #[error("there is no file volume {id}; look at the list of volumes")]
    NotFound { id: FileVolumeId },
    #[error("the volume is being removed")]
    Removing,
    #[error("the volume is not being removed; remove it first")]
    NotRemoving,
    #[error("no device of the cluster takes files now: trilith cluster status shows why")]
    NoDevice,
    #[error("the cluster has {MAX_FILE_VOLUMES} file volumes and takes no more")]
    TooMany,
    #[error("the volume has {found} data partitions, not {expected}: look at it again")]
    OtherPartitions { found: u32, expected: u32 },
    #[error("the volume has {MAX_FILE_PARTITIONS} data partitions and takes no more")]
    TooManyPartitions,
    #[error("the volume has {found} trees, not {expected}: look at it again")]
    OtherTrees { found: u32, expected: u32 },
    #[error("a volume has 1 to {MAX_FILE_TREES} trees")]
    Trees,
    #[error(
        "the copies of a data partition are on one device of each of its nodes at most, and device {device} is not such a one"
    )]
    Device { device: DeviceId },
    #[error(transparent)]
    Group(#[from] GroupError),
}

impl Refusal for FileVolumeError {
    fn kind(&self) -> ErrorKind {
        match self {
            FileVolumeError::Name { .. } | FileVolumeError::Trees => ErrorKind::Invalid,
            FileVolumeError::NotFound { .. } => ErrorKind::NotFound,
            FileVolumeError::TooMany | FileVolumeError::TooManyPartitions => ErrorKind::Full,
            FileVolumeError::Group(error) => error.kind(),
            FileVolumeError::AlreadyExists { .. }
            | FileVolumeError::OtherPartitions { .. }
            | FileVolumeError::OtherTrees { .. }
            | FileVolumeError::Device { .. }
            | FileVolumeError::Removing
            | FileVolumeError::NotRemoving
            | FileVolumeError::NoDevice => ErrorKind::Conflict,
        }
    }
}

/// Checks a name.
fn check_name(name: &str) -> Result<(), FileVolumeError> {
    let is_allowed = |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-');
    let is_name =
        (1..=MAX_FILE_VOLUME_NAME_BYTES).contains(&name.len()) && name.chars().all(is_allowed) && !name.starts_with(['.', '-']);
    if is_name { Ok(()) } else { Err(FileVolumeError::Name { name: name.to_owned() }) }
}

impl Snapshot {
    /// A file volume by its id, also while it is being removed.
    pub fn file_volume(&self, id: FileVolumeId) -> Option<&Arc<FileVolumeRecord>> {
        self.file_volumes.get(&id)
    }

    /// A file volume by its name. Those being removed have none.
    pub fn file_volume_named(&self, name: &str) -> Option<&Arc<FileVolumeRecord>> {
        self.file_volumes.values().find(|volume| !volume.is_removing && volume.name == name)
    }

    /// A data partition and its volume, which may be one that is being removed.
    pub fn file_partition(&self, id: FilePartitionId) -> Option<(&Arc<FileVolumeRecord>, &FilePartition)> {
        self.file_volumes().find_map(|volume| Some((volume, volume.partition(id)?)))
    }

    /// A tree's volume, which may be one that is being removed, and its place among those of the volume.
    pub fn file_tree(&self, id: FileTreeId) -> Option<(&Arc<FileVolumeRecord>, usize)> {
        self.file_volumes().find_map(|volume| Some((volume, volume.trees.iter().position(|tree| *tree == id)?)))
    }

    /// All file volumes by id, those being removed among them.
    pub fn file_volumes(&self) -> impl Iterator<Item = &Arc<FileVolumeRecord>> {
        self.file_volumes.values()
    }
}

/// A copy of a volume that is not being removed, to be changed.
fn present(state: &Snapshot, id: FileVolumeId) -> Result<FileVolumeRecord, FileVolumeError> {
    let volume = state.file_volume(id).ok_or(FileVolumeError::NotFound { id })?;
    if volume.is_removing { Err(FileVolumeError::Removing) } else { Ok(FileVolumeRecord::clone(volume)) }
}

fn set(edit: &mut Edit<'_>, volume: FileVolumeRecord) -> Arc<FileVolumeRecord> {
    edit.set(volume.id, Arc::new(volume))
}

/// Makes a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateFileVolume {
    pub name: String,
    pub created_ms: u64,
    pub quota: FileQuota,
    /// How many trees it begins with.
    pub trees: u32,
    pub class: FileClass,
}

impl Operation for CreateFileVolume {
    type Reply = Arc<FileVolumeRecord>;
    type Refusal = FileVolumeError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<FileVolumeRecord>, FileVolumeError> {
        check_name(&self.name)?;
        if !(1..=MAX_FILE_TREES).contains(&(self.trees as usize)) {
            return Err(FileVolumeError::Trees);
        }
        if edit.state.file_volume_named(&self.name).is_some() {
            return Err(FileVolumeError::AlreadyExists { name: self.name.clone() });
        }
        if edit.state.file_volumes.len() >= MAX_FILE_VOLUMES {
            return Err(FileVolumeError::TooMany);
        }
        if !edit.state.devices().any(|device| device.state == DeviceState::Active) {
            return Err(FileVolumeError::NoDevice);
        }
        let id = FileVolumeId(edit.take_number::<FileVolumeRecord>() as u32);
        let further = (1..self.trees).map(|_| FileTreeId(edit.take_number::<FileVolumeRecord>() as u32));
        let trees = std::iter::once(FileTreeId(id.0)).chain(further).collect();
        let CreateFileVolume { name, created_ms, quota, class, .. } = self.clone();
        let (is_removing, partitions) = (false, Vec::new());
        Ok(set(edit, FileVolumeRecord { id, name, created_ms, quota, is_removing, partitions, trees, class }))
    }
}

/// Gives a volume one tree more. Its group is founded as those of all trees are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddFileTree {
    pub id: FileVolumeId,
    /// How many trees the volume has by now. So one that is sent again adds none.
    pub expected: u32,
}

impl Operation for AddFileTree {
    type Reply = Arc<FileVolumeRecord>;
    type Refusal = FileVolumeError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<FileVolumeRecord>, FileVolumeError> {
        let mut volume = present(edit.state, self.id)?;
        let (found, expected) = (volume.trees.len() as u32, self.expected);
        if found != expected {
            return Err(FileVolumeError::OtherTrees { found, expected });
        }
        if volume.trees.len() >= MAX_FILE_TREES {
            return Err(FileVolumeError::Trees);
        }
        volume.trees.push(FileTreeId(edit.take_number::<FileVolumeRecord>() as u32));
        Ok(set(edit, volume))
    }
}

/// Gives a volume one data partition more, and founds its group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddFilePartition {
    pub id: FileVolumeId,
    /// How many partitions the volume has by now. So one that is sent again adds none.
    pub expected: u32,
    pub members: Vec<NodeId>,
    /// Where its copies are to be made; a member without one chooses for itself.
    pub devices: Vec<DeviceId>,
}

impl AddFilePartition {
    /// Refuses devices that are not of the members, one of each.
    fn check_devices(&self, state: &Snapshot) -> Result<(), FileVolumeError> {
        let mut members = self.members.clone();
        for device in &self.devices {
            let node =
                state.device(*device).filter(|record| record.state == DeviceState::Active).and_then(|record| record.node);
            let at = members.iter().position(|member| Some(*member) == node);
            members.swap_remove(at.ok_or(FileVolumeError::Device { device: *device })?);
        }
        Ok(())
    }
}

impl Operation for AddFilePartition {
    type Reply = Arc<FileVolumeRecord>;
    type Refusal = FileVolumeError;

    fn apply(&self, index: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<FileVolumeRecord>, FileVolumeError> {
        let mut volume = present(edit.state, self.id)?;
        let (found, expected) = (volume.partitions.len() as u32, self.expected);
        if found != expected {
            return Err(FileVolumeError::OtherPartitions { found, expected });
        }
        if volume.partitions.len() >= MAX_FILE_PARTITIONS {
            return Err(FileVolumeError::TooManyPartitions);
        }
        self.check_devices(edit.state)?;
        let next = FilePartitionId(edit.state.file_volumes.next as u32);
        FoundGroup { key: next.group(), members: self.members.clone() }.apply(index, edit)?;
        let id = FilePartitionId(edit.take_number::<FileVolumeRecord>() as u32);
        volume.partitions.push(FilePartition { id, devices: self.devices.clone() });
        Ok(set(edit, volume))
    }
}

/// Gives a volume another quota. What it has already stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResizeFileVolume {
    pub id: FileVolumeId,
    pub quota: FileQuota,
}

impl Operation for ResizeFileVolume {
    type Reply = Arc<FileVolumeRecord>;
    type Refusal = FileVolumeError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<FileVolumeRecord>, FileVolumeError> {
        let mut volume = present(edit.state, self.id)?;
        volume.quota = self.quota;
        Ok(set(edit, volume))
    }
}

/// Begins to remove a volume: it has no name any more, and its contents are freed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveFileVolume {
    pub id: FileVolumeId,
}

impl Operation for RemoveFileVolume {
    type Reply = Arc<FileVolumeRecord>;
    type Refusal = FileVolumeError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<FileVolumeRecord>, FileVolumeError> {
        let mut volume = present(edit.state, self.id)?;
        volume.is_removing = true;
        Ok(set(edit, volume))
    }
}

/// Forgets a volume whose files are not needed any more. Its groups end, and the nodes free its contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgetFileVolume {
    pub id: FileVolumeId,
}

impl Operation for ForgetFileVolume {
    type Reply = ();
    type Refusal = FileVolumeError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<(), FileVolumeError> {
        let volume = edit.state.file_volume(self.id).ok_or(FileVolumeError::NotFound { id: self.id })?;
        if !volume.is_removing {
            return Err(FileVolumeError::NotRemoving);
        }
        edit.remove::<FileVolumeRecord>(&self.id);
        Ok(())
    }
}

/// What a command about a volume answers.
type VolumeReply = Result<Arc<FileVolumeRecord>, ManagerError<FileVolumeError>>;

impl Manager {
    /// Makes a file volume with so many trees, dated now.
    pub async fn create_file_volume(&self, name: &str, quota: FileQuota, trees: u32, class: FileClass) -> VolumeReply {
        let created_ms = self.inner.env.wall_clock_ms();
        self.propose(CreateFileVolume { name: name.to_owned(), created_ms, quota, trees, class }).await
    }

    /// Gives a file volume another quota.
    pub async fn resize_file_volume(&self, id: FileVolumeId, quota: FileQuota) -> VolumeReply {
        self.propose(ResizeFileVolume { id, quota }).await
    }

    /// Gives a file volume one data partition more.
    pub async fn add_file_partition(&self, addition: AddFilePartition) -> VolumeReply {
        self.propose(addition).await
    }

    /// Gives a file volume one tree more, where it has so many.
    pub async fn add_file_tree(&self, id: FileVolumeId, expected: u32) -> VolumeReply {
        self.propose(AddFileTree { id, expected }).await
    }

    /// Begins to remove a file volume.
    pub async fn remove_file_volume(&self, id: FileVolumeId) -> VolumeReply {
        self.propose(RemoveFileVolume { id }).await
    }

    /// Forgets a file volume that is being removed.
    pub async fn forget_file_volume(&self, id: FileVolumeId) -> Result<(), ManagerError<FileVolumeError>> {
        self.propose(ForgetFileVolume { id }).await
    }
}
