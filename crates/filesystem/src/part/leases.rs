//! What the leader of a tree does about clients that it does not hear of: their locks go, and later their sessions.
//!
//! - A leader counts from the beginning of its term: what other leaders have heard it does not know. So each client has a whole lease.
//! - A session that is to lose its locks gets no answer about its lease until it has lost them: no client relies on what is being taken away.
//! - A node that did not run for a while has heard nothing in that time, and begins to count anew.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use consensus::Term;
use env::Instant;
use subsystem::Surroundings;

use super::trees::{TreeMember, Trees};
use crate::meta::limits::LOCK_LEASE;
use crate::meta::{Command, MetaSession};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// A look that comes later than this says that the node did not run.
const LATE_LOOK: Duration = Duration::from_secs(5);
/// A session whose client says nothing for so long has ended. Clients ask for orphans several times meanwhile.
const SESSION_PATIENCE: Duration = Duration::from_secs(300);

/// What one node has heard of the sessions of a tree, in one term of its group.
#[derive(Debug, Default)]
pub struct Heard {
    term: Term,
    at: BTreeMap<MetaSession, Instant>,
    doomed: BTreeMap<MetaSession, Doom>,
}

/// What a session loses by its silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doom {
    Locks,
    All,
}

impl Heard {
    /// A session says something. False where it must not be told that its lease goes on.
    pub fn hear(&mut self, session: MetaSession, now: Instant) -> bool {
        self.at.insert(session, now);
        !self.doomed.contains_key(&session)
    }

    /// What is to be taken from which sessions. `live`: all that the tree has, and whether they have locks.
    pub fn doom(&mut self, term: Term, live: &BTreeMap<MetaSession, bool>, now: Instant) -> Vec<(MetaSession, Doom)> {
        if self.term != term {
            if !live.is_empty() {
                env::mark("files: another leader of a tree");
            }
            *self = Heard { term, ..Heard::default() };
        }
        self.at.retain(|session, _| live.contains_key(session));
        self.doomed.retain(|session, _| live.contains_key(session));
        for (session, has_locks) in live {
            // One that was never heard of is heard of from now on.
            let silence = now.saturating_duration_since(*self.at.entry(*session).or_insert(now));
            if silence >= SESSION_PATIENCE {
                self.doomed.insert(*session, Doom::All);
            } else if silence >= LOCK_LEASE && *has_locks {
                self.doomed.entry(*session).or_insert(Doom::Locks);
            }
        }
        self.doomed.iter().map(|(session, doom)| (*session, *doom)).collect()
    }

    /// It was taken.
    pub fn done(&mut self, session: MetaSession) {
        self.doomed.remove(&session);
    }

    /// What has been heard says nothing any more. What is being taken is taken all the same.
    pub fn forget(&mut self) {
        self.at.clear();
    }
}

/// The work, on one node.
pub struct Leases {
    pub around: Surroundings,
    pub trees: Arc<Trees>,
}

impl Leases {
    /// For as long as the node lives.
    pub async fn run(self) {
        let mut looked_at = self.around.env.now();
        loop {
            self.around.env.sleep(LOOK).await;
            let now = self.around.env.now();
            let is_late = now.saturating_duration_since(looked_at) >= LATE_LOOK;
            for member in self.trees.all().into_iter().filter(|member| member.leads()) {
                if is_late {
                    member.heard().forget();
                }
                if let Err(reason) = look_at(&member, now).await {
                    tracing::debug!(tree = member.id().0, reason, "silent clients are looked for later");
                }
            }
            // Commands may have taken long: that is no sleep of the node's.
            looked_at = self.around.env.now();
        }
    }
}

async fn look_at(member: &TreeMember, now: Instant) -> Result<(), String> {
    let live = member.look(|machine| machine.sessions().map(|session| (session, machine.has_locks(session))).collect());
    let doomed = member.heard().doom(member.term(), &live, now);
    for (session, doom) in doomed {
        tracing::info!(tree = member.id().0, session = session.0, ?doom, "a client is gone");
        match doom {
            Doom::Locks => {
                env::mark("files: a session lost its locks");
                member.order(MetaSession::LEADER, Command::LoseLocks { session }).await?;
            }
            Doom::All => {
                env::mark("files: a silent session ended");
                member.order(session, Command::CloseSession).await?;
            }
        }
        member.heard().done(session);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
