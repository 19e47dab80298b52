//! What the rest of Trilith asks of the manager. Each call is one command through the log.

mod shards;

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use types::{BucketId, CellId, ClusterId, DeviceId, DeviceUuid, Epoch, GatewayId, Generation, NodeId, Token, ViewNumber};

use crate::error::ManagerError;
use crate::manager::Manager;
use crate::operation::bucket::{
    BucketError, CreateBucket, CreateBucketError, MarkBucketDeleting, ReactivateBucket, RemoveBucket, SetBucketPolicy,
};
use crate::operation::cell::{
    BeginStart, BeginStartError, InstallCellManifest, InstallManifest, InstallManifestError, InstallReplicaTable,
    InstallReplicaTableError, TakeToken, TakeTokenError,
};
use crate::operation::cluster::{ClusterError, ConfigError, InitCluster, RaiseFormatVersion, SetConfig};
use crate::operation::credential::{AddCredential, CredentialError, RemoveCredential, SetRootCredential};
use crate::operation::device::{AddDevice, DeviceError, PlaceDevice, RemoveDevice, SetDeviceState, UpdateDevice};
use crate::operation::membership::{BeginRemoval, CellError, CreateCell, LeaveCell, RegisterGateway, Registered};
use crate::operation::node::{NodeError, RegisterNode, RemoveNode};
use crate::operation::tables::ForgetTables;
use crate::operation::view::{FinishFounding, FinishRecovery, FoundView, InstallView};
use crate::overseer::Proposal;
use crate::record::{
    BucketEngine, BucketRecord, ClusterRecord, Credential, DeviceRecord, DeviceState, EtagMode, NodeRecord, Removal,
};

/// A bucket to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewBucket {
    pub name: String,
    pub owner: String,
    pub engine: BucketEngine,
    pub etag: EtagMode,
}

fn newer(found: u32, known: u32) -> ManagerError<ClusterError> {
    ManagerError::Refused(ClusterError::Newer { found, known })
}

impl Manager {
    /// The cluster; a new one gets a random id and `format_version`, an older one `format_version`: from here on it is for no program that does not know these
    /// formats. One that writes newer formats is not for this program.
    pub async fn ensure_cluster(&self, format_version: u32) -> Result<Arc<ClusterRecord>, ManagerError<ClusterError>> {
        self.ensure_cluster_or(None, format_version).await
    }

    /// As [`Manager::ensure_cluster`], for nodes that know which cluster they are of: a new one gets this id, and another one is refused.
    pub async fn ensure_this_cluster(
        &self,
        id: ClusterId,
        format_version: u32,
    ) -> Result<Arc<ClusterRecord>, ManagerError<ClusterError>> {
        let cluster = self.ensure_cluster_or(Some(id), format_version).await?;
        match cluster.id == id {
            true => Ok(cluster),
            false => Err(ManagerError::Refused(ClusterError::AlreadyInitialised { found: cluster.id })),
        }
    }

    /// The cluster; a new one has this id, or a random one.
    async fn ensure_cluster_or(
        &self,
        id: Option<ClusterId>,
        format_version: u32,
    ) -> Result<Arc<ClusterRecord>, ManagerError<ClusterError>> {
        let cluster = match self.snapshot().cluster() {
            Some(cluster) => Arc::clone(cluster),
            None => self.init_cluster(id, format_version).await?,
        };
        match cluster.format_version.cmp(&format_version) {
            Ordering::Greater => Err(newer(cluster.format_version, format_version)),
            Ordering::Equal => Ok(cluster),
            Ordering::Less => match self.raise_format_version(format_version).await {
                Err(ManagerError::Refused(ClusterError::Backwards { found, .. })) => Err(newer(found, format_version)),
                raised => raised,
            },
        }
    }

    async fn init_cluster(
        &self,
        id: Option<ClusterId>,
        format_version: u32,
    ) -> Result<Arc<ClusterRecord>, ManagerError<ClusterError>> {
        let id = id.unwrap_or_else(|| {
            let mut id = ClusterId([0; 16]);
            self.inner.env.fill_random(&mut id.0);
            id
        });
        let created_ms = self.inner.env.wall_clock_ms();
        match self.propose(InitCluster { id, format_version, created_ms }).await {
            // Somebody else was first, between our look and our command.
            Err(ManagerError::Refused(error @ ClusterError::AlreadyInitialised { .. })) => {
                self.snapshot().cluster().cloned().ok_or(ManagerError::Refused(error))
            }
            outcome => outcome,
        }
    }

