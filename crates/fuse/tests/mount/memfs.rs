//! A POSIX file system in memory: the second implementation of [`fuse::FileSystem`], by which the wire is shown to be right.
//!
//! One lock around everything. Nothing survives it.

mod acl;
mod locks;
mod pages;
mod tree;

use std::collections::BTreeMap;
use std::time::Duration;

use fuse::abi;
use fuse::reply::{
    AttributeValue, Body, Copied, Created, Data, DirectoryEntry, Found, Listing, Opened, PlusListing, Position, Written,
};
use fuse::request::{
    CopyFileRange, Create, Fallocate, Flush, Forget, Fsync, GetAttributes, GetExtendedAttribute, GetLock, Link,
    ListExtendedAttributes, Lookup, MakeDirectory, MakeNode, Open, Read, ReadDirectory, ReadLink, Release, Remove,
    RemoveExtendedAttribute, Rename, Seek, SetAttributes, SetExtendedAttribute, SetLock, Statfs, Statx, Symlink,
    SyncFileSystem, TemporaryFile, Write,
};
use fuse::{
    AttributesFor, Caller, Entry, Errno, FileHandle, FileSystem, FileSystemState, Lock, LockKind, NodeId, Reply, RequestId,
    StatxAttributes,
};
use parking_lot::{Mutex, MutexGuard};

use acl::{ACCESS, Acl};
use pages::{PAGE, Pages};
use tree::{CAPACITY_PAGES, DIRECTORY, DOT, DOT_DOT, FILE, Kind, MAX_NAME, New, SGID, SYMLINK, TYPE, Tree, directory};

const APPEND: u32 = 0o2_000;
const TRUNCATE: u32 = 0o1_000;
const EXCLUSIVE: u32 = 0o200;
const MAX_XATTR_VALUE: usize = 65_536;

#[derive(Debug)]
pub struct MemFs {
    tree: Mutex<Tree>,
}

impl MemFs {
    /// `valid`: for how long the kernel may use names and attributes; nothing else changes them.
    pub fn new(valid: Duration) -> Self {
        MemFs { tree: Mutex::new(Tree::new(valid)) }
    }

    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock()
    }

    /// Answers when the tree is free again: the write of an answer wakes the caller, which may run at once on this core.
    fn answer<T: Body>(&self, reply: Reply<T>, work: impl FnOnce(&mut Tree) -> Result<T, Errno>) {
        let answer = work(&mut self.tree());
        reply.send(answer);
    }
}

fn opened() -> Opened {
    Opened { keep_cache: true, parallel_direct_writes: true, ..Opened::new(FileHandle(0)) }
}

impl Tree {
    fn attributes(&mut self, node: NodeId) -> Result<AttributesFor, Errno> {
        let valid = self.valid;
        Ok(AttributesFor { attributes: self.inode(node)?.attributes(node.0), valid })
    }

    fn set_attributes(&mut self, request: &SetAttributes) -> Result<AttributesFor, Errno> {
        let now = self.now();
        let (atime, mtime) = (request.atime.map(|time| self.time(time)), request.mtime.map(|time| self.time(time)));
        if let Some(size) = request.size {
            self.change(request.node, 0, |file| file.set_size(size))?;
            self.inode(request.node)?.modified(now);
        }
        let inode = self.inode(request.node)?;
        if let Some(mode) = request.mode {
            inode.mode = inode.mode & TYPE | mode & !TYPE;
            if let Some(value) = inode.xattrs.get_mut(ACCESS) {
                let mut acl = Acl::parse(value)?;
                acl.set_mode(mode);
                *value = acl.to_bytes();
            }
        }
        let chown = request.uid.is_some() || request.gid.is_some();
        inode.uid = request.uid.unwrap_or(inode.uid);
        inode.gid = request.gid.unwrap_or(inode.gid);
        if request.kill_suidgid || chown && inode.mode & TYPE != DIRECTORY {
            inode.kill_privileges();
        }
        inode.atime = atime.unwrap_or(inode.atime);
        inode.mtime = mtime.unwrap_or(inode.mtime);
        inode.ctime = request.ctime.unwrap_or(now);
        self.attributes(request.node)
    }

    fn remove(&mut self, request: &Remove<'_>, of_directory: bool) -> Result<(), Errno> {
        let node = self.find(request.parent, request.name.as_bytes())?;
        match (of_directory, self.is_directory(node)?) {
            (true, true) if !self.is_empty_directory(node)? => return Err(Errno::NOTEMPTY),
            (true, false) => return Err(Errno::NOTDIR),
            (false, true) => return Err(Errno::ISDIR),
            _ => {}
        }
        let node = self.take_name(request.parent, request.name.as_bytes())?;
        self.drop_unnamed(node);
        Ok(())
    }

