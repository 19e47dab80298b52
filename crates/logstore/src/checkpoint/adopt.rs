//! Taking in what another gateway has written down.

use std::sync::Arc;

use engine::EngineError;
use format::entry::Entry;
use format::manifest::{Manifest, NextIds};
use format::name_entry::NameEntry;
use format::run_index::RunId;
use types::Epoch;

use super::{CheckpointState, read_block, version};
use crate::names::Run;
use crate::store::Inner;

impl Inner {
    /// Takes in what another gateway has written down: everything that this manifest covers is known here.
    pub(crate) async fn adopt(self: &Arc<Self>, manifest: Manifest) -> Result<(), EngineError> {
        let mut state = self.checkpoints.lock().await;
        if version(&manifest) > version(&state.manifest) {
            let runs = self.runs_of(&manifest, None).await?;
            self.adopt_newer(&mut state, manifest, runs).await;
        }
        Ok(())
    }

    /// Whether this manifest, or one after it, is known here already.
    pub(crate) async fn has_adopted(&self, manifest: &Manifest) -> bool {
        version(manifest) <= version(&self.checkpoints.lock().await.manifest)
    }

    /// The manifest that the manager has.
    pub(crate) fn newest_manifest(&self) -> Result<Option<Manifest>, EngineError> {
        let Some(bytes) = self.remembered.load() else { return Ok(None) };
        Manifest::decode(&bytes).map(Some).map_err(|error| EngineError::Corrupt { detail: error.to_string() })
    }

    /// The epoch that the manager's manifest covers.
    pub(crate) fn newest_covered(&self) -> Result<Epoch, EngineError> {
        Ok(self.newest_manifest()?.map(|manifest| manifest.epoch).unwrap_or_default())
    }

    /// As leader, when all of an epoch is known: goes on from the manifest that the manager has. Who led before may have been removed
    /// before it told anybody of it, or the manager's answer was lost.
    pub(super) async fn take_over(self: &Arc<Self>, state: &mut CheckpointState) -> Result<(), EngineError> {
        if self.member.is_none() {
            return Ok(());
        }
        let Some(manifest) = self.newest_manifest()?.filter(|newest| version(newest) > version(&state.manifest)) else {
            return Ok(());
        };
        // Moves are taken over row by row: another try passes over those that have been.
        let runs = self.while_view_lasts(self.runs_of(&manifest, Some(state.manifest.epoch))).await?;
        self.adopt_newer(state, manifest, runs).await;
        self.stats.manifests_taken_over.add(1);
        self.tell_installed(&state.manifest);
        Ok(())
    }

    /// As leader: whether the manager has no newer manifest than this. Who led before may have installed one and told nobody.
    pub(crate) async fn is_newest(&self, manifest: &Manifest) -> Result<bool, EngineError> {
        // A command whose answer was an error may be in the manager's log, and be carried out after whatever is asked now. The next installation settles it.
        if self.remembered.is_in_doubt() {
            return Ok(false);
        }
        if self.member.is_none() {
            // Nobody else installs any.
            return Ok(true);
        }
        self.manager_has_none_after(manifest).await
    }

    async fn manager_has_none_after(&self, manifest: &Manifest) -> Result<bool, EngineError> {
        self.remembered.reach().await?;
        Ok(self.newest_manifest()?.is_none_or(|newest| version(&newest) <= version(manifest)))
    }

    /// As leader in doubt: installs the manifest again that it goes by, under a later number. What was under way is void then, or replaced: nothing that this
    /// manifest names was given up for it. Takes no room.
    pub(crate) async fn install_again(self: &Arc<Self>, state: &mut CheckpointState) -> Result<(), EngineError> {
        if !self.manager_has_none_after(&state.manifest).await? {
            return Err(is_taken_over());
        }
        let next = NextIds { run: RunId(state.draw_run().0 + 1), ..state.manifest.next };
        let installed = self.remembered.install(Manifest { next, ..state.manifest.clone() }).await?;
        state.follow(installed);
        self.tell_installed(&state.manifest);
        Ok(())
    }

