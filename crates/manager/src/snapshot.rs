//! The whole state at one moment, and the only way to change it.
//!
//! Every table stands behind a reference count: a clone costs a few increments, and a change copies the one table that it
//! touches. So readers hold a snapshot without a lock, and a manifest that is replaced often copies no bucket.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use types::{CellId, DeviceId, NodeId};

use crate::limits::{DEVICE_NUMBER_LIMIT, FIRST_SHARD, GENERATION_LIMIT, NODE_NUMBER_LIMIT, NUMBER_LIMIT};
use crate::record::{
    BucketRecord, CellRecord, ClusterRecord, Credential, DeviceRecord, ManifestRecord, NodeRecord, ReplicaTableRecord,
    ShardRecord, VolumeRecord,
};

mod shards;

/// The number of a command in the manager's log: 1 for the first. 0 means "none yet".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandIndex(pub u64);

/// The manager's state after one command. Immutable; holding one keeps the moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    pub(crate) applied: CommandIndex,
    pub(crate) next: NextIds,
    pub(crate) cluster: Option<Arc<ClusterRecord>>,
    pub(crate) devices: Arc<BTreeMap<DeviceId, Arc<DeviceRecord>>>,
    pub(crate) buckets: Arc<HashMap<String, Arc<BucketRecord>>>,
    pub(crate) credentials: Arc<HashMap<String, Arc<Credential>>>,
    pub(crate) manifests: Arc<BTreeMap<CellId, Arc<ManifestRecord>>>,
    pub(crate) replica_table: Option<Arc<ReplicaTableRecord>>,
    pub(crate) config: Arc<BTreeMap<String, String>>,
    pub(crate) starts: Arc<BTreeMap<CellId, u64>>,
    pub(crate) nodes: Arc<BTreeMap<NodeId, Arc<NodeRecord>>>,
    pub(crate) cells: Arc<BTreeMap<CellId, Arc<CellRecord>>>,
    pub(crate) shards: Arc<BTreeMap<u32, Arc<ShardRecord>>>,
    pub(crate) volumes: Arc<BTreeMap<DeviceId, Arc<VolumeRecord>>>,
}

/// Ids that were never given out, and never will be twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct NextIds {
    pub(crate) bucket: u64,
    pub(crate) device: u32,
    pub(crate) node: u32,
    pub(crate) shard: u32,
}

impl Default for NextIds {
    /// Bucket incarnations count from 1, so that 0 can mean none in records, and so do nodes and shards; devices count from 0.
    fn default() -> Self {
        NextIds { bucket: 1, device: 0, node: 1, shard: FIRST_SHARD }
    }
}

/// A state with a number that no manager can have handed out: what would be handed out next is in use, or comes round to zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the state has {what} {found}; expected a number below {limit}")]
pub struct ImpossibleNumber {
    pub what: &'static str,
    pub found: u64,
    pub limit: u64,
}

