//! The cluster as a whole: its identity, its format version, its configuration.

use std::cmp::Ordering;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use types::{ClusterId, ErrorKind};

use super::commands;
use crate::error::ManagerError;
use crate::kind::Record;
use crate::limits::{MAX_CONFIG_ENTRIES, MAX_CONFIG_KEY_BYTES, MAX_CONFIG_VALUE_BYTES};
use crate::manager::Manager;
use crate::operation::{Operation, Refusal};
use crate::snapshot::{CommandIndex, Edit, Snapshot};

/// What the cluster is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterRecord {
    pub id: ClusterId,
    /// Newest version of the durable formats that may be written. It only rises: an older binary must refuse.
    pub format_version: u32,
    pub created_ms: u64,
}

impl Record for ClusterRecord {
    type Key = ();

    const TAG: u8 = 3;
    const NAME: &'static str = "cluster";
}

/// The value of a configuration entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting(pub String);

impl Record for Setting {
    type Key = String;

    const TAG: u8 = 9;
    const NAME: &'static str = "configuration";
}

commands! {
    Cluster,
    /// Commands about the cluster as a whole.
    ClusterCommand: InitCluster, RaiseFormatVersion, SetConfig,
}

impl Snapshot {
    /// The cluster; none before [`crate::Manager::ensure_cluster`].
    pub fn cluster(&self) -> Option<&Arc<ClusterRecord>> {
        self.clusters.get(&())
    }

    /// A configuration value.
    pub fn config(&self, key: &str) -> Option<&str> {
        self.settings.get(key).map(|setting| setting.0.as_str())
    }

    /// All configuration entries by key.
    pub fn config_entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.settings.iter().map(|(key, value)| (key.as_str(), value.0.as_str()))
    }
}

/// Gives a new cluster its identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitCluster {
    pub id: ClusterId,
    pub format_version: u32,
    pub created_ms: u64,
}

/// Why a change of the cluster record was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    #[error("this is cluster {found} already")]
    AlreadyInitialised { found: ClusterId },
    #[error("the cluster has no identity yet")]
    NotInitialised,
    #[error("the cluster writes format version {found}; there is no way back to {wanted}")]
    Backwards { found: u32, wanted: u32 },
    #[error(
        "the cluster writes format version {found}, and this version of Trilith knows them up to {known}: install a newer one"
    )]
    Newer { found: u32, known: u32 },
}

impl Refusal for ClusterError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Conflict
    }
}

impl Operation for InitCluster {
    type Reply = Arc<ClusterRecord>;
    type Refusal = ClusterError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<ClusterRecord>, ClusterError> {
        if let Some(cluster) = edit.state.cluster() {
            return Err(ClusterError::AlreadyInitialised { found: cluster.id });
        }
        let InitCluster { id, format_version, created_ms } = *self;
        let cluster = Arc::new(ClusterRecord { id, format_version, created_ms });
        Ok(edit.set((), cluster))
    }
}

/// Allows newer durable formats to be written, for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaiseFormatVersion {
    pub format_version: u32,
}

impl Operation for RaiseFormatVersion {
    type Reply = Arc<ClusterRecord>;
    type Refusal = ClusterError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<ClusterRecord>, ClusterError> {
        let before = edit.state.cluster().ok_or(ClusterError::NotInitialised)?;
        if self.format_version < before.format_version {
            return Err(ClusterError::Backwards { found: before.format_version, wanted: self.format_version });
        }
        let format_version = self.format_version;
        let cluster = Arc::new(ClusterRecord { format_version, ..ClusterRecord::clone(before) });
        Ok(edit.set((), cluster))
    }
}

/// Sets a configuration entry, or takes it away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetConfig {
    pub key: String,
    pub value: Option<String>,
}

/// Why a configuration entry was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("a configuration key has 1 to {MAX_CONFIG_KEY_BYTES} bytes, not {found}")]
    KeyLength { found: usize },
    #[error("a configuration value of {found} bytes; the longest is {MAX_CONFIG_VALUE_BYTES}")]
    ValueLength { found: usize },
    #[error("the cluster has {MAX_CONFIG_ENTRIES} configuration entries and takes no more")]
    TooMany,
}

impl Refusal for ConfigError {
    fn kind(&self) -> ErrorKind {
        match self {
            ConfigError::KeyLength { .. } | ConfigError::ValueLength { .. } => ErrorKind::Invalid,
            ConfigError::TooMany => ErrorKind::Full,
        }
    }
}

impl Operation for SetConfig {
    type Reply = ();
    type Refusal = ConfigError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<(), ConfigError> {
        if self.key.is_empty() || self.key.len() > MAX_CONFIG_KEY_BYTES {
            return Err(ConfigError::KeyLength { found: self.key.len() });
        }
        if let Some(value) = &self.value
            && value.len() > MAX_CONFIG_VALUE_BYTES
        {
            return Err(ConfigError::ValueLength { found: value.len() });
        }
        let is_new = self.value.is_some() && edit.state.config(&self.key).is_none();
        if is_new && edit.state.settings.len() >= MAX_CONFIG_ENTRIES {
            return Err(ConfigError::TooMany);
        }
        match &self.value {
            Some(value) => drop(edit.set(self.key.clone(), Arc::new(Setting(value.clone())))),
            None => edit.remove::<Setting>(&self.key),
        }
        Ok(())
    }
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
            // Another member was first, between our look and our command.
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

    /// Sets a configuration entry, or takes it away.
    pub async fn set_config(&self, key: &str, value: Option<&str>) -> Result<(), ManagerError<ConfigError>> {
        self.propose(SetConfig { key: key.to_owned(), value: value.map(str::to_owned) }).await
    }
}
