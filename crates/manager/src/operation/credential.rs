//! Access keys.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use types::ErrorKind;

use super::{Operation, Refusal};
use crate::limits::MAX_CREDENTIALS;
use crate::name::{InvalidCredential, check_credential};
use crate::record::Credential;
use crate::snapshot::{CommandIndex, Edit};

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
            edit.remove_credential(&former.access_key);
        }
        let credential = Arc::new(Credential {
            access_key: self.access_key.clone(),
            secret: self.secret.clone(),
            user: ROOT_USER.to_owned(),
            is_root: true,
        });
        edit.set_credential(Arc::clone(&credential));
        Ok(credential)
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
        edit.set_credential(Arc::clone(&credential));
        Ok(credential)
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
        edit.remove_credential(&self.access_key);
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
