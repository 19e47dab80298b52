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
//! a start would write under another's generation. So an import
//! skips more of them than any manager can have handed out between two copies.

use std::collections::HashMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use types::CellId;

use crate::record::{
    BucketRecord, CellRecord, ClusterRecord, Credential, DeviceRecord, FormerCellRecord, FormerDeviceRecord, FormerNextIds,
    ManifestRecord, NodeRecord, ReplicaTableRecord,
};
use crate::snapshot::{CommandIndex, ImpossibleState, NextIds, Snapshot};

/// The version that is written. 3: cells keep the tables of former views; 2: nodes and cells; 1: the first. All are read.
pub const EXPORT_VERSION: u32 = 3;

/// The version before.
const SECOND_EXPORT_VERSION: u32 = 2;

/// The first version.
const FIRST_EXPORT_VERSION: u32 = 1;

/// Commands, and so tokens, that an import skips.
pub const IMPORT_SKIPPED_COMMANDS: u64 = 1 << 32;

/// Bucket ids that an import skips.
pub const IMPORT_SKIPPED_BUCKETS: u64 = 1 << 32;

/// Device numbers that an import skips.
pub const IMPORT_SKIPPED_DEVICES: u32 = 1 << 12;

/// Starts of each cell that an import skips: a generation is never used for two of them.
pub const IMPORT_SKIPPED_STARTS: u64 = 1 << 10;

/// Numbers of nodes that an import skips.
pub const IMPORT_SKIPPED_NODES: u32 = 1 << 12;

/// Views of each cell that an import skips.
pub const IMPORT_SKIPPED_VIEWS: u64 = 1 << 32;

/// Generations of each cell's tables that an import skips.
pub const IMPORT_SKIPPED_GENERATIONS: u32 = 1 << 16;

/// Gateways of each cell that an import skips.
pub const IMPORT_SKIPPED_GATEWAYS: u16 = 1 << 10;

const MAGIC: [u8; 8] = *b"TRILMGR\0";
const BODY_OFFSET: usize = 16;

/// Since version 2; versions differ in what they say of a cell.
#[derive(Serialize, Deserialize)]
struct Body<Cell> {
    applied: u64,
    next: NextIds,
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
    next: FormerNextIds,
    cluster: Option<ClusterRecord>,
    devices: Vec<FormerDeviceRecord>,
    buckets: Vec<BucketRecord>,
    credentials: Vec<Credential>,
    manifests: Vec<(CellId, ManifestRecord)>,
    replica_table: Option<ReplicaTableRecord>,
    config: Vec<(String, String)>,
    starts: Vec<(CellId, u64)>,
}

impl From<FirstBody> for Body<CellRecord> {
    fn from(former: FirstBody) -> Self {
        Body {
            applied: former.applied,
            next: former.next.into(),
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

impl From<Body<FormerCellRecord>> for Body<CellRecord> {
    fn from(former: Body<FormerCellRecord>) -> Self {
        Body {
            applied: former.applied,
            next: former.next,
            cluster: former.cluster,
            devices: former.devices,
            buckets: former.buckets,
            credentials: former.credentials,
            manifests: former.manifests,
            replica_table: former.replica_table,
            config: former.config,
            starts: former.starts,
            nodes: former.nodes,
            cells: former.cells.into_iter().map(CellRecord::from).collect(),
        }
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
        let body = Body {
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
        let body: Body<CellRecord> = match version {
            EXPORT_VERSION => decoded(body)?,
            SECOND_EXPORT_VERSION => decoded::<Body<FormerCellRecord>>(body)?.into(),
            FIRST_EXPORT_VERSION => decoded::<FirstBody>(body)?.into(),
            found => return Err(DecodeExportError::Version { found }),
        };
        let buckets: HashMap<_, _> = body.buckets.into_iter().map(|record| (record.name.clone(), Arc::new(record))).collect();
        let credentials = body.credentials.into_iter().map(|record| (record.access_key.clone(), Arc::new(record)));
        let state = Snapshot {
            applied: CommandIndex(body.applied),
            next: body.next,
            cluster: body.cluster.map(Arc::new),
            devices: Arc::new(body.devices.into_iter().map(|record| (record.id, Arc::new(record))).collect()),
            buckets: Arc::new(buckets),
            credentials: Arc::new(credentials.collect()),
            manifests: Arc::new(body.manifests.into_iter().map(|(cell, record)| (cell, Arc::new(record))).collect()),
            replica_table: body.replica_table.map(Arc::new),
            config: Arc::new(body.config.into_iter().collect()),
            starts: Arc::new(body.starts.into_iter().collect()),
            nodes: Arc::new(body.nodes.into_iter().map(|record| (record.id, Arc::new(record))).collect()),
            cells: Arc::new(body.cells.into_iter().map(|record| (record.id, Arc::new(record))).collect()),
        };
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
        Arc::make_mut(&mut self.cells).values_mut().for_each(|cell| Arc::make_mut(cell).skip_lost());
        self.check()?;
        Ok(self)
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
