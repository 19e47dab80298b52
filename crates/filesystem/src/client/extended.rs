//! Extended attributes. Access lists are such attributes; the mode follows them.

use super::acl::{ACCESS, Acl, DEFAULT};
use super::files::InodeState;
use super::{Client, ClientError};
use crate::ids::Ino;
use crate::meta::{AttributeChange, Command, Found, MetaError, Query, XattrHow};

/// An extended attribute that is to be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetXattr {
    pub name: Vec<u8>,
    pub value: Vec<u8>,
    pub how: XattrHow,
    /// Of an access list: clears set-group-id.
    pub clears_set_gid: bool,
}

/// What a program may do beyond its user. A file that is changed loses it.
const CAPABILITY: &[u8] = b"security.capability";

impl Client {
    pub async fn setxattr(&self, ino: Ino, set: SetXattr) -> Result<(), ClientError> {
        if set.name != CAPABILITY {
            return self.set_any(ino, set).await;
        }
        let state = self.files.state(ino);
        let _alone = state.content.write().await;
        state.may_have_capability();
        self.set_any(ino, set).await
    }

    /// Takes a capability from a file whose content or owner is to change. The caller holds the inode's lock.
    pub(super) async fn drop_capability(&self, ino: Ino, state: &InodeState) -> Result<(), ClientError> {
        if state.is_without_capability() {
            return Ok(());
        }
        if self.find_xattr(ino, CAPABILITY).await?.is_some() {
            self.removexattr(ino, CAPABILITY).await?;
        }
        state.has_no_capability();
        Ok(())
    }

    async fn set_any(&self, ino: Ino, set: SetXattr) -> Result<(), ClientError> {
        let SetXattr { name, value, how, clears_set_gid } = set;
        if name != ACCESS && name != DEFAULT {
            return self.commands.send(Command::SetXattr { ino, name, value, how, clears_set_gid }).await.map(drop);
        }
        let acl = Acl::parse(&value).ok_or(ClientError::Invalid("an access list of another format"))?;
        if name == DEFAULT {
            return self.commands.send(Command::SetXattr { ino, name, value, how, clears_set_gid }).await.map(drop);
        }
        let mode = self.commands.inode(ino).await?.mode & !0o777 | acl.mode();
        let set = Command::SetXattr { ino, name, value, how, clears_set_gid };
        self.commands.send(set).await?;
        let kept = if clears_set_gid { mode & !crate::meta::SET_GID } else { mode };
        let change = AttributeChange { mode: Some(kept), ..AttributeChange::default() };
        self.commands.send(Command::SetAttributes { ino, change }).await?;
        if !acl.is_extended() {
            // The mode says it all.
            self.commands.send(Command::RemoveXattr { ino, name: ACCESS.to_vec() }).await?;
        }
        Ok(())
    }

    pub async fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, ClientError> {
        match self.commands.ask(Query::Xattr { ino, name: name.to_vec() }).await? {
            Found::Value(value) => Ok(value),
            other => Err(ClientError::unexpected(&other)),
        }
    }

    /// As `getxattr`; None where there is none.
    pub(super) async fn find_xattr(&self, ino: Ino, name: &[u8]) -> Result<Option<Vec<u8>>, ClientError> {
        match self.getxattr(ino, name).await {
            Ok(value) => Ok(Some(value)),
            Err(ClientError::Meta(MetaError::NoXattr)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn listxattr(&self, ino: Ino) -> Result<Vec<Vec<u8>>, ClientError> {
        match self.commands.ask(Query::XattrNames { ino }).await? {
            Found::Names(names) => Ok(names),
            other => Err(ClientError::unexpected(&other)),
        }
    }

    pub async fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<(), ClientError> {
        self.commands.send(Command::RemoveXattr { ino, name: name.to_vec() }).await.map(drop)
    }
}
