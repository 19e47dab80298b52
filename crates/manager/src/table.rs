//! The state in `kv`: one entry for each record, and the number of the last command that is in it.
//!
//! ```text
//!   key    table 1 | key in the table        (numbers big-endian, so that they sort)
//!   value  version 1 | postcard(record)
//! ```
//!
//! Invariant: a batch holds the number of the last command whose effects are in it. So what is found after a crash is the state
//! after exactly that command, and the log goes on from the next.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use kv::{Batch, Kv, ReadError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use types::{CellId, DeviceId, NodeId};

use crate::record::{
    BucketRecord, CellRecord, Credential, DeviceRecord, FirstNextIds, FormerCellRecord, FormerDeviceRecord, ManifestRecord,
    NodeRecord, SecondNextIds, ShardRecord, VolumeRecord,
};
use crate::snapshot::{CommandIndex, ImpossibleState, NextIds, RecordKey, Snapshot};

/// The first version of a record's value, and the only one of most tables.
const RECORD_VERSION: u8 = 1;

/// The version of [`DEVICE`] (2: nodes) and of [`CELL`] (2: tables of former views) that is written.
const SECOND_RECORD_VERSION: u8 = 2;

/// The version of [`NEXT_IDS`] that is written. 3: shards; 2: nodes.
const THIRD_RECORD_VERSION: u8 = 3;

const APPLIED: u8 = 1;
const NEXT_IDS: u8 = 2;
const CLUSTER: u8 = 3;
const DEVICE: u8 = 4;
const BUCKET: u8 = 5;
const CREDENTIAL: u8 = 6;
const MANIFEST: u8 = 7;
const REPLICA_TABLE: u8 = 8;
const CONFIG: u8 = 9;
const STARTS: u8 = 10;
const NODE: u8 = 11;
const CELL: u8 = 12;
const SHARD: u8 = 13;
const VOLUME: u8 = 14;

/// The tables as docs/format.md shows them.
#[cfg(test)]
pub(crate) const TABLES: &[(u8, &str)] = &[
    (APPLIED, "applied"),
    (NEXT_IDS, "next ids"),
    (CLUSTER, "cluster"),
    (DEVICE, "device"),
    (BUCKET, "bucket"),
    (CREDENTIAL, "credential"),
    (MANIFEST, "manifest"),
    (REPLICA_TABLE, "replica table"),
    (CONFIG, "configuration"),
    (STARTS, "starts"),
    (NODE, "node"),
    (CELL, "cell"),
    (SHARD, "shard"),
    (VOLUME, "volume"),
];

/// The state could not be read back.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the manager's state has an entry {key:02x?} that this version does not know; use a newer Trilith")]
    UnknownEntry { key: Vec<u8> },
    #[error("the manager's state has entry {key:02x?} in version {found:?}, expected {expected}; use a newer Trilith")]
    Version { key: Vec<u8>, found: Option<u8>, expected: u8 },
    #[error("the manager's state has an entry {key:02x?} that cannot be decoded; restore it from a copy or a superblock")]
    Body {
        key: Vec<u8>,
        #[source]
        cause: postcard::Error,
    },
    #[error("the manager's state has another entry's record under {key:02x?}; restore it from a copy or a superblock")]
    Misplaced { key: Vec<u8> },
    #[error("{0}; restore the manager's state from a copy or a superblock")]
    Impossible(#[from] ImpossibleState),
}

/// The batch that brings `kv` from the state before to `state`, of which the records `touched` differ.
pub(crate) fn batch(state: &Snapshot, touched: Vec<RecordKey>) -> Batch {
    let mut batch = Batch::new();
    let touched: BTreeSet<RecordKey> = touched.into_iter().collect();
    for record in &touched {
        let key = key(record);
        match value(state, record) {
            Some(value) => batch.put(key, value),
            None => batch.remove(key),
        }
    }
    batch.put([APPLIED], encode(&state.applied.0));
    batch
}

/// Every record of a state.
pub(crate) fn all_records(state: &Snapshot) -> Vec<RecordKey> {
    let mut records = vec![RecordKey::NextIds, RecordKey::Cluster, RecordKey::ReplicaTable];
    records.extend(state.devices.keys().copied().map(RecordKey::Device));
    records.extend(state.buckets.keys().cloned().map(RecordKey::Bucket));
    records.extend(state.credentials.keys().cloned().map(RecordKey::Credential));
    records.extend(state.manifests.keys().copied().map(RecordKey::Manifest));
    records.extend(state.config.keys().cloned().map(RecordKey::Config));
    records.extend(state.starts.keys().copied().map(RecordKey::Starts));
    records.extend(state.nodes.keys().copied().map(RecordKey::Node));
    records.extend(state.cells.keys().copied().map(RecordKey::Cell));
    records.extend(state.shards.keys().copied().map(RecordKey::Shard));
    records.extend(state.volumes.keys().copied().map(RecordKey::Volume));
    records
}

