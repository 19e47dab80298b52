//! The operations of a mount: what a request says, as a call of the client, and what it returns, as a reply.

use std::sync::Arc;

use bytes::Bytes;
use filesystem::client::{Client, ClientError, FileHandle, New, OpenFlags, Owner, Place, SetXattr, WriteAt};
use filesystem::meta::{AttributeChange, Attributes, Kind, MODE_BITS, RenameHow, XattrHow};
use fuse::reply::{AttributeValue, Body, Copied, Created, Data, Found, Listing, Opened, PlusListing, Position, Written};
use fuse::request::{
    self, CopyFileRange, Create, Fallocate, Flush, Forget, Fsync, GetAttributes, GetExtendedAttribute, GetLock, Link,
    ListExtendedAttributes, Lookup, MakeDirectory, MakeNode, Open, Read, ReadDirectory, ReadLink, Release, Remove,
    RemoveExtendedAttribute, Rename, Seek, SetAttributes, SetExtendedAttribute, SetLock, Statfs, Statx, Symlink,
    SyncFileSystem, TemporaryFile, Write,
};
use fuse::{AttributesFor, Caller, End, Entry, FileSystem, FileSystemState, Lock, LockKind, Reply, RequestId, StatxAttributes};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::answer::answer;
use crate::buffered;
use crate::caches::Caches;
use crate::convert::{self, Validity, ino};
use crate::ending::Ending;
use crate::listing;
use crate::locks::{self, Waits};

/// `O_*` of Linux, as requests carry them.
const APPEND: u32 = 0o2_000;
const TRUNCATE: u32 = 0o1_000;
const EXCLUSIVE: u32 = 0o200;

/// A volume behind a mount.
pub struct Volume {
    client: Arc<Client>,
    runtime: Handle,
    validity: Validity,
    caches: Arc<Caches>,
    waits: Arc<Waits>,
    /// Tells which inodes without names are not in use.
    telling: AbortHandle,
    ending: Arc<Ending>,
    /// The kernel buffers writes: what it has of a file is newer than what the client has.
    is_exclusive: bool,
}

impl Volume {
    pub fn new(client: Arc<Client>, runtime: Handle, validity: Validity, caches: Arc<Caches>, ending: Arc<Ending>) -> Self {
        let teller = Arc::clone(&client);
        let telling = runtime.spawn(async move { teller.keep_telling().await }).abort_handle();
        let is_exclusive = client.is_exclusive();
        Volume { client, runtime, validity, caches, waits: Arc::default(), telling, ending, is_exclusive }
    }

    /// Answers with what `work` makes of the client.
    fn answer<T, F>(&self, reply: Reply<T>, work: impl FnOnce(Arc<Client>) -> F)
    where
        T: Body + Send + 'static,
        F: Future<Output = Result<T, ClientError>> + Send + 'static,
    {
        answer(&self.runtime, Arc::clone(&self.client), reply, work(Arc::clone(&self.client)));
    }

    /// Answers with the entry of an inode that got a name.
    fn answer_entry<F>(&self, reply: Reply<Entry>, work: impl FnOnce(Arc<Client>) -> F)
    where
        F: Future<Output = Result<filesystem::client::Entry, ClientError>> + Send + 'static,
    {
        let (validity, caches, client) = (self.validity, Arc::clone(&self.caches), Arc::clone(&self.client));
        let work = work(Arc::clone(&client));
        answer(&self.runtime, Arc::clone(&self.client), reply, async move {
            let entry = work.await?;
            caches.renew(&client, &entry.0).await;
            Ok(validity.entry(&entry))
        });
    }

    /// Answers with what `tell` makes of the attributes of an inode.
    fn answer_attributes<T, F>(
        &self,
        reply: Reply<T>,
        work: impl FnOnce(Arc<Client>) -> F,
        tell: impl FnOnce(Validity, &Attributes) -> T + Send + 'static,
    ) where
        T: Body + Send + 'static,
        F: Future<Output = Result<Attributes, ClientError>> + Send + 'static,
    {
        let (validity, caches, client) = (self.validity, Arc::clone(&self.caches), Arc::clone(&self.client));
        let work = work(Arc::clone(&client));
        answer(&self.runtime, Arc::clone(&self.client), reply, async move {
            let attributes = work.await?;
            caches.renew(&client, &attributes).await;
            Ok(tell(validity, &attributes))
        });
    }
}

