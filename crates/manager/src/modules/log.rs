//! What cells ask of the manager: checkpoint manifests, the replica-set table, tokens, the numbers of their starts.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use types::{CellId, Epoch, ErrorKind, GatewayId, Generation, Token};

use super::commands;
use crate::error::ManagerError;
use crate::kind::Record;
use crate::limits::{MAX_CELLS, MAX_MANIFEST_BYTES, MAX_REPLICA_TABLE_BYTES, NUMBER_LIMIT};
use crate::manager::Manager;
use crate::operation::{Operation, Refusal};
use crate::snapshot::{CommandIndex, Edit, ImpossibleState, Snapshot, check_number};

/// The checkpoint manifest of a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestRecord {
    pub epoch: Epoch,
    /// Opaque here: the log engine's.
    pub bytes: Vec<u8>,
}

/// The replica-set table in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicaTableRecord {
    pub generation: Generation,
    /// Opaque here: `topology`'s.
    pub bytes: Vec<u8>,
}

/// How often a cell was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Starts(pub u64);

/// Starts of each cell that an import skips: a generation is never used for two of them.
pub const IMPORT_SKIPPED_STARTS: u64 = 1 << 10;

impl Record for ManifestRecord {
    type Key = CellId;

    const TAG: u8 = 7;
    const NAME: &'static str = "manifest";
}

impl Record for ReplicaTableRecord {
    type Key = ();

    const TAG: u8 = 8;
    const NAME: &'static str = "replica table";
}

impl Record for Starts {
    type Key = CellId;

    const TAG: u8 = 10;
    const NAME: &'static str = "starts";

    fn check(&self, _: &CellId, _: &Snapshot) -> Result<(), ImpossibleState> {
        Ok(check_number("start", self.0, NUMBER_LIMIT)?)
    }

    fn skip_lost(&mut self) {
        self.0 += IMPORT_SKIPPED_STARTS;
    }
}

commands! {
    Log,
    /// Commands of the log engine.
    LogCommand: InstallManifest, InstallReplicaTable, TakeToken, BeginStart, InstallCellManifest,
}

impl Snapshot {
    /// A cell's checkpoint manifest; none before its first checkpoint.
    pub fn manifest(&self, cell: CellId) -> Option<&Arc<ManifestRecord>> {
        self.manifests.get(&cell)
    }

    /// All cells that have a manifest.
    pub fn manifests(&self) -> impl Iterator<Item = (CellId, &Arc<ManifestRecord>)> {
        self.manifests.iter().map(|(cell, manifest)| (*cell, manifest))
    }

    /// How often a cell was started.
    pub fn starts(&self, cell: CellId) -> u64 {
        self.starts.get(&cell).map_or(0, |starts| starts.0)
    }

    /// The replica-set table; none before the first.
    pub fn replica_table(&self) -> Option<&Arc<ReplicaTableRecord>> {
        self.replica_tables.get(&())
    }
}

/// Replaces a cell's manifest if it still is of the epoch that the new one was built on. A cell without one has epoch 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstallManifest {
    pub cell: CellId,
    pub expected: Epoch,
    /// Not below `expected`: a merge of runs changes the manifest within its epoch.
    pub epoch: Epoch,
    pub bytes: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstallManifestError {
    #[error("expected the manifest of epoch {expected}, found that of epoch {found}")]
    Stale { expected: Epoch, found: Epoch },
    #[error("a manifest of epoch {epoch} cannot follow one of epoch {expected}")]
    Backwards { expected: Epoch, epoch: Epoch },
    #[error("a manifest of {found} bytes; the longest is {MAX_MANIFEST_BYTES}")]
    Length { found: usize },
    #[error("the cluster has {MAX_CELLS} cells and takes no more")]
    TooManyCells,
    #[error("gateway {gateway} does not lead its cell")]
    NotLeader { gateway: GatewayId },
}

impl Refusal for InstallManifestError {
    fn kind(&self) -> ErrorKind {
        match self {
            InstallManifestError::Stale { .. } | InstallManifestError::NotLeader { .. } => ErrorKind::PreconditionFailed,
            InstallManifestError::Backwards { .. } | InstallManifestError::Length { .. } => ErrorKind::Invalid,
            InstallManifestError::TooManyCells => ErrorKind::Full,
        }
    }
}

impl Operation for InstallManifest {
    type Reply = ();
    type Refusal = InstallManifestError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<(), InstallManifestError> {
        if self.bytes.len() > MAX_MANIFEST_BYTES {
            return Err(InstallManifestError::Length { found: self.bytes.len() });
        }
        if self.epoch < self.expected {
            return Err(InstallManifestError::Backwards { expected: self.expected, epoch: self.epoch });
        }
        let found = edit.state.manifest(self.cell).map_or(Epoch(0), |manifest| manifest.epoch);
        if found != self.expected {
            return Err(InstallManifestError::Stale { expected: self.expected, found });
        }
        let is_new = edit.state.manifest(self.cell).is_none();
        if is_new && edit.state.manifests.len() >= MAX_CELLS {
            return Err(InstallManifestError::TooManyCells);
        }
        edit.set(self.cell, Arc::new(ManifestRecord { epoch: self.epoch, bytes: self.bytes.clone() }));
        Ok(())
    }
}

/// As [`InstallManifest`], by a gateway of the cell: refused unless it leads the cell's view. One that was deposed meanwhile must not
/// replace what its successor has installed, be it of the same epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstallCellManifest {
    pub leader: GatewayId,
    pub manifest: InstallManifest,
}

