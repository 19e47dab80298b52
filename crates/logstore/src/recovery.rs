//! Cold start: every start of a single process is the recovery from the simultaneous failure of everything (zstore.md,
//! decision 21).
//!
//! ```text
//!   manifest ─► runs into the full map ─► walk every device from the start vector ─► decide each write ─► publish
//! ```
//!
//! What may have been acknowledged is rolled forward: missing copies are made again, then it is published. The rest is discarded;
//! the next checkpoint moves the start vector past it. [`decide`] has the rules. They depend only on what stands on the
//! devices, so a start that is itself interrupted decides alike.

pub(crate) mod decide;
mod walk;

use crate::background::{self, Background};
use crate::checkpoint::{CheckpointState, forgotten_with, read_block};
use crate::config::LogStoreConfig;
use crate::epochs::Epochs;
use crate::index::{Located, ShardIndex};
use crate::machine::{Cell, SequenceSource, Shard};
use crate::manifests::Manifests;
use crate::names::{Names, Run};
use crate::pins::Pins;
use crate::stats::LogStoreStats;
use crate::store::{Inner, LogStore, SHARDS};
use crate::targets::{Targets, vectors_of};
use device::Device;
use engine::EngineError;
use env::Env;
use format::decode::DecodeError;
use format::entry::EntryState;
use format::manifest::Manifest;
use format::run_index::RunId;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use topology::TableError;
use types::limits::MAX_REPLICAS;
use types::{DeviceId, Epoch, Generation, KeyHash};

/// An incarnation's sequences begin at this multiple of its number: room for 2^40 writes.
const SEQUENCES_PER_INCARNATION: u64 = 1 << 40;