fn owner(caller: &Caller) -> Owner {
    Owner { uid: caller.uid, gid: caller.gid }
}

/// `flags`: `O_*` that the file is opened with. An exclusive mount has the end of a file in its cache.
fn opened(handle: FileHandle, flags: u32, is_exclusive: bool) -> Opened {
    // What the page cache has is dropped by notifications where another client has changed it. An append through it would come in parts, one for each page that
    // is not there.
    let direct_io = flags & APPEND != 0 && !is_exclusive;
    Opened { keep_cache: true, direct_io, parallel_direct_writes: true, ..Opened::new(fuse::FileHandle(handle.0)) }
}

fn open_flags(flags: u32, kill_suidgid: bool) -> OpenFlags {
    OpenFlags { truncate: flags & TRUNCATE != 0, exclusive: flags & EXCLUSIVE != 0, kills_set_ids: kill_suidgid }
}

fn handle(handle: fuse::FileHandle) -> FileHandle {
    FileHandle(handle.0)
}

/// A file or directory of `mode`, before the umask, for the calling process.
fn new(caller: &Caller, kind: Kind, mode: u32, umask: u32) -> New {
    New { kind, mode: mode & MODE_BITS, umask, rdev: 0, owner: owner(caller) }
}

fn name(name: request::Name<'_>) -> Vec<u8> {
    name.as_bytes().to_vec()
}

impl Drop for Volume {
    fn drop(&mut self) {
        self.telling.abort();
    }
}

impl FileSystem for Volume {
    fn destroy(&self, end: &End) {
        self.telling.abort();
        if *end == End::Stopped {
            // Another process serves the mount now, in the same session.
            drop(Arc::clone(&self.ending).closing());
            return;
        }
        let (client, closing) = (Arc::clone(&self.client), Arc::clone(&self.ending).closing());
        self.runtime.spawn(async move {
            if let Err(error) = client.close().await {
                tracing::warn!(%error, "the session of a mount that is gone could not be closed");
            }
            drop(closing);
        });
    }

    fn forget(&self, forget: Forget) {
        if let Some(orphan) = self.client.forget(ino(forget.node), forget.lookups) {
            self.client.tell_dropped(orphan);
        }
    }

    fn lookup(&self, _caller: &Caller, request: Lookup<'_>, reply: Reply<Found>) {
        let (parent, name, validity) = (ino(request.parent), name(request.name), self.validity);
        let caches = Arc::clone(&self.caches);
        self.answer(reply, |client| async move {
            let entry = client.lookup(parent, &name).await?;
            caches.renew(&client, &entry.0).await;
            Ok(Found::Entry(validity.entry(&entry)))
        });
    }

    fn getattr(&self, _caller: &Caller, request: GetAttributes, reply: Reply<AttributesFor>) {
        let work = |client: Arc<Client>| async move { client.getattr(ino(request.node)).await };
        self.answer_attributes(reply, work, |validity, attributes| validity.attributes(attributes));
    }

    fn statx(&self, _caller: &Caller, request: Statx, reply: Reply<StatxAttributes>) {
        let work = |client: Arc<Client>| async move { client.getattr(ino(request.node)).await };
        self.answer_attributes(reply, work, |validity, attributes| validity.statx(attributes));
    }

    fn setattr(&self, _caller: &Caller, request: SetAttributes, reply: Reply<AttributesFor>) {
        let change = AttributeChange {
            mode: request.mode.map(|mode| mode & MODE_BITS),
            uid: request.uid,
            gid: request.gid,
            size: request.size,
            atime: request.atime.map(convert::time_change),
            mtime: request.mtime.map(convert::time_change),
            ctime: request.ctime.map(convert::time),
            kills_set_ids: request.kill_suidgid,
        };
        let (node, validity, caches) = (ino(request.node), self.validity, Arc::clone(&self.caches));
        if let Some(times) = buffered::times(node, &change).filter(|_| self.is_exclusive) {
            let work = |client: Arc<Client>| async move { client.note_times(times).await };
            return self.answer_attributes(reply, work, |validity, attributes| validity.attributes(attributes));
        }
        if change.size.is_none() {
            let work = |client: Arc<Client>| async move { client.setattr(node, change).await };
            return self.answer_attributes(reply, work, |validity, attributes| validity.attributes(attributes));
        }
        self.answer(reply, |client| async move {
            let attributes = client.setattr(node, change).await?;
            // The kernel writes no page of the file before it has the answer.
            caches.renew_after_write(&client, attributes, false).await;
            Ok(validity.attributes(&attributes))
        });
    }