/// Reads the state back. An empty store holds the state before the first command.
pub(crate) fn load(kv: &dyn Kv) -> Result<Snapshot, LoadError> {
    let mut state = Snapshot::default();
    let mut outcome = Ok(());
    kv.scan_prefix(&[], &mut |key, value| {
        outcome = load_entry(&mut state, key, value);
        if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    outcome?;
    state.check()?;
    Ok(state)
}

fn load_entry(state: &mut Snapshot, at: &[u8], value: &[u8]) -> Result<(), LoadError> {
    let unknown = || LoadError::UnknownEntry { key: at.to_vec() };
    let cell = |name: &[u8]| name.try_into().map(|number| CellId(u16::from_be_bytes(number))).map_err(|_| unknown());
    let (table, name) = at.split_first().ok_or_else(unknown)?;
    let record = match *table {
        APPLIED if name.is_empty() => {
            state.applied = CommandIndex(decode(at, value)?);
            return Ok(());
        }
        NEXT_IDS => {
            state.next = decode_next_ids(at, value)?;
            RecordKey::NextIds
        }
        CLUSTER => {
            state.cluster = Some(Arc::new(decode(at, value)?));
            RecordKey::Cluster
        }
        DEVICE => {
            let record = decode_second::<DeviceRecord, FormerDeviceRecord>(at, value)?;
            let id = record.id;
            Arc::make_mut(&mut state.devices).insert(id, Arc::new(record));
            RecordKey::Device(id)
        }
        BUCKET => {
            let record: BucketRecord = decode(at, value)?;
            let name = record.name.clone();
            Arc::make_mut(&mut state.buckets).insert(name.clone(), Arc::new(record));
            RecordKey::Bucket(name)
        }
        CREDENTIAL => {
            let record: Credential = decode(at, value)?;
            let access_key = record.access_key.clone();
            Arc::make_mut(&mut state.credentials).insert(access_key.clone(), Arc::new(record));
            RecordKey::Credential(access_key)
        }
        MANIFEST => {
            let record: ManifestRecord = decode(at, value)?;
            let cell = cell(name)?;
            Arc::make_mut(&mut state.manifests).insert(cell, Arc::new(record));
            RecordKey::Manifest(cell)
        }
        REPLICA_TABLE => {
            state.replica_table = Some(Arc::new(decode(at, value)?));
            RecordKey::ReplicaTable
        }
        CONFIG => {
            let name = str::from_utf8(name).map_err(|_| unknown())?.to_owned();
            Arc::make_mut(&mut state.config).insert(name.clone(), decode(at, value)?);
            RecordKey::Config(name)
        }
        STARTS => {
            let cell = cell(name)?;
            Arc::make_mut(&mut state.starts).insert(cell, decode(at, value)?);
            RecordKey::Starts(cell)
        }
        NODE => {
            let record: NodeRecord = decode(at, value)?;
            let id = record.id;
            Arc::make_mut(&mut state.nodes).insert(id, Arc::new(record));
            RecordKey::Node(id)
        }
        CELL => {
            let record = decode_second::<CellRecord, FormerCellRecord>(at, value)?;
            let id = record.id;
            Arc::make_mut(&mut state.cells).insert(id, Arc::new(record));
            RecordKey::Cell(id)
        }
        SHARD => load_shard(state, at, value)?,
        VOLUME => load_volume(state, at, value)?,
        _ => return Err(unknown()),
    };
    match key(&record) == at {
        true => Ok(()),
        false => Err(LoadError::Misplaced { key: at.to_vec() }),
    }
}

fn load_shard(state: &mut Snapshot, at: &[u8], value: &[u8]) -> Result<RecordKey, LoadError> {
    let record: ShardRecord = decode(at, value)?;
    let id = record.id;
    Arc::make_mut(&mut state.shards).insert(id, Arc::new(record));
    Ok(RecordKey::Shard(id))
}

fn load_volume(state: &mut Snapshot, at: &[u8], value: &[u8]) -> Result<RecordKey, LoadError> {
    let record: VolumeRecord = decode(at, value)?;
    let device = record.device;
    Arc::make_mut(&mut state.volumes).insert(device, Arc::new(record));
    Ok(RecordKey::Volume(device))
}

fn key(record: &RecordKey) -> Vec<u8> {
    let in_table = |table: u8, name: &[u8]| [&[table], name].concat();
    match record {
        RecordKey::NextIds => vec![NEXT_IDS],
        RecordKey::Cluster => vec![CLUSTER],
        RecordKey::Device(DeviceId(id)) => in_table(DEVICE, &id.to_be_bytes()),
        RecordKey::Bucket(name) => in_table(BUCKET, name.as_bytes()),
        RecordKey::Credential(access_key) => in_table(CREDENTIAL, access_key.as_bytes()),
        RecordKey::Manifest(CellId(cell)) => in_table(MANIFEST, &cell.to_be_bytes()),
        RecordKey::ReplicaTable => vec![REPLICA_TABLE],
        RecordKey::Config(name) => in_table(CONFIG, name.as_bytes()),
        RecordKey::Starts(CellId(cell)) => in_table(STARTS, &cell.to_be_bytes()),
        RecordKey::Node(NodeId(id)) => in_table(NODE, &id.to_be_bytes()),
        RecordKey::Cell(CellId(cell)) => in_table(CELL, &cell.to_be_bytes()),
        RecordKey::Shard(id) => in_table(SHARD, &id.to_be_bytes()),
        RecordKey::Volume(DeviceId(id)) => in_table(VOLUME, &id.to_be_bytes()),
    }
}

/// A record's value; none if the state does not hold it.
fn value(state: &Snapshot, record: &RecordKey) -> Option<Vec<u8>> {
    match record {
        RecordKey::NextIds => Some(encode_as(THIRD_RECORD_VERSION, &state.next)),
        RecordKey::Cluster => state.cluster.as_deref().map(encode),
        RecordKey::Device(id) => state.devices.get(id).map(|record| encode_second(record.as_ref())),
        RecordKey::Bucket(name) => state.buckets.get(name).map(|record| encode(record.as_ref())),
        RecordKey::Credential(access_key) => state.credentials.get(access_key).map(|record| encode(record.as_ref())),
        RecordKey::Manifest(cell) => state.manifests.get(cell).map(|record| encode(record.as_ref())),
        RecordKey::ReplicaTable => state.replica_table.as_deref().map(encode),
        RecordKey::Config(name) => state.config.get(name).map(encode),
        RecordKey::Starts(cell) => state.starts.get(cell).map(encode),
        RecordKey::Node(id) => state.nodes.get(id).map(|record| encode(record.as_ref())),
        RecordKey::Cell(id) => state.cells.get(id).map(|record| encode_second(record.as_ref())),
        RecordKey::Shard(id) => state.shards.get(id).map(|record| encode(record.as_ref())),
        RecordKey::Volume(device) => state.volumes.get(device).map(|record| encode(record.as_ref())),
    }
}

fn encode<T: Serialize>(record: &T) -> Vec<u8> {
    encode_as(RECORD_VERSION, record)
}

fn encode_second<T: Serialize>(record: &T) -> Vec<u8> {
    encode_as(SECOND_RECORD_VERSION, record)
}

fn encode_as<T: Serialize>(version: u8, record: &T) -> Vec<u8> {
    postcard::to_extend(record, vec![version]).expect("encoding into memory cannot fail")
}

fn decode<T: DeserializeOwned>(key: &[u8], value: &[u8]) -> Result<T, LoadError> {
    match value.split_first() {
        Some((&RECORD_VERSION, body)) => decode_body(key, body),
        other => Err(version_error(key, other, RECORD_VERSION)),
    }
}

/// As [`decode`], of a record that has a former version.
fn decode_second<T, Former>(key: &[u8], value: &[u8]) -> Result<T, LoadError>
where
    T: DeserializeOwned + From<Former>,
    Former: DeserializeOwned,
{
    match value.split_first() {
        Some((&RECORD_VERSION, body)) => decode_body::<Former>(key, body).map(T::from),
        Some((&SECOND_RECORD_VERSION, body)) => decode_body(key, body),
        other => Err(version_error(key, other, SECOND_RECORD_VERSION)),
    }
}

fn decode_next_ids(key: &[u8], value: &[u8]) -> Result<NextIds, LoadError> {
    match value.split_first() {
        Some((&RECORD_VERSION, body)) => decode_body::<FirstNextIds>(key, body).map(NextIds::from),
        Some((&SECOND_RECORD_VERSION, body)) => decode_body::<SecondNextIds>(key, body).map(NextIds::from),
        Some((&THIRD_RECORD_VERSION, body)) => decode_body(key, body),
        other => Err(version_error(key, other, THIRD_RECORD_VERSION)),
    }
}

fn decode_body<T: DeserializeOwned>(key: &[u8], body: &[u8]) -> Result<T, LoadError> {
    postcard::from_bytes(body).map_err(|cause| LoadError::Body { key: key.to_vec(), cause })
}

fn version_error(key: &[u8], found: Option<(&u8, &[u8])>, expected: u8) -> LoadError {
    LoadError::Version { key: key.to_vec(), found: found.map(|(version, _)| *version), expected }
}
