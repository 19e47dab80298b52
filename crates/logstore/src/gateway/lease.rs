//! The serve lease: a gateway of a cell answers reads only while it has one for its view (decision 4; RFD 5, rule 8), and writes only for a while after it.

use crate::store::Inner;
use crate::watched::Watched;
use engine::EngineError;
use parking_lot::RwLock;
use std::time::Duration;
use topology::{ClockReading, HeldLease};
use types::ViewNumber;

/// How long a read waits for a lease: a new view needs a new one, which the next heartbeat brings.
const LEASE_PATIENCE: Duration = Duration::from_secs(5);

/// The lease that a gateway holds, if any.
#[derive(Default)]
pub(crate) struct Lease {
    held: RwLock<Held>,
    renewed: Watched<u64>,
}

#[derive(Default)]
enum Held {
    #[default]
    Nothing,
    Lease(HeldLease),
    /// For good: nobody waits for a lease of a gateway that has ended, also not for one that was granted before.
    Over,
}

impl Lease {
    /// Takes in a grant.
    pub fn renew(&self, granted: HeldLease) {
        {
            let mut held = self.held.write();
            match &mut *held {
                Held::Nothing => *held = Held::Lease(granted),
                Held::Lease(held) => held.renew(granted),
                Held::Over => {}
            }
        }
        self.renewed.change(|count| *count += 1);
    }

    /// Gives it up, and takes no other: the answer to a heartbeat that was sent before may still come.
    pub fn end(&self) {
        *self.held.write() = Held::Over;
    }

    fn permits(&self, view: ViewNumber, now: ClockReading) -> bool {
        matches!(&*self.held.read(), Held::Lease(held) if held.permits(view, now))
    }

    /// Whether it runs, of whichever view.
    fn runs(&self, now: ClockReading) -> bool {
        matches!(&*self.held.read(), Held::Lease(held) if now < held.ends())
    }

    fn permits_writes(&self, now: ClockReading) -> bool {
        matches!(&*self.held.read(), Held::Lease(held) if held.permits_writes(now))
    }
}

impl Inner {
    /// Waits for a lease of the view that is installed, for a while.
    pub(super) async fn lease_comes(&self) -> Result<(), EngineError> {
        let Some(member) = &self.member else { return Ok(()) };
        let until = self.env.now() + LEASE_PATIENCE;
        loop {
            let seen = member.lease.renewed.get();
            let missing = match self.check_lease(member.view().number()) {
                Ok(()) => return Ok(()),
                Err(missing) => missing,
            };
            tokio::select! {
                biased;
                _ = member.lease.renewed.wait_for(|count| *count > seen) => {}
                () = member.deposed() => return Err(super::depose::deposed()),
                () = self.env.sleep_until(until) => return Err(missing),
            }
        }
    }

    /// To be asked after the look at an index whose outcome is to leave: whether what was looked up under `view` may be answered.
    pub(crate) fn check_lease(&self, view: ViewNumber) -> Result<(), EngineError> {
        let Some(member) = &self.member else { return Ok(()) };
        match member.lease.permits(view, self.clock()) {
            true => Ok(()),
            false => Err({
                env::mark("gateway: an answer refused for want of a lease");
                EngineError::Unavailable {
                    reason: "this gateway has no serve lease: it is joining its cell, or cut off from the manager".to_owned(),
                }
            }),
        }
    }

    /// To be asked after chunks were read under a pin, and before they leave or are followed: whether the pin still counted then. It does for as long as this
    /// gateway is a member, and a view without it begins only when its lease has ended, of whichever view. Its cell does not wait for pins of a gateway that was
    /// removed: other chunks of the same object may stand in the same places. A lease that comes later tells the same of all the time before: only members get one.
    pub(crate) async fn pins_counted(&self) -> Result<(), EngineError> {
        match &self.member {
            Some(member) if !member.lease.runs(self.clock()) => {
                env::mark("gateway: chunks that were read wait for a lease");
                self.lease_comes().await
            }
            _ => Ok(()),
        }
    }

    /// Carries out a client's write, and lets its answer leave only while the cell can't have been founded anew without this view.
    pub(crate) async fn in_touch<T>(&self, write: impl Future<Output = Result<T, EngineError>>) -> Result<T, EngineError> {
        self.writes_permitted().await?;
        let outcome = write.await;
        let tells_something = match &outcome {
            Err(EngineError::Unavailable { .. } | EngineError::Busy { .. } | EngineError::DeviceMissing { .. }) => false,
            Ok(_) | Err(_) => true,
        };
        if tells_something {
            self.writes_permitted().await?;
        }
        outcome
    }

    async fn writes_permitted(&self) -> Result<(), EngineError> {
        match &self.member {
            Some(member) if !member.lease.permits_writes(self.clock()) => self.lease_comes().await,
            _ => Ok(()),
        }
    }

    /// This machine's own clock.
    pub(super) fn clock(&self) -> ClockReading {
        ClockReading { nanos: self.env.now().as_nanos() }
    }
}

#[cfg(test)]
mod tests;
