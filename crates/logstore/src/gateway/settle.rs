//! Waiting until what was sent to a target can do no harm any more (decision 19).

use super::member::Member;
use crate::store::Inner;
use std::time::Duration;
use types::{DeviceId, Generation};

/// Pause before a target that did not answer is asked again.
const SETTLE_PAUSE: Duration = Duration::from_millis(100);

impl Inner {
    /// Whether a failed write can do no harm: nobody else writes; or its append to the primary has an outcome (`out` names the device if it has
    /// none), and no member writes by an older table than this gateway's.
    pub(crate) fn is_settled(&self, out: Option<DeviceId>) -> bool {
        self.member.as_ref().is_none_or(|member| out.is_none() && member.all_carried())
    }

    /// Waits until a failed write, of this table, can do no harm. An append that is out has landed or never will; or every member writes by a later
    /// table, so that all that is written from then on stands above it. A target that can't be asked leaves the table. Ends also when this
    /// gateway leaves its cell: who removed it fences it, and decides.
    pub(crate) async fn settled(&self, out: Option<DeviceId>, generation: Generation) {
        let Some(member) = &self.member else { return };
        tokio::select! {
            biased;
            () = member.deposed() => {}
            () = self.outdated(member, generation) => {}
            () = self.target_settled(out) => {
                // Who has not installed this view may write by an older table.
                tokio::select! {
                    biased;
                    () = member.deposed() => {}
                    _ = member.progress.wait_for(|_| member.all_carried()) => {}
                }
            }
        }
    }

    async fn target_settled(&self, out: Option<DeviceId>) {
        // Without a hold on the target nothing was sent.
        let Some(target) = out.and_then(|device| self.targets.device(device)).cloned() else { return };
        while let Err(error) = target.settle().await {
            tracing::debug!(device = target.id().0, %error, "a target does not tell whether an append has landed");
            self.env.sleep(SETTLE_PAUSE).await;
        }
    }

    /// Waits until all members have installed a view with a later table.
    async fn outdated(&self, member: &Member, generation: Generation) {
        let is_so = |_: &u64| member.all_carried() && self.targets.table().generation() > generation;
        member.progress.wait_for(is_so).await;
    }
}
