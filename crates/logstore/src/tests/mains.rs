//! The power supply of a machine: it counts what its disks and its manager are asked to change, and goes off at a chosen one.

use disk::{CompletionOrder, Disk, DiskError, DiskStats, Done, Operation, Request, SimDisk};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Notify;

/// What all disks of one machine are plugged into.
#[derive(Default)]
pub struct Mains {
    state: Mutex<State>,
    went_off: Notify,
}

#[derive(Default)]
struct State {
    disks: Vec<SimDisk>,
    changes: u64,
    cut_at: Option<u64>,
    is_off: bool,
    /// Folds every change in, so that two runs can be compared.
    fingerprint: u64,
}

impl Mains {
    /// The power is on, for these disks.
    pub fn on(disks: Vec<SimDisk>) -> Arc<Mains> {
        Arc::new(Mains { state: Mutex::new(State { disks, ..State::default() }), went_off: Notify::new() })
    }

    /// The power goes at the change that follows `changes` more of them: that one is under way at the cut.
    pub fn cut_after(&self, changes: u64) {
        let mut state = self.state.lock();
        state.cut_at = Some(state.changes + changes);
    }

    /// No cut is to come.
    pub fn stay_on(&self) {
        self.state.lock().cut_at = None;
    }

    /// Cuts the power now.
    pub fn cut(&self) {
        let disks = {
            let mut state = self.state.lock();
            state.is_off = true;
            state.disks.clone()
        };
        disks.iter().for_each(SimDisk::power_cut);
        self.went_off.notify_waiters();
    }

    /// The process ends; its disks keep their power.
    pub fn end(&self) {
        self.state.lock().is_off = true;
        self.went_off.notify_waiters();
    }

    pub fn is_off(&self) -> bool {
        self.state.lock().is_off
    }

    /// Changes so far, and a number that tells which they were.
    pub fn record(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.changes, state.fingerprint)
    }

    /// Waits until the power is off.
    pub async fn off(&self) {
        loop {
            let went_off = self.went_off.notified();
            tokio::pin!(went_off);
            went_off.as_mut().enable();
            if self.is_off() {
                return;
            }
            went_off.await;
        }
    }

    /// Counts a change; true if the power goes at it.
    pub fn change(&self, what: [u64; 4]) -> bool {
        let mut state = self.state.lock();
        let goes = state.cut_at == Some(state.changes) && !state.is_off;
        state.changes += 1;
        for part in what {
            state.fingerprint = (state.fingerprint ^ part).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        }
        goes
    }
}

/// A disk on the mains.
pub struct Plugged {
    pub disk: SimDisk,
    pub mains: Arc<Mains>,
    pub number: u64,
}

impl Disk for Plugged {
    fn describe(&self) -> String {
        self.disk.describe()
    }

    fn size_bytes(&self) -> u64 {
        self.disk.size_bytes()
    }

    fn capacity_bytes(&self) -> Option<u64> {
        self.disk.capacity_bytes()
    }

    fn try_read_cached(&self, offset: u64, buf: &mut [u8]) -> Result<bool, DiskError> {
        self.disk.try_read_cached(offset, buf)
    }

    fn submit(&self, request: Request, done: Done) {
        let (offset, len) = request.range();
        let goes =
            request.operation() != Operation::Read && self.mains.change([self.number, request.operation() as u64, offset, len]);
        if !goes {
            return self.disk.submit(request, done);
        }
        // In flight at the cut: it may take effect in part, and is never answered.
        self.disk.power_cut_after(0);
        self.disk.set_order(CompletionOrder::Inline);
        self.disk.submit(request, done);
        self.mains.cut();
    }

    fn stats(&self) -> DiskStats {
        self.disk.stats()
    }
}
