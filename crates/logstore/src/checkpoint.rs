//! Checkpoints: writing down what one epoch added, so that a start need not walk the log from its beginning (paper section 3.4;
//! RFD 2, decisions 11, 13, 21).
//!
//! ```text
//!   note where each log may grow next ─► advance the epoch ─► wait until the old one drained
//!   ─► write its names as a run ─► install the manifest ─► settle the entries in the full map
//! ```
//!
//! Invariants:
//! - The manifest names only runs that are durable, and a start vector behind which everything stands that they lack.
//! - Until the manifest is installed nothing has happened: the memtable stays a layer and the entries stay unsaved.
//! - A tombstone leaves the bottom run when what is covered has passed it by two epochs at the earliest: then no walk finds the
//!   versions and late relocations that it hides.

mod adopt;
mod merge;
mod state;

pub(crate) use state::CheckpointState;

use crate::live_hints;
use crate::names::{Memtable, Run, RunWriter, corrupt_run};
use crate::store::Inner;
use device::AppendClass;
use engine::EngineError;
use format::entry::EntryState;
use format::manifest::{Manifest, NextIds};
use format::name_entry::NameEntry;
use format::record::{EntryName, Space};
use format::run_index::RunId;
use std::ops::Bound;
use std::sync::Arc;
use types::{DeviceId, Epoch, KeyHash, Order, Position};

/// Epochs for which a tombstone stays after its own.
const TOMBSTONE_EPOCHS: u64 = 2;
/// The same for the tombstone of an upload, which remembers the outcome of its Complete for one that is tried again.
const UPLOAD_TOMBSTONE_EPOCHS: u64 = 64;
/// Names copied out of a memtable at a time.
const COPY_BATCH: usize = 512;

impl Inner {
    /// Writes down everything of the present epoch and before. In a cell its leader does so for all. One that fails has ended an epoch
    /// and left its names; the next one writes them down with its own.
    pub(crate) async fn checkpoint(self: &Arc<Self>) -> Result<(), EngineError> {
        let made = self.make_checkpoint().await;
        self.background.note_checkpoint(&made);
        made
    }

    async fn make_checkpoint(self: &Arc<Self>) -> Result<(), EngineError> {
        self.check_leads()?;
        self.remembered.reach().await?;
        // What other gateways have told of moves belongs to the epochs that end now.
        self.applied_all().await;
        let mut state = self.checkpoints.lock().await;
        let start = self.while_view_lasts(self.log_starts(&state.manifest)).await?;
        self.background.count_anew();
        // A table that comes with a view meanwhile is not covered: nothing is known of what goes by it.
        let generation = self.targets.table().generation();
        self.remembered.note_end(generation);
        let ended = self.end_epochs().await?;
        self.take_over(&mut state).await?;
        // Parts of an upload whose end is in this checkpoint must not survive it: nothing would lead to them any more.
        // Where that fails they wait for a merge to find them: on a full device collection, which needs checkpoints, has to make room first. In a new
        // view a key may have to wait for its recovery, which would wait for this.
        let view = || self.member.as_ref().map(|member| member.view().number());
        let before = view();
        if let Err(error) = self.while_view_lasts(self.tidy_uploads()).await {
            self.check_leads()?;
            if view() != before {
                return Err(error);
            }
            tracing::warn!(%error, "an upload that has ended is tidied up later");
        }
        let memtable = self.names.fold(ended);
        let run = match self.write_run(&memtable, state.draw_run(), AppendClass::Meta).await {
            // Zones that copies stand in hold a run as well. This one makes room: what was replaced since the last checkpoint is garbage only
            // when it stands, and the one free zone that is left may be kept for copies.
            Err(EngineError::Full) => {
                env::mark("engine: a checkpoint's run among copies");
                self.write_run(&memtable, state.draw_run(), AppendClass::Relocation).await
            }
            written => written,
        };
        let run = run?.map(Arc::new);
        let mut manifest = Manifest {
            epoch: ended,
            start: start.clone(),
            generation,
            next: NextIds { run: state.drawn, ..state.manifest.next },
            live: live_hints::hints(&self.targets),
            ..state.manifest.clone()
        };
        let mut runs = self.names.layers().runs;
        if let Some(run) = &run {
            manifest.runs.insert(0, run.summary.clone());
            runs.insert(0, run.clone());
        }
        let installed = self.remembered.install(manifest).await;
        let installed = installed.inspect_err(|_| {
            env::mark("engine: a checkpoint that could not be installed");
            self.count_out(run.as_deref());
        })?;
        state.follow(installed);
        self.tell_installed(&state.manifest);
        self.settle(&memtable, &mut state.graves).await;
        self.names.replace(ended, runs);
        self.forget_tombstones(&mut state.graves);
        self.targets.set_covered(&start);
        if self.targets.table().generation() == generation {
            self.background.has_checkpoint();
        }
        self.stats.checkpoints.add(1);
        self.stats.checkpoint_entries.add(memtable.len() as u64);
        Ok(())
    }

