//! The cluster as a whole: its identity, its format version, its configuration.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use types::{ClusterId, ErrorKind};

use super::{Operation, Refusal};
use crate::limits::{MAX_CONFIG_ENTRIES, MAX_CONFIG_KEY_BYTES, MAX_CONFIG_VALUE_BYTES};
use crate::record::ClusterRecord;
use crate::snapshot::{CommandIndex, Edit};

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
        edit.set_cluster(Arc::clone(&cluster));
        Ok(cluster)
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
        edit.set_cluster(Arc::clone(&cluster));
        Ok(cluster)
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
        if is_new && edit.state.config.len() >= MAX_CONFIG_ENTRIES {
            return Err(ConfigError::TooMany);
        }
        edit.set_config(&self.key, self.value.as_deref());
        Ok(())
    }
}