    /// Allows newer durable formats to be written. There is no way back.
    pub async fn raise_format_version(&self, format_version: u32) -> Result<Arc<ClusterRecord>, ManagerError<ClusterError>> {
        self.propose(RaiseFormatVersion { format_version }).await
    }

    /// Takes a device into the cluster and gives it its number.
    pub async fn add_device(
        &self,
        uuid: DeviceUuid,
        path: &str,
        capacity_bytes: u64,
    ) -> Result<Arc<DeviceRecord>, ManagerError<DeviceError>> {
        self.propose(AddDevice { uuid, path: path.to_owned(), capacity_bytes }).await
    }

    /// Notes where a device was found and how large it is now.
    pub async fn update_device(
        &self,
        id: DeviceId,
        path: &str,
        capacity_bytes: u64,
    ) -> Result<Arc<DeviceRecord>, ManagerError<DeviceError>> {
        self.propose(UpdateDevice { id, path: path.to_owned(), capacity_bytes }).await
    }

    /// Changes what a device is used for.
    pub async fn set_device_state(
        &self,
        id: DeviceId,
        state: DeviceState,
    ) -> Result<Arc<DeviceRecord>, ManagerError<DeviceError>> {
        self.propose(SetDeviceState { id, state }).await
    }

    /// Forgets a device that is drained or has failed.
    pub async fn remove_device(&self, id: DeviceId) -> Result<(), ManagerError<DeviceError>> {
        self.propose(RemoveDevice { id }).await
    }

    /// Makes a bucket, dated now.
    pub async fn create_bucket(&self, bucket: NewBucket) -> Result<Arc<BucketRecord>, ManagerError<CreateBucketError>> {
        let NewBucket { name, owner, engine, etag } = bucket;
        let created_ms = self.inner.env.wall_clock_ms();
        self.propose(CreateBucket { name, owner, engine, etag, created_ms }).await
    }

    /// First step of deleting a bucket: it takes no more writes, and no earlier attempt to delete it goes on. Then verify that it is empty.
    pub async fn mark_bucket_deleting(&self, name: &str, id: BucketId) -> Result<Removal, ManagerError<BucketError>> {
        self.propose(MarkBucketDeleting { name: name.to_owned(), id }).await
    }

    /// Second step of deleting a bucket that is empty.
    pub async fn remove_bucket(&self, name: &str, id: BucketId, removal: Removal) -> Result<(), ManagerError<BucketError>> {
        self.propose(RemoveBucket { name: name.to_owned(), id, removal }).await
    }

    /// Second step of deleting a bucket that is not empty: it is used as before.
    pub async fn reactivate_bucket(
        &self,
        name: &str,
        id: BucketId,
        removal: Removal,
    ) -> Result<Arc<BucketRecord>, ManagerError<BucketError>> {
        self.propose(ReactivateBucket { name: name.to_owned(), id, removal }).await
    }

    /// Sets a bucket's policy, or takes it away.
    pub async fn set_bucket_policy(
        &self,
        name: &str,
        id: BucketId,
        policy: Option<Vec<u8>>,
    ) -> Result<Arc<BucketRecord>, ManagerError<BucketError>> {
        self.propose(SetBucketPolicy { name: name.to_owned(), id, policy }).await
    }

    /// Sets the root credential; writes nothing if it is that already.
    pub async fn set_root_credential(
        &self,
        access_key: &str,
        secret: &str,
    ) -> Result<Arc<Credential>, ManagerError<CredentialError>> {
        let present = || {
            let snapshot = self.snapshot();
            let present = snapshot.credential(access_key).filter(|present| present.is_root && present.secret == secret);
            present.cloned()
        };
        // Another member may have set another pair, which the local state does not show yet.
        if present().is_some()
            && self.fresh().await.is_ok()
            && let Some(present) = present()
        {
            return Ok(present);
        }
        self.propose(SetRootCredential { access_key: access_key.to_owned(), secret: secret.to_owned() }).await
    }

    /// Adds an access key of a user.
    pub async fn add_credential(
        &self,
        access_key: &str,
        secret: &str,
        user: &str,
    ) -> Result<Arc<Credential>, ManagerError<CredentialError>> {
        let (access_key, secret, user) = (access_key.to_owned(), secret.to_owned(), user.to_owned());
        self.propose(AddCredential { access_key, secret, user }).await
    }

    /// Takes an access key away.
    pub async fn remove_credential(&self, access_key: &str) -> Result<(), ManagerError<CredentialError>> {
        self.propose(RemoveCredential { access_key: access_key.to_owned() }).await
    }

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

    /// As [`Manager::install_manifest`], by the gateway that leads the cell's view; nobody else may.
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

