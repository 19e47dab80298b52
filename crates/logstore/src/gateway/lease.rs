//! The serve lease: a gateway of a cell answers reads only while it has one for its view (decision 4; RFD 5, rule 8).

use crate::store::Inner;
use engine::EngineError;
use parking_lot::RwLock;
use topology::{ClockReading, HeldLease};
use types::ViewNumber;

/// The lease that a gateway holds, if any.
#[derive(Default)]
pub(crate) struct Lease(RwLock<Option<HeldLease>>);

impl Lease {
    /// Takes in a grant.
    pub fn renew(&self, granted: HeldLease) {
        let mut held = self.0.write();
        match &mut *held {
            Some(held) => held.renew(granted),
            None => *held = Some(granted),
        }
    }

    /// Gives it up.
    pub fn end(&self) {
        *self.0.write() = None;
    }

    fn permits(&self, view: ViewNumber, now: ClockReading) -> bool {
        self.0.read().is_some_and(|held| held.permits(view, now))
    }
}

impl Inner {
    /// To be asked after the look at an index whose outcome is to leave: whether what was looked up under `view` may be answered.
    pub(crate) fn check_lease(&self, view: ViewNumber) -> Result<(), EngineError> {
        let Some(member) = &self.member else { return Ok(()) };
        match member.lease.permits(view, self.clock()) {
            true => Ok(()),
            false => Err(EngineError::Unavailable {
                reason: "this gateway has no serve lease: it is joining its cell, or cut off from the manager".to_owned(),
            }),
        }
    }

    /// This machine's own clock.
    pub(super) fn clock(&self) -> ClockReading {
        ClockReading { nanos: self.env.now().as_nanos() }
    }
}
