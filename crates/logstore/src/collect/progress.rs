//! How far the look through everything for what lacks copies has come.

use env::Instant;
use parking_lot::Mutex;
use types::KeyHash;

/// Where a pass through the index, and then the runs, stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RepairPoint {
    /// Passes are counted: one that was asked for later begins anew.
    pass: u64,
    /// The shard that is looked through; behind the last one come the runs.
    pub shard: usize,
    /// The last hash in it that was looked at: they are taken in their order.
    pub after: Option<KeyHash>,
    /// Something could not get its copies in this pass, so that there will be another one.
    pub has_failed: bool,
    /// When it goes on.
    pub not_before: Option<Instant>,
    /// How often it began again.
    pub again: u32,
}

/// The pass that is under way, if one was asked for.
#[derive(Default)]
pub(crate) struct RepairProgress(Mutex<State>);

#[derive(Default)]
struct State {
    asked: u64,
    point: Option<RepairPoint>,
}

impl RepairProgress {
    /// Everything is to be looked through, from now on.
    pub fn begin_anew(&self) {
        let mut state = self.0.lock();
        state.asked += 1;
        state.point = Some(RepairPoint { pass: state.asked, ..RepairPoint::default() });
    }

    pub fn at(&self) -> Option<RepairPoint> {
        self.0.lock().point
    }

    /// The pass has come so far; false if another one was asked for meanwhile.
    pub fn go_on(&self, next: RepairPoint) -> bool {
        self.change(next.pass, Some(next))
    }

    /// The pass is over, unless another one was asked for meanwhile.
    pub fn end(&self, last: RepairPoint) {
        self.change(last.pass, None);
    }

    fn change(&self, pass: u64, point: Option<RepairPoint>) -> bool {
        let mut state = self.0.lock();
        let is_same = state.asked == pass;
        if is_same {
            state.point = point;
        }
        is_same
    }
}

impl RepairPoint {
    /// The same pass from its beginning, after a pause.
    pub fn again(self, not_before: Instant) -> RepairPoint {
        RepairPoint { pass: self.pass, not_before: Some(not_before), again: self.again + 1, ..RepairPoint::default() }
    }
}
