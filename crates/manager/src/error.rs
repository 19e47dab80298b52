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

/// A command found no way into the state. All but the first mean that the manager takes no more commands until it is restarted.
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
}

impl PartialEq for ProposeError {
    /// By what happened, not by its cause: causes of the operating system have no equality.
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl Eq for ProposeError {}

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
