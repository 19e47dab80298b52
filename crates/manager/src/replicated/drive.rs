//! A proposal's way into the log and back.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use consensus::ReadMode;
use env::Instant;
use tokio::sync::oneshot;

use crate::command::{Command, apply_noting};
use crate::error::{FreshError, ManagerError, ProposeError};
use crate::limits::{FRESH_DEADLINE, MAX_PROPOSED_COMMAND_BYTES, PROPOSAL_PIECE_BYTES, PROPOSE_DEADLINE};
use crate::operation::Operation;
use crate::replicated::Replicated;
use crate::replicated::leader::Unanswered;
use crate::replicated::proposal::{Content, Proposal, ProposalId};
use crate::replicated::waiting::{CarryOut, Waiter};
use crate::replicated::wire::{Answer, Ask};
use crate::snapshot::CommandIndex;

impl Replicated {
    /// Puts an operation through the group's log and answers with what it did here.
    pub(crate) async fn propose<O: Operation>(self: &Arc<Self>, operation: O) -> Result<O::Reply, ManagerError<O::Refusal>> {
        let command: Command = operation.clone().into();
        let length = command.encode().len();
        if length > MAX_PROPOSED_COMMAND_BYTES {
            return Err(ProposeError::Length { found: length, most: MAX_PROPOSED_COMMAND_BYTES }.into());
        }
        let deadline = self.env.now() + PROPOSE_DEADLINE;
        let permit = tokio::select! {
            biased;
            permit = Arc::clone(&self.proposals).acquire_owned() => permit.expect("the semaphore is never closed"),
            () = self.env.sleep_until(deadline) => return Err(ProposeError::Overloaded.into()),
        };
        let (reply, replied) = oneshot::channel();
        let carry_out: CarryOut = Box::new(move |index, state| {
            let outcome = apply_noting(index, &mut Vec::new(), state, |edit| operation.apply(index, edit));
            // The proposer may have lost interest.
            Box::new(move || drop(reply.send(outcome)))
        });
        let (failed, failure) = oneshot::channel();
        let (driver, ended) = oneshot::channel();
        let serial =
            self.waiting.add(Waiter { carry_out, failed, _driver: driver, _permit: permit }).ok_or(ProposeError::Overloaded)?;
        let id = ProposalId { proposer: self.proposer, serial };
        self.begin(id, command, deadline, ended);
        match replied.await {
            Ok(outcome) => outcome.map_err(ManagerError::Refused),
            Err(_) => Err(failure.await.unwrap_or(ProposeError::Abandoned).into()),
        }
    }

    fn begin(self: &Arc<Self>, id: ProposalId, command: Command, deadline: Instant, ended: oneshot::Receiver<Infallible>) {
        self.env.spawn(Arc::clone(self).drive(id, command, deadline, ended));
    }

    /// Sends a proposal until it is in the log, and fails it at its deadline. Ends as soon as nobody waits for it.
    async fn drive(
        self: Arc<Self>,
        id: ProposalId,
        command: Command,
        deadline: Instant,
        mut ended: oneshot::Receiver<Infallible>,
    ) {
        let mut failures = Unanswered::new();
        let failure = tokio::select! {
            biased;
            _ = &mut ended => return,
            failure = self.put_through(id, command, deadline, &mut failures) => failure,
        };
        self.waiting.fail(id.serial, failure);
    }

    /// Returns only when there will be no reply, and says why.
    async fn put_through(
        &self,
        id: ProposalId,
        command: Command,
        deadline: Instant,
        failures: &mut Unanswered,
    ) -> ProposeError {
        let outcome = self.put_into_log(id, command, deadline, failures).await;
        let reason = std::mem::take(&mut failures.reason);
        match outcome {
            Outcome::InLog => {
                // This member's own state machine reaches it, or time is up.
                self.env.sleep_until(deadline).await;
                let reason = "it was, but this member has not heard from the leader since".to_owned();
                ProposeError::Unknown { reason }
            }
            Outcome::Refused { reason } if failures.is_definite => ProposeError::NoLeader { reason },
            Outcome::Refused { reason } => ProposeError::Unknown { reason },
            Outcome::Unanswered if failures.is_definite => ProposeError::NoLeader { reason },
            Outcome::Unanswered => ProposeError::Unknown { reason },
        }
    }

