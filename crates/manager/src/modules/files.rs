//! File volumes (docs/rfd/0025): their names and quotas. The tree of each volume is a placed group, and so is the record of where the copies of its contents are.
//!
//! ```text
//!            create            remove              forget
//!   (none) ─────────▶ present ─────────▶ removing ─────────▶ (none)
//! ```
//!
//! Invariants:
//! - Names of volumes differ, those being removed left out. An id is for ever.
//! - The groups of a volume are there as long as its record.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use types::{ErrorKind, FileVolumeId};

use super::commands;
use super::device::DeviceState;
use super::groups::{GroupKey, GroupKind};
use crate::error::ManagerError;
use crate::kind::{Key, Numbers, Record};
use crate::manager::Manager;
use crate::operation::{Operation, Refusal};
use crate::snapshot::{CommandIndex, Edit, ImpossibleState, Snapshot, check_number};

/// Most file volumes of a cluster. Each has two placed groups.
pub const MAX_FILE_VOLUMES: usize = 1_000;
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
    /// The group that has its tree.
    pub fn group(&self) -> GroupKey {
        GroupKey { kind: GroupKind::FILE_TREES, number: self.id.0 }
    }

    /// The group that has the record of its contents.
    pub fn contents_group(&self) -> GroupKey {
        GroupKey { kind: GroupKind::FILE_CONTENTS, number: self.id.0 }
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
        match (check_name(&self.name), is_taken) {
            (Err(_), _) => Err(Self::refuse(key, "a name that no volume has")),
            (_, true) => Err(Self::refuse(key, "the name of another volume")),
            _ => Ok(()),
        }
    }

    fn needs_group(state: &Snapshot, key: GroupKey) -> bool {
        let is_ours = [GroupKind::FILE_TREES, GroupKind::FILE_CONTENTS].contains(&key.kind);
        is_ours && state.file_volumes.get(&FileVolumeId(key.number)).is_some()
    }
}

commands! {
    Files,
    /// Commands about file volumes.
    FileCommand: CreateFileVolume, ResizeFileVolume, RemoveFileVolume, ForgetFileVolume,
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
}

impl Refusal for FileVolumeError {
    fn kind(&self) -> ErrorKind {
        match self {
            FileVolumeError::Name { .. } => ErrorKind::Invalid,
            FileVolumeError::NotFound { .. } => ErrorKind::NotFound,
            FileVolumeError::TooMany => ErrorKind::Full,
            FileVolumeError::AlreadyExists { .. }
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
}

impl Operation for CreateFileVolume {
    type Reply = Arc<FileVolumeRecord>;
    type Refusal = FileVolumeError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<FileVolumeRecord>, FileVolumeError> {
        check_name(&self.name)?;
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
        let CreateFileVolume { name, created_ms, quota } = self.clone();
        Ok(set(edit, FileVolumeRecord { id, name, created_ms, quota, is_removing: false }))
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
    /// Makes a file volume, dated now.
    pub async fn create_file_volume(&self, name: &str, quota: FileQuota) -> VolumeReply {
        let created_ms = self.inner.env.wall_clock_ms();
        self.propose(CreateFileVolume { name: name.to_owned(), created_ms, quota }).await
    }

    /// Gives a file volume another quota.
    pub async fn resize_file_volume(&self, id: FileVolumeId, quota: FileQuota) -> VolumeReply {
        self.propose(ResizeFileVolume { id, quota }).await
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
