//! Commands that come in pieces.
//!
//! A manifest may be longer than one command of consensus. Its proposer sends piece after piece, each when the one before it is in place,
//! and the last one makes the command take effect. Part of the replicated state, as the sessions are.

use bytes::Bytes;

use crate::limits::{MAX_ASSEMBLIES, MAX_PROPOSED_COMMAND_BYTES};
use crate::replicated::proposal::ProposalId;

/// A command in the making.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Assembly {
    id: ProposalId,
    pieces: Vec<Bytes>,
    length: usize,
}

/// All commands in the making, in the order in which they were begun; one for each proposer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Assemblies(Vec<Assembly>);

impl Assemblies {
    /// Takes a piece. True if it is in place now: it follows what is there, or begins something, or was there before.
    pub(crate) fn put(&mut self, id: ProposalId, offset: usize, piece: &Bytes) -> bool {
        if offset + piece.len() > MAX_PROPOSED_COMMAND_BYTES {
            return false;
        }
        let known = self.0.iter_mut().find(|assembly| assembly.id == id);
        match known {
            Some(assembly) if offset + piece.len() <= assembly.length => true,
            Some(assembly) if offset == assembly.length => {
                assembly.pieces.push(piece.clone());
                assembly.length += piece.len();
                true
            }
            None if offset == 0 => {
                self.forget(id.proposer);
                if self.0.len() >= MAX_ASSEMBLIES {
                    self.0.remove(0);
                }
                self.0.push(Assembly { id, pieces: vec![piece.clone()], length: piece.len() });
                true
            }
            _ => false,
        }
    }

    /// What is there of a command, with `last` behind it; none if something is missing in between.
    pub(crate) fn whole(&self, id: ProposalId, offset: usize, last: &Bytes) -> Option<Vec<u8>> {
        let known = self.0.iter().find(|assembly| assembly.id == id && assembly.length == offset);
        let mut whole = known.map(|assembly| assembly.pieces.concat())?;
        if offset + last.len() > MAX_PROPOSED_COMMAND_BYTES {
            return None;
        }
        whole.extend_from_slice(last);
        Some(whole)
    }

    /// Gives up what a proposer has begun.
    pub(crate) fn forget(&mut self, proposer: u64) {
        self.0.retain(|assembly| assembly.id.proposer != proposer);
    }

    /// Each command in the making, for a snapshot.
    pub(crate) fn export(&self) -> Vec<(u64, u64, Vec<u8>)> {
        self.0.iter().map(|assembly| (assembly.id.proposer, assembly.id.serial, assembly.pieces.concat())).collect()
    }

    /// What [`Assemblies::export`] gave; none if that cannot have been given.
    pub(crate) fn import(exported: Vec<(u64, u64, Vec<u8>)>) -> Option<Assemblies> {
        let mut assemblies = Assemblies::default();
        if exported.len() > MAX_ASSEMBLIES {
            return None;
        }
        for (proposer, serial, bytes) in exported {
            let is_second = assemblies.0.iter().any(|assembly| assembly.id.proposer == proposer);
            let bytes = Bytes::from(bytes);
            if is_second || bytes.is_empty() || !assemblies.put(ProposalId { proposer, serial }, 0, &bytes) {
                return None;
            }
        }
        Some(assemblies)
    }
}
