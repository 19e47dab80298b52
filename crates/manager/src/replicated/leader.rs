//! Asking whoever leads: here, or over the network, until it has answered or time is up.

use std::sync::atomic::Ordering;
use std::time::Duration;

use consensus::{GroupStatus, NodeId, Peer};
use env::Instant;
use net::CallError;

use crate::limits::{ATTEMPT_LIMIT, LEADER_POLL_INTERVAL, RETRY_INTERVAL};
use crate::replicated::Replicated;
use crate::replicated::wire::{Answer, Ask, decode, encode};

/// No leader answered in time.
pub(super) struct Unanswered {
    pub(super) reason: String,
    /// No attempt can have had an effect.
    pub(super) is_definite: bool,
}

impl Unanswered {
    pub(super) fn new() -> Unanswered {
        Unanswered { reason: "no leader is known".to_owned(), is_definite: true }
    }
}

impl Replicated {
    /// Asks the leader again and again until it has answered. When this node does not know who leads, or who seems to does not answer, `via` is
    /// asked, and the other members. Failed attempts are noted in `failures`. None if nobody answered by `deadline`.
    pub(super) async fn ask_leader(
        &self,
        ask: &Ask,
        via: Option<&Peer>,
        deadline: Instant,
        failures: &mut Unanswered,
    ) -> Option<Answer> {
        let mut hint: Option<Peer> = None;
        loop {
            let answer = self.attempt(ask, hint.take().as_ref(), via, deadline).await;
            match answer {
                Answer::NotLeader { leader } => {
                    hint = leader.map(|(node, address)| Peer { node, address }).filter(|peer| peer.node != self.id());
                }
                Answer::Failed { reason, is_definite } => {
                    failures.reason = reason;
                    failures.is_definite &= is_definite;
                }
                answer => return Some(answer),
            }
            // Also behind a hint: members that name each other must not do so as fast as they can.
            if self.env.now() + RETRY_INTERVAL >= deadline {
                return None;
            }
            self.env.sleep(RETRY_INTERVAL).await;
        }
    }

    /// Asks once, whoever seems to lead.
    async fn attempt(&self, ask: &Ask, hint: Option<&Peer>, via: Option<&Peer>, deadline: Instant) -> Answer {
        let status = self.group.status();
        if let Some(reason) = status.stopped {
            return Answer::Refused { reason: format!("consensus has stopped on this node: {reason}") };
        }
        if status.is_leader {
            return self.answer_until(ask.clone(), deadline).await;
        }
        let in_vain = self.in_vain.load(Ordering::Relaxed);
        let chosen = hint.cloned().or_else(|| choose(self.whom_to_ask(&status, via), in_vain));
        let Some(peer) = chosen else { return Answer::NotLeader { leader: None } };
        let answer = self.ask_peer(&peer, ask, deadline).await;
        let in_vain = match &answer {
            Answer::Failed { .. } | Answer::NotLeader { leader: None } => in_vain.wrapping_add(1),
            // Whoever is named may be long gone.
            Answer::NotLeader { leader: Some(_) } => in_vain,
            _ => 0,
        };
        self.in_vain.store(in_vain, Ordering::Relaxed);
        answer
    }

    /// Who seems to lead comes first. A member that the others do not find at its address hears of nobody who leads, and what it knew last may be long past.
    fn whom_to_ask(&self, status: &GroupStatus, via: Option<&Peer>) -> Vec<Peer> {
        let member = |node: NodeId| Some(Peer { node, address: status.addresses.get(&node)?.clone() });
        let known = status.leader.filter(|leader| *leader != self.id()).and_then(member);
        let others = status.voters.iter().flatten().copied().filter(|node| *node != self.id() && Some(*node) != status.leader);
        known.into_iter().chain(via.cloned()).chain(others.filter_map(member)).collect()
    }

    async fn ask_peer(&self, peer: &Peer, ask: &Ask, deadline: Instant) -> Answer {
        let until = deadline.min(self.env.now() + attempt_limit(ask));
        let call = async {
            let _permit = self.requests.acquire().await.expect("the semaphore is never closed");
            self.transport.call(peer, encode(ask), until).await
        };
        let called = tokio::select! {
            biased;
            called = call => called,
            () = self.leader_moved(peer.node) => return Answer::failed("another node has begun to lead", false),
            () = self.env.sleep_until(until) => return Answer::failed(format!("node {} did not answer", peer.node), false),
        };
        match called {
            Ok(bytes) => decode(&bytes).unwrap_or_else(|error| Answer::failed(error, false)),
            Err(error @ CallError::Unanswered { .. }) => Answer::failed(error, false),
            Err(error) => Answer::failed(error, true),
        }
    }

    /// Returns when another than `asked` has begun to lead, as far as this node knows.
    async fn leader_moved(&self, asked: NodeId) {
        let began = self.group.status().leader;
        loop {
            self.env.sleep(LEADER_POLL_INTERVAL).await;
            let leader = self.group.status().leader;
            // What this node knew when it was told to ask elsewhere is no news.
            if leader != began && leader.is_some_and(|leader| leader != asked) {
                return;
            }
        }
    }

    pub(crate) fn id(&self) -> NodeId {
        self.group.node()
    }
}

/// The first one, unless so many were asked in vain.
fn choose(mut peers: Vec<Peer>, in_vain: usize) -> Option<Peer> {
    if peers.is_empty() { None } else { Some(peers.swap_remove(in_vain % peers.len())) }
}

/// A new member must catch up before the leader can answer.
fn attempt_limit(ask: &Ask) -> Duration {
    match ask {
        Ask::AddMember { .. } | Ask::AddLearner { .. } | Ask::RemoveMember { .. } => crate::limits::MEMBERSHIP_DEADLINE,
        Ask::Propose(_) | Ask::Barrier | Ask::TransferLeader { .. } => ATTEMPT_LIMIT,
    }
}
