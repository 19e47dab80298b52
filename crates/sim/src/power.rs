//! The power supply of a machine: it counts what its disks are asked to change, and goes off at a chosen change.

use crate::trace::Trace;
use disk::{CompletionOrder, Disk, DiskError, DiskStats, Done, Operation, Request, SimDisk};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::Notify;

/// What all disks of one machine are plugged into, during one life.
pub struct Power {
    state: Mutex<State>,
    went_off: Notify,
    trace: Arc<Trace>,
}

struct State {
    disks: Vec<SimDisk>,
    changes: u64,
    /// The change at which the life ends, and how.
    end_at: Option<(u64, End)>,
    is_off: bool,
}

/// How a life ends against its will.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    PowerCut,
    /// The process is killed; its disks keep their power.
    Kill,
}

impl Power {
    /// The power is on, for these disks.
    pub fn on(disks: Vec<SimDisk>, trace: Arc<Trace>) -> Arc<Power> {
        let state = State { disks, changes: 0, end_at: None, is_off: false };
        Arc::new(Power { state: Mutex::new(state), went_off: Notify::new(), trace })
    }

    /// The life ends at the change that follows `changes` more of them: that one is under way then.
    pub fn end_after(&self, changes: u64, end: End) {
        let mut state = self.state.lock();
        state.end_at = Some((state.changes + changes, end));
    }

    /// No end is to come.
    pub fn stay_on(&self) {
        self.state.lock().end_at = None;
    }

    /// Ends the life now.
    pub fn end(&self, end: End) {
        let disks = {
            let mut state = self.state.lock();
            state.is_off = true;
            state.disks.clone()
        };
        if end == End::PowerCut {
            disks.iter().for_each(SimDisk::power_cut);
        }
        self.went_off.notify_waiters();
    }

    /// Waits until the life has ended.
    pub async fn off(&self) {
        loop {
            let went_off = self.went_off.notified();
            tokio::pin!(went_off);
            went_off.as_mut().enable();
            if self.state.lock().is_off {
                return;
            }
            went_off.await;
        }
    }

    /// Counts a change; the end that comes with it, if one does.
    fn change(&self, what: [u64; 4]) -> Option<End> {
        self.trace.fold(what);
        let mut state = self.state.lock();
        let at = state.changes;
        state.changes += 1;
        state.end_at.filter(|(end_at, _)| *end_at == at && !state.is_off).map(|(_, end)| end)
    }
}

/// A disk on the power of its machine.
pub struct Plugged {
    pub disk: SimDisk,
    pub power: Arc<Power>,
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
        if request.operation() == Operation::Read {
            return self.disk.submit(request, done);
        }
        match self.power.change([self.number, request.operation() as u64, offset, len]) {
            None => self.disk.submit(request, done),
            Some(End::PowerCut) => {
                // In flight at the cut: it may take effect in part, and is never answered.
                self.disk.power_cut_after(0);
                self.disk.set_order(CompletionOrder::Inline);
                self.disk.submit(request, done);
                self.power.end(End::PowerCut);
            }
            Some(End::Kill) => {
                self.disk.submit(request, done);
                self.power.end(End::Kill);
            }
        }
    }

    fn stats(&self) -> DiskStats {
        self.disk.stats()
    }
}