    /// The frames of a run that no manifest names any more are garbage.
    fn release_run(&self, run: &Run) {
        for (places, frame_bytes) in run.frames() {
            places.as_slice().iter().for_each(|place| self.targets.remove_live(place, frame_bytes as u64));
        }
    }

    /// The frames of a run whose manifest could not be installed count for nothing. If it was installed nevertheless, who takes it over counts them; a
    /// gateway that is alone takes nothing over.
    fn count_out(&self, run: Option<&Run>) {
        let Some(run) = run else { return };
        let names_it = |newest: Manifest| newest.runs.iter().any(|named| named.run == run.id());
        if self.member.is_some() || !self.newest_manifest().ok().flatten().is_some_and(names_it) {
            self.release_run(run);
        }
    }

    /// Where each log may grow next. A device that is away keeps the vector that it had, and all do while something can't be decided.
    async fn log_starts(&self, manifest: &Manifest) -> Result<Vec<(DeviceId, Position)>, EngineError> {
        if self.remembered.holds_back() {
            return Ok(manifest.start.clone());
        }
        let asked = self.targets.log_starts().await;
        let mut starts = asked.map_err(|error| EngineError::Unavailable { reason: error.reason })?;
        let is_asked = |device: &DeviceId| starts.iter().any(|(asked, _)| asked == device);
        let away: Vec<_> = manifest.start.iter().filter(|(device, _)| !is_asked(device)).copied().collect();
        starts.extend(away);
        starts.sort_by_key(|(device, _)| *device);
        Ok(starts)
    }

    async fn write_run(
        self: &Arc<Self>,
        memtable: &Memtable,
        run: RunId,
        class: AppendClass,
    ) -> Result<Option<Run>, EngineError> {
        let mut writer = RunWriter::new(self, run, 0, class);
        let mut after: Option<EntryName> = None;
        loop {
            let batch = next_batch(memtable, after.as_ref());
            let Some(last) = batch.last() else { break };
            after = Some(last.name.clone());
            for entry in &batch {
                writer.push(entry).await?;
            }
            tokio::task::yield_now().await;
        }
        writer.finish().await
    }

    /// Moves the entries that are in the run now into the full map.
    async fn settle(&self, memtable: &Memtable, graves: &mut Vec<(Epoch, KeyHash, Order)>) {
        let mut after: Option<EntryName> = None;
        loop {
            let batch = next_batch(memtable, after.as_ref());
            let Some(last) = batch.last() else { break };
            after = Some(last.name.clone());
            for name in &batch {
                let entry = &name.entry;
                self.shard(&entry.hash).lock().index_mut().settle(entry);
                if entry.state == EntryState::Tombstone {
                    graves.push((forgotten_with(name.name.space, entry.epoch), entry.hash, entry.order));
                }
            }
            tokio::task::yield_now().await;
        }
        for shard in &self.shards {
            shard.lock().index_mut().shrink();
        }
    }

    /// Forgets deletes that checkpoints have left behind and that every member has heard of: one that has not would answer a freeze, or a question, with the
    /// version before, and nobody would know better.
    fn forget_tombstones(&self, graves: &mut Vec<(Epoch, KeyHash, Order)>) {
        let heard = self.member.as_ref().map_or(Epoch(u64::MAX), |member| member.heard_everywhere());
        let until = self.remembered.covered().min(Epoch(heard.0.saturating_add(TOMBSTONE_EPOCHS - 1)));
        graves.retain(|(epoch, hash, order)| {
            let keep = *epoch > until;
            if !keep {
                self.shard(hash).lock().index_mut().forget_tombstone(hash, *order);
            }
            keep
        });
    }
}

/// Manifests of one cell in their order: each checkpoint and each merge draws the number of a run.
fn version(manifest: &Manifest) -> (Epoch, RunId) {
    (manifest.epoch, manifest.next.run)
}

/// The epoch with whose checkpoint a tombstone of this epoch may be forgotten.
pub(crate) fn forgotten_with(space: Space, epoch: Epoch) -> Epoch {
    let stays = if space == Space::Upload { UPLOAD_TOMBSTONE_EPOCHS } else { TOMBSTONE_EPOCHS };
    Epoch(epoch.0 + stays)
}

/// The next names of a memtable that no longer changes.
fn next_batch(memtable: &Memtable, after: Option<&EntryName>) -> Vec<NameEntry> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let names = memtable.read();
    names.range::<EntryName, _>((from, Bound::Unbounded)).take(COPY_BATCH).map(|(_, entry)| entry.clone()).collect()
}

/// All rows of a block.
pub(crate) async fn read_block(inner: &Inner, run: &Run, number: usize) -> Result<Vec<NameEntry>, EngineError> {
    let block = run.block(inner, number).await?;
    let mut entries = Vec::with_capacity(block.len());
    let mut rows = block.rows();
    while let Some(row) = rows.next() {
        let row = row.map_err(|error| corrupt_run(run.id(), &error))?;
        entries.push(row.to_name_entry());
    }
    Ok(entries)
}
