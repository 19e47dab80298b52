//! Names: looking them up, making, moving and removing them, and opening what they name.

use super::acl::{ACCESS, Acl, DEFAULT};
use super::files::FileHandle;
use super::{Client, ClientError};
use crate::ids::Ino;
use crate::meta::limits::MAX_NAME_BYTES;
use crate::meta::{AttributeChange, Attributes, Command, Done, Kind, MetaError, NewInode, Query, RenameHow, TimeChange};

/// An inode under a name. It counts as one reference of the kernel, until [`Client::forget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(pub Attributes);

/// The user and the group of a calling process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

/// An inode to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct New {
    pub kind: Kind,
    /// Permissions, before the umask: a default access list of the parent takes its place.
    pub mode: u32,
    pub umask: u32,
    pub rdev: u32,
    pub owner: Owner,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFlags {
    pub truncate: bool,
    /// A name that exists is refused.
    pub exclusive: bool,
    /// Of an open that truncates: clears set-user-id, and set-group-id where the group may execute.
    pub kills_set_ids: bool,
}

impl Client {
    pub async fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Entry, ClientError> {
        let found = match name {
            b"." => self.by_number(parent).await?,
            b".." => self.parent(parent).await?,
            _ => self.find(parent, name).await?,
        };
        Ok(self.referred(self.with_times(found).await?))
    }

    /// An inode that the kernel does not have: a file handle names it (open_by_handle_at(2), NFS). One without names is in use by others at most.
    async fn by_number(&self, ino: Ino) -> Result<Attributes, ClientError> {
        let found = self.commands.inode(ino).await?;
        if found.nlink == 0 { Err(MetaError::Stale.into()) } else { Ok(found) }
    }

    async fn find(&self, parent: Ino, name: &[u8]) -> Result<Attributes, ClientError> {
        if name.len() > MAX_NAME_BYTES {
            return Err(MetaError::NameLength.into());
        }
        self.commands.ask_for_inode(Query::Lookup { parent, name: name.to_vec() }).await
    }

    fn referred(&self, attributes: Attributes) -> Entry {
        self.files.refer(attributes.ino);
        Entry(attributes)
    }

    /// Makes an inode that is no symbolic link.
    pub async fn make(&self, parent: Ino, name: &[u8], new: New) -> Result<Entry, ClientError> {
        let new = self.inherit(parent, new).await?;
        let made = self.commands.send_for_inode(Command::Make { parent, name: name.to_vec(), new }).await?;
        Ok(self.referred(made))
    }

    pub async fn symlink(&self, parent: Ino, name: &[u8], target: Vec<u8>, owner: Owner) -> Result<Entry, ClientError> {
        let Owner { uid, gid } = owner;
        let new = NewInode { kind: Kind::Symlink, mode: 0o777, uid, gid, rdev: 0, target, xattrs: Vec::new() };
        let made = self.commands.send_for_inode(Command::Make { parent, name: name.to_vec(), new }).await?;
        Ok(self.referred(made))
    }

    /// The mode and the access lists of a new inode: by the parent's default list, or else by the umask.
    async fn inherit(&self, parent: Ino, new: New) -> Result<NewInode, ClientError> {
        let New { kind, mode, umask, rdev, owner: Owner { uid, gid } } = new;
        let made = |mode, xattrs| NewInode { kind, mode, uid, gid, rdev, target: Vec::new(), xattrs };
        let Some(value) = self.find_xattr(parent, DEFAULT).await? else { return Ok(made(mode & !umask, Vec::new())) };
        let default = Acl::parse(&value).ok_or(ClientError::Invalid("an access list of another format"))?;
        let access = default.inherited(mode);
        let mut xattrs = Vec::new();
        if access.is_extended() {
            xattrs.push((ACCESS.to_vec(), access.to_bytes()));
        }
        if kind == Kind::Directory {
            xattrs.push((DEFAULT.to_vec(), value));
        }
        Ok(made(mode & !0o777 | access.mode(), xattrs))
    }

    pub async fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Entry, ClientError> {
        self.tell_times(ino).await?;
        let linked = self.commands.send_for_inode(Command::Link { ino, parent, name: name.to_vec() }).await?;
        self.files.named(ino);
        Ok(self.referred(linked))
    }

    pub async fn unlink(&self, parent: Ino, name: &[u8]) -> Result<(), ClientError> {
        let done = self.commands.send(Command::Unlink { parent, name: name.to_vec() }).await?;
        self.unlinked(done).await
    }

