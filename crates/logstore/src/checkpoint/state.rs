//! What checkpoints and merges keep between them.

use std::collections::VecDeque;

use format::manifest::Manifest;
use format::run_index::RunId;
use types::{Epoch, KeyHash, Order};

/// Start vectors that are remembered. Members are an epoch apart at most, unless views change again and again.
const MAX_FORMER: usize = 8;

/// What checkpoints and merges keep between them. Its lock makes them exclude each other.
///
/// A recovery begins with the lock. So who holds it as leader waits for no device, and for no key, beyond the view ([`Inner::while_view_lasts`]).
/// What is not given up has bounds of its own: appends (`target::limits::APPEND_DEADLINE`), the end of this gateway's own writes that are
/// under way, and the manager's answer.
pub(crate) struct CheckpointState {
    /// The installed manifest.
    pub manifest: Manifest,
    /// Epochs and start vectors of the manifests before, oldest first: a member may not have come so far yet.
    pub former: VecDeque<Manifest>,
    /// Tombstones in the full map, and the epoch with which each may be forgotten.
    pub graves: Vec<(Epoch, KeyHash, Order)>,
    /// Numbers of runs below this were drawn here.
    pub drawn: RunId,
}

impl CheckpointState {
    pub fn new(manifest: Manifest) -> Self {
        CheckpointState { manifest, former: VecDeque::new(), graves: Vec::new(), drawn: RunId(0) }
    }

    /// A number for a run. Never the one of a run before, also if nobody knows whether that one was installed: a gateway that has read the manifest
    /// meanwhile would take the two for one.
    pub(super) fn draw_run(&mut self) -> RunId {
        let run = self.manifest.next.run.max(self.drawn);
        self.drawn = RunId(run.0 + 1);
        run
    }

    /// Another manifest is installed.
    pub(super) fn follow(&mut self, next: Manifest) {
        if next.epoch > self.manifest.epoch {
            let Manifest { epoch, covered, start, cell, .. } = &self.manifest;
            let former =
                Manifest { epoch: *epoch, covered: *covered, start: start.clone(), cell: *cell, ..Manifest::default() };
            self.former.push_back(former);
            if self.former.len() > MAX_FORMER {
                self.former.pop_front();
            }
        }
        self.manifest = next;
    }

    /// The newest manifest that is not newer than this epoch, as far as a walk needs it. If none of these is remembered, one that covers
    /// this epoch and knows no positions: the logs are walked from their starts.
    pub fn as_of(&self, epoch: Epoch) -> Manifest {
        if self.manifest.epoch <= epoch {
            return self.manifest.clone();
        }
        let former = self.former.iter().rev().find(|former| former.epoch <= epoch).cloned();
        let from_the_start = || Manifest { epoch, covered: epoch, cell: self.manifest.cell, ..Manifest::default() };
        Manifest { runs: self.manifest.runs.clone(), ..former.unwrap_or_else(from_the_start) }
    }
}
