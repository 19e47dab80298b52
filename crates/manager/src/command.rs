//! Commands as they stand in the log.
//!
//! ```text
//!   version 1 byte | postcard(Command)
//! ```
//!
//! Invariant: a variant's place in [`Command`] and the order of its fields are what was written; new commands go last.

use serde::{Deserialize, Serialize};

use crate::operation::Operation;
use crate::operation::bucket::{CreateBucket, MarkBucketDeleting, ReactivateBucket, RemoveBucket, SetBucketPolicy};
use crate::operation::cell::{BeginStart, InstallCellManifest, InstallManifest, InstallReplicaTable, TakeToken};
use crate::operation::cluster::{InitCluster, RaiseFormatVersion, SetConfig};
use crate::operation::credential::{AddCredential, RemoveCredential, SetRootCredential};
use crate::operation::device::{AddDevice, PlaceDevice, RemoveDevice, SetDeviceState, UpdateDevice};
use crate::operation::membership::{BeginRemoval, CreateCell, LeaveCell, RegisterGateway};
use crate::operation::node::{RegisterNode, RemoveNode};
use crate::operation::shard::{OpenShard, SealShard, SetShardHosts, SetShardMembers};
use crate::operation::tables::ForgetTables;
use crate::operation::view::{FinishFounding, FinishRecovery, FoundView, InstallView};
use crate::operation::volume::{GrantBulk, RegisterVolume, ReleaseBulk};
use crate::snapshot::{CommandIndex, Edit, RecordKey, Snapshot};

/// The version that is written; 1: the first.
pub const COMMAND_VERSION: u8 = 1;

macro_rules! commands {
    ($($operation:ident),* $(,)?) => {
        /// One entry of the manager's log.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Command {
            $($operation($operation)),*
        }

        $(impl From<$operation> for Command {
            fn from(operation: $operation) -> Command {
                Command::$operation(operation)
            }
        })*

        impl Command {
            /// The kinds of commands, each at the place that its number says.
            #[cfg(test)]
            pub(crate) const NAMES: &[&str] = &[$(stringify!($operation)),*];

            /// Carries out a command whose proposer is gone, or is another member. True if it was not refused.
            pub(crate) fn carry_out(&self, index: CommandIndex, edit: &mut Edit<'_>) -> bool {
                match self {
                    $(Command::$operation(operation) => operation.apply(index, edit).is_ok()),*
                }
            }
        }
    };
}

commands![
    InitCluster,
    RaiseFormatVersion,
    AddDevice,
    UpdateDevice,
    SetDeviceState,
    RemoveDevice,
    CreateBucket,
    MarkBucketDeleting,
    ReactivateBucket,
    RemoveBucket,
    SetBucketPolicy,
    SetRootCredential,
    AddCredential,
    RemoveCredential,
    InstallManifest,
    InstallReplicaTable,
    TakeToken,
    SetConfig,
    BeginStart,
    RegisterNode,
    RemoveNode,
    PlaceDevice,
    CreateCell,
    RegisterGateway,
    BeginRemoval,
    LeaveCell,
    InstallView,
    FoundView,
    FinishRecovery,
    FinishFounding,
    InstallCellManifest,
    ForgetTables,
    OpenShard,
    SealShard,
    SetShardHosts,
    SetShardMembers,
    RegisterVolume,
    GrantBulk,
    ReleaseBulk,
];

/// Bytes that are no command of a version that this binary knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    #[error("expected command version {COMMAND_VERSION}, found {found:?}; use a newer Trilith")]
    Version { found: Option<u8> },
    #[error("not a command")]
    Body(#[source] postcard::Error),
}

impl Command {
    /// The command as it stands in the log.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_extend(self, vec![COMMAND_VERSION]).expect("encoding into memory cannot fail")
    }

    /// The command that [`Command::encode`] wrote. Says nothing of whether it would be refused.
    pub fn decode(bytes: &[u8]) -> Result<Command, CommandError> {
        match bytes.split_first() {
            Some((&COMMAND_VERSION, body)) => postcard::from_bytes(body).map_err(CommandError::Body),
            other => Err(CommandError::Version { found: other.map(|(version, _)| *version) }),
        }
    }
}

/// Carries out command number `index` on `state`. Deterministic. Returns whether it was not refused; a refused one changed
/// nothing but the index.
pub fn apply(index: CommandIndex, command: &Command, state: &mut Snapshot) -> bool {
    let mut touched = Vec::new();
    apply_noting(index, &mut touched, state, |edit| command.carry_out(index, edit))
}

/// As [`apply`], for any operation, noting which records it touched.
pub(crate) fn apply_noting<T>(
    index: CommandIndex,
    touched: &mut Vec<RecordKey>,
    state: &mut Snapshot,
    carry_out: impl FnOnce(&mut Edit<'_>) -> T,
) -> T {
    assert!(index.0 == state.applied.0 + 1, "command {} applied after {}", index.0, state.applied.0);
    let outcome = carry_out(&mut Edit { state, touched });
    state.applied = index;
    outcome
}

/// As [`apply`], noting which records it touched, for nobody who waits for an answer.
pub(crate) fn replay(index: CommandIndex, command: &Command, touched: &mut Vec<RecordKey>, state: &mut Snapshot) {
    apply_noting(index, touched, state, |edit| command.carry_out(index, edit));
}
