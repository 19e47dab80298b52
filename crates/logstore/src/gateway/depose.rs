//! A gateway that finds itself outside of its cell answers nothing any more (RFD 5, rule 9). What it knew is worthless; it comes back as a
//! new incarnation with a new engine.

use super::keys::Op;
use crate::store::LogStore;
use engine::EngineError;
use std::sync::atomic::Ordering;

/// What callers are told.
pub(super) fn deposed() -> EngineError {
    EngineError::Unavailable { reason: "this gateway has left its cell and joins it anew; the outcome is not known".to_owned() }
}

impl LogStore {
    /// Ends this engine's part in its cell. Whoever waits is answered with an error; writes under way have an unknown outcome.
    pub fn depose(&self) {
        let Some(member) = &self.inner.member else { return };
        env::mark("gateway: deposed");
        member.is_deposed.store(true, Ordering::Release);
        member.lease.end();
        member.links().values().for_each(|link| link.close());
        member.moved();
        for shard in &self.inner.shards {
            let ops = shard.lock().abandon();
            for op in ops {
                match op {
                    Op::Write(op) => op.finish(Err(deposed())),
                    Op::Read(op) => op.abandon(),
                }
            }
        }
    }

    /// Whether it has left its cell.
    pub fn is_deposed(&self) -> bool {
        self.inner.is_deposed()
    }
}

impl crate::store::Inner {
    /// Refuses what only a member may do. Looked at under a shard's lock: nothing of the shard is going on any more then.
    pub(crate) fn check_deposed(&self) -> Result<(), EngineError> {
        if self.is_deposed() { Err(deposed()) } else { Ok(()) }
    }

    /// Whether this gateway has left its cell.
    pub(crate) fn is_deposed(&self) -> bool {
        self.member.as_ref().is_some_and(|member| member.is_deposed())
    }
}
