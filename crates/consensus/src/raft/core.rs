//! One group's Raft with this crate's types: what the rest of the crate may ask of it.

mod keeping;
mod members;
mod reading;

use net::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bytes::Bytes;
use env::Env;
use openraft::errors::{ClientWriteError, ForwardToLeader, RaftError};
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, VoteRequest, VoteResponse};
use openraft::{Config, Raft, ServerState, SnapshotPolicy};
use tokio::sync::Semaphore;

use super::machine::Machine;
use super::network::Network;
use super::runtime::within;
use super::storage::LogStorage;
use super::types::{
    CommandBytes, RaftSnapshot, SnapshotData, Types, log_id, own_membership, own_vote, position, raft_entry, raft_meta,
    raft_vote, transfer_answer,
};
use crate::error::{NotLeader, ProposeError, ReadError};
use crate::id::{GroupId, LogIndex, LogPosition, NodeId, Term};
use crate::limits::{
    ELECTION_TIMEOUT_MAX, ELECTION_TIMEOUT_MIN, KEPT_ENTRIES, MAX_BATCH_ENTRIES, MAX_GROUP_QUEUE, MAX_MACHINE_QUEUE,
    MAX_NOTICE_QUEUE, PROPOSAL_LIMIT, SNAPSHOT_PIECE_LIMIT, TICK_INTERVAL,
};
use crate::links::Links;
use crate::log::{GroupLog, Snapshot};
use crate::machine::Reply;
use crate::message::{Answer, Append, AppendAnswer};
use crate::record::{Entry, Membership, SnapshotSummary, Vote};
use crate::rows::IncomingRows;
use crate::transport::Peer;

/// One group's Raft on this node. Clones share it.
#[derive(Clone)]
pub(crate) struct Core {
    env: Env,
    group: GroupId,
    log: GroupLog,
    raft: Raft<Types, Machine>,
    /// Of a machine that is kept as rows.
    rows: Option<Arc<IncomingRows>>,
    /// One permit: the turn of who changes the members.
    changes: Arc<Semaphore>,
    /// Terms in which this node may have asked another to lead: up to this one.
    given_away: Arc<AtomicU64>,
}

/// What a group is doing, as far as this node knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CoreStatus {
    pub(crate) term: Term,
    pub(crate) leader: Option<NodeId>,
    pub(crate) is_leader: bool,
    pub(crate) last: Option<LogIndex>,
    pub(crate) applied: Option<LogPosition>,
    pub(crate) snapshot: Option<LogPosition>,
    pub(crate) purged: Option<LogPosition>,
    pub(crate) membership: Membership,
    /// Why the group has stopped, if it has.
    pub(crate) stopped: Option<String>,
}

/// A question that a peer's message did not make sense for, or that a stopped group cannot answer.
pub(crate) type Refused = String;

/// `keeps_rows`: entries that rows cover are given up by this crate, which knows which members need them still.
fn config(snapshot_after: u64, is_electable: bool, keeps_rows: bool) -> Config {
    let millis = |duration: Duration| duration.as_millis() as u64;
    let config = Config {
        cluster_name: "trilith".to_owned(),
        election_timeout_min: millis(ELECTION_TIMEOUT_MIN),
        election_timeout_max: millis(ELECTION_TIMEOUT_MAX),
        // Raft ticks 64/13 times in this interval; it sends nothing, because its own heartbeats are off.
        heartbeat_interval: (millis(TICK_INTERVAL) * 64).div_ceil(13),
        enable_heartbeat: false,
        enable_elect: is_electable,
        install_snapshot_timeout: millis(SNAPSHOT_PIECE_LIMIT),
        max_payload_entries: MAX_BATCH_ENTRIES as u64,
        max_append_entries: Some(MAX_BATCH_ENTRIES as u64),
        snapshot_policy: SnapshotPolicy::LogsSinceLast(snapshot_after),
        max_in_snapshot_log_to_keep: if keeps_rows { u64::MAX } else { KEPT_ENTRIES.min(snapshot_after) },
        replication_lag_threshold: snapshot_after,
        api_channel_size: Some(MAX_GROUP_QUEUE),
        notification_channel_size: Some(MAX_NOTICE_QUEUE),
        state_machine_channel_size: Some(MAX_MACHINE_QUEUE),
        enable_pre_vote: Some(true),
        backoff: "50ms 100ms 200ms ...500ms".to_owned(),
        // A restarted leader asks for votes like everybody else.
        enable_leader_restore: Some(false),
        // A member whose last frame rotted before a mark stood behind it is given again what it forgot.
        allow_log_reversion: Some(true),
        ..Config::default()
    };
    config.validate().expect("the limits fit together")
}

