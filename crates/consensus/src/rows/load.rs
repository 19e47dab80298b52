//! From rows to a machine.

use std::ops::ControlFlow;
use std::sync::mpsc::sync_channel;

use super::store::{RowSnapshot, RowsError};
use crate::machine::{ErasedMachine, MachineError};

/// Slices that were read and wait for the machine.
const SLICES_AHEAD: usize = 8;

/// Rows don't give a state.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error(transparent)]
    Rows(#[from] RowsError),
    #[error(transparent)]
    Machine(#[from] MachineError),
}

/// Has a machine take the state of rows. With `beside`, rows are read by a thread of their own while the machine takes those before.
pub(crate) fn load(rows: &RowSnapshot, machine: &dyn ErasedMachine, beside: bool) -> Result<(), LoadError> {
    machine.clear();
    if !beside {
        let mut taken = Ok(());
        rows.slices(&mut |slice| {
            taken = machine.load(&slice);
            if taken.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })
        .map_err(RowsError::from)?;
        return Ok(taken?);
    }
    std::thread::scope(|scope| {
        let (sender, slices) = sync_channel(SLICES_AHEAD);
        let reading = scope.spawn(move || {
            rows.slices(&mut |slice| match sender.send(slice) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            })
        });
        for slice in slices {
            machine.load(&slice)?;
        }
        let read = reading.join().map_err(|_| RowsError::Ended)?;
        Ok(read.map_err(RowsError::from)?)
    })
}
