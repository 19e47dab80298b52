//! Cold start: every start of a single process is the recovery from the simultaneous failure of everything (RFD 2,
//! decision 21).
//!
//! ```text
//!   manifest ─► runs into the full map ─► walk every device from the start vector ─► decide each write ─► publish
//! ```
//!
//! What may have been acknowledged is rolled forward: missing copies are made again, then it is published. The rest is discarded;
//! a checkpoint moves the start vector past it before anything is served. [`decide`] has the rules. They depend only on what stands on
//! the devices, so a start that is itself interrupted decides alike. [`undecidable`] tells what a start can't decide because devices are
//! missing, and [`crate::remembered`] what the next start must know of this one.

pub(crate) mod decide;
mod lost;
pub(crate) mod undecidable;
pub(crate) mod walk;

use crate::background::{self, Background};
use crate::checkpoint::{CheckpointState, forgotten_with};
use crate::config::LogStoreConfig;
use crate::epochs::Epochs;
use crate::gateway::{Keys, Member, MemberSetup};
use crate::index::{IndexForm, Located, ShardIndex};
use crate::machine::{Cell, SequenceSource, Shard};
use crate::manifests::Manifests;
use crate::names::{Names, Run};
use crate::pins::Pins;
use crate::remembered::{self, Remembered};
use crate::stats::LogStoreStats;
use crate::store::{Inner, LogStore, SHARDS};
use crate::targets::Targets;
use device::Device;
use engine::EngineError;
use env::Env;
use format::decode::DecodeError;
use format::entry::{Entry, EntryState};
use format::manifest::Manifest;
use format::name_entry::Row;
use format::record::Space;
use format::run_index::RunId;
use net::BoxFuture;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use target::{LocalTarget, LogTarget};
use topology::{ReplicaTable, TableError, View};
use types::limits::MAX_REPLICAS;
use types::{DeviceId, Epoch, GatewayId, Generation, KeyHash, ViewNumber};
use undecidable::Undecidable;

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
    #[error(
        "what the last checkpoint wrote is lost with a device that is gone for good, and what it has elsewhere is damaged if there is any: {0}"
    )]
    CheckpointLost(#[source] EngineError),
    #[error("walking the log of device {device}: {detail}")]
    Walk { device: DeviceId, detail: String },
    #[error("rolling forward: {0}")]
    RollForward(#[source] EngineError),
    #[error("writing down what this start decided: {0}")]
    Settle(#[source] EngineError),
    #[error("the manager gives no incarnation: {0}")]
    Incarnation(#[source] EngineError),
    #[error("this cell was started {incarnation} times, which uses up its generations")]
    Incarnations { incarnation: u64 },
    #[error(
        "the manager's state is older than what stands on the devices: it gives generation {given}, and generation {found} has \
         written already; bring the newest state back, or rebuild it: trilith fsck --rebuild"
    )]
    ManagerBehind { given: Generation, found: Generation },
    #[error("the manager can't record which devices this start writes to: {0}")]
    Record(#[source] EngineError),
    #[error("a gateway of a cell keeps the full index: the form `ludo` is for a server of its own")]
    IndexForm,
}

impl LogStore {
    /// [`LogStore::open_over`], over devices of this process to which nobody else writes.
    pub fn open(
        config: LogStoreConfig,
        env: Env,
        manifests: Arc<dyn Manifests>,
        devices: Vec<Arc<Device>>,
        missing: &[DeviceId],
    ) -> BoxFuture<'_, Result<LogStore, OpenError>> {
        Box::pin(async move {
            let here = |device| -> Arc<dyn LogTarget> { Arc::new(LocalTarget::alone(device, &env)) };
            let targets = devices.into_iter().map(here).collect();
            LogStore::open_over(config, env, manifests, targets, missing).await
        })
    }

    /// Opens the engine over these targets: reads the checkpoint, walks the logs, decides what was under way. `missing` are
    /// devices of the cell that could not be opened.
    pub fn open_over(
        config: LogStoreConfig,
        env: Env,
        manifests: Arc<dyn Manifests>,
        devices: Vec<Arc<dyn LogTarget>>,
        missing: &[DeviceId],
    ) -> BoxFuture<'_, Result<LogStore, OpenError>> {
        Box::pin(async move { LogStore::open_with(config, env, manifests, devices, missing, None).await })
    }

    /// Begins with the checkpoint, or, if that was lost with a device that is gone for good, without it.
    async fn open_with(
        config: LogStoreConfig,
        env: Env,
        manifests: Arc<dyn Manifests>,
        devices: Vec<Arc<dyn LogTarget>>,
        missing: &[DeviceId],
        setup: Option<MemberSetup>,
    ) -> Result<LogStore, OpenError> {
        if setup.as_ref().is_some_and(|setup| !setup.is_sole) {
            check_form(&config)?;
        }
        let manifest = load_manifest(&config, &*manifests)?;
        let (again, disks, anew) = (manifests.clone(), devices.clone(), setup.clone());
        match LogStore::open_from(manifest.clone(), config.clone(), env.clone(), manifests, devices, missing, setup).await {
            Err(OpenError::CheckpointLost(error)) => {
                tracing::error!(%error, "the checkpoint was lost with a device that is gone for good: reading all logs from their starts");
                LogStore::open_from(without_checkpoint(manifest), config, env, again, disks, missing, anew).await
            }
            opened => opened,
        }
    }

    async fn open_from(
        manifest: Manifest,
        config: LogStoreConfig,
        env: Env,
        manifests: Arc<dyn Manifests>,
        devices: Vec<Arc<dyn LogTarget>>,
        missing: &[DeviceId],
        setup: Option<MemberSetup>,
    ) -> Result<LogStore, OpenError> {
        let incarnation = manifests.incarnation().await.map_err(OpenError::Incarnation)?;
        let found = walk::walk_all(&devices, &manifest).await?;
        let epoch = Epoch(manifest.epoch.0.max(found.newest_epoch.0) + 1);
        let table = match &setup {
            // The manager counts the generations of a cell, one for each view that brings another table.
            Some(setup) => setup.first.table.clone(),
            // A start may find another set of devices, so it writes under a generation of its own (decision 2). Counted, not taken
            // from what was found: a missing device may hold a newer one.
            None => {
                let first = remembered::first_generation(incarnation).ok_or(OpenError::Incarnations { incarnation })?;
                table_of_writable(first, &devices)?
            }
        };
        let (generation, newest) = (table.generation(), manifest.generation.max(found.newest_generation));
        if generation <= newest {
            return Err(OpenError::ManagerBehind { given: generation, found: newest });
        }
        let uncovered = uncovered_tables(&manifest, setup.as_ref())?;
        // Without its checkpoint the walk was to find also what went by tables that were covered.
        let has_checkpoint = !manifest.start.is_empty() || manifest.epoch == Epoch(0);
        found.check_read(has_checkpoint.then_some(&uncovered[..]))?;
        let undecidable = Undecidable::find(&found, uncovered, missing, config.gateway);
        let known: BTreeSet<DeviceId> = devices.iter().map(|device| device.id()).chain(missing.iter().copied()).collect();
        // Of a cell's devices any may come back into the table.
        let copies = known.len().max(table.copies()).max(found.most_copies).max(most_copies(&manifest));
        let parts = Parts { manifest, config, env, manifests, devices, table, undecidable, incarnation, epoch, copies, setup };
        let inner = parts.assemble(false, !missing.is_empty())?;
        let holds_back = inner.remembered.holds_back();
        if missing.is_empty() {
            inner.load_runs_unless_lost(&known).await?;
        } else if let Err(error) = inner.load_runs().await {
            // Nothing is written, so there is nothing to record and nothing to do in the background.
            tracing::error!(%error, "the checkpoint can't be read while a device is missing: everything waits for it");
            inner.undecidable.set_unreadable(&error);
            return Ok(LogStore { inner });
        }
        if inner.member.is_none() {
            inner.remembered.record(&inner.targets.table()).await.map_err(OpenError::Record)?;
            inner.env.spawn(remembered::keep_tables(Arc::downgrade(&inner), inner.targets.failures()));
        }
        let is_passed_over = inner.roll_forward(found).await.map_err(OpenError::RollForward)?;
        inner.end_complete_uploads().await.map_err(OpenError::RollForward)?;
        inner.count_live().await.map_err(OpenError::Checkpoint)?;
        // In a cell also what was found: a joiner that is left alone recovers what this gateway writes, from the checkpoint on, and nobody
        // else's writes.
        let is_founding = inner.member.is_some();
        if (is_passed_over || is_founding) && !holds_back {
            inner.settle_decisions().await?;
        }
        match &inner.member {
            Some(member) => inner.start_member_tasks(member),
            None => {
                // Since the last start devices may have come, or been declared gone.
                inner.targets.set_known(known);
                if missing.is_empty() && inner.targets.devices().count() > 1 {
                    inner.background.want_repair();
                }
                inner.env.spawn(background::run(Arc::downgrade(&inner)));
                inner.start_scrubs();
            }
        }
        Ok(LogStore { inner })
    }

    /// Opens the engine of a gateway that founds its cell anew: nobody else lives who knows what was acknowledged, so that it decides
    /// everything by what stands on the devices. They are fenced against all former gateways and drained.
    pub fn found(
        config: LogStoreConfig,
        env: Env,
        manifests: Arc<dyn Manifests>,
        devices: Vec<Arc<dyn LogTarget>>,
        missing: &[DeviceId],
        setup: MemberSetup,
    ) -> BoxFuture<'_, Result<LogStore, OpenError>> {
        Box::pin(async move { LogStore::open_with(config, env, manifests, devices, missing, Some(setup)).await })
    }

    /// Opens the engine of a gateway that joins others. It serves nothing before [`LogStore::join`] has returned.
    pub fn joining(
        config: LogStoreConfig,
        env: Env,
        manifests: Arc<dyn Manifests>,
        devices: Vec<Arc<dyn LogTarget>>,
        setup: MemberSetup,
    ) -> BoxFuture<'static, Result<LogStore, OpenError>> {
        Box::pin(async move {
            check_form(&config)?;
            let incarnation = manifests.incarnation().await.map_err(OpenError::Incarnation)?;
            let mut manifest = Manifest { cell: config.cell, ..Manifest::default() };
            manifest.next.run = RunId(1);
            let (table, undecidable) = (setup.first.table.clone(), Undecidable::default());
            let (epoch, copies, setup) = (Epoch(1), MAX_REPLICAS, Some(setup));
            let parts =
                Parts { manifest, config, env, manifests, devices, table, undecidable, incarnation, epoch, copies, setup };
            let inner = parts.assemble(true, true)?;
            if let Some(member) = &inner.member {
                inner.change_links(member, member.view().view());
                inner.greet(member, &member.view(), &[]);
            }
            Ok(LogStore { inner })
        })
    }

    /// Writes a last checkpoint, so that the next start has little to walk. Nothing is lost without it.
    pub fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.inner.undecidable.is_unreadable() {
                return;
            }
            self.inner.background.stop().await;
        })
    }
}