    /// Forgets the tables of a cell's former views that are of lower generations: the installed checkpoint covers what went by them.
    pub async fn forget_tables(&self, cell: CellId, below: Generation) -> Result<(), ManagerError<CellError>> {
        self.propose(ForgetTables { cell, below }).await
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

    /// Sets a configuration entry, or takes it away.
    pub async fn set_config(&self, key: &str, value: Option<&str>) -> Result<(), ManagerError<ConfigError>> {
        self.propose(SetConfig { key: key.to_owned(), value: value.map(str::to_owned) }).await
    }

    /// Takes a node into the cluster, or notes what has changed about one.
    pub async fn register_node(&self, node: RegisterNode) -> Result<Arc<NodeRecord>, ManagerError<NodeError>> {
        self.propose(node).await
    }

    /// Forgets a node that serves no device and has no gateway in a view.
    pub async fn remove_node(&self, id: NodeId) -> Result<(), ManagerError<NodeError>> {
        self.propose(RemoveNode { id }).await
    }

    /// Says which node serves a device.
    pub async fn place_device(
        &self,
        id: DeviceId,
        node: Option<NodeId>,
    ) -> Result<Arc<DeviceRecord>, ManagerError<DeviceError>> {
        self.propose(PlaceDevice { id, node }).await
    }

    /// Makes a cell that has no gateway yet. `generation` is the newest under which anything was written in it.
    pub async fn create_cell(&self, cell: CellId, generation: Generation) -> Result<(), ManagerError<CellError>> {
        self.propose(CreateCell { cell, generation }).await
    }

    /// Registers a new incarnation of a node's gateway. To be called by the process that holds the node's data folder, when its former
    /// incarnation has stopped answering: nobody waits for that one's lease. Refused while this member does not know of the node's newest gateway.
    pub async fn register_gateway(&self, cell: CellId, node: NodeId) -> Result<Registered, ManagerError<CellError>> {
        let former = self.snapshot().cell(cell).map_or(Token(0), |cell| cell.newest_of(node));
        self.propose(RegisterGateway { cell, node, former }).await
    }

    /// A gateway has stopped answering for good.
    pub async fn leave_cell(&self, cell: CellId, gateway: GatewayId) -> Result<(), ManagerError<CellError>> {
        self.propose(LeaveCell { cell, gateway }).await
    }

    /// Ends the renewing of members' leases, before a view without them.
    pub async fn begin_removal(
        &self,
        cell: CellId,
        view: ViewNumber,
        gateways: BTreeSet<GatewayId>,
    ) -> Result<(), ManagerError<CellError>> {
        self.propose(BeginRemoval { cell, view, gateways }).await
    }

    /// Installs the view after the expected one; its number.
    pub async fn install_view(
        &self,
        cell: CellId,
        expected: ViewNumber,
        members: BTreeSet<GatewayId>,
        devices: BTreeSet<DeviceId>,
    ) -> Result<ViewNumber, ManagerError<CellError>> {
        self.propose(InstallView { cell, expected, members, devices }).await
    }

    /// Installs a view of one learner, which recovers everything from the devices; its number.
    pub async fn found_view(
        &self,
        cell: CellId,
        expected: ViewNumber,
        gateway: GatewayId,
        devices: BTreeSet<DeviceId>,
    ) -> Result<ViewNumber, ManagerError<CellError>> {
        self.propose(FoundView { cell, expected, gateway, devices }).await
    }

    /// What these gateways may have written is decided.
    pub async fn finish_recovery(
        &self,
        cell: CellId,
        view: ViewNumber,
        gateways: BTreeSet<GatewayId>,
    ) -> Result<(), ManagerError<CellError>> {
        self.propose(FinishRecovery { cell, view, gateways }).await
    }

    /// The founder has recovered everything.
    pub async fn finish_founding(
        &self,
        cell: CellId,
        view: ViewNumber,
        gateway: GatewayId,
    ) -> Result<(), ManagerError<CellError>> {
        self.propose(FinishFounding { cell, view, gateway }).await
    }

    /// Carries out what an overseer proposes. A refusal is no failure: what it was made for has changed meanwhile.
    pub async fn carry_out(&self, proposal: Proposal) -> Result<(), ManagerError<CellError>> {
        match proposal {
            Proposal::BeginRemoval(operation) => self.propose(operation).await,
            Proposal::InstallView(operation) => self.propose(operation).await.map(|_| ()),
            Proposal::FoundView(operation) => self.propose(operation).await.map(|_| ()),
            Proposal::FinishRecovery(operation) => self.propose(operation).await,
            Proposal::FinishFounding(operation) => self.propose(operation).await,
        }
    }
}