    fn readlink(&self, _caller: &Caller, request: ReadLink, reply: Reply<Data>) {
        self.answer(reply, |client| async move { client.readlink(ino(request.node)).await.map(|target| Data(target.into())) });
    }

    fn symlink(&self, caller: &Caller, request: Symlink<'_>, reply: Reply<Entry>) {
        let (parent, name, target) = (ino(request.parent), name(request.name), request.target.to_vec());
        let owner = owner(caller);
        self.answer_entry(reply, |client| async move { client.symlink(parent, &name, target, owner).await });
    }

    fn mknod(&self, caller: &Caller, request: MakeNode<'_>, reply: Reply<Entry>) {
        let (parent, name, kind) = (ino(request.parent), name(request.name), convert::kind(request.mode));
        let new = New { rdev: request.rdev, ..new(caller, Kind::File, request.mode, request.umask) };
        self.answer_entry(reply, |client| async move { client.make(parent, &name, New { kind: kind?, ..new }).await });
    }

    fn mkdir(&self, caller: &Caller, request: MakeDirectory<'_>, reply: Reply<Entry>) {
        let new = new(caller, Kind::Directory, request.mode, request.umask);
        let (parent, name) = (ino(request.parent), name(request.name));
        self.answer_entry(reply, |client| async move { client.make(parent, &name, new).await });
    }

    fn unlink(&self, _caller: &Caller, request: Remove<'_>, reply: Reply<()>) {
        let (parent, name) = (ino(request.parent), name(request.name));
        self.answer(reply, |client| async move { client.unlink(parent, &name).await });
    }

    fn rmdir(&self, _caller: &Caller, request: Remove<'_>, reply: Reply<()>) {
        let (parent, name) = (ino(request.parent), name(request.name));
        self.answer(reply, |client| async move { client.rmdir(parent, &name).await });
    }

    fn rename(&self, _caller: &Caller, request: Rename<'_>, reply: Reply<()>) {
        let from = (ino(request.parent), name(request.name));
        let to = (ino(request.new_parent), name(request.new_name));
        let how = match request {
            Rename { whiteout: true, .. } => Err(ClientError::Invalid("a rename that leaves a whiteout")),
            Rename { exchange: true, .. } => Ok(RenameHow::Exchange),
            Rename { no_replace: true, .. } => Ok(RenameHow::NoReplace),
            Rename { .. } => Ok(RenameHow::Replace),
        };
        self.answer(reply, |client| async move { client.rename((from.0, &from.1), (to.0, &to.1), how?).await });
    }

    fn link(&self, _caller: &Caller, request: Link<'_>, reply: Reply<Entry>) {
        let (node, parent, name) = (ino(request.node), ino(request.new_parent), name(request.new_name));
        self.answer_entry(reply, |client| async move { client.link(node, parent, &name).await });
    }

    fn open(&self, _caller: &Caller, request: Open, reply: Reply<Opened>) {
        let flags = open_flags(request.flags, request.kill_suidgid);
        let caches = Arc::clone(&self.caches);
        self.answer(reply, |client| async move {
            let (attributes, handle) = client.open(ino(request.node), flags).await?;
            caches.renew_all(&client, &attributes).await;
            Ok(opened(handle, request.flags, client.is_exclusive()))
        });
    }

    fn create(&self, caller: &Caller, request: Create<'_>, reply: Reply<Created>) {
        let new = new(caller, Kind::File, request.mode, request.umask);
        let (parent, name, validity) = (ino(request.parent), name(request.name), self.validity);
        let (flags, caches) = (open_flags(request.flags, request.kill_suidgid), Arc::clone(&self.caches));
        let word = request.flags;
        self.answer(reply, |client| async move {
            let (entry, handle) = client.create(parent, &name, new, flags).await?;
            caches.renew(&client, &entry.0).await;
            Ok(Created { entry: validity.entry(&entry), opened: opened(handle, word, client.is_exclusive()) })
        });
    }

