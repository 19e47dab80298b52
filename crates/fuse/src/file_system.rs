//! What serves a mount: one method for each operation.

use crate::attributes::{AttributesFor, Entry, FileSystemState, StatxAttributes};
use crate::ids::RequestId;
use crate::init::Negotiated;
use crate::lock::Lock;
use crate::reply::{
    AttributeValue, Block, Copied, Created, Data, Events, Found, IoctlResult, Listing, Opened, PlusListing, Position, Written,
};
use crate::request::{
    Access, BlockMap, Caller, CopyFileRange, Create, Fallocate, Flush, Forget, Fsync, GetAttributes, GetExtendedAttribute,
    GetLock, Ioctl, Link, ListExtendedAttributes, Lookup, MakeDirectory, MakeNode, Open, Poll, Read, ReadDirectory, ReadLink,
    Release, Remove, RemoveExtendedAttribute, Rename, Retrieved, Seek, SetAttributes, SetExtendedAttribute, SetLock, Statfs,
    Statx, Symlink, SyncFileSystem, TemporaryFile, Write,
};
use crate::session::{End, Reply};

/// A file system behind a mount.
///
/// Methods are called from the session's threads, several at once. A method answers before it returns, or keeps its [`Reply`] and
/// answers from another thread; it does not wait for another request of the same mount, because that request may need this thread.
/// What it needs of a request beyond its return it copies: names and data lie in the thread's buffer.
///
/// Each operation that a file system does not have answers ENOSYS, and the kernel then does without it where it can.
pub trait FileSystem: Send + Sync + 'static {
    /// The kernel and this crate have agreed; requests follow.
    fn init(&self, _negotiated: &Negotiated) {}

    /// No request comes any more.
    fn destroy(&self, _end: &End) {}

    /// A call is being killed, or interrupted by a signal. The request of this id is known to be under way; if it waits, it should be
    /// answered with EINTR now. An answer that is on its way stands.
    ///
    /// The handler may not have stored its reply yet when this is called: after it has, it asks [`Reply::is_interrupted`].
    fn interrupted(&self, _id: RequestId) {}

    /// The kernel drops references to a node. There is no reply.
    fn forget(&self, _forget: Forget) {}

    /// What a RETRIEVE notification asked for.
    fn retrieved(&self, _retrieved: Retrieved<'_>) {}

    /// Looks a name up in a directory, and gives the kernel a reference to the node.
    fn lookup(&self, _caller: &Caller, _request: Lookup<'_>, reply: Reply<Found>) {
        reply.unsupported();
    }

    fn getattr(&self, _caller: &Caller, _request: GetAttributes, reply: Reply<AttributesFor>) {
        reply.unsupported();
    }

    /// As `getattr`, with the time of creation. ENOSYS has the kernel use `getattr`.
    fn statx(&self, _caller: &Caller, _request: Statx, reply: Reply<StatxAttributes>) {
        reply.unsupported();
    }

    /// Changes attributes; a change of the size cuts or extends the file.
    fn setattr(&self, _caller: &Caller, _request: SetAttributes, reply: Reply<AttributesFor>) {
        reply.unsupported();
    }

    fn readlink(&self, _caller: &Caller, _request: ReadLink, reply: Reply<Data>) {
        reply.unsupported();
    }

    fn symlink(&self, _caller: &Caller, _request: Symlink<'_>, reply: Reply<Entry>) {
        reply.unsupported();
    }

    fn mknod(&self, _caller: &Caller, _request: MakeNode<'_>, reply: Reply<Entry>) {
        reply.unsupported();
    }

    fn mkdir(&self, _caller: &Caller, _request: MakeDirectory<'_>, reply: Reply<Entry>) {
        reply.unsupported();
    }

    fn unlink(&self, _caller: &Caller, _request: Remove<'_>, reply: Reply<()>) {
        reply.unsupported();
    }

    fn rmdir(&self, _caller: &Caller, _request: Remove<'_>, reply: Reply<()>) {
        reply.unsupported();
    }

    fn rename(&self, _caller: &Caller, _request: Rename<'_>, reply: Reply<()>) {
        reply.unsupported();
    }

    fn link(&self, _caller: &Caller, _request: Link<'_>, reply: Reply<Entry>) {
        reply.unsupported();
    }

    /// Opens a file. `O_TRUNC` is the file system's to carry out.
    fn open(&self, _caller: &Caller, _request: Open, reply: Reply<Opened>) {
        reply.unsupported();
    }

    /// Creates and opens a file. Without `O_EXCL` the name may have come to be there meanwhile: then it is opened.
    fn create(&self, _caller: &Caller, _request: Create<'_>, reply: Reply<Created>) {
        reply.unsupported();
    }

    fn tmpfile(&self, _caller: &Caller, _request: TemporaryFile, reply: Reply<Created>) {
        reply.unsupported();
    }

    /// A shorter reply than asked for means the end of the file.
    fn read(&self, _caller: &Caller, _request: Read, reply: Reply<Data>) {
        reply.unsupported();
    }

    fn write(&self, _caller: &Caller, _request: Write<'_>, reply: Reply<Written>) {
        reply.unsupported();
    }

    /// Called for each close; its error is the close's.
    fn flush(&self, _caller: &Caller, _request: Flush, reply: Reply<()>) {
        reply.unsupported();
    }

    /// The last close. No call sees its error.
    fn release(&self, _caller: &Caller, _request: Release, reply: Reply<()>) {
        reply.unsupported();
    }

    fn fsync(&self, _caller: &Caller, _request: Fsync, reply: Reply<()>) {
        reply.unsupported();
    }

    fn opendir(&self, _caller: &Caller, _request: Open, reply: Reply<Opened>) {
        reply.unsupported();
    }

    fn readdir(&self, _caller: &Caller, _request: ReadDirectory, reply: Reply<Listing>) {
        reply.unsupported();
    }

    fn readdirplus(&self, _caller: &Caller, _request: ReadDirectory, reply: Reply<PlusListing>) {
        reply.unsupported();
    }

    fn releasedir(&self, _caller: &Caller, _request: Release, reply: Reply<()>) {
        reply.unsupported();
    }

    fn fsyncdir(&self, _caller: &Caller, _request: Fsync, reply: Reply<()>) {
        reply.unsupported();
    }

    fn statfs(&self, _caller: &Caller, _request: Statfs, reply: Reply<FileSystemState>) {
        reply.unsupported();
    }

    fn setxattr(&self, _caller: &Caller, _request: SetExtendedAttribute<'_>, reply: Reply<()>) {
        reply.unsupported();
    }

    fn getxattr(&self, _caller: &Caller, _request: GetExtendedAttribute<'_>, reply: Reply<AttributeValue>) {
        reply.unsupported();
    }

    fn listxattr(&self, _caller: &Caller, _request: ListExtendedAttributes, reply: Reply<AttributeValue>) {
        reply.unsupported();
    }

    fn removexattr(&self, _caller: &Caller, _request: RemoveExtendedAttribute<'_>, reply: Reply<()>) {
        reply.unsupported();
    }

    /// Which lock is in the way of this one; of kind `Unlock` where none is.
    fn getlk(&self, _caller: &Caller, _request: GetLock, reply: Reply<Lock>) {
        reply.unsupported();
    }

    /// Takes or gives up a lock. One that waits is answered later, from whatever thread grants it.
    fn setlk(&self, _caller: &Caller, _request: SetLock, reply: Reply<()>) {
        reply.unsupported();
    }

    /// Never called while `default_permissions` is set.
    fn access(&self, _caller: &Caller, _request: Access, reply: Reply<()>) {
        reply.unsupported();
    }

    fn bmap(&self, _caller: &Caller, _request: BlockMap, reply: Reply<Block>) {
        reply.unsupported();
    }

    fn ioctl(&self, _caller: &Caller, _request: Ioctl<'_>, reply: Reply<IoctlResult>) {
        reply.unsupported();
    }

    fn poll(&self, _caller: &Caller, _request: Poll, reply: Reply<Events>) {
        reply.unsupported();
    }

    fn fallocate(&self, _caller: &Caller, _request: Fallocate, reply: Reply<()>) {
        reply.unsupported();
    }

    /// The next data or hole from an offset on.
    fn lseek(&self, _caller: &Caller, _request: Seek, reply: Reply<Position>) {
        reply.unsupported();
    }

    fn copy_file_range(&self, _caller: &Caller, _request: CopyFileRange, reply: Reply<Copied>) {
        reply.unsupported();
    }

    fn syncfs(&self, _caller: &Caller, _request: SyncFileSystem, reply: Reply<()>) {
        reply.unsupported();
    }
}
