//! Whether those answer who would be left when a voter goes.
//!
//! An exchange of voters that was begun can't be taken back: the newer set has to agree to everything from its first entry on. Without a majority of it the manager
//! decides nothing any more, and if those that are missing are lost, never again.

use std::collections::BTreeSet;
use std::sync::Arc;

use consensus::{GroupStatus, NodeId, Peer, Transport};
use env::Env;

use crate::limits::VOICE_PATIENCE;
use crate::replicated::Replicated;
use crate::replicated::wire::{Answer, Ask, decode, encode};

/// The way to the other members.
pub(super) struct Voices {
    env: Env,
    me: NodeId,
    transport: Arc<dyn Transport>,
}

impl Replicated {
    pub(super) fn voices(&self) -> Voices {
        Voices { env: self.env.clone(), me: self.id(), transport: Arc::clone(&self.transport) }
    }
}

impl Voices {
    /// Refuses to let a voter go if no majority of the others answers. Whether it answers itself makes no difference.
    pub(super) async fn check_majority_without(&self, leaves: NodeId, status: &GroupStatus) -> Result<(), Answer> {
        let voters: BTreeSet<NodeId> = status.voters.iter().flatten().copied().filter(|node| *node != leaves).collect();
        let others = voters.iter().filter(|node| **node != self.me).filter_map(|node| {
            let address = status.addresses.get(node)?.clone();
            Some(Peer { node: *node, address })
        });
        let questions: Vec<_> = others.map(|peer| self.ask(peer)).collect();
        let mut count = usize::from(voters.contains(&self.me));
        for question in questions {
            count += usize::from(question.await.is_ok_and(|answers| answers));
        }
        if voters.is_empty() || count > voters.len() / 2 {
            return Ok(());
        }
        env::mark("manager: a voter stays because most of the others are away");
        Err(Answer::Refused {
            reason: format!(
                "{count} of the {} voters that would be left answer, and without a majority of them the manager could never decide anything again. Start \
                 the others first; those of them that are lost for good are to be removed first",
                voters.len()
            ),
        })
    }

    /// Whether a member's manager runs, and answers.
    fn ask(&self, peer: Peer) -> tokio::task::JoinHandle<bool> {
        let (env, transport, until) = (self.env.clone(), Arc::clone(&self.transport), self.env.now() + VOICE_PATIENCE);
        self.env.spawn(async move {
            let answer = tokio::select! {
                biased;
                answer = transport.call(&peer, encode(&Ask::Barrier), until) => answer,
                () = env.sleep_until(until) => return false,
            };
            // One whose consensus has stopped says something else.
            let answer = answer.ok().and_then(|bytes| decode(&bytes).ok());
            matches!(answer, Some(Answer::NotLeader { .. } | Answer::Applied { .. }))
        })
    }
}
