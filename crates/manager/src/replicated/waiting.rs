//! This process's proposals whose replies have not come.

use std::collections::BTreeMap;
use std::convert::Infallible;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::error::ProposeError;
use crate::limits::PROPOSAL_WINDOW;
use crate::snapshot::{CommandIndex, Snapshot};

/// Applies a command of ours and returns how to tell its proposer, once the effect can be seen.
pub(super) type CarryOut = Box<dyn FnOnce(CommandIndex, &mut Snapshot) -> Tell + Send>;
pub(super) type Tell = Box<dyn FnOnce() + Send>;

/// One proposal that waits.
pub(super) struct Waiter {
    pub(super) carry_out: CarryOut,
    /// Tells the proposer that there will be no reply.
    pub(super) failed: oneshot::Sender<ProposeError>,
    /// Ends the proposal's driver, by being dropped.
    pub(super) _driver: oneshot::Sender<Infallible>,
    /// Its place among [`crate::limits::MAX_WAITING_PROPOSALS`].
    pub(super) _permit: OwnedSemaphorePermit,
}

/// The table of what waits, by serial.
pub(super) struct Waiting {
    table: Mutex<Table>,
}

struct Table {
    next_serial: u64,
    waiters: BTreeMap<u64, Waiter>,
}

impl Table {
    fn oldest(&self) -> u64 {
        self.waiters.first_key_value().map_or(self.next_serial, |(oldest, _)| *oldest)
    }
}

impl Waiting {
    pub(super) fn new() -> Waiting {
        Waiting { table: Mutex::new(Table { next_serial: 1, waiters: BTreeMap::new() }) }
    }

    /// Gives a proposal its serial. None if it would be too far ahead of the oldest that waits.
    pub(super) fn add(&self, waiter: Waiter) -> Option<u64> {
        let mut table = self.table.lock();
        let serial = table.next_serial;
        if serial - table.oldest() >= PROPOSAL_WINDOW {
            return None;
        }
        table.next_serial += 1;
        table.waiters.insert(serial, waiter);
        Some(serial)
    }

    /// Below this nobody waits any more.
    pub(super) fn oldest(&self) -> u64 {
        self.table.lock().oldest()
    }

    /// What is to be run in place of a proposal's command: it is being carried out now.
    pub(super) fn take(&self, serial: u64) -> Option<CarryOut> {
        self.table.lock().waiters.remove(&serial).map(|waiter| waiter.carry_out)
    }

    /// Tells a proposer, if it still waits, that there will be no reply.
    pub(super) fn fail(&self, serial: u64, failure: ProposeError) {
        let waiter = self.table.lock().waiters.remove(&serial);
        if let Some(waiter) = waiter {
            fail(waiter, failure);
        }
    }

    /// Fails all whose serial is `gone`: their effect is in the state, and their replies came about nowhere.
    pub(super) fn fail_where(&self, gone: impl Fn(u64) -> bool, failure: &ProposeError) {
        let lost: Vec<Waiter> = {
            let mut table = self.table.lock();
            let serials: Vec<u64> = table.waiters.keys().copied().filter(|serial| gone(*serial)).collect();
            serials.iter().filter_map(|serial| table.waiters.remove(serial)).collect()
        };
        for waiter in lost {
            fail(waiter, failure.clone());
        }
    }
}

fn fail(waiter: Waiter, failure: ProposeError) {
    // The proposer may have lost interest.
    drop(waiter.failed.send(failure));
}
