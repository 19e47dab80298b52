//! Devices of this node whose disks hang: heartbeats name them as failed, until they answer again and have all fences.

use crate::CELL;
use crate::node::Inner;
use crate::vitals::Present;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use target::Target;
use types::{DeviceId, ViewNumber};

/// How often the devices are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

impl Inner {
    /// Looks whether this node's disks answer, for as long as it lives.
    pub(crate) async fn watch_disks(self: Arc<Self>) {
        let mut before = BTreeSet::new();
        loop {
            // Twice: a process that was paused finds all that was under way old, and has not yet seen the answers.
            let seen: BTreeSet<DeviceId> = self.targets.iter().filter(|target| target.device().hangs()).map(id).collect();
            let begins = |target: &&Arc<Target>| seen.contains(&id(target)) && before.contains(&id(target));
            let present = self.vitals.get();
            for target in self.targets.iter().filter(begins).filter(|target| !present.hanging.contains(&id(target))) {
                self.note_hang(target);
            }
            for device in present.hanging.iter().filter(|device| !seen.contains(device) && self.has_fences(&present, **device))
            {
                tracing::warn!(device = device.0, "the disk of this device answers again");
                env::mark("node: a disk that hung answers again");
                self.vitals.change(|present| present.hanging.remove(device));
                self.vitals.news.notify_one();
            }
            self.targets.iter().filter(|target| seen.contains(&id(target))).for_each(|target| target.give_up_own_appends());
            before = seen;
            self.env.sleep(LOOK_INTERVAL).await;
        }
    }

    fn note_hang(&self, target: &Target) {
        let device = target.device();
        let owes_ms = device.owes_answer_for().as_millis() as u64;
        tracing::error!(
            device = device.id().0, disk = %device.describe(), owes_ms,
            "the disk of this device hangs: the cell writes to others until it answers"
        );
        env::mark("node: a disk hangs");
        self.vitals.change(|present| present.hanging.insert(device.id()));
        self.vitals.news.notify_one();
    }

    /// Whether a device of this node has the fences of the present view.
    fn has_fences(&self, present: &Present, device: DeviceId) -> bool {
        present.fences.get(&device).is_some_and(|fences| *fences >= self.view_number())
    }

    /// The view whose fences all devices of this node have that are well. The others, which say so, are not waited for: those beside one that has
    /// failed would never come back.
    pub(crate) fn fences(&self, present: &Present) -> ViewNumber {
        let well = self.targets.iter().filter(|target| !is_out(present, target));
        let fences = well.map(|target| present.fences.get(&id(target)).copied().unwrap_or(ViewNumber(0)));
        fences.min().unwrap_or_else(|| self.view_number())
    }

    fn view_number(&self) -> ViewNumber {
        self.manager.snapshot().cell(CELL).map_or(ViewNumber(0), |cell| cell.view_number())
    }
}

/// Whether a device takes no writes, for now or for good.
pub(crate) fn is_out(present: &Present, target: &Target) -> bool {
    target.device().poisoned_by().is_some() || present.hanging.contains(&target.device().id())
}

fn id(target: &Arc<Target>) -> DeviceId {
    target.device().id()
}