/// What an engine is made of.
struct Parts {
    manifest: Manifest,
    config: LogStoreConfig,
    env: Env,
    manifests: Arc<dyn Manifests>,
    devices: Vec<Arc<dyn LogTarget>>,
    table: ReplicaTable,
    undecidable: Undecidable,
    incarnation: u64,
    epoch: Epoch,
    /// Most copies of a record.
    copies: usize,
    setup: Option<MemberSetup>,
}

impl Parts {
    fn assemble(self, joining: bool, some_write_failed: bool) -> Result<Arc<Inner>, OpenError> {
        let Parts { manifest, config, env, manifests, devices, table, undecidable, incarnation, epoch, copies, setup } = self;
        let (me, first_generation, holds_back) = (config.gateway, table.generation(), !undecidable.is_empty());
        let view = setup.as_ref().map_or_else(|| alone(me), |setup| setup.first.view.clone());
        let table = Arc::new(table);
        let targets = Targets::new(config.cell, devices, table.clone(), setup.is_some());
        targets.set_covered(&manifest.start);
        if holds_back {
            targets.hold_cover();
        }
        let undecided: Vec<GatewayId> = setup.iter().flat_map(|setup| &setup.first.undecided).copied().collect();
        let cell = Arc::new(Cell::new(me, view).writing(config.consistency));
        let sequences = Arc::new(SequenceSource::starting_at(incarnation * SEQUENCES_PER_INCARNATION));
        // The devices of a cell that others join, and with them the copies, grow and shrink while the index lives.
        let grows = setup.as_ref().is_some_and(|setup| !setup.is_sole);
        let copies = if grows { MAX_REPLICAS } else { copies.min(MAX_REPLICAS) };
        let form = config.index;
        let shard = || {
            let index = ShardIndex::new(form, copies);
            let machine = match joining {
                true => Shard::joining(cell.clone(), sequences.clone(), index, &undecided),
                false => Shard::new(cell.clone(), sequences.clone(), index),
            };
            Mutex::new(Keys::new(machine, table.clone()))
        };
        Ok(Arc::new(Inner {
            background: Background::new(&config),
            me,
            member: setup.map(|setup| Member::new(setup, cell.clone(), joining)),
            config,
            env,
            remembered: Remembered::new(manifests, manifest.clone(), holds_back),
            targets,
            sequences: sequences.clone(),
            shards: (0..SHARDS).map(|_| shard()).collect(),
            epochs: Epochs::starting_at(epoch),
            names: Names::new(epoch),
            pins: Pins::default(),
            unknown_pins: Mutex::default(),
            stats: LogStoreStats::default(),
            undecidable,
            first_epoch: epoch,
            first_generation,
            // What a missing device holds may be rolled forward by a later start.
            some_write_failed: AtomicBool::new(some_write_failed),
            checkpoints: tokio::sync::Mutex::new(CheckpointState::new(manifest)),
            suspects: Default::default(),
            explained: Default::default(),
            ordered: Default::default(),
            doubts: Default::default(),
            unreleased: Default::default(),
            sealing: Default::default(),
            staging: Mutex::default(),
            open_uploads: Mutex::default(),
        }))
    }
}

