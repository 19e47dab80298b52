//! Answers to other nodes.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use net::{BoxFuture, Refusal, Service};

use super::{Inner, Member, Node};
use crate::id::{GroupId, LogPosition};
use crate::inbox::Received;
use crate::limits::{
    HEARTBEAT_ANSWER_LIMIT, MAX_BATCH_ENTRIES, MAX_HEARTBEATS_PER_MESSAGE, MAX_SNAPSHOT_BYTES, SNAPSHOT_PIECE_BYTES,
};
use crate::log::Purpose;
use crate::message::{Answer, Append, AppendAnswer, Ask, Request, decode, encode};
use crate::raft::Refused;
use crate::record::{Blob, Content, Entry, SnapshotSummary, Vote};
use crate::rows::RowsReceived;

impl Node {
    /// What answers the requests of other nodes; to be served at the address that they know.
    pub fn service(&self) -> Arc<dyn Service> {
        Arc::new(NodeService(Arc::clone(&self.inner)))
    }
}

async fn take_rows(member: Member, vote: Vote, sent: SentRows) -> Result<Answer, Refused> {
    let SentRows { summary, offset, piece, checksum } = sent;
    let rows = member.core.rows().ok_or_else(|| "rows for a group that has none".to_owned())?;
    match rows.take(summary.clone(), offset, &piece.0, checksum).await.map_err(|error| error.to_string())? {
        RowsReceived::Partly { bytes } => Ok(Answer::SnapshotReceived { bytes }),
        RowsReceived::NotNeeded => {
            let own = member.core.log().state().vote();
            Ok(Answer::SnapshotInstalled { vote: own.unwrap_or(vote) })
        }
        RowsReceived::Whole { generation, turn } => {
            let taken = member.core.take_rows(vote, summary, generation).await;
            if let Err(error) = rows.give_up_others().await {
                tracing::warn!(%error, "rows that are not needed any more stay until the next start");
            }
            drop(turn);
            taken
        }
    }
}

struct NodeService(Arc<Inner>);

/// A piece of a snapshot's rows.
struct SentRows {
    summary: SnapshotSummary,
    offset: u64,
    piece: Blob,
    checksum: Option<u64>,
}

impl Service for NodeService {
    fn handle(&self, request: net::Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            let request: Request = decode(&request.payload).map_err(Refusal::new)?;
            let node = self.0.node;
            if request.to != node {
                return Err(Refusal::new(format!("this is node {node}, not node {}", request.to)));
            }
            if request.from == node {
                return Err(Refusal::new(format!("two nodes call themselves {node}")));
            }
            let answer = self.0.answer(request.ask).await.map_err(Refusal::new)?;
            Ok(Bytes::from(encode(&answer)))
        })
    }
}

impl Inner {
    async fn answer(&self, ask: Ask) -> Result<Answer, Refused> {
        match ask {
            Ask::Append { append, entries } => {
                if entries.len() > MAX_BATCH_ENTRIES {
                    return Err(format!("{} entries in a message, at most {MAX_BATCH_ENTRIES} are allowed", entries.len()));
                }
                let member = self.running(append.group)?;
                self.must_write()?;
                let bytes = entries.iter().map(Entry::bytes).sum();
                let purpose = self.purpose_of(&member, &entries);
                let Some(_claim) = self.claim(&member.core, bytes, purpose) else { return Err(self.log_is_full()) };
                member.core.take_append(append, entries).await.map(Answer::Append)
            }
            Ask::Heartbeats(heartbeats) => {
                if heartbeats.len() > MAX_HEARTBEATS_PER_MESSAGE {
                    return Err(format!("{} heartbeats in a message", heartbeats.len()));
                }
                let answers = heartbeats.into_iter().map(|heartbeat| self.answer_heartbeat(heartbeat));
                let answers = join_all(answers).await;
                Ok(if self.log.is_crowded() { Answer::CrowdedHeartbeats(answers) } else { Answer::Heartbeats(answers) })
            }
            Ask::Vote { group, vote, last, is_transfer } => {
                let member = self.running(group)?;
                // A leader that hands over has stopped answering reads.
                if !is_transfer && let Some(refusal) = self.silence(&member) {
                    return Ok(refusal);
                }
                self.must_write()?;
                member.core.take_vote(vote, last, is_transfer).await
            }
            Ask::PreVote { group, vote, last } => {
                let member = self.running(group)?;
                if let Some(refusal) = self.silence(&member) {
                    return Ok(refusal);
                }
                // It would refuse the vote itself, and the candidate would go on to the next term.
                self.must_write()?;
                member.core.take_pre_vote(vote, last).await
            }
            Ask::Transfer { group, vote, to, last } => self.running(group)?.core.take_transfer(vote, to, last).await,
            Ask::Rows { group, vote, summary, offset, piece, checksum } => {
                let member = self.running(group)?;
                self.must_write()?;
                self.answer_rows(member, vote, SentRows { summary, offset, piece, checksum }).await
            }
            Ask::Snapshot { group, vote, snapshot, offset, piece } => {
                let member = self.running(group)?;
                self.must_write()?;
                // Held until all of it is in the log; a piece asks for nothing but whether it is worth while.
                let bytes = usize::try_from(snapshot.bytes).unwrap_or(usize::MAX / 4);
                let purpose = self.purpose_of_snapshot(&member, &snapshot.summary);
                let claim = self.log.claim_for_sent_snapshot(member.core.log(), bytes.min(MAX_SNAPSHOT_BYTES), purpose);
                let Some(claim) = claim else { return Err(self.log_is_full()) };
                match self.inbox.take(group, snapshot, offset, &piece.0).map_err(|error| error.to_string())? {
                    Received::Partly { bytes } => Ok(Answer::SnapshotReceived { bytes }),
                    Received::Whole(snapshot) => {
                        // Raft goes on with it when nobody waits for the answer any more.
                        let taken = self.env.spawn(async move {
                            let _claim = claim;
                            member.core.take_snapshot(vote, snapshot).await
                        });
                        taken.await.unwrap_or_else(|error| Err(error.to_string()))
                    }
                }
            }
        }
    }

