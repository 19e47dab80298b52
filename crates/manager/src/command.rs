//! Commands as they stand in the log.
//!
//! ```text
//!   postcard(Command): module | command of the module | its fields
//! ```
//!
//! Invariant: places in [`crate::modules`], in a module's commands and in their fields are what was written.

use crate::entry::{self, EntryKey};
pub use crate::modules::Command;
use crate::snapshot::{CommandIndex, Edit, Snapshot};

/// Bytes that are no command of this version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a command that this version knows; use a newer Trilith")]
pub struct CommandError(#[source] postcard::Error);

impl Command {
    /// The command as it stands in the log.
    pub fn encode(&self) -> Vec<u8> {
        entry::encode(self)
    }

    /// The command that [`Command::encode`] wrote. Says nothing of whether it would be refused.
    pub fn decode(bytes: &[u8]) -> Result<Command, CommandError> {
        postcard::from_bytes(bytes).map_err(CommandError)
    }
}

/// Carries out command number `index` on `state`. Deterministic. Returns whether it was not refused; a refused one changed
/// nothing but the index.
pub fn apply(index: CommandIndex, command: &Command, state: &mut Snapshot) -> bool {
    let mut touched = Vec::new();
    apply_noting(index, &mut touched, state, |edit| command.carry_out(index, edit))
}

/// As [`apply`], for any operation, noting which entries it touched.
pub(crate) fn apply_noting<T>(
    index: CommandIndex,
    touched: &mut Vec<EntryKey>,
    state: &mut Snapshot,
    carry_out: impl FnOnce(&mut Edit<'_>) -> T,
) -> T {
    assert!(index.0 == state.applied.0 + 1, "command {} applied after {}", index.0, state.applied.0);
    let outcome = carry_out(&mut Edit { state, touched });
    state.applied = index;
    outcome
}

/// As [`apply`], noting which entries it touched, for a command whose proposer does not wait.
pub(crate) fn replay(index: CommandIndex, command: &Command, touched: &mut Vec<EntryKey>, state: &mut Snapshot) {
    apply_noting(index, touched, state, |edit| command.carry_out(index, edit));
}
