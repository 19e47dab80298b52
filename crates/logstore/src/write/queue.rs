//! How a write comes into the queue of its key, and leaves it.

use super::WriteOp;
use crate::gateway::Op;
use crate::store::Inner;
use engine::EngineError;
use format::entry::Entry;
use std::sync::Arc;
use types::KeyHash;

impl Inner {
    /// Queues a write; dispatches it if its turn is now.
    pub(crate) fn start(self: &Arc<Self>, op: &Arc<WriteOp>) -> Result<(), EngineError> {
        let hash = op.draft.hash;
        self.step(&hash, None, |keys, out| {
            self.check_deposed()?;
            let queued = keys.request(hash, Op::Write(op.clone()), op.decides, out);
            queued.map_err(|full| EngineError::Busy { reason: full.to_string() })
        })
    }

    /// Publishes a durable write. Its name enters the list under the same lock, so that a read and a list agree.
    pub(super) fn publish(self: &Arc<Self>, entry: Entry) {
        self.step(&entry.hash, None, |keys, out| {
            if !self.is_deposed() {
                keys.appended(entry, out);
            }
        });
    }

    pub(super) fn end_turn(self: &Arc<Self>, hash: KeyHash) {
        self.step(&hash, None, |keys, out| {
            if !self.is_deposed() {
                keys.withdraw(hash, out);
            }
        });
    }

    /// Takes a write out of the queue; false if it is not there any more.
    pub(super) fn cancel(&self, op: &Arc<WriteOp>) -> bool {
        self.shard(&op.draft.hash).lock().cancel(op.draft.hash, |queued| queued.is(op))
    }
}