    fn tmpfile(&self, caller: &Caller, request: TemporaryFile, reply: Reply<Created>) {
        let new = new(caller, Kind::File, request.mode, request.umask);
        let (parent, validity, flags) = (ino(request.parent), self.validity, request.flags);
        self.answer(reply, |client| async move {
            let (entry, handle) = client.tmpfile(parent, new).await?;
            client.told(&entry.0);
            Ok(Created { entry: validity.entry(&entry), opened: opened(handle, flags, client.is_exclusive()) })
        });
    }

    fn read(&self, _caller: &Caller, request: Read, reply: Reply<Data>) {
        self.answer(reply, |client| async move {
            client.read(ino(request.node), request.offset, request.size as usize).await.map(Data)
        });
    }

    fn write(&self, _caller: &Caller, request: Write<'_>, reply: Reply<Written>) {
        let write = WriteAt {
            offset: request.offset,
            // The page cache writes where the bytes belong, whatever the file was opened for. So does a kernel that has the size.
            append: request.flags & APPEND != 0 && !request.from_cache && !self.is_exclusive,
            from_cache: request.from_cache,
            kills_set_ids: request.kill_suidgid,
        };
        let (node, data, caches) = (ino(request.node), Bytes::copy_from_slice(request.data), Arc::clone(&self.caches));
        self.answer(reply, |client| async move {
            let written = client.write(node, write, data).await?;
            let is_elsewhere = written.offset != write.offset;
            caches.renew_after_write(&client, written.inode, is_elsewhere).await;
            Ok(Written(written.len as u32))
        });
    }

    fn flush(&self, _caller: &Caller, request: Flush, reply: Reply<()>) {
        if self.is_exclusive {
            return reply.unsupported();
        }
        self.answer(reply, |client| async move {
            client.closed_by(ino(request.node), request.lock_owner.0).await;
            client.flush(ino(request.node), handle(request.handle)).await
        });
    }

    fn release(&self, _caller: &Caller, request: Release, reply: Reply<()>) {
        self.answer(reply, |client| async move {
            let flock_owner = request.flock_owner.map(|owner| owner.0);
            client.release(ino(request.node), handle(request.handle), flock_owner).await;
            Ok(())
        });
    }

    fn fsync(&self, _caller: &Caller, request: Fsync, reply: Reply<()>) {
        self.answer(reply, |client| async move {
            match request.data_only {
                true => client.flush_data(handle(request.handle))?,
                false => client.flush(ino(request.node), handle(request.handle)).await?,
            }
            client.settle().await
        });
    }

    fn opendir(&self, _caller: &Caller, request: Open, reply: Reply<Opened>) {
        self.answer(reply, |client| async move {
            client.check_directory(ino(request.node)).await?;
            Ok(Opened::new(fuse::FileHandle(0)))
        });
    }

    fn readdir(&self, _caller: &Caller, request: ReadDirectory, reply: Reply<Listing>) {
        self.answer(reply, |client| async move { listing::plain(&client, &request).await });
    }

    fn readdirplus(&self, _caller: &Caller, request: ReadDirectory, reply: Reply<PlusListing>) {
        let (validity, caches) = (self.validity, Arc::clone(&self.caches));
        self.answer(reply, |client| async move { listing::plus(&client, &request, validity, &caches).await });
    }

    fn releasedir(&self, _caller: &Caller, _request: Release, reply: Reply<()>) {
        self.answer(reply, |_client| async { Ok(()) });
    }

    fn fsyncdir(&self, _caller: &Caller, _request: Fsync, reply: Reply<()>) {
        self.answer(reply, |client| async move { client.settle().await });
    }

    fn statfs(&self, _caller: &Caller, _request: Statfs, reply: Reply<FileSystemState>) {
        self.answer(reply, |client| async move { Ok(convert::state(&client.statfs().await?)) });
    }

