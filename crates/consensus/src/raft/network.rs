//! A peer, as one group's Raft sees it.

use std::future::Future;

use bytes::Bytes;
use openraft::OptionalSend;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest, TransferLeaderResponse, VoteRequest,
    VoteResponse,
};

use super::types::{
    RaftSnapshot, RaftVoteOf, SnapshotData, Types, log_id, own_entry, own_summary, own_vote, position, raft_vote,
    transfer_response,
};
use crate::id::{GroupId, NodeId};
use crate::limits::{REQUEST_LIMIT, ROWS_INSTALL_LIMIT, SNAPSHOT_PIECE_BYTES, SNAPSHOT_PIECE_LIMIT};
use crate::links::{AskError, Links};
use crate::log::snapshot_checksum;
use crate::message::{Answer, Append, AppendAnswer, Ask, SnapshotName};
use crate::record::{Blob, SnapshotSummary};
use crate::rows::RowReader;
use crate::transport::Peer;

type RpcError = RPCError<Types>;

/// Makes the peers of one group.
pub(crate) struct Network {
    pub(crate) group: GroupId,
    pub(crate) links: Links,
}

impl RaftNetworkFactory<Types> for Network {
    type Network = PeerLink;

    async fn new_client(&mut self, target: u64, address: &String) -> PeerLink {
        let peer = Peer { node: NodeId(target), address: address.clone() };
        PeerLink { group: self.group, links: self.links.clone(), peer }
    }
}

/// One peer of one group.
pub(crate) struct PeerLink {
    group: GroupId,
    links: Links,
    peer: Peer,
}

impl PeerLink {
    async fn ask(&self, ask: Ask) -> Result<Answer, RpcError> {
        self.links.ask(&self.peer, ask, REQUEST_LIMIT).await.map_err(rpc_error)
    }

    fn unexpected(&self, found: &'static str) -> RpcError {
        rpc_error(AskError::Unexpected { node: self.peer.node, found })
    }

    async fn send_snapshot(&self, vote: RaftVoteOf, snapshot: RaftSnapshot) -> Result<SnapshotResponse<Types>, RpcError> {
        let summary = own_summary(&snapshot.meta);
        match snapshot.snapshot {
            SnapshotData::Whole(bytes) => self.send_whole(vote, summary, &bytes).await,
            SnapshotData::Rows(rows) => self.send_rows(vote, summary, RowReader::new(rows)).await,
            SnapshotData::Received(_) => Err(self.unexpected("rows that came in are not sent")),
        }
    }

    /// Sends rows as they are read. What the peer has from an attempt before is read, too, and not sent.
    async fn send_rows(
        &self,
        vote: RaftVoteOf,
        summary: SnapshotSummary,
        mut rows: RowReader,
    ) -> Result<SnapshotResponse<Types>, RpcError> {
        let mut sent = SentRows { offset: 0, piece: Bytes::new(), checksum: None };
        // The first piece is empty: the answer says how much is there.
        loop {
            let limit = if sent.checksum.is_some() { ROWS_INSTALL_LIMIT } else { SNAPSHOT_PIECE_LIMIT };
            let (group, vote, summary) = (self.group, own_vote(&vote), summary.clone());
            let SentRows { offset, piece, checksum } = sent;
            let end = offset + piece.len() as u64;
            let ask = Ask::Rows { group, vote, summary, offset, piece: Blob(piece), checksum };
            let received = match self.links.ask(&self.peer, ask, limit).await.map_err(rpc_error)? {
                Answer::SnapshotInstalled { vote } => return Ok(SnapshotResponse::new(raft_vote(vote))),
                Answer::SnapshotReceived { bytes } if bytes >= end => bytes,
                _ => return Err(self.unexpected("no answer to a piece of rows")),
            };
            sent = self.next_rows(&mut rows, end, received).map_err(rpc_error)?;
        }
    }

    /// The piece behind what a peer has received, of a stream that was read through `at`.
    fn next_rows(&self, rows: &mut RowReader, mut at: u64, received: u64) -> Result<SentRows, AskError> {
        loop {
            let piece = rows.next().map_err(|cause| AskError::Rows { reason: cause.to_string() })?;
            let (offset, end) = (at, at + piece.len() as u64);
            if piece.is_empty() {
                return Ok(SentRows { offset, piece, checksum: Some(rows.checksum()) });
            }
            if end > received {
                return Ok(SentRows { offset, piece, checksum: None });
            }
            at = end;
        }
    }