impl Core {
    /// Starts the group from what its log holds. It does not stand for election if it may have made a promise: not for a moment, which may
    /// be long for a process that is stopped in it.
    pub(crate) fn start(
        env: &Env,
        node: NodeId,
        group: GroupId,
        log: GroupLog,
        links: Links,
        machine: Machine,
    ) -> BoxFuture<'_, Result<Core, String>> {
        Box::pin(async move {
            let network = Network { group, links };
            let storage = LogStorage::new(env, log.clone());
            let rows = machine.rows().map(IncomingRows::new);
            let config = Arc::new(config(log.snapshot_after(), !log.state().may_have_promised(node), rows.is_some()));
            let started = within(env, Raft::new(node.0, config, network, storage, machine)).await;
            let raft = started.map_err(|error| error.to_string())?;
            // Its task says nothing of what the log holds before it has run: a question for the members would find none.
            within(env, raft.with_raft_state(|_| ())).await.map_err(|error| error.to_string())?;
            let changes = Arc::new(Semaphore::new(1));
            Ok(Core { env: env.clone(), group, log, raft, rows, changes, given_away: Arc::default() })
        })
    }

    pub(crate) fn log(&self) -> &GroupLog {
        &self.log
    }

    /// From now on this node stands for election when it hears of no leader.
    pub(crate) fn become_electable(&self) {
        self.raft.runtime_config().elect(true);
    }

    pub(crate) fn rows(&self) -> Option<&Arc<IncomingRows>> {
        self.rows.as_ref()
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.raft.is_leader()
    }

    pub(crate) fn status(&self) -> CoreStatus {
        let metrics = openraft::async_runtime::WatchReceiver::borrow_watched(&self.raft.metrics()).clone();
        CoreStatus {
            term: Term(metrics.current_term),
            leader: metrics.current_leader.map(NodeId),
            is_leader: metrics.state == ServerState::Leader,
            last: metrics.last_log_index.map(LogIndex),
            applied: metrics.last_applied.map(position),
            snapshot: metrics.snapshot.map(position),
            purged: metrics.purged.map(position),
            membership: own_membership(metrics.membership_config.membership()),
            stopped: metrics.running_state.err().map(|error| error.to_string()),
        }
    }

    /// Whether a node is a voter, of any set, as far as this one knows.
    pub(crate) fn has_vote(&self, node: NodeId) -> bool {
        let metrics = self.raft.metrics();
        let metrics = openraft::async_runtime::WatchReceiver::borrow_watched(&metrics);
        metrics.membership_config.membership().get_joint_config().iter().any(|set| set.contains(&node.0))
    }

    pub(crate) fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // A panic of the group's task has stopped the process or is told to each caller that asks it.
            drop(within(&self.env, self.raft.shutdown()).await);
        })
    }

    /// Makes itself heard, if it leads. Not being heard once does no harm.
    pub(crate) async fn send_heartbeat(&self) {
        drop(within(&self.env, self.raft.trigger().heartbeat()).await);
    }

    /// Stands for election now, without asking first.
    pub(crate) async fn elect(&self) {
        drop(within(&self.env, self.raft.trigger().elect(false)).await);
    }

    /// Asks for a snapshot; it is made later.
    pub(crate) fn make_snapshot(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            drop(within(&self.env, self.raft.trigger().snapshot()).await);
        })
    }

    /// Asks for giving up all entries that a snapshot covers, those for slow followers too.
    pub(crate) async fn purge(&self, through: LogIndex) {
        drop(within(&self.env, self.raft.trigger().purge_log(through.0)).await);
    }

    pub(crate) fn transfer(&self, to: NodeId) -> BoxFuture<'_, Result<(), ReadError>> {
        Box::pin(async move {
            self.give_away();
            within(&self.env, self.raft.trigger().transfer_leader(to.0)).await.map_err(|error| self.stopped(error))
        })
    }

    fn stopped(&self, error: impl ToString) -> ReadError {
        ReadError::Stopped { group: self.group, reason: error.to_string() }
    }

    fn not_leader(&self, forward: ForwardToLeader<Types>) -> NotLeader {
        let peer = forward.leader_id.zip(forward.leader_node).map(|(node, address)| Peer { node: NodeId(node), address });
        NotLeader { group: self.group, leader: peer }
    }

    /// Puts a command through the log.
    pub(crate) fn propose(&self, command: Bytes) -> BoxFuture<'_, Result<(LogPosition, Reply), ProposeError>> {
        Box::pin(async move {
            let write = within(&self.env, self.raft.client_write(CommandBytes(command)));
            let written = tokio::select! {
                biased;
                written = write => written,
                () = self.env.sleep(PROPOSAL_LIMIT) => {
                    return Err(ProposeError::Unknown { reason: format!("no outcome within {PROPOSAL_LIMIT:?}") });
                }
            };
            match written {
                Ok(response) => Ok((position(response.log_id), response.data)),
                Err(RaftError::APIError(ClientWriteError::ForwardToLeader(forward))) => Err(self.not_leader(forward).into()),
                Err(error) => Err(ProposeError::Unknown { reason: error.to_string() }),
            }
        })
    }

    pub(crate) async fn take_append(&self, append: Append, entries: Vec<Entry>) -> Result<AppendAnswer, Refused> {
        let entries: Result<Vec<_>, _> = entries.into_iter().map(raft_entry).collect();
        let request = AppendEntriesRequest {
            vote: raft_vote(append.vote),
            prev_log_id: append.previous.map(log_id),
            entries: entries.map_err(|error| error.to_string())?,
            leader_commit: append.committed.map(log_id),
        };
        let response = within(&self.env, self.raft.append_entries(request)).await.map_err(|error| error.to_string())?;
        Ok(match response {
            AppendEntriesResponse::Success => AppendAnswer::Success,
            AppendEntriesResponse::PartialSuccess(last) => AppendAnswer::Partial(last.map(position)),
            AppendEntriesResponse::Conflict => AppendAnswer::Conflict,
            AppendEntriesResponse::HigherVote(vote) => AppendAnswer::HigherVote(own_vote(&vote)),
        })
    }

    pub(crate) async fn take_vote(&self, vote: Vote, last: Option<LogPosition>, is_transfer: bool) -> Result<Answer, Refused> {
        let mut request = VoteRequest::new(raft_vote(vote), last.map(log_id));
        request.leadership_transfer = is_transfer;
        let response = within(&self.env, self.raft.vote(request)).await;
        response.map(vote_answer).map_err(|error| error.to_string())
    }

    pub(crate) async fn take_pre_vote(&self, vote: Vote, last: Option<LogPosition>) -> Result<Answer, Refused> {
        let request = VoteRequest::new(raft_vote(vote), last.map(log_id));
        let response = within(&self.env, self.raft.pre_vote(request)).await;
        response.map(vote_answer).map_err(|error| error.to_string())
    }

    pub(crate) async fn take_transfer(&self, vote: Vote, to: NodeId, last: Option<LogPosition>) -> Result<Answer, Refused> {
        let request = TransferLeaderRequest::new(raft_vote(vote), to.0, last.map(log_id));
        let response = within(&self.env, self.raft.handle_transfer_leader(request)).await.map_err(|error| error.to_string())?;
        Ok(Answer::Transfer(transfer_answer(response)))
    }

    pub(crate) async fn take_snapshot(&self, vote: Vote, snapshot: Snapshot) -> Result<Answer, Refused> {
        self.install(vote, snapshot.summary, SnapshotData::Whole(snapshot.bytes)).await
    }

    /// The rows of a snapshot have come, as this generation.
    pub(crate) async fn take_rows(&self, vote: Vote, summary: SnapshotSummary, generation: u64) -> Result<Answer, Refused> {
        self.install(vote, summary, SnapshotData::Received(generation)).await
    }

    async fn install(&self, vote: Vote, summary: SnapshotSummary, snapshot: SnapshotData) -> Result<Answer, Refused> {
        let meta = raft_meta(summary).map_err(|error| error.to_string())?;
        let snapshot = RaftSnapshot { meta, snapshot };
        let installed = within(&self.env, self.raft.install_full_snapshot(raft_vote(vote), snapshot)).await;
        let response = installed.map_err(|error| error.to_string())?;
        Ok(Answer::SnapshotInstalled { vote: own_vote(&response.vote) })
    }
}

fn vote_answer(response: VoteResponse<Types>) -> Answer {
    let last = response.last_log_id.map(position);
    Answer::Vote { vote: own_vote(&response.vote), is_granted: response.vote_granted, last }
}
