//! The commands of the state machine: what each changes, answers and refuses.
//!
//! An operation is a pure function of (index, operation, state). Time and randomness come in as fields, chosen by the
//! proposer, so that every member that applies the same commands holds the same state. A refused operation changes nothing.

use types::ErrorKind;

use crate::command::Command;
use crate::snapshot::{CommandIndex, Edit};

/// A refusal: why a command changed nothing, although it was carried out.
pub trait Refusal: std::error::Error + Send + Sync + 'static {
    /// What the caller can do about it.
    fn kind(&self) -> ErrorKind;
}

/// One kind of command.
pub(crate) trait Operation: Into<Command> + Clone + Send + 'static {
    type Reply: Send + 'static;
    type Refusal: Refusal;

    /// Carries the command out, as number `index` of the log.
    fn apply(&self, index: CommandIndex, edit: &mut Edit<'_>) -> Result<Self::Reply, Self::Refusal>;
}
