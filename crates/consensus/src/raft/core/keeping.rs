//! Which entries of a group whose state is rows are kept behind a snapshot.
//!
//! A snapshot of rows is cheap to make and long to send. So entries stay for members that come back after a while, and for those that something is sent
//! to: what was applied meanwhile they get as entries.

use openraft::async_runtime::WatchReceiver;

use super::Core;
use crate::id::LogIndex;
use crate::limits::KEPT_ENTRIES_BESIDE_ROWS;

/// Entries that are given up at once: each time is a record of the log.
const GIVEN_UP_AT_ONCE: u64 = 1024;

impl Core {
    pub(crate) fn keeps_rows(&self) -> bool {
        self.rows.is_some()
    }

    /// Gives up entries that rows cover and no member needs, but for the newest ones.
    pub(crate) async fn purge_beside_rows(&self) {
        let covered = self.log.state().snapshot().and_then(|snapshot| snapshot.summary.last);
        let Some(covered) = covered else { return };
        let last = covered.index.0.saturating_sub(KEPT_ENTRIES_BESIDE_ROWS).min(self.slowest());
        let first = self.log.state().first_index();
        if last >= first + GIVEN_UP_AT_ONCE {
            self.purge(LogIndex(last)).await;
        }
    }

    /// What all members have, as far as a leader knows; elsewhere no limit.
    fn slowest(&self) -> u64 {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let Some(members) = &metrics.replication else { return u64::MAX };
        members.values().map(|matched| matched.as_ref().map_or(0, |id| id.index())).min().unwrap_or(u64::MAX)
    }
}
