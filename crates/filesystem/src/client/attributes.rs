//! Attributes of inodes, and of the volume.

use futures_util::future::try_join_all;

use super::acl::{ACCESS, Acl};
use super::{Client, ClientError, Old, Owner};
use crate::ids::{Ino, TreeIndex};
use crate::meta::{
    AttributeChange, Attributes, Command, FileTimes, Found, GROUP_EXECUTES, Kind, MODE_BITS, MetaError, Query, SET_GID,
    SET_UID, TimeChange, Usage, XattrHow,
};

/// The space and the inodes of a volume, for `df`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeState {
    pub total_bytes: u64,
    pub free_bytes: u64,
    pub inodes: u64,
    pub free_inodes: u64,
}

/// What a volume without a quota of inodes says that it has room for: one for so many free bytes.
const BYTES_AN_INODE: u64 = 4096;

impl Client {
    /// The kernel is about to be told the attributes of an inode: what it has that is older. Of directories and links it has nothing that gets old.
    pub fn told(&self, attributes: &Attributes) -> Old {
        match attributes.kind {
            Kind::File => self.files.state(attributes.ino).told(attributes),
            _ => Old::Nothing,
        }
    }

    /// The kernel has dropped what was older than these attributes.
    pub fn renewed(&self, attributes: &Attributes) {
        self.files.state(attributes.ino).renewed(attributes);
    }

    pub async fn getattr(&self, ino: Ino) -> Result<Attributes, ClientError> {
        self.tell_times(ino).await?;
        Ok(self.with_kernel_times(self.commands.inode(ino).await?))
    }

    /// The kernel says the times of a file: a moment later the tree has them. The file with these.
    pub async fn note_times(&self, times: FileTimes) -> Result<Attributes, ClientError> {
        let found = self.commands.inode(times.ino).await?;
        self.untold.note(times);
        Ok(self.with_kernel_times(found))
    }

    /// Before content is changed by a call of which the kernel does not say whether set-user-id and set-group-id go (fallocate): they go, unless the caller
    /// is root. Set-group-id of a file that its group may not execute stays for a caller of the group. The file, if it has changed.
    pub async fn drop_set_ids(&self, ino: Ino, by: Owner) -> Result<Option<Attributes>, ClientError> {
        if by.uid == 0 {
            return Ok(None);
        }
        let found = self.commands.inode(ino).await?;
        if found.kind != Kind::File || found.mode & (SET_UID | SET_GID) == 0 {
            return Ok(None);
        }
        let goes_all = found.mode & GROUP_EXECUTES == 0 && by.gid != found.gid;
        let mode = goes_all.then_some(found.mode & MODE_BITS & !(SET_UID | SET_GID));
        let change = AttributeChange { kills_set_ids: true, mode, ..AttributeChange::default() };
        self.commands.send_for_inode(Command::SetAttributes { ino, change }).await.map(Some)
    }

    /// Changes attributes. A change of the size cuts a file, or makes it longer by a hole.
    pub async fn setattr(&self, ino: Ino, change: AttributeChange) -> Result<Attributes, ClientError> {
        let noted = self.untold.noted(ino);
        if let Some(noted) = noted {
            let mtime = change.mtime.unwrap_or(TimeChange::At(noted.mtime));
            let change = AttributeChange { mtime: Some(mtime), ctime: change.ctime.or(Some(noted.ctime)), ..change };
            let done = self.set_attributes_of(ino, change).await?;
            self.untold.told(&[noted]);
            return Ok(done);
        }
        self.tell_times(ino).await?;
        self.set_attributes_of(ino, change).await
    }

    async fn set_attributes_of(&self, ino: Ino, change: AttributeChange) -> Result<Attributes, ClientError> {
        if change.size.is_some() || change.uid.is_some() || change.gid.is_some() {
            let state = self.files.state(ino);
            let _alone = state.content.write().await;
            self.drop_capability(ino, &state).await?;
            if change.size.is_none() {
                return self.set_attributes(ino, change).await;
            }
            self.check_locks(ino, true).await?;
            let done = self.set_attributes(ino, change).await;
            match &done {
                Ok(attributes) => state.changed_here(attributes),
                Err(ClientError::Meta(MetaError::LocksLost)) => self.learn_of_loss(ino).await,
                Err(_) => {}
            }
            return done;
        }
        self.set_attributes(ino, change).await
    }

    async fn set_attributes(&self, ino: Ino, change: AttributeChange) -> Result<Attributes, ClientError> {
        if let Some(mode) = change.mode {
            self.change_access_list(ino, mode).await?;
        }
        self.commands.send_for_inode(Command::SetAttributes { ino, change }).await
    }

    /// The access list of an inode says what its mode says.
    async fn change_access_list(&self, ino: Ino, mode: u32) -> Result<(), ClientError> {
        let Some(value) = self.find_xattr(ino, ACCESS).await? else { return Ok(()) };
        let mut acl = Acl::parse(&value).ok_or(ClientError::Invalid("an access list of another format"))?;
        acl.set_mode(mode);
        let set =
            Command::SetXattr { ino, name: ACCESS.to_vec(), value: acl.to_bytes(), how: XattrHow::Any, clears_set_gid: false };
        self.commands.send(set).await.map(drop)
    }

    pub async fn readlink(&self, ino: Ino) -> Result<Vec<u8>, ClientError> {
        match self.commands.ask(Query::ReadLink { ino }).await? {
            Found::Target(target) => Ok(target),
            other => Err(ClientError::unexpected(&other)),
        }
    }

    /// Fails where the inode is no directory.
    pub async fn check_directory(&self, ino: Ino) -> Result<(), ClientError> {
        match self.commands.inode(ino).await?.kind {
            Kind::Directory => Ok(()),
            _ => Err(MetaError::NotDirectory.into()),
        }
    }

    pub async fn statfs(&self) -> Result<VolumeState, ClientError> {
        let trees = (0..self.commands.count().max(self.commands.opened())).map(TreeIndex);
        let usage = async |tree| match self.commands.ask_at(tree, Query::Usage).await? {
            Found::Usage(usage) => Ok(usage),
            other => Err(ClientError::unexpected(&other)),
        };
        let usages = try_join_all(trees.map(usage)).await?;
        Ok(self.state_of(&Usage::total(&usages)))
    }

    /// A quota hides what the volume may not use of its device.
    fn state_of(&self, usage: &Usage) -> VolumeState {
        let room = self.data.room();
        let (total_bytes, free_bytes) = match usage.quota_bytes {
            Some(quota) => (quota, quota.saturating_sub(usage.bytes).min(room.free_bytes)),
            None => (room.total_bytes, room.free_bytes),
        };
        let free_inodes = match usage.quota_inodes {
            Some(quota) => quota.saturating_sub(usage.inodes),
            None => free_bytes / BYTES_AN_INODE,
        };
        VolumeState { total_bytes, free_bytes, inodes: usage.inodes + free_inodes, free_inodes }
    }
}
