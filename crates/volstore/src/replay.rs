//! What a start makes of the log's records.
//!
//! | a record with content | is |
//! |---|---|
//! | below the highest commit mark | believed |
//! | that a later record relies on | believed: it was settled then |
//! | revoked by a later record | passed over |
//! | any other | in doubt: its content is read and its sums decide |

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::content::Content;
use crate::name::Opseq;
use crate::pg::Pg;
use crate::record::{Mutation, Record};

/// Records of the log, in their order.
#[derive(Default)]
pub struct Replay {
    records: Vec<(Opseq, Mutation)>,
    settled_below: Opseq,
    revoked: BTreeSet<Opseq>,
    relied_on: BTreeSet<Opseq>,
}

impl Replay {
    pub fn push(&mut self, opseq: Opseq, record: Record) {
        self.settled_below = self.settled_below.max(record.settled_below);
        match &record.mutation {
            Mutation::Revoke { revoked } => self.revoked.extend(revoked),
            Mutation::Complete { parts, .. } => self.relied_on.extend(parts.iter().map(|(_, part)| *part)),
            Mutation::SetAttributes { base, .. } => drop(self.relied_on.insert(*base)),
            _ => {}
        }
        self.records.push((opseq, record.mutation));
    }

    /// Contents whose bytes have to be looked at.
    pub fn doubts(&self) -> impl Iterator<Item = (Opseq, &Arc<Content>)> {
        let in_doubt =
            |opseq: &Opseq| *opseq >= self.settled_below && !self.revoked.contains(opseq) && !self.relied_on.contains(opseq);
        let contents = self.records.iter().filter_map(|(opseq, mutation)| Some((*opseq, mutation.content()?)));
        contents.filter(move |(opseq, _)| in_doubt(opseq))
    }

    /// Applies all but what was revoked, and those whose bytes are `missing`.
    pub fn finish(self, pg: &mut Pg, missing: &BTreeSet<Opseq>) {
        for (opseq, mutation) in self.records {
            if self.revoked.contains(&opseq) || missing.contains(&opseq) {
                pg.replay(opseq, Mutation::Mark);
            } else {
                pg.replay(opseq, mutation);
            }
        }
    }
}

#[cfg(test)]
mod tests;