/// Why the engine can't start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the checkpoint manifest can't be read: {0}")]
    Manifest(#[from] DecodeError),
    #[error("the manifest is of cell {found}, expected {expected}")]
    OtherCell { found: types::CellId, expected: types::CellId },
    #[error(transparent)]
    Table(#[from] TableError),
    #[error("reading what the last checkpoint wrote: {0}")]
    Checkpoint(#[source] EngineError),
    #[error("walking the log of device {device}: {detail}")]
    Walk { device: DeviceId, detail: String },
    #[error("rolling forward: {0}")]
    RollForward(#[source] EngineError),
    #[error("the manager gives no incarnation: {0}")]
    Incarnation(#[source] EngineError),
}

impl LogStore {
    /// Opens the engine over these devices: reads the checkpoint, walks the logs, decides what was under way. `missing` are
    /// devices of the cell that could not be opened.
    pub async fn open(
        config: LogStoreConfig,
        env: Env,
        manifests: Arc<dyn Manifests>,
        devices: Vec<Arc<Device>>,
        missing: &[DeviceId],
    ) -> Result<LogStore, OpenError> {
        let manifest = load_manifest(&config, &*manifests)?;
        let incarnation = manifests.incarnation().await.map_err(OpenError::Incarnation)?;
        let found = walk::walk_all(&devices, &vectors_of(&manifest.start), manifest.epoch).await?;
        let epoch = Epoch(manifest.epoch.0.max(found.newest_epoch.0) + 1);
        // A start may find another set of devices, so it writes under a generation of its own (decision 2).
        let generation = Generation(manifest.generation.0.max(found.newest_generation.0) + 1);
        let targets = Targets::new(config.cell, devices, generation)?;
        targets.set_covered(&manifest.start);
        let copies = targets.table().copies().max(found.most_copies).max(most_copies(&manifest));
        let cell = Arc::new(Cell::new(config.gateway, vec![config.gateway]));
        let sequences = Arc::new(SequenceSource::starting_at(incarnation * SEQUENCES_PER_INCARNATION));
        let undecidable = decide::undecidable(&found, missing, config.gateway);
        let shard = || Mutex::new(Shard::new(cell.clone(), sequences.clone(), ShardIndex::new(copies.min(MAX_REPLICAS))));
        let inner = Arc::new(Inner {
            background: Background::new(&config),
            config,
            env,
            manifests,
            targets,
            cell: cell.clone(),
            sequences: sequences.clone(),
            shards: (0..SHARDS).map(|_| shard()).collect(),
            epochs: Epochs::starting_at(epoch),
            names: Names::new(epoch),
            pins: Pins::default(),
            stats: LogStoreStats::default(),
            undecidable,
            first_generation: generation,
            some_write_failed: AtomicBool::new(false),
            checkpoints: tokio::sync::Mutex::new(CheckpointState { manifest, ended: None, graves: Vec::new() }),
            staging: Mutex::default(),
            open_uploads: Mutex::default(),
        });
        inner.load_runs().await.map_err(OpenError::Checkpoint)?;
        inner.roll_forward(found).await.map_err(OpenError::RollForward)?;
        inner.end_complete_uploads().await.map_err(OpenError::RollForward)?;
        inner.count_live().await;
        inner.env.spawn(background::run(Arc::downgrade(&inner)));
        Ok(LogStore { inner })
    }

    /// Writes a last checkpoint, so that the next start has little to walk. Nothing is lost without it.
    pub async fn close(&self) {
        self.inner.background.stop().await;
    }
}

fn load_manifest(config: &LogStoreConfig, manifests: &dyn Manifests) -> Result<Manifest, OpenError> {
    let Some(bytes) = manifests.load() else {
        let mut first = Manifest { cell: config.cell, ..Manifest::default() };
        first.next.run = RunId(1);
        return Ok(first);
    };
    let manifest = Manifest::decode(&bytes)?;
    if manifest.cell != config.cell {
        return Err(OpenError::OtherCell { found: manifest.cell, expected: config.cell });
    }
    Ok(manifest)
}

/// The most copies that any record of a checkpoint may have: the index must have room for as many.
fn most_copies(manifest: &Manifest) -> usize {
    let devices: std::collections::HashSet<DeviceId> = manifest.start.iter().map(|(device, _)| *device).collect();
    devices.len().clamp(1, MAX_REPLICAS)
}

impl Inner {
    /// Puts what the runs hold into the full map, oldest run first.
    async fn load_runs(self: &Arc<Self>) -> Result<(), EngineError> {
        let mut state = self.checkpoints.lock().await;
        let mut graves: Vec<(Epoch, KeyHash, types::Order)> = Vec::new();
        let mut runs = Vec::new();
        for summary in state.manifest.runs.iter().rev() {
            let run = Arc::new(Run::open(self, summary.clone()).await?);
            for block in 0..run.blocks() {
                for name in read_block(self, &run, block).await? {
                    let entry = &name.entry;
                    self.shard(&entry.hash).lock().index_mut().load(&entry.hash, &Located::from(entry));
                    if entry.state == EntryState::Tombstone {
                        graves.push((forgotten_with(&name), entry.hash, entry.order));
                    }
                    self.note_open_upload(&name);
                }
            }
            runs.push(run);
        }
        state.graves = graves;
        runs.reverse();
        self.names.set_runs(runs);
        Ok(())
    }

    /// Counts what is live in each zone: records from the index, runs from their indexes, chunks from the manifest's hints.
    async fn count_live(&self) {
        for shard in &self.shards {
            for (_, located) in shard.lock().index().iter() {
                self.targets.add_live_entry(&located);
            }
        }
        for run in self.names.layers().runs {
            for (places, frame_bytes) in run.frames() {
                places.as_slice().iter().for_each(|place| self.targets.add_live(place, frame_bytes as u64));
            }
        }
        let state = self.checkpoints.lock().await;
        for hint in &state.manifest.live {
            let same = |device: &Arc<Device>| {
                device.zones().get(hint.zone.0 as usize).is_some_and(|zone| zone.activation == hint.activation)
            };
            if self.targets.device(hint.device).is_some_and(same) {
                let place = types::Place { device: hint.device, zone: hint.zone, offset: types::ZoneOffset(0) };
                self.targets.add_live_chunk(&place, hint.live_bytes);
            }
        }
    }
}
