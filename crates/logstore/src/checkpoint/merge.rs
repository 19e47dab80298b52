//! Merging neighbouring runs into one of the next level.

use std::sync::Arc;

use device::AppendClass;
use engine::EngineError;
use format::entry::EntryState;
use format::manifest::Manifest;
use format::name_entry::NameEntry;
use format::record::Space;
use format::run_index::RunId;
use types::DeviceId;

use super::adopt::is_taken_over;
use super::{forgotten_with, read_block};
use crate::names::{Run, RunWriter};
use crate::store::Inner;

/// Runs of one level that are merged into one of the next.
const RUNS_PER_LEVEL: usize = 4;
/// Members are an epoch apart: an upload may belong to the one after that of its part, and not be known here before that is covered.
const SETTLED_EPOCHS: u64 = 2;

impl Inner {
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
            return Err(is_taken_over());
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
        // A run that is written anew alone forgets nothing: another one may have a row that a tombstone in it hides.
        let is_bottom = oldest == runs.last().map(|run| run.id()) && (runs.len() > 1 || manifest.runs.len() == 1);
        // What is on a device that is away is not known to be gone. One that is gone for good keeps its vector, and brings nothing back.
        let is_here = |device: DeviceId| self.targets.device(device).is_some() || self.targets.is_gone(device);
        let is_whole = manifest.start.iter().all(|(device, _)| is_here(*device));
        let mut sources = Vec::new();
        for run in runs {
            sources.push(RunCursor::open(self, run.clone()).await?);
        }
        while let Some(entry) = next_merged(self, &mut sources).await? {
            let forgotten = entry.entry.state == EntryState::Tombstone
                && is_bottom
                && forgotten_with(entry.name.space, entry.entry.epoch) <= self.remembered.covered();
            let is_settled = entry.entry.epoch.0 + SETTLED_EPOCHS <= manifest.epoch.0;
            if is_whole && is_settled && entry.name.space == Space::Part && entry.entry.state == EntryState::Live {
                self.note_part(&entry.name);
            }
            if !forgotten {
                writer.push(&entry).await?;
            }
        }
        writer.finish().await
    }
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
