//! Linearizable reads of a member's state machine.
//!
//! Raft's task publishes what it knows after each of its steps. Where that proves a read right, no task is asked:
//!
//! | needed | proof |
//! |---|---|
//! | all that earlier leaders acknowledged is applied | this node leads, and the last entry that was applied is of its term |
//! | no other node leads | it is the only voter; or, for a read by lease, a quorum acknowledged it within [`READ_LEASE`], and it asked no other node to lead |
//!
//! What was published may be old. An older acknowledgement only proves less. A membership with other voters is published long before they can
//! elect another leader: before the joint membership is committed.

use net::BoxFuture;
use std::sync::atomic::Ordering;
use std::time::Duration;

use openraft::async_runtime::WatchReceiver;
use openraft::errors::{LinearizableReadError, RaftError};
use openraft::{LinearizerOption, RaftMetrics, ServerState};

use super::Core;
use crate::error::ReadError;
use crate::limits::{READ_LEASE, READ_LIMIT};
use crate::raft::runtime::{Moment, within};
use crate::raft::types::{Types, position};

impl Core {
    /// Returns when this node's state machine holds everything that was acknowledged before the call. With `lease`, a quorum that
    /// acknowledged this leader within [`READ_LEASE`] is proof enough that no other node leads.
    pub(crate) async fn wait_for_read(&self, lease: bool) -> Result<(), ReadError> {
        if self.is_known_to_be_current(lease) {
            return Ok(());
        }
        self.confirm(lease).await
    }

    fn confirm(&self, lease: bool) -> BoxFuture<'_, Result<(), ReadError>> {
        Box::pin(async move {
            let age = if lease { READ_LEASE } else { Duration::ZERO };
            let option = LinearizerOption::new(Some(age), true).with_wait_timeout(READ_LIMIT);
            let confirm = async {
                let linearizer = self.raft.get_read_linearizer(option).await?;
                Ok::<_, RaftError<Types, LinearizableReadError<Types>>>(
                    linearizer.try_await_ready(&self.raft, Some(READ_LIMIT)).await?,
                )
            };
            let confirmed = tokio::select! {
                biased;
                confirmed = within(&self.env, confirm) => confirmed,
                () = self.env.sleep(READ_LIMIT) => return Err(ReadError::NoQuorum { group: self.group }),
            };
            match confirmed {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(_)) => Err(ReadError::NoQuorum { group: self.group }),
                Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(forward))) => {
                    Err(self.not_leader(forward).into())
                }
                Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_))) => {
                    Err(ReadError::NoQuorum { group: self.group })
                }
                Err(error) => Err(self.stopped(error)),
            }
        })
    }

    fn is_known_to_be_current(&self, lease: bool) -> bool {
        // Before the metrics: a term in which another was asked to lead counts from the request on.
        let given_away = self.given_away.load(Ordering::SeqCst);
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        has_applied_its_term(&metrics)
            && metrics.current_term > given_away
            && (is_only_voter(&metrics) || lease && self.has_lease(&metrics))
    }

    fn has_lease(&self, metrics: &RaftMetrics<Types>) -> bool {
        let now = Moment::of(&self.env);
        metrics.last_quorum_acked.is_some_and(|acked| now - acked.into_inner() < READ_LEASE)
    }

    /// From here on no lease of this term, or of one that begins just now, proves anything.
    pub(super) fn give_away(&self) {
        let term = self.raft.metrics().borrow_watched().current_term;
        self.given_away.fetch_max(term + 1, Ordering::SeqCst);
    }
}

/// Entries of a term are its leader's, and stand behind all that was acknowledged in earlier terms.
fn has_applied_its_term(metrics: &RaftMetrics<Types>) -> bool {
    metrics.running_state.is_ok()
        && metrics.state == ServerState::Leader
        && metrics.last_applied.is_some_and(|applied| position(applied).term.0 == metrics.current_term)
}

fn is_only_voter(metrics: &RaftMetrics<Types>) -> bool {
    match metrics.membership_config.membership().get_joint_config().as_slice() {
        [voters] => voters.len() == 1 && voters.contains(&metrics.id),
        _ => false,
    }
}