    async fn put_into_log(&self, id: ProposalId, command: Command, deadline: Instant, failures: &mut Unanswered) -> Outcome {
        // This one may have got its reply by now, of a twin.
        let oldest = self.waiting.oldest().min(id.serial);
        let bytes = Bytes::from(command.encode());
        if bytes.len() <= PROPOSAL_PIECE_BYTES {
            let whole = Proposal { id, oldest, content: Content::Whole(command) };
            return self.put_one(&whole, deadline, failures).await;
        }
        drop(command);
        let _turn = tokio::select! {
            biased;
            turn = self.pieces.acquire() => turn.expect("the semaphore is never closed"),
            () = self.env.sleep_until(deadline) => return Outcome::Unanswered,
        };
        let mut offset = 0;
        loop {
            let end = bytes.len().min(offset + PROPOSAL_PIECE_BYTES);
            let is_last = end == bytes.len();
            let content = Content::Piece { offset, bytes: bytes.slice(offset..end), is_last };
            match self.put_one(&Proposal { id, oldest, content }, deadline, failures).await {
                Outcome::InLog if is_last => return Outcome::InLog,
                Outcome::InLog => offset = end,
                // Others have pushed it out: from the beginning, unless time is up.
                Outcome::Refused { reason } if reason == OUT_OF_PLACE && self.env.now() < deadline => offset = 0,
                outcome => return outcome,
            }
        }
    }

    async fn put_one(&self, proposal: &Proposal, deadline: Instant, failures: &mut Unanswered) -> Outcome {
        match self.ask_leader(&Ask::Propose(proposal.encode()), None, deadline, failures).await {
            Some(Answer::Proposed { is_in_place: true }) => Outcome::InLog,
            Some(Answer::Proposed { is_in_place: false }) => Outcome::Refused { reason: OUT_OF_PLACE.to_owned() },
            Some(Answer::Refused { reason }) => Outcome::Refused { reason },
            Some(other) => Outcome::Refused { reason: format!("the leader answered something else: {other:?}") },
            None => Outcome::Unanswered,
        }
    }

    /// Returns if nobody but this member can lead now.
    pub(crate) async fn confirm_lead(&self) -> Result<(), FreshError> {
        let led = self.group.read(ReadMode::Lease, |_| ()).await;
        led.map_err(|error| FreshError::NoLeader { reason: error.to_string() })
    }

    /// Returns when this member's state holds everything that was acknowledged before the call, by whichever member.
    pub(crate) async fn fresh(&self) -> Result<(), FreshError> {
        let deadline = self.env.now() + FRESH_DEADLINE;
        let mut failures = Unanswered::new();
        let needed = match self.ask_leader(&Ask::Barrier, None, deadline, &mut failures).await {
            Some(Answer::Applied { command }) => CommandIndex(command),
            Some(Answer::Refused { reason }) => return Err(FreshError::NoLeader { reason }),
            Some(other) => return Err(FreshError::NoLeader { reason: format!("it answered something else: {other:?}") }),
            None => return Err(FreshError::NoLeader { reason: failures.reason }),
        };
        let mut changes = self.published.changes();
        let reached = tokio::select! {
            biased;
            reached = changes.wait_for(|applied| *applied >= needed) => reached.is_ok(),
            () = self.env.sleep_until(deadline) => false,
        };
        if reached { Ok(()) } else { Err(FreshError::Behind { applied: self.published.load().applied, needed }) }
    }
}

const OUT_OF_PLACE: &str = "pieces of the command were pushed out by others'";

/// What became of an attempt to bring a proposal into the log.
enum Outcome {
    InLog,
    Refused { reason: String },
    Unanswered,
}