/// A state whose records contradict each other: no manager can have come to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImpossibleState {
    #[error(transparent)]
    Number(#[from] ImpossibleNumber),
    #[error("cell {cell} has {what}")]
    Cell { cell: CellId, what: &'static str },
    #[error("shard {shard} has {what}")]
    Shard { shard: u32, what: &'static str },
    #[error("the volume of device {device} has {what}")]
    Volume { device: DeviceId, what: &'static str },
}

impl Snapshot {
    /// For a state that was read: whether it can have come about.
    pub(crate) fn check(&self) -> Result<(), ImpossibleState> {
        self.check_numbers()?;
        for (id, record) in self.cells.iter() {
            if let Some(what) = record.contradiction() {
                return Err(ImpossibleState::Cell { cell: *id, what });
            }
        }
        self.check_shards()
    }

    /// Whether all numbers can have come about.
    fn check_numbers(&self) -> Result<(), ImpossibleNumber> {
        check_number("command", self.applied.0, NUMBER_LIMIT)?;
        check_number("next bucket", self.next.bucket, NUMBER_LIMIT)?;
        check_number("next device", u64::from(self.next.device), u64::from(DEVICE_NUMBER_LIMIT))?;
        for starts in self.starts.values() {
            check_number("start", *starts, NUMBER_LIMIT)?;
        }
        for bucket in self.buckets.values() {
            check_number("bucket", bucket.id.0, self.next.bucket)?;
        }
        for device in self.devices.keys() {
            check_number("device", u64::from(device.0), u64::from(self.next.device))?;
        }
        check_number("next node", u64::from(self.next.node), u64::from(NODE_NUMBER_LIMIT))?;
        for node in self.nodes.keys() {
            check_number("node", u64::from(node.0), u64::from(self.next.node))?;
        }
        for cell in self.cells.values() {
            check_number("view", cell.view_number().0, NUMBER_LIMIT)?;
            check_number("generation", u64::from(cell.generation.0), u64::from(GENERATION_LIMIT))?;
            for member in cell.members.values().chain(cell.undecided.values()) {
                check_number("token", member.token.0, self.applied.0 + 1)?;
            }
            for fence in cell.fences.values() {
                check_number("fence", fence.0, self.applied.0 + 2)?;
            }
        }
        Ok(())
    }

    /// The last command that this snapshot holds.
    pub fn applied(&self) -> CommandIndex {
        self.applied
    }

    /// The cluster; none before [`crate::Manager::ensure_cluster`].
    pub fn cluster(&self) -> Option<&Arc<ClusterRecord>> {
        self.cluster.as_ref()
    }

    /// A bucket by its name, in whatever state it is.
    pub fn bucket(&self, name: &str) -> Option<&Arc<BucketRecord>> {
        self.buckets.get(name)
    }

    /// All buckets by name.
    pub fn buckets(&self) -> Vec<Arc<BucketRecord>> {
        let mut buckets: Vec<_> = self.buckets.values().cloned().collect();
        buckets.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        buckets
    }

    /// What an access key stands for.
    pub fn credential(&self, access_key: &str) -> Option<&Arc<Credential>> {
        self.credentials.get(access_key)
    }

    /// All credentials by access key.
    pub fn credentials(&self) -> Vec<Arc<Credential>> {
        let mut credentials: Vec<_> = self.credentials.values().cloned().collect();
        credentials.sort_unstable_by(|one, other| one.access_key.cmp(&other.access_key));
        credentials
    }

    /// A device by its number.
    pub fn device(&self, id: DeviceId) -> Option<&Arc<DeviceRecord>> {
        self.devices.get(&id)
    }

    /// All devices by number.
    pub fn devices(&self) -> impl Iterator<Item = &Arc<DeviceRecord>> {
        self.devices.values()
    }

    /// The number that the next device will get.
    pub fn next_device(&self) -> DeviceId {
        DeviceId(self.next.device)
    }

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
        self.starts.get(&cell).copied().unwrap_or(0)
    }

    /// A node by its number.
    pub fn node(&self, id: NodeId) -> Option<&Arc<NodeRecord>> {
        self.nodes.get(&id)
    }

    /// All nodes by number.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<NodeRecord>> {
        self.nodes.values()
    }

    /// A cell's gateways and view; none before [`crate::CreateCell`].
    pub fn cell(&self, id: CellId) -> Option<&Arc<CellRecord>> {
        self.cells.get(&id)
    }

    /// All cells by number.
    pub fn cells(&self) -> impl Iterator<Item = &Arc<CellRecord>> {
        self.cells.values()
    }

    /// The replica-set table; none before the first.
    pub fn replica_table(&self) -> Option<&Arc<ReplicaTableRecord>> {
        self.replica_table.as_ref()
    }

    /// A configuration value.
    pub fn config(&self, key: &str) -> Option<&str> {
        self.config.get(key).map(String::as_str)
    }

    /// All configuration entries by key.
    pub fn config_entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.config.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

fn check_number(what: &'static str, found: u64, limit: u64) -> Result<(), ImpossibleNumber> {
    if found < limit { Ok(()) } else { Err(ImpossibleNumber { what, found, limit }) }
}

/// Which record of the state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RecordKey {
    NextIds,
    Cluster,
    Device(DeviceId),
    Bucket(String),
    Credential(String),
    Manifest(CellId),
    ReplicaTable,
    Config(String),
    Starts(CellId),
    Node(NodeId),
    Cell(CellId),
    Shard(u32),
    Volume(DeviceId),
}

/// A state under change. It notes which records were touched, so that exactly those are materialised.
pub(crate) struct Edit<'a> {
    pub(crate) state: &'a mut Snapshot,
    pub(crate) touched: &'a mut Vec<RecordKey>,
}

