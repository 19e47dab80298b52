//! Tables of former views: forgotten when a checkpoint has covered what went by them (docs/rfd/0004, rule 2).

use serde::{Deserialize, Serialize};
use types::{CellId, Generation};

use super::membership::{CellError, find};
use crate::operation::Operation;
use crate::snapshot::{CommandIndex, Edit};

/// Every write by a table of a generation below this one is in the installed checkpoint, or was never acknowledged. True for ever once it
/// is, so whoever says it may say it late, and twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgetTables {
    pub cell: CellId,
    pub below: Generation,
}

impl Operation for ForgetTables {
    type Reply = ();
    type Refusal = CellError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<(), CellError> {
        let mut cell = find(edit, self.cell)?;
        cell.former_tables.retain(|table| table.generation() >= self.below);
        edit.set_cell(cell);
        Ok(())
    }
}