    pub async fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<(), ClientError> {
        let done = self.commands.send(Command::Rmdir { parent, name: name.to_vec() }).await?;
        self.unlinked(done).await
    }

    pub async fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), how: RenameHow) -> Result<(), ClientError> {
        let command = Command::Rename { from: (from.0, from.1.to_vec()), to: (to.0, to.1.to_vec()), how };
        let done = self.commands.send(command).await?;
        self.unlinked(done).await
    }

    /// An inode that lost its last name is told as not open, now or when it is not in use any more.
    async fn unlinked(&self, done: Done) -> Result<(), ClientError> {
        match done {
            Done::Unlinked(lost) | Done::Renamed(Some(lost)) if lost.nlink == 0 => {
                if !self.files.lost_its_names(lost.ino) {
                    self.not_open(vec![lost.ino]).await;
                }
                Ok(())
            }
            Done::Unlinked(_) | Done::Renamed(_) => Ok(()),
            other => Err(ClientError::unexpected(&other)),
        }
    }

    /// The open file, and the file as it is then.
    pub async fn open(&self, ino: Ino, flags: OpenFlags) -> Result<(Attributes, FileHandle), ClientError> {
        let found = self.getattr(ino).await?;
        let attributes = match found.kind {
            Kind::Directory => return Err(MetaError::IsDirectory.into()),
            _ if flags.truncate => self.truncate(ino, flags.kills_set_ids).await?,
            _ => found,
        };
        Ok((attributes, self.files.open(ino)?))
    }

    async fn truncate(&self, ino: Ino, kills_set_ids: bool) -> Result<Attributes, ClientError> {
        let mtime = Some(TimeChange::Now);
        let change = AttributeChange { size: Some(0), mtime, kills_set_ids, ..AttributeChange::default() };
        self.setattr(ino, change).await
    }

    /// Makes and opens a file. One that has come to be there meanwhile is opened, unless that is excluded.
    pub async fn create(
        &self,
        parent: Ino,
        name: &[u8],
        new: New,
        flags: OpenFlags,
    ) -> Result<(Entry, FileHandle), ClientError> {
        let entry = match self.make(parent, name, new).await {
            Err(ClientError::Meta(MetaError::Exists)) if !flags.exclusive => {
                let found = self.find(parent, name).await?;
                let (attributes, handle) = self.open(found.ino, flags).await?;
                return Ok((self.referred(attributes), handle));
            }
            made => made?,
        };
        Ok((entry, self.files.open(entry.0.ino)?))
    }

    /// Makes and opens a file without a name.
    pub async fn tmpfile(&self, parent: Ino, new: New) -> Result<(Entry, FileHandle), ClientError> {
        let new = self.inherit(parent, new).await?;
        let made = self.commands.send_for_inode(Command::MakeUnnamed { parent, new }).await?;
        let entry = self.referred(made);
        self.files.lost_its_names(made.ino);
        Ok((entry, self.files.open(made.ino)?))
    }

    /// At the close of one descriptor, and at fsync: all but times is durable already. A failure that no call was told is told now.
    pub async fn flush(&self, ino: Ino, handle: FileHandle) -> Result<(), ClientError> {
        let told = self.settle_times(ino).await;
        self.flush_data(handle)?;
        told
    }

    /// At fdatasync, which does not wait for times.
    pub fn flush_data(&self, handle: FileHandle) -> Result<(), ClientError> {
        self.files.take_failure(handle)
    }

    /// The last close of an open file. `flock_owner`: the owner of the flock that it has, by the kernel's word.
    pub async fn release(&self, ino: Ino, handle: FileHandle, flock_owner: Option<u64>) {
        self.closed(ino, handle, flock_owner).await;
        if let Some(orphan) = self.files.close(handle) {
            self.not_open(vec![orphan]).await;
        }
    }

    /// The kernel has one more reference to an inode.
    pub fn remember(&self, ino: Ino) {
        self.files.refer(ino);
    }

    /// The kernel drops references. An inode without names that is not in use any more is returned, for [`Client::tell_dropped`].
    #[must_use = "an inode without names stays until it is told as not open"]
    pub fn forget(&self, ino: Ino, references: u64) -> Option<Ino> {
        if !self.files.is_taken_over() {
            return self.files.forget(ino, references);
        }
        // How many references an earlier process gave is not known.
        if self.kernel_refers(ino) { None } else { self.files.dropped(ino) }
    }
}
