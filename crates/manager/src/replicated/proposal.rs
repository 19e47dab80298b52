//! What stands in the consensus log: a command, or a piece of one, and whose it is.
//!
//! ```text
//!   0  version   1  1
//!   1  kind      1  0 a command, 1 a piece of one, 2 its last piece
//!   2  proposer  8  little-endian, as all numbers
//!  10  serial    8  from 1
//!  18  oldest    8  of the proposer's serials that it still waits for, or a lower one; at most `serial`
//!  26  offset    4  of the piece within the command; 0 for a whole command
//!  30  command, or the piece, to the end
//! ```

use bytes::Bytes;

use crate::command::{Command, CommandError};
use crate::limits::{MAX_PROPOSED_COMMAND_BYTES, NUMBER_LIMIT, PROPOSAL_PIECE_BYTES};

/// The version that is written; 2: proposals say which serials their proposer has given up; 1: the first, which is not read any more.
const PROPOSAL_VERSION: u8 = 2;

const HEADER_BYTES: usize = 30;

const WHOLE: u8 = 0;
const PIECE: u8 = 1;
const LAST_PIECE: u8 = 2;

/// Names a proposal: the same for all pieces, and for all times that it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProposalId {
    /// A random number of the process that proposes.
    pub(crate) proposer: u64,
    /// Counts its proposals, from 1.
    pub(crate) serial: u64,
}

/// One entry of the managers' consensus log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proposal {
    pub(crate) id: ProposalId,
    /// Below this the proposer waits for none: what it gave up there takes no effect after this proposal.
    pub(crate) oldest: u64,
    pub(crate) content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Whole(Command),
    /// Not decoded: only the whole makes sense.
    Piece {
        offset: usize,
        bytes: Bytes,
        is_last: bool,
    },
}

/// Bytes that are no proposal that this binary knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProposalError {
    #[error("expected proposal version {PROPOSAL_VERSION}, found {found:?}; use a newer Trilith")]
    Version { found: Option<u8> },
    #[error("a proposal of {found} bytes; its header has {HEADER_BYTES}")]
    Short { found: usize },
    #[error("proposal kind {found}")]
    Kind { found: u8 },
    #[error("serial {found}, expected one from 1 to below {NUMBER_LIMIT}")]
    Serial { found: u64 },
    #[error("the oldest serial that is waited for is {oldest}, of a proposal with serial {serial}")]
    Oldest { oldest: u64, serial: u64 },
    #[error("a piece of {length} bytes at {offset}; pieces have 1 to {PROPOSAL_PIECE_BYTES} bytes")]
    Piece { offset: usize, length: usize },
    #[error("not a command")]
    Command(#[from] CommandError),
}

impl Proposal {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (kind, offset) = match &self.content {
            Content::Whole(_) => (WHOLE, 0),
            Content::Piece { offset, is_last, .. } => (if *is_last { LAST_PIECE } else { PIECE }, *offset),
        };
        let offset = u32::try_from(offset).expect("a command is shorter than its limit");
        let mut bytes = vec![PROPOSAL_VERSION, kind];
        bytes.extend_from_slice(&self.id.proposer.to_le_bytes());
        bytes.extend_from_slice(&self.id.serial.to_le_bytes());
        bytes.extend_from_slice(&self.oldest.to_le_bytes());
        bytes.extend_from_slice(&offset.to_le_bytes());
        match &self.content {
            Content::Whole(command) => bytes.extend_from_slice(&command.encode()),
            Content::Piece { bytes: piece, .. } => bytes.extend_from_slice(piece),
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Proposal, ProposalError> {
        match bytes.first() {
            Some(&PROPOSAL_VERSION) => {}
            found => return Err(ProposalError::Version { found: found.copied() }),
        }
        let Some((header, rest)) = bytes.split_at_checked(HEADER_BYTES) else {
            return Err(ProposalError::Short { found: bytes.len() });
        };
        let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        let id = ProposalId { proposer: number(2), serial: number(10) };
        if !(1..NUMBER_LIMIT).contains(&id.serial) {
            return Err(ProposalError::Serial { found: id.serial });
        }
        let oldest = number(18);
        if !(1..=id.serial).contains(&oldest) {
            return Err(ProposalError::Oldest { oldest, serial: id.serial });
        }
        let offset = u32::from_le_bytes(header[26..30].try_into().expect("four bytes")) as usize;
        let content = match header[1] {
            WHOLE if offset == 0 => Content::Whole(Command::decode(rest)?),
            WHOLE => return Err(ProposalError::Piece { offset, length: rest.len() }),
            kind @ (PIECE | LAST_PIECE) => {
                let is_fit = !rest.is_empty() && rest.len() <= PROPOSAL_PIECE_BYTES && offset <= MAX_PROPOSED_COMMAND_BYTES;
                if !is_fit {
                    return Err(ProposalError::Piece { offset, length: rest.len() });
                }
                Content::Piece { offset, bytes: Bytes::copy_from_slice(rest), is_last: kind == LAST_PIECE }
            }
            found => return Err(ProposalError::Kind { found }),
        };
        Ok(Proposal { id, oldest, content })
    }
}
