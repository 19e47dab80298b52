//! Sessions of clients, the replies that they got, and the orphans that they may have open.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::super::command::{Envelope, MetaSession};
use super::super::limits::{MAX_REMEMBERED, MAX_SESSIONS};
use super::super::reply::{MetaError, Reply};
use crate::ids::Ino;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sessions {
    live: BTreeMap<MetaSession, Session>,
    /// Inodes without a name, with the sessions that may have them open.
    orphans: BTreeMap<Ino, BTreeSet<MetaSession>>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Session {
    /// By sequence.
    replies: BTreeMap<u64, Reply>,
    /// Lower sequences have been answered.
    answered_below: u64,
    locks_lost: u64,
}

impl Sessions {
    pub fn open(&mut self, session: MetaSession) -> Result<(), MetaError> {
        if self.live.len() >= MAX_SESSIONS && !self.live.contains_key(&session) {
            return Err(MetaError::TooManySessions);
        }
        self.live.entry(session).or_default();
        Ok(())
    }

    pub fn live(&self) -> impl Iterator<Item = MetaSession> {
        self.live.keys().copied()
    }

    /// How often a session has lost its locks.
    pub fn locks_lost(&self, session: MetaSession) -> u64 {
        self.live.get(&session).map_or(0, |session| session.locks_lost)
    }

    pub fn lose_locks(&mut self, session: MetaSession) {
        if let Some(session) = self.live.get_mut(&session) {
            session.locks_lost += 1;
        }
    }

    pub fn are_several(&self) -> bool {
        self.live.len() > 1
    }

    pub fn is_live(&self, session: MetaSession) -> bool {
        self.live.contains_key(&session)
    }

    /// Ends a session; the orphans that no other has open.
    pub fn close(&mut self, session: MetaSession) -> Vec<Ino> {
        self.live.remove(&session);
        self.orphans.values_mut().for_each(|openers| {
            openers.remove(&session);
        });
        let freed: Vec<Ino> = self.orphans.iter().filter(|(_, openers)| openers.is_empty()).map(|(ino, _)| *ino).collect();
        freed.iter().for_each(|ino| drop(self.orphans.remove(ino)));
        freed
    }

    /// The reply that a command got before.
    pub fn remembered(&mut self, envelope: &Envelope) -> Result<Option<Reply>, MetaError> {
        let session = self.live.get_mut(&envelope.session).ok_or(MetaError::NoSession)?;
        // First: a full table is emptied by the command that says that its replies were heard.
        if envelope.answered_below > session.answered_below {
            session.answered_below = envelope.answered_below;
            session.replies = session.replies.split_off(&envelope.answered_below);
        }
        if let Some(reply) = session.replies.get(&envelope.sequence) {
            return Ok(Some(*reply));
        }
        // A copy that comes late: its reply was heard, and is forgotten.
        if envelope.sequence < session.answered_below {
            return Err(MetaError::Stale);
        }
        if session.replies.len() >= MAX_REMEMBERED {
            return Err(MetaError::TooManyCommands);
        }
        Ok(None)
    }

    pub fn remember(&mut self, envelope: &Envelope, reply: Reply) {
        let Some(session) = self.live.get_mut(&envelope.session) else { return };
        session.replies.insert(envelope.sequence, reply);
    }

    /// An inode has lost its last name: any session may have it open.
    pub fn orphaned(&mut self, ino: Ino) {
        self.orphans.insert(ino, self.live.keys().copied().collect());
    }

    /// An inode without a name was made, and one session has it open.
    pub fn orphaned_with(&mut self, ino: Ino, session: MetaSession) {
        self.orphans.insert(ino, BTreeSet::from([session]));
    }

    /// An orphan got a name.
    pub fn named(&mut self, ino: Ino) {
        self.orphans.remove(&ino);
    }

    /// Whether no session has the orphan open any more.
    pub fn not_open(&mut self, ino: Ino, session: MetaSession) -> bool {
        let Some(openers) = self.orphans.get_mut(&ino) else { return false };
        openers.remove(&session);
        let is_closed = openers.is_empty();
        if is_closed {
            self.orphans.remove(&ino);
        }
        is_closed
    }

    /// The orphans that a session has not said to be closed.
    pub fn orphans_of(&self, session: MetaSession) -> impl Iterator<Item = Ino> {
        self.orphans.iter().filter(move |(_, openers)| openers.contains(&session)).map(|(ino, _)| *ino)
    }
}
