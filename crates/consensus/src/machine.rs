//! What a group replicates: a state machine.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use crate::id::LogIndex;

/// A deterministic machine: the same commands in the same order give the same state and the same replies on every member.
/// It asks neither for time nor for chance.
pub trait StateMachine: Send + Sync + 'static {
    type Command: Send + 'static;
    type Reply: Send + 'static;

    /// A command as bytes, at most [`crate::limits::MAX_COMMAND_BYTES`].
    fn encode(command: &Self::Command) -> Vec<u8>;

    /// A command from bytes. An error stops the member: it cannot follow the others any more.
    fn decode(bytes: &[u8]) -> Result<Self::Command, MachineError>;

    /// Whether a command makes the state longer and can be asked for later. Where groups need nearly as much of a log as they may, such commands are
    /// refused before others, so that there is room for what makes states shorter or ends what was begun.
    fn is_growth(_: &Self::Command) -> bool {
        false
    }

    /// Carries out a command. `index` grows from call to call, not always by 1, and is never used twice: it serves as a token.
    /// An error stops the member, as one of [`StateMachine::decode`] does; that the command asks for something impossible is a reply.
    fn apply(&mut self, index: LogIndex, command: Self::Command) -> Result<Self::Reply, MachineError>;

    /// How the state outlives the process. The same way for all machines of a type.
    fn keeping(&mut self) -> Keeping<'_>;
}

/// How the state of a machine outlives its process, and gets to other members.
pub enum Keeping<'a> {
    /// As a whole, in the log: for states that are short.
    Whole(&'a mut dyn Whole),
    /// As rows, in the node's row store: a snapshot writes those that were changed since the last one.
    Rows(&'a mut dyn Rows),
}

/// A machine whose snapshot is its whole state.
pub trait Whole {
    /// A frozen view of the state. Taken under the machine's lock, so it must be cheap; called without, so it may take long.
    /// The bytes are at most [`crate::limits::MAX_SNAPSHOT_BYTES`].
    fn snapshot(&self) -> FrozenState;

    /// Replaces the state by one that [`Whole::snapshot`] froze, on this member or on another.
    fn restore(&mut self, snapshot: &[u8]) -> Result<(), MachineError>;
}

/// A machine whose state is a set of rows. The same state is the same rows, byte for byte, on every member.
pub trait Rows {
    /// The rows that were changed since the last call, as they are now; of a machine in its first state all. Taken under the machine's lock.
    fn take_changes(&mut self) -> Vec<RowChange>;

    /// Forgets everything: rows follow.
    fn clear(&mut self);

    /// Takes in a row that stands in the store: it is no change. Rows come in the order of their keys. Others look at the machine between two rows.
    fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), MachineError>;
}

/// A row's key, and its value; none: there is no such row.
pub type RowChange = (Vec<u8>, Option<Vec<u8>>);

/// A frozen state on its way into bytes.
pub type FrozenState = Box<dyn FnOnce() -> Vec<u8> + Send>;

/// A state machine does not understand bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MachineError(pub String);

/// What an applied command answered, without its type. The lock is there because Raft wants its replies shareable, and ours need not be.
pub(crate) struct Reply(Mutex<Option<Box<dyn Any + Send>>>);

impl Reply {
    /// Of an entry that is no command.
    pub(crate) fn none() -> Self {
        Reply(Mutex::new(None))
    }

    pub(crate) fn of(reply: impl Any + Send) -> Self {
        Reply(Mutex::new(Some(Box::new(reply))))
    }

    /// The reply, if it is of this type.
    pub(crate) fn into_inner<R: 'static>(self) -> Option<R> {
        self.0.into_inner().and_then(|reply| reply.downcast().ok()).map(|reply| *reply)
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply(..)")
    }
}

/// What a machine gives for a snapshot.
pub(crate) enum Frozen {
    Whole(FrozenState),
    Changes(Vec<RowChange>),
}

/// A state machine without its types: Raft is compiled once for all of them.
pub(crate) trait ErasedMachine: Send + Sync + 'static {
    fn apply(&self, index: LogIndex, command: &[u8]) -> Result<Reply, MachineError>;
    fn keeps_rows(&self) -> bool;
    fn freeze(&self) -> Frozen;
    fn restore(&self, snapshot: &Bytes) -> Result<(), MachineError>;
    fn clear(&self);
    fn load(&self, rows: &[(Vec<u8>, Vec<u8>)]) -> Result<(), MachineError>;
}

/// The machine as its readers share it.
pub(crate) struct SharedMachine<S>(pub(crate) Arc<RwLock<S>>);

impl<S: StateMachine> ErasedMachine for SharedMachine<S> {
    fn apply(&self, index: LogIndex, command: &[u8]) -> Result<Reply, MachineError> {
        let command = S::decode(command)?;
        Ok(Reply::of(self.0.write().apply(index, command)?))
    }

    fn keeps_rows(&self) -> bool {
        matches!(self.0.write().keeping(), Keeping::Rows(_))
    }

    fn freeze(&self) -> Frozen {
        match self.0.write().keeping() {
            Keeping::Whole(machine) => Frozen::Whole(machine.snapshot()),
            Keeping::Rows(machine) => Frozen::Changes(machine.take_changes()),
        }
    }

    fn restore(&self, snapshot: &Bytes) -> Result<(), MachineError> {
        match self.0.write().keeping() {
            Keeping::Whole(machine) => machine.restore(snapshot),
            Keeping::Rows(_) => Err(MachineError("a whole state for a machine of rows".to_owned())),
        }
    }

    fn clear(&self) {
        if let Keeping::Rows(machine) = self.0.write().keeping() {
            machine.clear();
        }
    }

    fn load(&self, rows: &[(Vec<u8>, Vec<u8>)]) -> Result<(), MachineError> {
        match self.0.write().keeping() {
            Keeping::Rows(machine) => rows.iter().try_for_each(|(key, value)| machine.load(key, value)),
            Keeping::Whole(_) => Err(MachineError("rows for a machine that is kept as a whole".to_owned())),
        }
    }
}
