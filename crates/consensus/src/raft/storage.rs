//! The shared log as Raft's log storage.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, Range, RangeBounds};

use env::Env;
use openraft::OptionalSend;
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};

use super::types::{RaftEntry, RaftLogId, RaftVoteOf, Types, log_id, own_entry, own_vote, position, raft_entry, raft_vote};
use crate::limits::MAX_BATCH_BYTES;
use crate::log::GroupLog;

/// One group's log, as Raft sees it.
#[derive(Clone)]
pub(crate) struct LogStorage {
    env: Env,
    log: GroupLog,
}

impl LogStorage {
    pub(crate) fn new(env: &Env, log: GroupLog) -> Self {
        LogStorage { env: env.clone(), log }
    }
}

fn indexes(range: &impl RangeBounds<u64>) -> Range<u64> {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(before) => before + 1,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(last) => last + 1,
        Bound::Excluded(end) => *end,
        Bound::Unbounded => u64::MAX,
    };
    start..end
}

impl RaftLogReader<Types> for LogStorage {
    async fn try_get_log_entries<B: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: B,
    ) -> Result<Vec<RaftEntry>, io::Error> {
        let entries = self.log.state().entries(indexes(&range), usize::MAX);
        entries.into_iter().map(raft_entry).collect::<Result<_, _>>().map_err(io::Error::other)
    }

    async fn read_vote(&mut self) -> Result<Option<RaftVoteOf>, io::Error> {
        Ok(self.log.state().vote().map(raft_vote))
    }

    /// As many as one request takes.
    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<RaftEntry>, io::Error> {
        let entries = self.log.state().entries(start..end, MAX_BATCH_BYTES);
        entries.into_iter().map(raft_entry).collect::<Result<_, _>>().map_err(io::Error::other)
    }
}

impl RaftLogStorage<Types> for LogStorage {
    type LogReader = LogStorage;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, io::Error> {
        let state = self.log.state();
        Ok(LogState { last_purged_log_id: state.purged().map(log_id), last_log_id: state.last().map(log_id) })
    }

    async fn get_log_reader(&mut self) -> LogStorage {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &RaftVoteOf) -> Result<(), io::Error> {
        self.log.save_vote(own_vote(vote)).await.map_err(io::Error::other)
    }

    /// Kept in memory and written with the next entries: what it is good for is to have less to wait for after a restart.
    async fn save_committed(&mut self, committed: Option<RaftLogId>) -> Result<(), io::Error> {
        self.log.state().set_committed(committed.map(position));
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<RaftLogId>, io::Error> {
        let state = self.log.state();
        // Entries that it speaks of may have been lost with the write that carried them.
        Ok(state.committed().min(state.last()).map(log_id))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = RaftEntry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries = entries.into_iter().map(own_entry).collect();
        let Some(pending) = self.log.append(entries).await.map_err(io::Error::other)? else {
            callback.io_completed(Ok(()));
            return Ok(());
        };
        if pending.is_kept() {
            // The only member's entries are committed by that.
            callback.io_completed(Ok(()));
            return Ok(());
        }
        self.env.spawn(async move { callback.io_completed(pending.await.map(drop).map_err(io::Error::other)) });
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<RaftLogId>) -> Result<(), io::Error> {
        self.log.truncate(last.map(position)).await.map_err(io::Error::other)
    }

    async fn purge(&mut self, last: RaftLogId) -> Result<(), io::Error> {
        self.log.purge(position(last)).await.map_err(io::Error::other)
    }
}