    fn rename(&mut self, caller: &Caller, request: &Rename<'_>) -> Result<(), Errno> {
        let (name, new_name) = (request.name.as_bytes(), request.new_name.as_bytes());
        let node = self.find(request.parent, name)?;
        let target = match self.find(request.new_parent, new_name) {
            Ok(target) => Some(target),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(errno),
        };
        if request.exchange {
            let target = target.ok_or(Errno::NOENT)?;
            self.take_name(request.parent, name)?;
            self.take_name(request.new_parent, new_name)?;
            self.add_name(request.parent, name, target)?;
            return self.add_name(request.new_parent, new_name, node);
        }
        if let Some(target) = target {
            if request.no_replace {
                return Err(Errno::EXIST);
            }
            if target == node {
                return Ok(());
            }
            let moves_directory = self.is_directory(node)?;
            self.remove(&Remove { parent: request.new_parent, name: request.new_name }, moves_directory)?;
        }
        self.take_name(request.parent, name)?;
        self.add_name(request.new_parent, new_name, node)?;
        if request.whiteout {
            let new = New { caller, mode: 0o020_000, umask: 0, rdev: 0, kind: Kind::Special };
            let whiteout = self.create(request.parent, new)?;
            self.add_name(request.parent, name, whiteout)?;
        }
        Ok(())
    }

    fn link(&mut self, request: &Link<'_>) -> Result<Entry, Errno> {
        match self.find(request.new_parent, request.new_name.as_bytes()) {
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
            Ok(_) => return Err(Errno::EXIST),
        }
        self.add_name(request.new_parent, request.new_name.as_bytes(), request.node.0)?;
        self.entry(request.node.0)
    }

    fn truncate_at_open(&mut self, node: NodeId, flags: u32, kill: bool) -> Result<(), Errno> {
        if flags & TRUNCATE != 0 {
            let now = self.now();
            self.change(node, 0, |file| file.set_size(0))?;
            let inode = self.inode(node)?;
            inode.modified(now);
            if kill {
                inode.kill_privileges();
            }
        }
        Ok(())
    }

