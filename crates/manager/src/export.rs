//! The whole state as bytes: what is copied into superblocks, so that losing every manager loses no data.
//!
//! ```text
//!   0  magic        8  "TRILMGR\0"
//!   8  version      4  little-endian, as all numbers
//!  12  checksum     4  CRC32C of the version and the body
//!  16  body            postcard(Body)
//! ```
//!
//! A copy may be older than the state that was lost. Ids and tokens that were handed out after it must not be handed out again:
//! a bucket made anew under a lost bucket's id would show that bucket's objects, and a token would stop fencing, and
//! a start would write under another's generation, a shard would give ids that lead to another's chunks, and two shards would put chunks
//! into the same blocks. So an import
//! skips more of them than any manager can have handed out between two copies.
//!
//! Shards and volumes come back as they were when the copy was made. A shard that was opened after it is not known any more: its unit and
//! its chunks are where they were, and nobody is led there. A shard that was sealed after it counts as open; its unit refuses registrations
//! by itself. Blocks that are skipped stay unused.

use std::collections::HashMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use types::CellId;

use crate::limits::BULK_BLOCKS;
use crate::record::{
    BucketRecord, CellRecord, ClusterRecord, Credential, DeviceRecord, FirstNextIds, FormerCellRecord, FormerDeviceRecord,
    ManifestRecord, NodeRecord, ReplicaTableRecord, SecondNextIds, ShardRecord, VolumeRecord,
};
use crate::snapshot::{CommandIndex, ImpossibleState, NextIds, Snapshot};

/// The version that is written. 4: shards and volumes; 3: cells keep the tables of former views; 2: nodes and cells; 1: the first. All are
/// read.
pub const EXPORT_VERSION: u32 = 4;

/// Before shards and volumes.
const THIRD_EXPORT_VERSION: u32 = 3;

/// Before tables of former views.
const SECOND_EXPORT_VERSION: u32 = 2;

/// The first version.
const FIRST_EXPORT_VERSION: u32 = 1;

/// Commands, and so tokens, that an import skips.
pub const IMPORT_SKIPPED_COMMANDS: u64 = 1 << 32;

/// Bucket ids that an import skips.
pub const IMPORT_SKIPPED_BUCKETS: u64 = 1 << 32;

/// Device numbers that an import skips: those of the disks that came to a server within the second that its newest copy lacks. There are 16 bits of them for
/// all times.
pub const IMPORT_SKIPPED_DEVICES: u32 = 64;

/// Starts of each cell that an import skips: a generation is never used for two of them.
pub const IMPORT_SKIPPED_STARTS: u64 = 1 << 10;

/// Numbers of nodes that an import skips.
pub const IMPORT_SKIPPED_NODES: u32 = 1 << 12;

/// Numbers of shards that an import skips.
pub const IMPORT_SKIPPED_SHARDS: u32 = 1 << 10;

/// Free blocks of each volume that an import skips: eight bulks.
pub const IMPORT_SKIPPED_BLOCKS: u32 = 8 * BULK_BLOCKS;

/// Views of each cell that an import skips.
pub const IMPORT_SKIPPED_VIEWS: u64 = 1 << 32;

/// Generations of each cell's tables that an import skips.
pub const IMPORT_SKIPPED_GENERATIONS: u32 = 1 << 16;

/// Gateways of each cell that an import skips.
pub const IMPORT_SKIPPED_GATEWAYS: u16 = 1 << 10;

const MAGIC: [u8; 8] = *b"TRILMGR\0";
const BODY_OFFSET: usize = 16;

#[derive(Serialize, Deserialize)]
struct Body {
    /// What was there before.
    base: Base<NextIds, CellRecord>,
    shards: Vec<ShardRecord>,
    volumes: Vec<VolumeRecord>,
}