impl Operation for InstallCellManifest {
    type Reply = ();
    type Refusal = InstallManifestError;

    fn apply(&self, index: CommandIndex, edit: &mut Edit<'_>) -> Result<(), InstallManifestError> {
        let installed = edit.state.cell(self.manifest.cell).and_then(|cell| cell.installed.as_ref());
        if installed.is_none_or(|installed| installed.leader != self.leader) {
            return Err(InstallManifestError::NotLeader { gateway: self.leader });
        }
        self.manifest.apply(index, edit)
    }
}

/// Replaces the replica-set table if it still is of the expected generation; none expected means that there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstallReplicaTable {
    pub expected: Option<Generation>,
    pub generation: Generation,
    pub bytes: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstallReplicaTableError {
    #[error("expected table generation {expected:?}, found {found:?}")]
    Stale { expected: Option<Generation>, found: Option<Generation> },
    #[error("generation {generation} cannot follow generation {expected:?}")]
    Backwards { expected: Option<Generation>, generation: Generation },
    #[error("a replica-set table of {found} bytes; the longest is {MAX_REPLICA_TABLE_BYTES}")]
    Length { found: usize },
}

impl Refusal for InstallReplicaTableError {
    fn kind(&self) -> ErrorKind {
        match self {
            InstallReplicaTableError::Stale { .. } => ErrorKind::PreconditionFailed,
            InstallReplicaTableError::Backwards { .. } | InstallReplicaTableError::Length { .. } => ErrorKind::Invalid,
        }
    }
}

impl Operation for InstallReplicaTable {
    type Reply = ();
    type Refusal = InstallReplicaTableError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<(), InstallReplicaTableError> {
        let (expected, generation) = (self.expected, self.generation);
        if self.bytes.len() > MAX_REPLICA_TABLE_BYTES {
            return Err(InstallReplicaTableError::Length { found: self.bytes.len() });
        }
        // A generation stands for one choice of primaries: it is never used for two tables.
        if expected.is_some_and(|expected| generation <= expected) {
            return Err(InstallReplicaTableError::Backwards { expected, generation });
        }
        let found = edit.state.replica_table().map(|table| table.generation);
        if found != expected {
            return Err(InstallReplicaTableError::Stale { expected, found });
        }
        edit.set((), Arc::new(ReplicaTableRecord { generation, bytes: self.bytes.clone() }));
        Ok(())
    }
}

/// Hands out a token: greater than all before, and never handed out twice, because it is the command's own number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeToken {}

/// Never: a token is always to be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TakeTokenError {}

impl Refusal for TakeTokenError {
    fn kind(&self) -> ErrorKind {
        match *self {}
    }
}

impl Operation for TakeToken {
    type Reply = Token;
    type Refusal = TakeTokenError;

    fn apply(&self, index: CommandIndex, _: &mut Edit<'_>) -> Result<Token, TakeTokenError> {
        Ok(Token(index.0))
    }
}

/// Counts a start of a cell, and says which it is: 1 for the first. What the start writes under that number is its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeginStart {
    pub cell: CellId,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BeginStartError {
    #[error("the cluster has {MAX_CELLS} cells and takes no more")]
    TooManyCells,
}

impl Refusal for BeginStartError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Full
    }
}

impl Operation for BeginStart {
    type Reply = u64;
    type Refusal = BeginStartError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<u64, BeginStartError> {
        let starts = edit.state.starts(self.cell);
        if starts == 0 && edit.state.starts.len() >= MAX_CELLS {
            return Err(BeginStartError::TooManyCells);
        }
        edit.set(self.cell, Arc::new(Starts(starts + 1)));
        Ok(starts + 1)
    }
}

impl Manager {
    /// Replaces a cell's checkpoint manifest, if it still is that of `expected` (0 if there is none). `epoch` is `expected` or
    /// later.
    pub async fn install_manifest(
        &self,
        cell: CellId,
        expected: Epoch,
        epoch: Epoch,
        bytes: Vec<u8>,
    ) -> Result<(), ManagerError<InstallManifestError>> {
        self.propose(InstallManifest { cell, expected, epoch, bytes }).await
    }

    /// As [`Manager::install_manifest`], by the gateway that leads the cell's view; no other may.
    pub async fn install_cell_manifest(
        &self,
        cell: CellId,
        leader: GatewayId,
        expected: Epoch,
        epoch: Epoch,
        bytes: Vec<u8>,
    ) -> Result<(), ManagerError<InstallManifestError>> {
        let manifest = InstallManifest { cell, expected, epoch, bytes };
        self.propose(InstallCellManifest { leader, manifest }).await
    }

    /// Replaces the replica-set table, if it still is that of `expected` (none if there is none).
    pub async fn install_replica_table(
        &self,
        expected: Option<Generation>,
        generation: Generation,
        bytes: Vec<u8>,
    ) -> Result<(), ManagerError<InstallReplicaTableError>> {
        self.propose(InstallReplicaTable { expected, generation, bytes }).await
    }

    /// Counts a start of a cell; which one it is, from 1. No two starts get the same number.
    pub async fn begin_start(&self, cell: CellId) -> Result<u64, ManagerError<BeginStartError>> {
        self.propose(BeginStart { cell }).await
    }

    /// A token greater than all that were handed out before.
    pub async fn take_token(&self) -> Result<Token, ManagerError<TakeTokenError>> {
        self.propose(TakeToken {}).await
    }
}