    fn create_file(&mut self, caller: &Caller, request: &Create<'_>) -> Result<Created, Errno> {
        match self.find(request.parent, request.name.as_bytes()) {
            Ok(_) if request.flags & EXCLUSIVE != 0 => return Err(Errno::EXIST),
            Ok(node) => {
                self.truncate_at_open(NodeId(node), request.flags, request.kill_suidgid)?;
                return Ok(Created { entry: self.entry(node)?, opened: opened() });
            }
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        let kind = Kind::File(Pages::default());
        let new = New { caller, mode: request.mode & !TYPE | FILE, umask: request.umask, rdev: 0, kind };
        Ok(Created { entry: self.make(request.parent, request.name, new)?, opened: opened() })
    }

    fn read(&mut self, request: &Read) -> Result<Vec<u8>, Errno> {
        let now = self.now();
        let data = self.file(request.node)?.read(request.offset, request.size.into());
        let inode = self.inode(request.node)?;
        if inode.atime <= inode.mtime.max(inode.ctime) {
            inode.atime = now;
        }
        Ok(data)
    }

    fn write(&mut self, request: &Write<'_>) -> Result<Written, Errno> {
        let now = self.now();
        let file = self.file(request.node)?;
        let offset = if request.flags & APPEND != 0 { file.size } else { request.offset };
        let adds = file.missing(offset, offset + request.data.len() as u64);
        if request.kill_suidgid {
            self.inode(request.node)?.kill_privileges();
        }
        self.change(request.node, adds, |file| file.write(offset, request.data))?;
        self.inode(request.node)?.modified(now);
        Ok(Written(request.data.len() as u32))
    }

    fn fallocate(&mut self, request: &Fallocate) -> Result<(), Errno> {
        let now = self.now();
        let (start, end) = (request.offset, request.offset + request.length);
        let file = self.file(request.node)?;
        let size = if request.keeps_size() { file.size } else { file.size.max(end) };
        let adds = file.missing(start, end);
        match request.mode & !abi::FALLOCATE_KEEP_SIZE {
            0 => self.change(request.node, adds, |file| file.allocate(start, end))?,
            abi::FALLOCATE_PUNCH_HOLE => self.change(request.node, 0, |file| file.punch(start, end))?,
            abi::FALLOCATE_ZERO_RANGE => self.change(request.node, adds, |file| file.zero(start, end))?,
            _ => return Err(Errno::OPNOTSUPP),
        }
        self.file(request.node)?.size = size;
        self.inode(request.node)?.modified(now);
        Ok(())
    }

    fn copy(&mut self, request: &CopyFileRange) -> Result<Copied, Errno> {
        const AT_ONCE: u64 = 1 << 20;
        let now = self.now();
        let data = self.file(request.node)?.read(request.offset, request.length.min(AT_ONCE));
        let target = self.file(request.target)?;
        let adds = target.missing(request.target_offset, request.target_offset + data.len() as u64);
        self.change(request.target, adds, |file| file.write(request.target_offset, &data))?;
        let inode = self.inode(request.target)?;
        inode.kill_privileges();
        inode.modified(now);
        Ok(Copied(data.len() as u64))
    }

    fn set_xattr(&mut self, request: &SetExtendedAttribute<'_>) -> Result<(), Errno> {
        let now = self.now();
        let name = request.name.as_bytes();
        if request.value.len() > MAX_XATTR_VALUE {
            return Err(Errno::TOOBIG);
        }
        let inode = self.inode(request.node)?;
        match (inode.xattrs.contains_key(name), request.create, request.replace) {
            (true, true, _) => return Err(Errno::EXIST),
            (false, _, true) => return Err(Errno::NODATA),
            _ => {}
        }
        inode.ctime = now;
        if name == ACCESS {
            let acl = Acl::parse(request.value)?;
            inode.mode = inode.mode & !0o777 | acl.mode();
            if request.kill_sgid {
                inode.mode &= !SGID;
            }
            if !acl.is_extended() {
                inode.xattrs.remove(name);
                return Ok(());
            }
        }
        inode.xattrs.insert(name.to_vec(), request.value.to_vec());
        Ok(())
    }

    fn state(&self) -> FileSystemState {
        let free = CAPACITY_PAGES - self.pages;
        FileSystemState {
            blocks: CAPACITY_PAGES,
            blocks_free: free,
            blocks_available: free,
            files: self.count() + free,
            files_free: free,
            block_bytes: PAGE as u32,
            fragment_bytes: PAGE as u32,
            name_bytes_max: MAX_NAME as u32,
        }
    }

    /// Calls `push` for each entry after the cookie until it has no room.
    fn list(
        &mut self,
        request: &ReadDirectory,
        mut push: impl FnMut(&mut Tree, &DirectoryEntry<'_>, bool) -> Result<bool, Errno>,
    ) -> Result<(), Errno> {
        let above = self.directory(request.node)?.parent;
        for (cookie, ino, name) in [(DOT, request.node.0, &b"."[..]), (DOT_DOT, above, b"..")] {
            let entry = DirectoryEntry { ino, cookie, mode: DIRECTORY, name };
            if request.cookie < cookie && !push(self, &entry, false)? {
                return Ok(());
            }
        }
        let mut after = request.cookie.max(DOT_DOT);
        loop {
            let next = self.directory(request.node)?.by_cookie.range(after + 1..).next();
            let Some((cookie, (name, ino))) = next.map(|(cookie, found)| (*cookie, found.clone())) else { return Ok(()) };
            let mode = self.inode(NodeId(ino))?.mode;
            if !push(self, &DirectoryEntry { ino, cookie, mode, name: &name }, true)? {
                return Ok(());
            }
            after = cookie;
        }
    }

    fn list_plus(&mut self, request: &ReadDirectory) -> Result<PlusListing, Errno> {
        let mut listing = PlusListing::new(request);
        self.list(request, |tree, entry, with_inode| {
            if !with_inode {
                return Ok(listing.push(None, entry));
            }
            let inode = tree.entry(entry.ino)?;
            let fits = listing.push(Some(&inode), entry);
            if !fits {
                tree.forget(entry.ino, 1);
            }
            Ok(fits)
        })?;
        Ok(listing)
    }
}

impl FileSystem for MemFs {
    fn interrupted(&self, id: RequestId) {
        let _found = self.tree().all().any(|inode| inode.locks.interrupt(id));
    }

    fn forget(&self, forget: Forget) {
        self.tree().forget(forget.node.0, forget.lookups);
    }

    fn lookup(&self, _caller: &Caller, request: Lookup<'_>, reply: Reply<Found>) {
        self.answer(reply, |tree| {
            let node = tree.find(request.parent, request.name.as_bytes())?;
            tree.entry(node).map(Found::Entry)
        });
    }

    fn getattr(&self, _caller: &Caller, request: GetAttributes, reply: Reply<AttributesFor>) {
        self.answer(reply, |tree| tree.attributes(request.node));
    }

    fn statx(&self, _caller: &Caller, request: Statx, reply: Reply<StatxAttributes>) {
        self.answer(reply, |tree| {
            let valid = tree.valid;
            let inode = tree.inode(request.node)?;
            Ok(StatxAttributes { attributes: inode.attributes(request.node.0), created: inode.created, valid })
        });
    }

    fn setattr(&self, _caller: &Caller, request: SetAttributes, reply: Reply<AttributesFor>) {
        self.answer(reply, |tree| tree.set_attributes(&request));
    }

    fn readlink(&self, _caller: &Caller, request: ReadLink, reply: Reply<Data>) {
        self.answer(reply, |tree| {
            tree.inode(request.node).and_then(|inode| match &inode.kind {
                Kind::Symlink(target) => Ok(Data(target.clone().into())),
                _ => Err(Errno::INVAL),
            })
        });
    }

    fn symlink(&self, caller: &Caller, request: Symlink<'_>, reply: Reply<Entry>) {
        let kind = Kind::Symlink(request.target.to_vec());
        let new = New { caller, mode: SYMLINK | 0o777, umask: 0, rdev: 0, kind };
        self.answer(reply, |tree| tree.make(request.parent, request.name, new));
    }

    fn mknod(&self, caller: &Caller, request: MakeNode<'_>, reply: Reply<Entry>) {
        let kind = if request.mode & TYPE == FILE { Kind::File(Pages::default()) } else { Kind::Special };
        let new = New { caller, mode: request.mode, umask: request.umask, rdev: request.rdev, kind };
        self.answer(reply, |tree| tree.make(request.parent, request.name, new));
    }

    fn mkdir(&self, caller: &Caller, request: MakeDirectory<'_>, reply: Reply<Entry>) {
        let mode = request.mode & !TYPE | DIRECTORY;
        let new = New { caller, mode, umask: request.umask, rdev: 0, kind: directory(request.parent.0) };
        self.answer(reply, |tree| tree.make(request.parent, request.name, new));
    }

    fn unlink(&self, _caller: &Caller, request: Remove<'_>, reply: Reply<()>) {
        self.answer(reply, |tree| tree.remove(&request, false));
    }

    fn rmdir(&self, _caller: &Caller, request: Remove<'_>, reply: Reply<()>) {
        self.answer(reply, |tree| tree.remove(&request, true));
    }

    fn rename(&self, caller: &Caller, request: Rename<'_>, reply: Reply<()>) {
        self.answer(reply, |tree| tree.rename(caller, &request));
    }

    fn link(&self, _caller: &Caller, request: Link<'_>, reply: Reply<Entry>) {
        self.answer(reply, |tree| tree.link(&request));
    }

    fn open(&self, _caller: &Caller, request: Open, reply: Reply<Opened>) {
        self.answer(reply, |tree| {
            tree.truncate_at_open(request.node, request.flags, request.kill_suidgid)?;
            Ok(opened())
        });
    }

    fn create(&self, caller: &Caller, request: Create<'_>, reply: Reply<Created>) {
        self.answer(reply, |tree| tree.create_file(caller, &request));
    }

    fn tmpfile(&self, caller: &Caller, request: TemporaryFile, reply: Reply<Created>) {
        let kind = Kind::File(Pages::default());
        let new = New { caller, mode: request.mode & !TYPE | FILE, umask: request.umask, rdev: 0, kind };
        self.answer(reply, |tree| {
            let node = tree.create(request.parent, new)?;
            Ok(Created { entry: tree.entry(node)?, opened: opened() })
        });
    }

    fn read(&self, _caller: &Caller, request: Read, reply: Reply<Data>) {
        self.answer(reply, |tree| tree.read(&request).map(|data| Data(data.into())));
    }

    fn write(&self, _caller: &Caller, request: Write<'_>, reply: Reply<Written>) {
        self.answer(reply, |tree| tree.write(&request));
    }

    fn flush(&self, _caller: &Caller, request: Flush, reply: Reply<()>) {
        self.answer(reply, |tree| {
            tree.inode(request.node)?.locks.release(request.lock_owner, false);
            Ok(())
        });
    }

    fn release(&self, _caller: &Caller, request: Release, reply: Reply<()>) {
        if let (Some(owner), Ok(inode)) = (request.flock_owner, self.tree().inode(request.node)) {
            inode.locks.release(owner, true);
        }
        reply.ok(());
    }

    fn fsync(&self, _caller: &Caller, _request: Fsync, reply: Reply<()>) {
        reply.ok(());
    }

    fn opendir(&self, _caller: &Caller, request: Open, reply: Reply<Opened>) {
        self.answer(reply, |tree| tree.directory(request.node).map(|_| Opened::new(FileHandle(0))));
    }

    fn readdir(&self, _caller: &Caller, request: ReadDirectory, reply: Reply<Listing>) {
        let mut listing = Listing::new(&request);
        self.answer(reply, |tree| {
            tree.list(&request, |_, entry, _| Ok(listing.push(entry)))?;
            Ok(listing)
        });
    }

    fn readdirplus(&self, _caller: &Caller, request: ReadDirectory, reply: Reply<PlusListing>) {
        self.answer(reply, |tree| tree.list_plus(&request));
    }

    fn releasedir(&self, _caller: &Caller, _request: Release, reply: Reply<()>) {
        reply.ok(());
    }

    fn fsyncdir(&self, _caller: &Caller, _request: Fsync, reply: Reply<()>) {
        reply.ok(());
    }

    fn statfs(&self, _caller: &Caller, _request: Statfs, reply: Reply<FileSystemState>) {
        self.answer(reply, |tree| Ok(tree.state()));
    }

    fn setxattr(&self, _caller: &Caller, request: SetExtendedAttribute<'_>, reply: Reply<()>) {
        self.answer(reply, |tree| tree.set_xattr(&request));
    }

    fn getxattr(&self, _caller: &Caller, request: GetExtendedAttribute<'_>, reply: Reply<AttributeValue>) {
        self.answer(reply, |tree| {
            let found = tree.inode(request.node)?.xattrs.get(request.name.as_bytes());
            found.cloned().map(AttributeValue).ok_or(Errno::NODATA)
        });
    }

    fn listxattr(&self, _caller: &Caller, request: ListExtendedAttributes, reply: Reply<AttributeValue>) {
        let names =
            |xattrs: &BTreeMap<Vec<u8>, Vec<u8>>| xattrs.keys().flat_map(|name| name.iter().copied().chain([0])).collect();
        self.answer(reply, |tree| tree.inode(request.node).map(|inode| AttributeValue(names(&inode.xattrs))));
    }

    fn removexattr(&self, _caller: &Caller, request: RemoveExtendedAttribute<'_>, reply: Reply<()>) {
        self.answer(reply, |tree| {
            let now = tree.now();
            let inode = tree.inode(request.node)?;
            inode.xattrs.remove(request.name.as_bytes()).ok_or(Errno::NODATA)?;
            inode.ctime = now;
            Ok(())
        });
    }

    fn getlk(&self, _caller: &Caller, request: GetLock, reply: Reply<Lock>) {
        let free = Lock { kind: LockKind::Unlock, ..request.lock };
        self.answer(reply, |tree| {
            let conflict = tree.inode(request.node)?.locks.conflict(request.owner, false, &request.lock);
            Ok(conflict.unwrap_or(free))
        });
    }

    fn setlk(&self, _caller: &Caller, request: SetLock, reply: Reply<()>) {
        match self.tree().inode(request.node) {
            Ok(inode) => inode.locks.set(request.owner, request.flock, request.lock, request.wait, reply),
            Err(errno) => drop(reply.error(errno)),
        }
    }

    fn fallocate(&self, _caller: &Caller, request: Fallocate, reply: Reply<()>) {
        self.answer(reply, |tree| tree.fallocate(&request));
    }

    fn lseek(&self, _caller: &Caller, request: Seek, reply: Reply<Position>) {
        self.answer(reply, |tree| {
            tree.file(request.node).and_then(|file| {
                let inside = request.offset < file.size;
                let found = if inside { file.seek(request.offset, request.data) } else { None };
                found.map(Position).ok_or(Errno::NXIO)
            })
        });
    }

    fn copy_file_range(&self, _caller: &Caller, request: CopyFileRange, reply: Reply<Copied>) {
        self.answer(reply, |tree| tree.copy(&request));
    }

    fn syncfs(&self, _caller: &Caller, _request: SyncFileSystem, reply: Reply<()>) {
        reply.ok(());
    }
}