    fn setxattr(&self, _caller: &Caller, request: SetExtendedAttribute<'_>, reply: Reply<()>) {
        let set = SetXattr {
            name: name(request.name),
            value: request.value.to_vec(),
            how: match (request.create, request.replace) {
                (true, _) => XattrHow::Create,
                (_, true) => XattrHow::Replace,
                _ => XattrHow::Any,
            },
            clears_set_gid: request.kill_sgid,
        };
        self.answer(reply, |client| async move { client.setxattr(ino(request.node), set).await });
    }

    fn getxattr(&self, _caller: &Caller, request: GetExtendedAttribute<'_>, reply: Reply<AttributeValue>) {
        let (node, name) = (ino(request.node), name(request.name));
        self.answer(reply, |client| async move { client.getxattr(node, &name).await.map(AttributeValue) });
    }

    fn listxattr(&self, _caller: &Caller, request: ListExtendedAttributes, reply: Reply<AttributeValue>) {
        self.answer(reply, |client| async move {
            let names = client.listxattr(ino(request.node)).await?;
            Ok(AttributeValue(names.into_iter().flat_map(|name| name.into_iter().chain([0])).collect()))
        });
    }

    fn removexattr(&self, _caller: &Caller, request: RemoveExtendedAttribute<'_>, reply: Reply<()>) {
        let (node, name) = (ino(request.node), name(request.name));
        self.answer(reply, |client| async move { client.removexattr(node, &name).await });
    }

    fn getlk(&self, _caller: &Caller, request: GetLock, reply: Reply<Lock>) {
        self.answer(reply, |client| async move { locks::in_the_way(&client, &request).await });
    }

    fn setlk(&self, _caller: &Caller, request: SetLock, reply: Reply<()>) {
        let (node, handle) = (ino(request.node), handle(request.handle));
        if request.lock.kind == LockKind::Unlock {
            let (owner, range) = locks::place(&request);
            return self.answer(reply, |client| async move { client.unlock(node, owner, range).await });
        }
        let (wanted, caches, waits, id) =
            (locks::wanted(&request), Arc::clone(&self.caches), Arc::clone(&self.waits), reply.id());
        let stopped = waits.begin(id);
        // It may have come before the wait was known.
        if reply.is_interrupted() {
            waits.interrupt(id);
        }
        self.answer(reply, |client| async move {
            let stopped = async { drop(stopped.await) };
            let locked = match request.wait {
                true => client.lock_waiting(node, handle, wanted, stopped).await,
                false => client.lock(node, handle, wanted).await,
            };
            waits.end(id);
            caches.renew_all(&client, &locked?).await;
            Ok(())
        });
    }

    fn interrupted(&self, id: RequestId) {
        self.waits.interrupt(id);
    }

    fn fallocate(&self, caller: &Caller, request: Fallocate, reply: Reply<()>) {
        let (by, caches) = (owner(caller), Arc::clone(&self.caches));
        self.answer(reply, |client| async move {
            let how = convert::allocation(request.mode)?;
            if let Some(changed) = client.drop_set_ids(ino(request.node), by).await? {
                caches.renew_changed(&client, &changed).await;
            }
            client.fallocate(ino(request.node), request.offset, request.length, how, request.keeps_size()).await
        });
    }

    fn lseek(&self, _caller: &Caller, request: Seek, reply: Reply<Position>) {
        if self.is_exclusive {
            return reply.unsupported();
        }
        self.answer(
            reply,
            |client| async move { client.seek(ino(request.node), request.offset, request.data).await.map(Position) },
        );
    }

    fn copy_file_range(&self, _caller: &Caller, request: CopyFileRange, reply: Reply<Copied>) {
        if self.is_exclusive {
            return reply.unsupported();
        }
        let from = Place { ino: ino(request.node), offset: request.offset };
        let to = Place { ino: ino(request.target), offset: request.target_offset };
        self.answer(reply, |client| async move { client.copy(from, to, request.length).await.map(Copied) });
    }

    fn syncfs(&self, _caller: &Caller, _request: SyncFileSystem, reply: Reply<()>) {
        self.answer(reply, |client| async move {
            client.tell_all_times().await?;
            client.settle().await
        });
    }
}
