//! Giving up the oldest part of the log.
//!
//! ```text
//!   1 what does each group still need?        floor = the oldest of these records
//!   2 a mark at the log's end is durable:     so is everything that made older records needless
//!   3 the base says: from the floor on        durable
//!   4 segments before the floor are free
//! ```
//!
//! A quiet group would pin its records for ever. When the log has more segments than it should for what its contents need ([`Bounds`]), what
//! is needed of the oldest segment is said again at the log's end, and then of the next one. Segment after segment, because little room is
//! enough for that; and what was said again is not touched before the floor has gone once around.
//!
//! [`Bounds`]: super::bounds::Bounds

use wal::{AppendError, Lsn};

use super::{BaseError, GroupLog, SharedLog};
use crate::id::GroupId;
use crate::limits::{HOUSEKEEPING_INTERVAL, LAST_MARK_LIMIT};
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
        let mut marked = None;
        loop {
            tokio::select! {
                biased;
                () = self.inner.untidy.notified() => {}
                () = self.inner.env.sleep(HOUSEKEEPING_INTERVAL) => {}
            }
            let kept = async {
                self.tidy_up().await?;
                self.follow_up(marked).await
            };
            match kept.await {
                Ok(mark) => marked = mark,
                Err(error) => {
                    tracing::error!(%error, "the consensus log takes no more records; restart to recover");
                    self.inner.wal.end(error.to_string());
                    return;
                }
            }
        }
    }

    /// Has a mark behind the log's last frame, unless that one is `marked`, a mark alone: a last frame that rots passes for the torn tail of
    /// an unfinished write, and a member would forget a vote or entries that it acknowledged. With another one behind it the log is refused.
    async fn follow_up(&self, marked: Option<Lsn>) -> Result<Option<Lsn>, TidyError> {
        let last = self.inner.wal.durable_lsn();
        if marked == Some(last) {
            return Ok(marked);
        }
        let mark = self.append(GroupId::default(), Change::Mark).await?.await?;
        // With others before it, it may stand in their frame.
        Ok((mark == last.next()).then_some(mark))
    }

    /// The same when its node stops, which may be for long. Not if the disk does not write it in time, or the log has ended.
    pub(crate) async fn end_with_mark(&self) {
        if let Ok(Err(error)) = tokio::time::timeout(LAST_MARK_LIMIT, self.follow_up(None)).await {
            tracing::debug!(%error, "nothing stands behind the consensus log's last record");
        }
    }

    /// Gives up what nobody needs, and as many of the oldest segments as the log has too many.
    pub(crate) async fn tidy_up(&self) -> Result<(), TidyError> {
        let _alone = self.inner.tidying.lock().await;
        // What this call says again it does not say once more: whatever happens, it comes to an end.
        let end = self.inner.wal.durable_lsn().next();
        self.give_up().await?;
        self.measure();
        while self.is_overgrown() {
            let second = self.inner.wal.second_segment_lsn().filter(|second| *second <= end);
            let Some(second) = second else { return Ok(()) };
            for group in self.pinning(second) {
                let bytes = group.state().bytes_before(second);
                let Some(_claim) = self.claim_for_saying_again(bytes) else { return Ok(()) };
                group.say_again(second).await?;
            }
            if !self.give_up().await? {
                // Somebody writes a snapshot there, which takes its time.
                return Ok(());
            }
            self.measure();
        }
        Ok(())
    }

    /// Frees the segments that hold nothing that is needed. Whether there were any.
    async fn give_up(&self) -> Result<bool, TidyError> {
        let Some(second) = self.inner.wal.second_segment_lsn() else { return Ok(false) };
        // Looked at before the floor: a group's first record may become durable in between.
        let next = self.inner.wal.durable_lsn().next();
        let floor = self.floor().unwrap_or(next);
        if floor < second {
            return Ok(false);
        }
        self.append(GroupId::default(), Change::Mark).await?.await?;
        self.inner.base.store(floor).await?;
        self.inner.wal.truncate_before(floor);
        Ok(true)
    }

    /// The oldest record that any group needs.
    fn floor(&self) -> Option<Lsn> {
        let groups = self.inner.groups.lock();
        groups.values().filter_map(|state| state.lock().floor()).min()
    }

    /// Groups that need a record before `before`.
    fn pinning(&self, before: Lsn) -> Vec<GroupLog> {
        let groups = self.inner.groups.lock();
        let pins = groups.iter().filter(|(_, state)| state.lock().floor().is_some_and(|floor| floor < before));
        pins.map(|(group, state)| GroupLog::new(self.clone(), *group, state.clone())).collect()
    }
}
