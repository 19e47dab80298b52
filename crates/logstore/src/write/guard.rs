//! The turn of a deciding write, as its request holds it.

use super::WriteOp;
use engine::EngineError;
use std::sync::Arc;

/// Ends a deciding write's turn when the request that should decide goes away.
pub(crate) struct TurnGuard(Option<Arc<WriteOp>>);

impl TurnGuard {
    pub fn new(op: Arc<WriteOp>) -> Self {
        TurnGuard(Some(op))
    }

    /// The write ends here, without a record.
    pub fn withdraw(mut self, error: EngineError) {
        if let Some(op) = self.0.take() {
            op.withdraw(error);
        }
    }

    /// The write goes ahead on its own from here.
    pub fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for TurnGuard {
    fn drop(&mut self) {
        if let Some(op) = self.0.take() {
            op.withdraw(EngineError::Unavailable { reason: "the request went away before its turn".to_owned() });
        }
    }
}