impl Edit<'_> {
    pub(crate) fn take_bucket_id(&mut self) -> u64 {
        self.touched.push(RecordKey::NextIds);
        self.state.next.bucket += 1;
        self.state.next.bucket - 1
    }

    pub(crate) fn take_device_id(&mut self) -> u32 {
        self.touched.push(RecordKey::NextIds);
        self.state.next.device += 1;
        self.state.next.device - 1
    }

    pub(crate) fn take_node_id(&mut self) -> u32 {
        self.touched.push(RecordKey::NextIds);
        self.state.next.node += 1;
        self.state.next.node - 1
    }

    pub(crate) fn set_cluster(&mut self, cluster: Arc<ClusterRecord>) {
        self.touched.push(RecordKey::Cluster);
        self.state.cluster = Some(cluster);
    }

    pub(crate) fn set_device(&mut self, device: Arc<DeviceRecord>) {
        self.touched.push(RecordKey::Device(device.id));
        Arc::make_mut(&mut self.state.devices).insert(device.id, device);
    }

    pub(crate) fn remove_device(&mut self, id: DeviceId) {
        self.touched.push(RecordKey::Device(id));
        Arc::make_mut(&mut self.state.devices).remove(&id);
    }

    pub(crate) fn set_bucket(&mut self, bucket: Arc<BucketRecord>) {
        self.touched.push(RecordKey::Bucket(bucket.name.clone()));
        Arc::make_mut(&mut self.state.buckets).insert(bucket.name.clone(), bucket);
    }

    pub(crate) fn remove_bucket(&mut self, name: &str) {
        self.touched.push(RecordKey::Bucket(name.to_owned()));
        Arc::make_mut(&mut self.state.buckets).remove(name);
    }

    pub(crate) fn set_credential(&mut self, credential: Arc<Credential>) {
        self.touched.push(RecordKey::Credential(credential.access_key.clone()));
        Arc::make_mut(&mut self.state.credentials).insert(credential.access_key.clone(), credential);
    }

    pub(crate) fn remove_credential(&mut self, access_key: &str) {
        self.touched.push(RecordKey::Credential(access_key.to_owned()));
        Arc::make_mut(&mut self.state.credentials).remove(access_key);
    }

    pub(crate) fn set_manifest(&mut self, cell: CellId, manifest: ManifestRecord) {
        self.touched.push(RecordKey::Manifest(cell));
        Arc::make_mut(&mut self.state.manifests).insert(cell, Arc::new(manifest));
    }

    pub(crate) fn set_replica_table(&mut self, table: ReplicaTableRecord) {
        self.touched.push(RecordKey::ReplicaTable);
        self.state.replica_table = Some(Arc::new(table));
    }

    pub(crate) fn set_starts(&mut self, cell: CellId, starts: u64) {
        self.touched.push(RecordKey::Starts(cell));
        Arc::make_mut(&mut self.state.starts).insert(cell, starts);
    }

    pub(crate) fn set_node(&mut self, node: Arc<NodeRecord>) {
        self.touched.push(RecordKey::Node(node.id));
        Arc::make_mut(&mut self.state.nodes).insert(node.id, node);
    }

    pub(crate) fn remove_node(&mut self, id: NodeId) {
        self.touched.push(RecordKey::Node(id));
        Arc::make_mut(&mut self.state.nodes).remove(&id);
    }

    pub(crate) fn set_cell(&mut self, cell: CellRecord) {
        self.touched.push(RecordKey::Cell(cell.id));
        Arc::make_mut(&mut self.state.cells).insert(cell.id, Arc::new(cell));
    }

    pub(crate) fn set_config(&mut self, key: &str, value: Option<&str>) {
        self.touched.push(RecordKey::Config(key.to_owned()));
        let config = Arc::make_mut(&mut self.state.config);
        match value {
            Some(value) => config.insert(key.to_owned(), value.to_owned()),
            None => config.remove(key),
        };
    }
}
