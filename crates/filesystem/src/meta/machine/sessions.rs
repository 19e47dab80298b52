//! Sessions of clients, the replies that they got, and the orphans that they may have open.

use std::collections::{BTreeMap, BTreeSet};

use consensus::{MachineError, RowChange};
use serde::{Deserialize, Serialize};

use super::super::command::{Envelope, MetaSession};
use super::super::limits::{MAX_REMEMBERED, MAX_SESSIONS};
use super::super::reply::{MetaError, Reply};
use super::keeping::{ORPHANS, REPLIES, SESSIONS};
use super::rowmap::RowMap;
use crate::ids::Ino;

#[derive(Clone, Debug, Default)]
pub struct Sessions {
    live: RowMap<SESSIONS, MetaSession, Session>,
    /// By session and sequence.
    replies: RowMap<REPLIES, (MetaSession, u64), Reply>,
    /// Of each session that has some.
    reply_counts: BTreeMap<MetaSession, usize>,
    /// Inodes without a name, with the sessions that may have them open.
    orphans: RowMap<ORPHANS, Ino, BTreeSet<MetaSession>>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Session {
    /// Lower sequences have been answered.
    answered_below: u64,
    locks_lost: u64,
    is_exclusive: bool,
}

impl Sessions {
    /// Whether others are open as well.
    pub fn open(&mut self, session: MetaSession, is_exclusive: bool) -> Result<bool, MetaError> {
        if !self.is_live(session) {
            if self.live.iter().any(|(_, other)| other.is_exclusive) {
                return Err(MetaError::HeldAlone);
            }
            if is_exclusive && self.live().next().is_some() {
                return Err(MetaError::InUse);
            }
            if self.live.len() >= MAX_SESSIONS {
                return Err(MetaError::TooManySessions);
            }
            self.live.insert(session, Session { is_exclusive, ..Session::default() });
        }
        Ok(self.are_several())
    }

    pub fn live(&self) -> impl Iterator<Item = MetaSession> {
        self.live.iter().map(|(session, _)| session)
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
        self.live.get(&session).is_some()
    }

    /// Ends a session; the orphans that no other has open.
    pub fn close(&mut self, session: MetaSession) -> Vec<Ino> {
        self.live.remove(&session);
        self.forget_replies(session, u64::MAX);
        let had: Vec<Ino> = self.orphans_of(session).collect();
        had.into_iter().filter(|ino| self.not_open(*ino, session)).collect()
    }

    /// The reply that a command got before.
    pub fn remembered(&mut self, envelope: &Envelope) -> Result<Option<Reply>, MetaError> {
        let session = self.live.get(&envelope.session).ok_or(MetaError::NoSession)?;
        // First: a full table is emptied by the command that says that its replies were heard.
        if envelope.answered_below > session.answered_below {
            if let Some(session) = self.live.get_mut(&envelope.session) {
                session.answered_below = envelope.answered_below;
            }
            self.forget_replies(envelope.session, envelope.answered_below);
        }
        if let Some(reply) = self.replies.get(&(envelope.session, envelope.sequence)) {
            return Ok(Some(*reply));
        }
        // A copy that comes late: its reply was heard, and is forgotten.
        if self.live.get(&envelope.session).is_some_and(|session| envelope.sequence < session.answered_below) {
            return Err(MetaError::Stale);
        }
        if self.reply_counts.get(&envelope.session).is_some_and(|count| *count >= MAX_REMEMBERED) {
            return Err(MetaError::TooManyCommands);
        }
        Ok(None)
    }

    /// The reply that a command got before, if it is remembered.
    pub fn earlier_reply(&self, session: MetaSession, sequence: u64) -> Option<Reply> {
        self.replies.get(&(session, sequence)).copied()
    }

    pub fn remember(&mut self, envelope: &Envelope, reply: Reply) {
        if self.is_live(envelope.session) && self.replies.insert((envelope.session, envelope.sequence), reply).is_none() {
            *self.reply_counts.entry(envelope.session).or_default() += 1;
        }
    }

    /// Forgets the replies of a session to commands below a sequence.
    fn forget_replies(&mut self, session: MetaSession, below: u64) {
        let heard: Vec<(MetaSession, u64)> = self.replies.range((session, 0)..(session, below)).map(|(key, _)| key).collect();
        let Some(count) = self.reply_counts.get_mut(&session) else { return };
        *count -= heard.len();
        if *count == 0 {
            self.reply_counts.remove(&session);
        }
        for key in heard {
            self.replies.remove(&key);
        }
    }

    #[cfg(test)]
    pub fn touch(&mut self) {
        self.live.touch();
        self.replies.touch();
        self.orphans.touch();
    }

    pub fn take_changes(&mut self, rows: &mut Vec<RowChange>) {
        self.live.take_changes(rows);
        self.replies.take_changes(rows);
        self.orphans.take_changes(rows);
    }

    pub fn load(&mut self, table: u8, key: &[u8], value: &[u8]) -> Result<(), MachineError> {
        match table {
            SESSIONS => self.live.load(key, value).map(drop),
            REPLIES => {
                let ((session, _), _) = self.replies.load(key, value)?;
                *self.reply_counts.entry(session).or_default() += 1;
                Ok(())
            }
            _ => self.orphans.load(key, value).map(drop),
        }
    }

    /// An inode has lost its last name: any session may have it open. False if there is none: another tree's transaction may outlive the session that asked for it.
    pub fn orphaned(&mut self, ino: Ino) -> bool {
        let openers: BTreeSet<MetaSession> = self.live().collect();
        let may_be_open = !openers.is_empty();
        if may_be_open {
            self.orphans.insert(ino, openers);
        }
        may_be_open
    }

    /// An inode without a name was made, and one session has it open.
    pub fn orphaned_with(&mut self, ino: Ino, session: MetaSession) {
        self.orphans.insert(ino, BTreeSet::from([session]));
    }

    /// An orphan may be open in a session, too.
    pub fn also_open(&mut self, ino: Ino, session: MetaSession) {
        if let Some(openers) = self.orphans.get_mut(&ino) {
            openers.insert(session);
        }
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
        self.orphans.iter().filter(move |(_, openers)| openers.contains(&session)).map(|(ino, _)| ino)
    }
}
