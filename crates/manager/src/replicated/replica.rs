//! The state machine that every member carries out.

use std::sync::Arc;

use consensus::{FrozenState, Keeping, LogIndex, MachineError, StateMachine, Whole};

use crate::command::{Command, apply};
use crate::error::ProposeError;
use crate::published::Published;
use crate::replicated::image::Image;
use crate::replicated::proposal::{Content, Proposal, ProposalId};
use crate::replicated::waiting::Waiting;
use crate::snapshot::{CommandIndex, Snapshot};

/// One member's replicated state, and those of its own process who wait for it.
pub(super) struct Replica {
    image: Image,
    published: Arc<Published>,
    /// This process, in proposals.
    proposer: u64,
    waiting: Arc<Waiting>,
}

/// What became of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// The command was carried out, now or before; or its proposer has given it up; or its piece is in place.
    InPlace,
    /// A piece before this one is missing: nothing was carried out.
    OutOfPlace,
}

impl Replica {
    /// The first state of a group, which its log brings to where it was.
    pub(super) fn new(first: Snapshot, proposer: u64, waiting: Arc<Waiting>) -> Replica {
        let image = Image { state: first, ..Image::default() };
        let published = Arc::new(Published::new(&image.state));
        Replica { image, published, proposer, waiting }
    }

    pub(super) fn published(&self) -> &Arc<Published> {
        &self.published
    }

    /// The last command that was carried out.
    pub(super) fn applied(&self) -> CommandIndex {
        self.image.state.applied
    }

    /// Whether a proposal was carried out, or never will be.
    pub(super) fn holds(&self, id: ProposalId) -> bool {
        self.image.sessions.holds(id)
    }

    /// The whole of a command whose last piece is here, if what is before it is in place.
    pub(super) fn whole(&self, id: ProposalId, content: &Content) -> Option<Vec<u8>> {
        match content {
            Content::Whole(_) => None,
            Content::Piece { offset, bytes, .. } => self.image.assemblies.whole(id, *offset, bytes),
        }
    }

    /// Carries out a command that was not carried out before.
    fn carry_out(&mut self, id: ProposalId, oldest: u64, command: &Command) {
        let is_first = self.image.sessions.note(id, oldest);
        assert!(is_first, "a proposal is carried out once");
        let index = CommandIndex(self.image.state.applied.0 + 1);
        let own = (id.proposer == self.proposer).then(|| self.waiting.take(id.serial)).flatten();
        let tell = match own {
            Some(carry_out) => Some(carry_out(index, &mut self.image.state)),
            None => {
                // Refused or not: nobody here asks.
                apply(index, command, &mut self.image.state);
                None
            }
        };
        self.published.publish(&self.image.state);
        if let Some(tell) = tell {
            tell();
        }
    }
}

impl StateMachine for Replica {
    type Command = Proposal;
    type Reply = Taken;

    fn encode(command: &Proposal) -> Vec<u8> {
        command.encode()
    }

    fn decode(bytes: &[u8]) -> Result<Proposal, MachineError> {
        Proposal::decode(bytes).map_err(|error| MachineError(error.to_string()))
    }

    fn apply(&mut self, _: LogIndex, proposal: Proposal) -> Result<Taken, MachineError> {
        let id = proposal.id;
        if self.image.sessions.holds(id) {
            return Ok(Taken::InPlace);
        }
        match &proposal.content {
            Content::Whole(command) => self.carry_out(id, proposal.oldest, command),
            Content::Piece { offset, bytes, is_last: false } => {
                let in_place = self.image.assemblies.put(id, *offset, bytes);
                return Ok(if in_place { Taken::InPlace } else { Taken::OutOfPlace });
            }
            Content::Piece { is_last: true, .. } => {
                let Some(whole) = self.whole(id, &proposal.content) else { return Ok(Taken::OutOfPlace) };
                // The leader has decoded it. A member that cannot must not go on as if nothing had been there.
                let command = Command::decode(&whole).map_err(|error| MachineError(error.to_string()))?;
                self.image.assemblies.forget(id.proposer);
                self.carry_out(id, proposal.oldest, &command);
            }
        }
        Ok(Taken::InPlace)
    }

    fn keeping(&mut self) -> Keeping<'_> {
        Keeping::Whole(self)
    }
}

impl Whole for Replica {
    fn snapshot(&self) -> FrozenState {
        let frozen = self.image.clone();
        Box::new(move || frozen.encode())
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), MachineError> {
        self.image = Image::decode(snapshot).map_err(|error| MachineError(error.to_string()))?;
        self.published.publish(&self.image.state);
        let reason = "its effect, if any, came with a snapshot, and its reply came about nowhere".to_owned();
        let gone = |serial| self.holds(ProposalId { proposer: self.proposer, serial });
        self.waiting.fail_where(gone, &ProposeError::Unknown { reason });
        Ok(())
    }
}