/// The view of a gateway that is alone.
fn alone(gateway: GatewayId) -> View {
    View::new(ViewNumber(1), vec![gateway]).expect("one gateway makes a view")
}

/// A table over all devices that take writes.
fn table_of_writable(generation: Generation, devices: &[Arc<dyn LogTarget>]) -> Result<ReplicaTable, TableError> {
    ReplicaTable::new(generation, devices.iter().filter(|device| device.is_writable()).map(|device| device.id()).collect())
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

/// Tables by which writes may have gone that the manifest does not cover. A gateway that is alone records its own in the manifest; those of
/// a cell come with views, and the manager keeps them.
fn uncovered_tables(manifest: &Manifest, setup: Option<&MemberSetup>) -> Result<Vec<ReplicaTable>, TableError> {
    let recorded = manifest.tables.iter().map(|table| ReplicaTable::new(table.generation, table.devices.clone()));
    let of_views = setup.map(|setup| setup.first.uncovered.clone()).unwrap_or_default();
    recorded.chain(of_views.into_iter().map(Ok)).collect()
}

/// Entries of other gateways are judged at once, with nothing but the index to ask: it must know its keys.
fn check_form(config: &LogStoreConfig) -> Result<(), OpenError> {
    match config.index {
        IndexForm::Full => Ok(()),
        IndexForm::Ludo(_) => Err(OpenError::IndexForm),
    }
}

/// A manifest of which nothing is left but what was given out. Everything is decided anew, by what stands on the devices; versions
/// whose tombstones have gone come back.
fn without_checkpoint(manifest: Manifest) -> Manifest {
    Manifest { runs: Vec::new(), start: Vec::new(), live: Vec::new(), uploads: Vec::new(), covered: Epoch(0), ..manifest }
}

/// The most copies that any record of a checkpoint may have: the index must have room for as many.
fn most_copies(manifest: &Manifest) -> usize {
    let devices: std::collections::HashSet<DeviceId> = manifest.start.iter().map(|(device, _)| *device).collect();
    let most = manifest.tables.iter().map(|table| table.devices.len()).chain([devices.len()]).max().unwrap_or(1);
    most.clamp(1, MAX_REPLICAS)
}

impl Inner {
    /// A checkpoint before anything is served: what this start passed over is behind it then. The next start may judge otherwise,
    /// because a device is missing or a bad block can be read again, and what a client did not find must not come back.
    async fn settle_decisions(self: &Arc<Self>) -> Result<(), OpenError> {
        match self.checkpoint().await {
            // A full device must not keep the gateway from starting: what is deleted then makes room.
            Err(error @ EngineError::Full) => {
                tracing::warn!(%error, "no room for a checkpoint at the start: the next start decides anew what this one passed over");
                self.background.want_checkpoint();
                // Which may roll forward what was passed over: a delete of it needs a record.
                self.some_write_failed.store(true, Ordering::Release);
                Ok(())
            }
            settled => settled.map_err(OpenError::Settle),
        }
    }

    /// Puts what the runs hold into the full map, oldest run first.
    async fn load_runs(self: &Arc<Self>) -> Result<(), EngineError> {
        let mut state = self.checkpoints.lock().await;
        self.load_runs_of(&mut state).await
    }

    /// For a gateway that joins: reads the manager's manifest and its runs.
    pub(crate) async fn load_newest_manifest(self: &Arc<Self>) -> Result<(), EngineError> {
        let Some(manifest) = self.newest_manifest()? else { return Ok(()) };
        let mut state = self.checkpoints.lock().await;
        self.remembered.adopt(&manifest).await;
        self.targets.set_covered(&manifest.start);
        state.manifest = manifest;
        self.load_runs_of(&mut state).await
    }

    async fn load_runs_of(self: &Arc<Self>, state: &mut CheckpointState) -> Result<(), EngineError> {
        let mut runs = Vec::new();
        for summary in &state.manifest.runs {
            runs.push(Arc::new(Run::open(self, summary.clone()).await?));
        }
        let mut graves: Vec<(Epoch, KeyHash, types::Order)> = Vec::new();
        let mut note = |row: &Row<'_>| {
            if row.state() == EntryState::Tombstone {
                graves.push((forgotten_with(row.space(), row.entry().epoch), row.hash(), row.order()));
            }
            if row.space() == Space::Upload {
                self.note_open_upload(&row.to_name_entry());
            }
        };
        match self.config.index {
            IndexForm::Full => {
                let absorb = |entry: Entry| {
                    self.shard(&entry.hash).lock().index_mut().absorb(&entry.hash, &Located::from(&entry));
                };
                self.each_row(&runs, &mut |row| {
                    absorb(row.entry());
                    note(row);
                })
                .await?;
            }
            IndexForm::Ludo(form) => self.seal(form, &runs, &mut note).await?,
        }
        state.graves = graves;
        self.names.set_runs(runs);
        Ok(())
    }

    /// Counts what is live in each zone: records from the index, runs from their indexes, chunks from the manifest's hints.
    pub(crate) async fn count_live(&self) -> Result<(), EngineError> {
        self.visit_records(0..SHARDS, &mut |_, located| self.targets.add_live_entry(&located)).await?;
        for run in self.names.layers().runs {
            for (places, frame_bytes) in run.frames() {
                places.as_slice().iter().for_each(|place| self.targets.add_live(place, frame_bytes as u64));
            }
        }
        let state = self.checkpoints.lock().await;
        state.manifest.live.iter().for_each(|hint| self.targets.add_hinted(hint));
        Ok(())
    }
}