/// The body of versions 2 and 3. They differ in what they say of a cell, and from later ones in the next ids.
#[derive(Serialize, Deserialize)]
struct Base<Next, Cell> {
    applied: u64,
    next: Next,
    cluster: Option<ClusterRecord>,
    devices: Vec<DeviceRecord>,
    buckets: Vec<BucketRecord>,
    credentials: Vec<Credential>,
    manifests: Vec<(CellId, ManifestRecord)>,
    replica_table: Option<ReplicaTableRecord>,
    config: Vec<(String, String)>,
    starts: Vec<(CellId, u64)>,
    nodes: Vec<NodeRecord>,
    cells: Vec<Cell>,
}

/// The body of version 1.
#[derive(Serialize, Deserialize)]
struct FirstBody {
    applied: u64,
    next: FirstNextIds,
    cluster: Option<ClusterRecord>,
    devices: Vec<FormerDeviceRecord>,
    buckets: Vec<BucketRecord>,
    credentials: Vec<Credential>,
    manifests: Vec<(CellId, ManifestRecord)>,
    replica_table: Option<ReplicaTableRecord>,
    config: Vec<(String, String)>,
    starts: Vec<(CellId, u64)>,
}

impl From<FirstBody> for Base<FirstNextIds, CellRecord> {
    fn from(former: FirstBody) -> Self {
        Base {
            applied: former.applied,
            next: former.next,
            cluster: former.cluster,
            devices: former.devices.into_iter().map(DeviceRecord::from).collect(),
            buckets: former.buckets,
            credentials: former.credentials,
            manifests: former.manifests,
            replica_table: former.replica_table,
            config: former.config,
            starts: former.starts,
            nodes: Vec::new(),
            cells: Vec::new(),
        }
    }
}

impl<Next: Into<NextIds>, Cell: Into<CellRecord>> From<Base<Next, Cell>> for Body {
    fn from(former: Base<Next, Cell>) -> Self {
        let base = Base {
            applied: former.applied,
            next: former.next.into(),
            cluster: former.cluster,
            devices: former.devices,
            buckets: former.buckets,
            credentials: former.credentials,
            manifests: former.manifests,
            replica_table: former.replica_table,
            config: former.config,
            starts: former.starts,
            nodes: former.nodes,
            cells: former.cells.into_iter().map(Cell::into).collect(),
        };
        Body { base, shards: Vec::new(), volumes: Vec::new() }
    }
}