    async fn answer_rows(&self, member: Member, vote: Vote, sent: SentRows) -> Result<Answer, Refused> {
        let found = sent.piece.0.len();
        if found > SNAPSHOT_PIECE_BYTES {
            return Err(format!("a piece of {found} bytes; at most {SNAPSHOT_PIECE_BYTES} are allowed"));
        }
        // Goes on when the sender waits for the answer no more.
        let taken = self.env.spawn(take_rows(member, vote, sent));
        taken.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// What entries of a leader are for. It has taken them: what makes states longer stands before what makes them shorter, and comes with it. A node without a vote
    /// refuses both as what makes states longer: decisions don't wait for it, and its leader does not ask what room it has. One that gets a vote by these is one that has it:
    /// the vote itself may not be decided without it.
    fn purpose_of(&self, member: &Member, entries: &[Entry]) -> Purpose {
        let is_command = |entry: &Entry| matches!(entry.content, Content::Command(_));
        if !entries.iter().any(is_command) {
            return Purpose::Upkeep;
        }
        let gives_vote =
            |entry: &Entry| matches!(&entry.content, Content::Membership(membership) if membership.has_vote(self.node));
        let has_vote = member.core.has_vote(self.node) || entries.iter().any(gives_vote);
        if has_vote { Purpose::Command } else { Purpose::Growth }
    }

    /// What a snapshot of a leader is for. Decisions may wait for a voter that is behind: where all logs are full, two that have restarted would keep their group from any. One without a
    /// vote does less harm than a node that takes nothing.
    fn purpose_of_snapshot(&self, member: &Member, summary: &SnapshotSummary) -> Purpose {
        let has_vote = member.core.has_vote(self.node) || summary.membership.has_vote(self.node);
        if has_vote { Purpose::Command } else { Purpose::Growth }
    }

    fn running(&self, group: GroupId) -> Result<Member, Refused> {
        self.member(group).ok_or_else(|| format!("group {group} does not run on node {}", self.node))
    }

    fn log_is_full(&self) -> Refused {
        format!("the log of node {} is nearly full", self.node)
    }

    /// Raft answers what is to be durable first, and heartbeats behind it, when it is, and keeps them all until then: for as long as the file
    /// system is full. Their senders do not wait so long, and ask again.
    fn must_write(&self) -> Result<(), Refused> {
        if self.log.waits_for_room() {
            return Err(format!("the log of node {} waits for room in its file system", self.node));
        }
        Ok(())
    }

    /// One slow group must not silence the others.
    async fn answer_heartbeat(&self, heartbeat: Append) -> Option<AppendAnswer> {
        let member = self.member(heartbeat.group)?;
        self.must_write().ok()?;
        tokio::select! {
            biased;
            answer = member.core.take_append(heartbeat, Vec::new()) => answer.ok(),
            () = self.env.sleep(HEARTBEAT_ANSWER_LIMIT) => None,
        }
    }

    /// What a node answers to candidates while it may have promised itself to a leader that it does not remember.
    fn silence(&self, member: &Member) -> Option<Answer> {
        let is_silent = member.silent_until.is_some_and(|until| self.env.now() < until);
        let state = member.core.log().state();
        let own: Option<(Vote, Option<LogPosition>)> = state.vote().map(|vote| (vote, state.last()));
        let (vote, last) = own.filter(|_| is_silent)?;
        env::mark("consensus: a vote refused after a restart");
        Some(Answer::Vote { vote, is_granted: false, last })
    }
}
