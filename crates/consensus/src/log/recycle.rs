//! Giving up the oldest part of the log.
//!
//! ```text
//!   1 what does each group still need?        floor = the oldest of these records
//!   2 a mark at the log's end is durable:     so is everything that made older records needless
//!   3 the base says: from the floor on        durable
//!   4 segments before the floor are free
//! ```
//!
//! A quiet group would pin its records for ever. When the log has grown to much more than its contents need, groups whose oldest
//! record lies in its older half say what they need again.

use wal::{AppendError, Lsn};

use super::{BaseError, GroupLog, SharedLog};
use crate::id::GroupId;
use crate::limits::{HOUSEKEEPING_INTERVAL, SLACK_SEGMENTS};
use crate::record::Change;

/// The log could not be tidied up; it goes on growing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TidyError {
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error(transparent)]
    Base(#[from] BaseError),
}

impl SharedLog {
    /// Looks after the log until it fails. One that can't be tidied up any more takes no more records: its groups end, and other nodes lead
    /// them, instead of waiting for a leader that refuses everything.
    pub(crate) async fn keep_house(self) {
        loop {
            tokio::select! {
                biased;
                () = self.inner.untidy.notified() => {}
                () = self.inner.env.sleep(HOUSEKEEPING_INTERVAL) => {}
            }
            if let Err(error) = self.tidy_up().await {
                tracing::error!(%error, "the consensus log takes no more records; restart to recover");
                self.inner.wal.end(error.to_string());
                return;
            }
        }
    }

    /// Gives up what nobody needs.
    pub(crate) async fn tidy_up(&self) -> Result<(), TidyError> {
        let _alone = self.inner.tidying.lock().await;
        self.measure();
        if self.inner.wal.live_segment_count() < 2 {
            return Ok(());
        }
        self.give_up().await?;
        if self.is_overgrown() {
            for group in self.pinning() {
                // Without room a snapshot must free some first.
                let bytes = group.state().live_bytes();
                let Some(_claim) = self.claim_for_snapshot(bytes) else { continue };
                group.say_again().await?;
            }
            self.give_up().await?;
        }
        Ok(())
    }

    async fn give_up(&self) -> Result<(), TidyError> {
        let (first, next) = (self.inner.wal.first_lsn().0, self.inner.wal.durable_lsn().next());
        let floor = self.floor().map_or(next, |(floor, _)| floor);
        // A step that frees no segment costs a mark and a write of the base for nothing.
        let step = (next.0 - first) / (4 * self.inner.wal.live_segment_count() as u64);
        if floor.0 < self.inner.base.keep_from().0 + step.max(1) {
            return Ok(());
        }
        self.append(GroupId::default(), Change::Mark).await?.await?;
        self.inner.base.store(floor).await?;
        self.inner.wal.truncate_before(floor);
        Ok(())
    }

    /// The oldest record that any group needs, and the bytes that all of them need.
    fn floor(&self) -> Option<(Lsn, usize)> {
        let groups = self.inner.groups.lock();
        let states = groups.values().map(|state| state.lock());
        let needed = states.filter_map(|state| state.floor().map(|floor| (floor, state.live_bytes())));
        needed.reduce(|left, right| (left.0.min(right.0), left.1 + right.1))
    }

    fn is_overgrown(&self) -> bool {
        let live_bytes = self.floor().map_or(0, |(_, bytes)| bytes as u64);
        let needed = live_bytes.div_ceil(self.inner.segment_bytes) as usize;
        // A log with little room is tidied up before proposals have to be refused.
        let most = (2 * needed + SLACK_SEGMENTS).min(self.inner.most_segments / 2);
        self.inner.wal.live_segment_count() > most
    }

    /// Groups whose oldest record stands in the older half of the log.
    fn pinning(&self) -> Vec<GroupLog> {
        let middle = self.middle();
        let groups = self.inner.groups.lock();
        let pins = groups.iter().filter(|(_, state)| state.lock().floor().is_some_and(|floor| floor < middle));
        pins.map(|(group, state)| GroupLog::new(self.clone(), *group, state.clone())).collect()
    }

    /// Where the younger half of the log begins.
    pub(crate) fn middle(&self) -> Lsn {
        Lsn(self.inner.wal.first_lsn().0.midpoint(self.inner.wal.durable_lsn().0))
    }
}
