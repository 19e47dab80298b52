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

    /// A frozen view of the state. Taken under the machine's lock, so it must be cheap; called without, so it may take long.
    /// The bytes are at most [`crate::limits::MAX_SNAPSHOT_BYTES`].
    fn snapshot(&self) -> FrozenState;

    /// Replaces the state by one that [`StateMachine::snapshot`] froze, on this member or on another.
    fn restore(&mut self, snapshot: &[u8]) -> Result<(), MachineError>;
}

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

/// A state machine without its types: Raft is compiled once for all of them.
pub(crate) trait ErasedMachine: Send + Sync + 'static {
    fn apply(&self, index: LogIndex, command: &[u8]) -> Result<Reply, MachineError>;
    fn snapshot(&self) -> FrozenState;
    fn restore(&self, snapshot: &Bytes) -> Result<(), MachineError>;
}

/// The machine as its readers share it.
pub(crate) struct SharedMachine<S>(pub(crate) Arc<RwLock<S>>);

impl<S: StateMachine> ErasedMachine for SharedMachine<S> {
    fn apply(&self, index: LogIndex, command: &[u8]) -> Result<Reply, MachineError> {
        let command = S::decode(command)?;
        Ok(Reply::of(self.0.write().apply(index, command)?))
    }

    fn snapshot(&self) -> FrozenState {
        self.0.read().snapshot()
    }

    fn restore(&self, snapshot: &Bytes) -> Result<(), MachineError> {
        self.0.write().restore(snapshot)
    }
}
