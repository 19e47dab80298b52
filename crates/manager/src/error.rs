//! One error type per operation of the shell.

use std::path::PathBuf;
use std::sync::Arc;

use types::ErrorKind;

use crate::command::CommandError;
use crate::export::DecodeExportError;
use crate::operation::Refusal;
use crate::snapshot::CommandIndex;
use crate::table::LoadError;

/// A command did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManagerError<R: Refusal> {
    /// It was carried out and refused: nothing has changed, and the answer is final.
    #[error(transparent)]
    Refused(R),
    /// It was not carried out, or nobody knows: after a restart it may turn out to have been.
    #[error(transparent)]
    Failed(#[from] ProposeError),
}

impl<R: Refusal> ManagerError<R> {
    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            ManagerError::Refused(refusal) => refusal.kind(),
            ManagerError::Failed(ProposeError::Length { .. }) => ErrorKind::Invalid,
            ManagerError::Failed(_) => ErrorKind::Unavailable,
        }
    }
}

/// A command found no way into the state, or its reply found no way back. Those of the log and of the state mean that the manager takes
/// no more commands until it is restarted.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ProposeError {
    #[error("a command of {found} bytes; the longest is {most}")]
    Length { found: usize, most: usize },
    #[error("the manager's log failed; restart to recover")]
    Log(#[source] wal::AppendError),
    #[error("the manager's state could not be written; restart to recover")]
    Commit(#[source] Arc<kv::CommitError>),
    #[error("the manager's state could not be made durable; restart to recover")]
    Persist(#[source] Arc<kv::PersistError>),
    #[error("the manager ended first")]
    Abandoned,
    /// Trying again later may help.
    #[error("the manager has more proposals under way than it can take")]
    Overloaded,
    /// It was not carried out. Trying again later may help.
    #[error("no leader of the managers took the command: {reason}")]
    NoLeader { reason: String },
    /// It was carried out, or will be, or neither.
    #[error("nobody knows whether the command was carried out: {reason}")]
    Unknown { reason: String },
}

impl PartialEq for ProposeError {
    /// By what happened, not by its cause: causes of the operating system have no equality.
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl Eq for ProposeError {}

/// A member of a replicated manager could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenReplicatedError {
    #[error("the manager's group does not run on this node")]
    Group(#[from] consensus::StartError),
}

/// The local state could not be made as new as was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FreshError {
    #[error("no leader of the managers answered: {reason}")]
    NoLeader { reason: String },
    #[error("this manager has applied {} commands of {}", applied.0, needed.0)]
    Behind { applied: CommandIndex, needed: CommandIndex },
    /// What was acknowledged is in the state; more is not going to be.
    #[error(transparent)]
    Failed(ProposeError),
}

/// Members were not changed, or nobody knows. Each change may be asked for again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MembershipError {
    #[error("this manager is alone: it has no members")]
    Alone,
    #[error("refused: {reason}")]
    Refused { reason: String },
    #[error("no leader of the managers took the change: {reason}")]
    NoLeader { reason: String },
    #[error("nobody knows whether the members were changed: {reason}")]
    Unknown { reason: String },
}

/// The manager could not be opened. Nothing was lost by the attempt.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the manager's folder {} cannot be used", path.display())]
    Folder {
        path: PathBuf,
        #[source]
        cause: std::io::Error,
    },
    #[error("the manager's log cannot be used")]
    Store(#[from] wal::StoreError),
    #[error("the manager's log cannot be used")]
    Log(#[from] wal::OpenError),
    #[error("the manager's state cannot be opened")]
    State(#[from] kv::OpenError),
    #[error("the manager's state cannot be read")]
    Load(#[from] LoadError),
    #[error("entry {} of the manager's log is not usable", index.0)]
    Command {
        index: CommandIndex,
        #[source]
        cause: CommandError,
    },
    #[error("the manager's state cannot be written")]
    Commit(#[from] kv::CommitError),
    #[error("the manager's state cannot be made durable")]
    Persist(#[from] kv::PersistError),
}

/// A copy of the state could not become a manager.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("the copy is not usable")]
    Decode(#[from] DecodeExportError),
    #[error("this manager has a state of its own (command {}); a copy goes into an empty one only", applied.0)]
    NotEmpty { applied: CommandIndex },
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// A manager could not be made from a copy of a state.
#[derive(Debug, thiserror::Error)]
pub enum ImportReplicatedError {
    #[error("the copy can't be used")]
    Copy(#[from] DecodeExportError),
    #[error(transparent)]
    Open(#[from] OpenReplicatedError),
    #[error("the manager's group can't be formed")]
    Form(#[from] MembershipError),
}
