//! Answers to other members' managers, and to this one where it leads.

use std::sync::Arc;

use bytes::Bytes;
use consensus::{ReadError, ReadMode};
use env::Instant;
use net::{BoxFuture, Refusal, Request, Service};

use crate::command::Command;
use crate::membership::MemberRole;
use crate::replicated::Replicated;
use crate::replicated::proposal::{Content, Proposal};
use crate::replicated::replica::Taken;
use crate::replicated::wire::{Answer, Ask, decode, encode};

/// What other members ask a manager.
pub(crate) struct ManagerService(pub(crate) Arc<Replicated>);

impl Service for ManagerService {
    fn handle(&self, request: Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            let ask: Ask = decode(&request.payload).map_err(Refusal::new)?;
            Ok(encode(&self.0.answer_until(ask, request.deadline).await))
        })
    }
}

impl Replicated {
    /// Does as the leader what is asked, if this node leads.
    pub(super) async fn answer_until(&self, ask: Ask, deadline: Instant) -> Answer {
        tokio::select! {
            biased;
            answer = self.answer(ask) => answer,
            () = self.env.sleep_until(deadline) => Answer::failed("it takes longer than the caller waits", false),
        }
    }

    async fn answer(&self, ask: Ask) -> Answer {
        match ask {
            Ask::Propose(bytes) => self.take_proposal(&bytes).await,
            Ask::Barrier => match self.group.read(ReadMode::Confirmed, |replica| replica.applied()).await {
                Ok(applied) => Answer::Applied { command: applied.0 },
                Err(ReadError::NotLeader(other)) => Answer::not_leader(other.leader),
                Err(error) => Answer::failed(error, true),
            },
            Ask::AddMember { node, address } => self.take_in(node, &address, MemberRole::Voter).await,
            Ask::AddLearner { node, address } => self.take_in(node, &address, MemberRole::Learner).await,
            Ask::RemoveMember { node } => self.take_out(node).await,
            Ask::TransferLeader { to } => self.hand_over(to).await,
        }
    }

    async fn take_proposal(&self, bytes: &[u8]) -> Answer {
        let proposal = match Proposal::decode(bytes) {
            Ok(proposal) => proposal,
            Err(error) => return Answer::Refused { reason: error.to_string() },
        };
        let id = proposal.id;
        // What is applied is committed, whoever leads.
        if self.group.look(|replica| replica.holds(id)) {
            return Answer::Proposed { is_in_place: true };
        }
        if let Content::Piece { is_last: true, .. } = &proposal.content {
            // What can't be looked at is not put into the log: every member would stop at a command that it does not know.
            let Some(whole) = self.group.look(|replica| replica.whole(id, &proposal.content)) else {
                return Answer::Proposed { is_in_place: false };
            };
            if let Err(error) = Command::decode(&whole) {
                return Answer::Refused { reason: error.to_string() };
            }
        }
        match self.group.propose(&proposal).await {
            Ok((_, taken)) => Answer::Proposed { is_in_place: taken == Taken::InPlace },
            Err(consensus::ProposeError::NotLeader(other)) => Answer::not_leader(other.leader),
            Err(error @ consensus::ProposeError::Length { .. }) => Answer::Refused { reason: error.to_string() },
            Err(error) => Answer::failed(&error, error.is_definite()),
        }
    }
}