/// Bytes that are no state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeExportError {
    #[error("not a copy of a manager's state")]
    Magic,
    #[error("expected checksum {expected:#010x}, found {found:#010x}")]
    Checksum { expected: u32, found: u32 },
    #[error("expected version {EXPORT_VERSION} of a manager's state, found {found}; use a newer Trilith")]
    Version { found: u32 },
    #[error("a manager's state that cannot be decoded")]
    Body(#[source] postcard::Error),
    #[error(transparent)]
    Impossible(#[from] ImpossibleState),
}

impl Snapshot {
    /// The whole state as bytes. The same state gives the same bytes.
    pub fn export(&self) -> Vec<u8> {
        let base = Base {
            applied: self.applied.0,
            next: self.next,
            cluster: self.cluster.as_deref().cloned(),
            devices: self.devices.values().map(|record| DeviceRecord::clone(record)).collect(),
            buckets: self.buckets().iter().map(|record| BucketRecord::clone(record)).collect(),
            credentials: self.credentials().iter().map(|record| Credential::clone(record)).collect(),
            manifests: self.manifests().map(|(cell, record)| (cell, ManifestRecord::clone(record))).collect(),
            replica_table: self.replica_table.as_deref().cloned(),
            config: self.config.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
            starts: self.starts.iter().map(|(cell, starts)| (*cell, *starts)).collect(),
            nodes: self.nodes.values().map(|record| NodeRecord::clone(record)).collect(),
            cells: self.cells.values().map(|record| CellRecord::clone(record)).collect(),
        };
        let shards = self.shards.values().map(|record| ShardRecord::clone(record)).collect();
        let body = Body { base, shards, volumes: self.volumes.values().map(|record| VolumeRecord::clone(record)).collect() };
        let mut bytes = Vec::from(MAGIC);
        bytes.extend_from_slice(&EXPORT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        let mut bytes = postcard::to_extend(&body, bytes).expect("encoding into memory cannot fail");
        let checksum = checksum(&bytes);
        bytes[12..BODY_OFFSET].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The state that [`Snapshot::export`] wrote.
    pub fn from_export(bytes: &[u8]) -> Result<Snapshot, DecodeExportError> {
        if bytes.len() < BODY_OFFSET || bytes[..8] != MAGIC {
            return Err(DecodeExportError::Magic);
        }
        let (expected, found) = (checksum(bytes), u32::from_le_bytes(bytes[12..16].try_into().expect("four bytes")));
        if expected != found {
            return Err(DecodeExportError::Checksum { expected, found });
        }
        let version = u32::from_le_bytes(bytes[8..12].try_into().expect("four bytes"));
        let body = &bytes[BODY_OFFSET..];
        let body: Body = match version {
            EXPORT_VERSION => decoded(body)?,
            THIRD_EXPORT_VERSION => decoded::<Base<SecondNextIds, CellRecord>>(body)?.into(),
            SECOND_EXPORT_VERSION => decoded::<Base<SecondNextIds, FormerCellRecord>>(body)?.into(),
            FIRST_EXPORT_VERSION => Base::from(decoded::<FirstBody>(body)?).into(),
            found => return Err(DecodeExportError::Version { found }),
        };
        let state = body.into_state();
        state.check()?;
        Ok(state)
    }

    /// This state as the beginning of a manager that knows nothing later: with everything skipped that may have been handed out.
    /// An error if that leads to numbers with which the manager could not be opened again.
    pub(crate) fn skip_lost(mut self) -> Result<Snapshot, ImpossibleState> {
        self.applied.0 += IMPORT_SKIPPED_COMMANDS;
        self.next.bucket += IMPORT_SKIPPED_BUCKETS;
        self.next.device += IMPORT_SKIPPED_DEVICES;
        Arc::make_mut(&mut self.starts).values_mut().for_each(|starts| *starts += IMPORT_SKIPPED_STARTS);
        self.next.node += IMPORT_SKIPPED_NODES;
        self.next.shard += IMPORT_SKIPPED_SHARDS;
        Arc::make_mut(&mut self.volumes).values_mut().for_each(|volume| Arc::make_mut(volume).skip_lost());
        Arc::make_mut(&mut self.cells).values_mut().for_each(|cell| Arc::make_mut(cell).skip_lost());
        self.check()?;
        Ok(self)
    }
}

impl Body {
    fn into_state(self) -> Snapshot {
        let Body { base, shards, volumes } = self;
        let buckets: HashMap<_, _> = base.buckets.into_iter().map(|record| (record.name.clone(), Arc::new(record))).collect();
        let credentials = base.credentials.into_iter().map(|record| (record.access_key.clone(), Arc::new(record)));
        Snapshot {
            applied: CommandIndex(base.applied),
            next: base.next,
            cluster: base.cluster.map(Arc::new),
            devices: Arc::new(base.devices.into_iter().map(|record| (record.id, Arc::new(record))).collect()),
            buckets: Arc::new(buckets),
            credentials: Arc::new(credentials.collect()),
            manifests: Arc::new(base.manifests.into_iter().map(|(cell, record)| (cell, Arc::new(record))).collect()),
            replica_table: base.replica_table.map(Arc::new),
            config: Arc::new(base.config.into_iter().collect()),
            starts: Arc::new(base.starts.into_iter().collect()),
            nodes: Arc::new(base.nodes.into_iter().map(|record| (record.id, Arc::new(record))).collect()),
            cells: Arc::new(base.cells.into_iter().map(|record| (record.id, Arc::new(record))).collect()),
            shards: Arc::new(shards.into_iter().map(|record| (record.id, Arc::new(record))).collect()),
            volumes: Arc::new(volumes.into_iter().map(|record| (record.device, Arc::new(record))).collect()),
        }
    }
}

fn decoded<B: DeserializeOwned>(body: &[u8]) -> Result<B, DecodeExportError> {
    postcard::from_bytes(body).map_err(DecodeExportError::Body)
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&bytes[8..12]);
    digest.update(&bytes[BODY_OFFSET..]);
    digest.finalize() as u32
}
