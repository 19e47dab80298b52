//! Checkpoints: writing down what one epoch added, so that a start need not walk the log from its beginning (paper section 3.4;
//! zstore.md, decisions 11, 13, 21).
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

use crate::live_hints;
use crate::names::{Memtable, Run, RunWriter, corrupt_run};
use crate::store::Inner;
use device::AppendClass;
use engine::EngineError;
use format::entry::{Entry, EntryState};
use format::manifest::{Manifest, NextIds};
use format::name_entry::NameEntry;
use format::record::{EntryName, Space};
use format::run_index::RunId;
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;
use types::{DeviceId, Epoch, KeyHash, Order, Position};

/// Runs of one level that are merged into one of the next.
const RUNS_PER_LEVEL: usize = 4;
/// Start vectors that are remembered. Members are an epoch apart at most, unless views change again and again.
const MAX_FORMER: usize = 8;
/// Epochs for which a tombstone stays after its own.
const TOMBSTONE_EPOCHS: u64 = 2;
/// The same for the tombstone of an upload, which remembers the outcome of its Complete for one that is tried again.
const UPLOAD_TOMBSTONE_EPOCHS: u64 = 64;
/// Names copied out of a memtable at a time.
const COPY_BATCH: usize = 512;

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
    fn draw_run(&mut self) -> RunId {
        let run = self.manifest.next.run.max(self.drawn);
        self.drawn = RunId(run.0 + 1);
        run
    }

    /// Another manifest is installed.
    fn follow(&mut self, next: Manifest) {
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
        // On a full device that has to wait until collection, which needs checkpoints, has made room. In a new view a key may have to wait for its
        // recovery, which would wait for this.
        match self.while_view_lasts(self.tidy_uploads()).await {
            Ok(()) | Err(EngineError::Full) => {}
            Err(error) => return Err(error),
        }
        let memtable = self.names.fold(ended);
        let run = match self.write_run(&memtable, state.draw_run(), AppendClass::Meta).await {
            // Zones that copies stand in hold a run as well. This one makes room: what was replaced since the last checkpoint is garbage only
            // when it stands. Crashes leave open zones behind that are almost empty, and the one that is left may be kept for copies.
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
        self.forget_tombstones(self.remembered.covered(), &mut state.graves);
        self.targets.set_covered(&start);
        if self.targets.table().generation() == generation {
            self.background.has_checkpoint();
        }
        self.stats.checkpoints.add(1);
        self.stats.checkpoint_entries.add(memtable.len() as u64);
        Ok(())
    }

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

    /// As leader, when all of an epoch is known: goes on from the manifest that the manager has. Who led before may have been removed
    /// before it told anybody of it, or the manager's answer was lost.
    async fn take_over(self: &Arc<Self>, state: &mut CheckpointState) -> Result<(), EngineError> {
        if self.is_alone() {
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
        if self.is_alone() {
            return Ok(true);
        }
        self.remembered.reach().await?;
        Ok(self.newest_manifest()?.is_none_or(|newest| version(&newest) <= version(manifest)))
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
        self.forget_tombstones(self.remembered.covered(), &mut state.graves);
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
        if !self.is_alone() || !self.newest_manifest().ok().flatten().is_some_and(names_it) {
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

    fn forget_tombstones(&self, saved: Epoch, graves: &mut Vec<(Epoch, KeyHash, Order)>) {
        graves.retain(|(epoch, hash, order)| {
            let keep = *epoch > saved;
            if !keep {
                self.shard(hash).lock().index_mut().forget_tombstone(hash, *order);
            }
            keep
        });
    }

    /// Merges the runs of every level that has enough of them.
    pub(crate) async fn merge_runs(self: &Arc<Self>) -> Result<(), EngineError> {
        loop {
            let runs = self.names.layers().runs;
            let Some(level) = runs
                .iter()
                .map(|run| run.level())
                .find(|level| runs.iter().filter(|run| run.level() == *level).count() >= RUNS_PER_LEVEL)
            else {
                return Ok(());
            };
            let same: Vec<Arc<Run>> = runs.iter().filter(|run| run.level() == level).cloned().collect();
            self.merge(same, level + 1).await?;
        }
    }

    /// Merges neighbouring runs, newest first, into one.
    pub(crate) async fn merge(self: &Arc<Self>, runs: Vec<Arc<Run>>, level: u8) -> Result<(), EngineError> {
        self.remembered.reach().await?;
        let mut state = self.checkpoints.lock().await;
        // Who waited for the lock may have waited for a manifest that has others in their place.
        let is_named = |run: &Arc<Run>| state.manifest.runs.iter().any(|named| named.run == run.id());
        if !runs.iter().all(is_named) {
            return Ok(());
        }
        // The manager would take this one for a later one, for their epochs are equal; and the number of its run may have been given by who led before. Who has
        // read that manifest would take the two for one.
        if !self.while_view_lasts(self.is_newest(&state.manifest)).await? {
            self.background.want_checkpoint();
            let reason = "the manager has a newer manifest, which the next checkpoint takes over".to_owned();
            return Err(EngineError::Unavailable { reason });
        }
        let run_id = state.draw_run();
        let writer = RunWriter::new(self, run_id, level, AppendClass::Meta);
        // What has been written when it is given up is garbage.
        let merged = self.while_view_lasts(self.write_merged(&state.manifest, &runs, writer)).await?.map(Arc::new);
        let mut manifest = state.manifest.clone();
        let first = manifest.runs.iter().position(|run| run.run == runs[0].id()).expect("merged runs stand in the manifest");
        manifest.runs.splice(first..first + runs.len(), merged.iter().map(|run| run.summary.clone()));
        manifest.next.run = RunId(run_id.0 + 1);
        let installed = self.remembered.install(manifest).await.inspect_err(|_| self.count_out(merged.as_deref()))?;
        state.follow(installed);
        self.tell_installed(&state.manifest);
        self.names.merge_runs(&runs, merged);
        runs.iter().for_each(|run| self.release_run(run));
        self.stats.merged_runs.add(runs.len() as u64);
        Ok(())
    }

    async fn write_merged(
        self: &Arc<Self>,
        manifest: &Manifest,
        runs: &[Arc<Run>],
        mut writer: RunWriter,
    ) -> Result<Option<Run>, EngineError> {
        let oldest = manifest.runs.last().map(|run| run.run);
        let is_bottom = oldest == runs.last().map(|run| run.id());
        // What is on a device that is away is not known to be gone.
        let is_whole = manifest.start.iter().all(|(device, _)| self.targets.device(*device).is_some());
        let mut sources = Vec::new();
        for run in runs {
            sources.push(RunCursor::open(self, run.clone()).await?);
        }
        while let Some(entry) = next_merged(self, &mut sources).await? {
            let forgotten = entry.entry.state == EntryState::Tombstone
                && is_bottom
                && forgotten_with(entry.name.space, entry.entry.epoch) <= self.remembered.covered();
            if is_whole && entry.name.space == Space::Part && entry.entry.state == EntryState::Live {
                self.note_part(&entry.name);
            }
            if !forgotten {
                writer.push(&entry).await?;
            }
        }
        writer.finish().await
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

/// Reads a run from its first row to its last.
struct RunCursor {
    run: Arc<Run>,
    next_block: usize,
    rows: std::vec::IntoIter<NameEntry>,
    head: Option<NameEntry>,
}

impl RunCursor {
    async fn open(inner: &Inner, run: Arc<Run>) -> Result<Self, EngineError> {
        let mut cursor = RunCursor { run, next_block: 0, rows: Vec::new().into_iter(), head: None };
        cursor.advance(inner).await?;
        Ok(cursor)
    }

    async fn advance(&mut self, inner: &Inner) -> Result<(), EngineError> {
        loop {
            self.head = self.rows.next();
            if self.head.is_some() || self.next_block == self.run.blocks() {
                return Ok(());
            }
            self.rows = read_block(inner, &self.run, self.next_block).await?.into_iter();
            self.next_block += 1;
            tokio::task::yield_now().await;
        }
    }
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

/// The newest row of the least name; on equal orders the newest run's. Rows that it hides are dropped.
async fn next_merged(inner: &Inner, sources: &mut [RunCursor]) -> Result<Option<NameEntry>, EngineError> {
    let Some(least) = sources.iter().filter_map(|source| source.head.as_ref()).map(|head| &head.name).min().cloned() else {
        return Ok(None);
    };
    let mut newest: Option<NameEntry> = None;
    for source in sources {
        while source.head.as_ref().is_some_and(|head| head.name == least) {
            let row = source.head.take().expect("looked at above");
            if newest.as_ref().is_none_or(|known| row.entry.order > known.entry.order) {
                newest = Some(row);
            }
            source.advance(inner).await?;
        }
    }
    Ok(newest)
}
