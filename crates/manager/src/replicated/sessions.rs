//! Which proposals have been carried out: so that one that was sent twice takes effect once.
//!
//! Of each proposer: every serial through `floor`, and those in `above`. Serials come in any order, because proposals are sent side by
//! side; a proposer never has one under way that is [`PROPOSAL_WINDOW`] behind its newest, so what falls out of the window counts as seen.
//! So does what its proposer gave up before a proposal that was carried out: else it could come late, out of a connection that died, and
//! undo what was proposed in its place.
//!
//! Part of the replicated state: the same proposals in the same order give the same sessions.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::limits::{MAX_PROPOSERS, NUMBER_LIMIT, PROPOSAL_WINDOW};
use crate::replicated::proposal::ProposalId;

/// One proposer's proposals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Session {
    proposer: u64,
    floor: u64,
    above: BTreeSet<u64>,
}

/// The proposers that were heard of, least recently first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sessions(Vec<Session>);

impl Sessions {
    /// Whether a proposal was carried out, or is too old to be.
    pub(crate) fn holds(&self, id: ProposalId) -> bool {
        let session = self.0.iter().find(|session| session.proposer == id.proposer);
        session.is_some_and(|session| session.holds(id.serial))
    }

    /// Notes that a proposal is carried out, and that its proposer waits for none below `oldest`; false if it was before.
    pub(crate) fn note(&mut self, id: ProposalId, oldest: u64) -> bool {
        let session = match self.0.iter().position(|session| session.proposer == id.proposer) {
            Some(at) => self.0.remove(at),
            None => {
                if self.0.len() >= MAX_PROPOSERS {
                    self.0.remove(0);
                }
                Session { proposer: id.proposer, floor: 0, above: BTreeSet::new() }
            }
        };
        self.0.push(session);
        self.0.last_mut().expect("it was pushed").note(id.serial, oldest)
    }

    /// For sessions that were read: whether they can have come about.
    pub(crate) fn are_sound(&self) -> bool {
        let mut proposers: Vec<u64> = self.0.iter().map(|session| session.proposer).collect();
        proposers.sort_unstable();
        proposers.dedup();
        proposers.len() == self.0.len() && self.0.len() <= MAX_PROPOSERS && self.0.iter().all(Session::is_sound)
    }
}

impl Session {
    fn holds(&self, serial: u64) -> bool {
        serial <= self.floor || self.above.contains(&serial)
    }

    fn note(&mut self, serial: u64, oldest: u64) -> bool {
        if self.holds(serial) {
            return false;
        }
        self.above.insert(serial);
        let newest = self.above.last().copied().unwrap_or(0);
        let least = newest.saturating_sub(PROPOSAL_WINDOW).max(oldest - 1);
        if least > self.floor {
            self.floor = least;
            self.above = self.above.split_off(&(least + 1));
        }
        while self.above.remove(&(self.floor + 1)) {
            self.floor += 1;
        }
        true
    }

    fn is_sound(&self) -> bool {
        let in_window = |serial: &u64| *serial > self.floor + 1 && *serial <= self.floor + PROPOSAL_WINDOW;
        self.floor < NUMBER_LIMIT && self.above.iter().all(in_window)
    }
}
