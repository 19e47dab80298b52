//! Access keys.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use types::ErrorKind;

use super::commands;
use crate::error::ManagerError;
use crate::kind::Record;
use crate::limits::MAX_CREDENTIALS;
use crate::manager::Manager;
use crate::name::{InvalidCredential, check_credential};
use crate::operation::{Operation, Refusal};
use crate::snapshot::{CommandIndex, Edit, Snapshot};

/// An access key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credential {
    pub access_key: String,
    pub secret: String,
    pub user: String,
    /// May do everything. There is at most one, set from the environment at start.
    pub is_root: bool,
}

impl std::fmt::Debug for Credential {
    /// Without the secret, which must not reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Credential { access_key, user, is_root, .. } = self;
        write!(f, "Credential {{ access_key: {access_key:?}, user: {user:?}, is_root: {is_root} }}")
    }
}

impl Record for Credential {
    type Key = String;

    const TAG: u8 = 6;
    const NAME: &'static str = "credential";

    fn is_at(&self, key: &String) -> bool {
        self.access_key == *key
    }
}

commands! {
    Credential,
    /// Commands about credentials.
    CredentialCommand: SetRootCredential, AddCredential, RemoveCredential,
}

impl Snapshot {
    /// What an access key stands for.
    pub fn credential(&self, access_key: &str) -> Option<&Arc<Credential>> {
        self.credentials.get(access_key)
    }

    /// All credentials by access key.
    pub fn credentials(&self) -> Vec<Arc<Credential>> {
        self.credentials.values().cloned().collect()
    }
}

/// The user name of the root credential.
pub const ROOT_USER: &str = "root";

/// Why a change of the credentials was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    #[error(transparent)]
    Invalid(#[from] InvalidCredential),
    #[error("there is no such access key")]
    NotFound,
    #[error("that access key exists")]
    AlreadyExists,
    #[error("the root credential is set by configuration only")]
    Root,
    #[error("the cluster has {MAX_CREDENTIALS} access keys and takes no more")]
    TooMany,
}

impl Refusal for CredentialError {
    fn kind(&self) -> ErrorKind {
        match self {
            CredentialError::Invalid(_) => ErrorKind::Invalid,
            CredentialError::NotFound => ErrorKind::NotFound,
            CredentialError::AlreadyExists => ErrorKind::Conflict,
            CredentialError::Root => ErrorKind::Denied,
            CredentialError::TooMany => ErrorKind::Full,
        }
    }
}

/// Sets the root credential, in place of the one before.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetRootCredential {
    pub access_key: String,
    pub secret: String,
}

impl Operation for SetRootCredential {
    type Reply = Arc<Credential>;
    type Refusal = CredentialError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<Credential>, CredentialError> {
        check_credential(&self.access_key, &self.secret, ROOT_USER)?;
        if edit.state.credential(&self.access_key).is_some_and(|existing| !existing.is_root) {
            return Err(CredentialError::AlreadyExists);
        }
        let former = edit.state.credentials.values().find(|credential| credential.is_root).cloned();
        if let Some(former) = former {
            edit.remove::<Credential>(&former.access_key);
        }
        let credential = Arc::new(Credential {
            access_key: self.access_key.clone(),
            secret: self.secret.clone(),
            user: ROOT_USER.to_owned(),
            is_root: true,
        });
        Ok(edit.set(credential.access_key.clone(), credential))
    }
}

/// Adds an access key of a user.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddCredential {
    pub access_key: String,
    pub secret: String,
    pub user: String,
}

impl Operation for AddCredential {
    type Reply = Arc<Credential>;
    type Refusal = CredentialError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<Arc<Credential>, CredentialError> {
        check_credential(&self.access_key, &self.secret, &self.user)?;
        if self.user == ROOT_USER {
            return Err(CredentialError::Root);
        }
        if edit.state.credential(&self.access_key).is_some() {
            return Err(CredentialError::AlreadyExists);
        }
        if edit.state.credentials.len() >= MAX_CREDENTIALS {
            return Err(CredentialError::TooMany);
        }
        let credential = Arc::new(Credential {
            access_key: self.access_key.clone(),
            secret: self.secret.clone(),
            user: self.user.clone(),
            is_root: false,
        });
        Ok(edit.set(credential.access_key.clone(), credential))
    }
}

/// Takes an access key away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveCredential {
    pub access_key: String,
}

impl Operation for RemoveCredential {
    type Reply = ();
    type Refusal = CredentialError;

    fn apply(&self, _: CommandIndex, edit: &mut Edit<'_>) -> Result<(), CredentialError> {
        let credential = edit.state.credential(&self.access_key).ok_or(CredentialError::NotFound)?;
        if credential.is_root {
            return Err(CredentialError::Root);
        }
        edit.remove::<Credential>(&self.access_key);
        Ok(())
    }
}

impl std::fmt::Debug for SetRootCredential {
    /// Without the secret, which must not reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SetRootCredential {{ access_key: {:?} }}", self.access_key)
    }
}

impl std::fmt::Debug for AddCredential {
    /// Without the secret, which must not reach a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AddCredential {{ access_key: {:?}, user: {:?} }}", self.access_key, self.user)
    }
}

impl Manager {
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
}