    async fn send_whole(
        &self,
        vote: RaftVoteOf,
        summary: SnapshotSummary,
        bytes: &Bytes,
    ) -> Result<SnapshotResponse<Types>, RpcError> {
        let name = SnapshotName { summary, bytes: bytes.len() as u64, checksum: snapshot_checksum(bytes) };
        // The first piece is empty: the answer says how much is there from an attempt before.
        let mut piece = Bytes::new();
        let mut offset = 0;
        loop {
            let (group, vote, snapshot) = (self.group, own_vote(&vote), name.clone());
            let ask = Ask::Snapshot { group, vote, snapshot, offset, piece: Blob(piece) };
            match self.links.ask(&self.peer, ask, SNAPSHOT_PIECE_LIMIT).await.map_err(rpc_error)? {
                Answer::SnapshotInstalled { vote } => return Ok(SnapshotResponse::new(raft_vote(vote))),
                Answer::SnapshotReceived { bytes: received } if received < name.bytes => {
                    let start = received as usize;
                    piece = bytes.slice(start..(start + SNAPSHOT_PIECE_BYTES).min(bytes.len()));
                    offset = received;
                }
                _ => return Err(self.unexpected("no answer to a piece of a snapshot")),
            }
        }
    }
}

/// A piece of the stream of rows.
struct SentRows {
    offset: u64,
    piece: Bytes,
    /// With the last one.
    checksum: Option<u64>,
}

/// A peer that was not reached is left alone for a while; one that did not answer is asked again at once, a few times.
fn rpc_error(error: AskError) -> RpcError {
    match &error {
        AskError::Call(net::CallError::NotSent { .. }) => RPCError::Unreachable(Unreachable::new(&error)),
        _ => RPCError::Network(NetworkError::new(&error)),
    }
}

impl RaftNetworkV2<Types> for PeerLink {
    type SnapshotData = SnapshotData;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        _: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RpcError> {
        let append = Append {
            group: self.group,
            vote: own_vote(&request.vote),
            previous: request.prev_log_id.map(position),
            committed: request.leader_commit.map(position),
        };
        let answer = if request.entries.is_empty() {
            self.links.heartbeat(&self.peer, append).await.map_err(rpc_error)?
        } else {
            let entries = request.entries.into_iter().map(own_entry).collect();
            match self.ask(Ask::Append { append, entries }).await? {
                Answer::Append(answer) => answer,
                _ => return Err(self.unexpected("no answer to entries")),
            }
        };
        Ok(match answer {
            AppendAnswer::Success => AppendEntriesResponse::Success,
            AppendAnswer::Partial(last) => AppendEntriesResponse::PartialSuccess(last.map(log_id)),
            // Nothing conflicts with the beginning; whoever says so is not believed.
            AppendAnswer::Conflict if request.prev_log_id.is_none() => {
                return Err(self.unexpected("a conflict with the beginning"));
            }
            AppendAnswer::Conflict => AppendEntriesResponse::Conflict,
            AppendAnswer::HigherVote(vote) => AppendEntriesResponse::HigherVote(raft_vote(vote)),
        })
    }

    async fn vote(&mut self, request: VoteRequest<Types>, _: RPCOption) -> Result<VoteResponse<Types>, RpcError> {
        let (group, vote, last) = (self.group, own_vote(&request.vote), request.last_log_id.map(position));
        let ask = Ask::Vote { group, vote, last, is_transfer: request.leadership_transfer };
        self.vote_answer(ask).await
    }

    async fn pre_vote(&mut self, request: VoteRequest<Types>, _: RPCOption) -> Result<VoteResponse<Types>, RpcError> {
        let (group, vote, last) = (self.group, own_vote(&request.vote), request.last_log_id.map(position));
        self.vote_answer(Ask::PreVote { group, vote, last }).await
    }

    async fn full_snapshot(
        &mut self,
        vote: RaftVoteOf,
        snapshot: RaftSnapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        tokio::select! {
            biased;
            closed = cancel => Err(StreamingError::Closed(closed)),
            sent = self.send_snapshot(vote, snapshot) => sent.map_err(StreamingError::from),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types>,
        _: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RpcError> {
        let ask = Ask::Transfer {
            group: self.group,
            vote: own_vote(request.from_leader()),
            to: NodeId(*request.to_node_id()),
            last: request.last_log_id().copied().map(position),
        };
        match self.ask(ask).await? {
            Answer::Transfer(answer) => Ok(transfer_response(answer)),
            _ => Err(self.unexpected("no answer to a transfer")),
        }
    }
}

impl PeerLink {
    async fn vote_answer(&self, ask: Ask) -> Result<VoteResponse<Types>, RpcError> {
        match self.ask(ask).await? {
            Answer::Vote { vote, is_granted, last } => {
                Ok(VoteResponse { vote: raft_vote(vote), vote_granted: is_granted, last_log_id: last.map(log_id) })
            }
            _ => Err(self.unexpected("no answer to a vote")),
        }
    }
}