    /// The runs of a manifest that another gateway has installed. For who takes it over, with the epoch of the manifest that was `adopted` before:
    /// the moves in those that are new are everybody's then.
    async fn runs_of(self: &Arc<Self>, manifest: &Manifest, adopted: Option<Epoch>) -> Result<Vec<Arc<Run>>, EngineError> {
        let known = self.names.layers().runs;
        let mut runs = Vec::new();
        for summary in &manifest.runs {
            if let Some(run) = known.iter().find(|run| run.id() == summary.run) {
                runs.push(run.clone());
                continue;
            }
            let run = Arc::new(Run::open(self, summary.clone()).await?);
            if let Some(adopted) = adopted {
                self.take_over_moves(&run, adopted).await?;
            }
            runs.push(run);
        }
        Ok(runs)
    }

    async fn adopt_newer(self: &Arc<Self>, state: &mut CheckpointState, manifest: Manifest, runs: Vec<Arc<Run>>) {
        let before = self.names.layers();
        let is_new = |run: &&Arc<Run>| !before.runs.iter().any(|known| known.id() == run.id());
        runs.iter().filter(is_new).for_each(|run| self.count_run(run));
        for memtable in before.memtables.iter().filter(|memtable| memtable.epoch() <= manifest.epoch) {
            self.settle(memtable, &mut state.graves).await;
        }
        let is_gone = |run: &&Arc<Run>| !runs.iter().any(|kept| kept.id() == run.id());
        before.runs.iter().filter(is_gone).for_each(|run| self.release_run(run));
        self.names.replace(manifest.epoch, runs);
        self.remembered.adopt(&manifest).await;
        self.forget_moves(manifest.epoch);
        self.forget_tombstones(&mut state.graves);
        self.targets.set_covered(&manifest.start);
        self.background.count_anew();
        if manifest.generation == self.targets.table().generation() {
            self.background.has_checkpoint();
        }
        state.follow(manifest);
    }

    /// A run of a former leader may name places that it told nobody: they become everybody's. Else a later move would pass by the run.
    ///
    /// `adopted` is the epoch of the manifest that this gateway has: what rows of that time say it knows, or something newer. A run that was written
    /// anew, or merged, since then repeats such rows; where a newer run has moved the record, they name a zone that was reset.
    async fn take_over_moves(self: &Arc<Self>, run: &Run, adopted: Epoch) -> Result<(), EngineError> {
        if run.summary.max_epoch <= adopted {
            env::mark("gateway: a run without news taken over");
            return Ok(());
        }
        for block in 0..run.blocks() {
            let rows = read_block(self, run, block).await?;
            for row in rows.into_iter().filter(|row| row.entry.epoch > adopted) {
                let moved_in = row.entry.epoch;
                let entry = Entry { epoch: self.epochs.present(), ..row.entry };
                let name = NameEntry { entry, ..row };
                let mut keys = self.shard(&entry.hash).lock();
                let is_newer_here = keys.index().unsaved_epoch(&entry.hash).is_some_and(|epoch| epoch > moved_in);
                let known = keys.index().newest(&entry.hash).filter(|known| known.order == entry.order);
                let Some(known) = known.filter(|known| known.places != entry.places && !is_newer_here) else { continue };
                if keys.index_mut().relocate(&known.places, entry) {
                    self.tell_relocated(&known.places, &name);
                    self.names.insert(entry.epoch, name);
                    self.targets.remove_live_entry(&known);
                    self.targets.add_live_entry(&crate::index::Located::from(&entry));
                }
            }
        }
        Ok(())
    }

    /// The frames of a run that another gateway wrote are live.
    fn count_run(&self, run: &Run) {
        for (places, frame_bytes) in run.frames() {
            places.as_slice().iter().for_each(|place| self.targets.add_live(place, frame_bytes as u64));
        }
    }
}

/// Why nothing is made of the manifest that this gateway goes by.
pub(super) fn is_taken_over() -> EngineError {
    EngineError::Unavailable { reason: "the manager has a newer manifest, which the next checkpoint takes over".to_owned() }
}
