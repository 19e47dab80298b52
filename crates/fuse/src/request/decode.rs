//! The arguments of each opcode.

use zerocopy::FromBytes;

use super::cursor::Cursor;
use super::error::DecodeProblem;
use super::operation::{
    Access, BlockMap, CopyFileRange, Create, Fallocate, Flush, Forget, Forgets, Fsync, GetAttributes, GetExtendedAttribute,
    GetLock, Ioctl, Link, ListExtendedAttributes, Lookup, MakeDirectory, MakeNode, Open, Operation, Poll, Read, ReadDirectory,
    ReadLink, Release, Remove, RemoveExtendedAttribute, Rename, Retrieved, Seek, SetAttributes, SetExtendedAttribute, SetLock,
    Statfs, Statx, Symlink, SyncFileSystem, TemporaryFile, TimeChange, Write,
};
use crate::abi::{self, InHeader, Opcode, setattr};
use crate::attributes::Timestamp;
use crate::ids::{FileHandle, LockOwner, NodeId, RequestId};
use crate::init::Init;
use crate::lock::Lock;

type Decoded<T> = Result<T, DecodeProblem>;

pub(super) fn operation<'a>(opcode: Opcode, header: &InHeader, arguments: &'a [u8]) -> Decoded<Operation<'a>> {
    let node = NodeId(header.node);
    let mut cursor = Cursor::new(arguments);
    let decoded = match opcode {
        Opcode::Init => return Init::decode(arguments).map(Operation::Init),
        Opcode::Destroy => Operation::Destroy,
        Opcode::Interrupt => {
            let interrupt: abi::InterruptIn = cursor.record()?;
            Operation::Interrupt(RequestId(interrupt.unique & !abi::UNIQUE_RESEND))
        }
        Opcode::NotifyReply => Operation::NotifyReply(retrieved(node, header.unique, &mut cursor)?),
        Opcode::Lookup | Opcode::Forget | Opcode::BatchForget | Opcode::Symlink | Opcode::Mknod | Opcode::Mkdir => {
            names(opcode, node, &mut cursor)?
        }
        Opcode::Unlink | Opcode::Rmdir | Opcode::Rename | Opcode::Rename2 | Opcode::Link => names(opcode, node, &mut cursor)?,
        Opcode::Getattr | Opcode::Statx | Opcode::Setattr | Opcode::Readlink | Opcode::Access | Opcode::Statfs => {
            attributes(opcode, node, &mut cursor)?
        }
        Opcode::Setxattr | Opcode::Getxattr | Opcode::Listxattr | Opcode::Removexattr => {
            extended_attributes(opcode, node, &mut cursor)?
        }
        Opcode::Getlk | Opcode::Setlk | Opcode::Setlkw => locks(opcode, node, &mut cursor)?,
        Opcode::Open | Opcode::Opendir | Opcode::Create | Opcode::Tmpfile => opens(opcode, node, &mut cursor)?,
        _ => open_files(opcode, node, &mut cursor)?,
    };
    cursor.end()?;
    Ok(decoded)
}

/// The one group of an extension of groups, if there is one. Extensions of other kinds are passed over.
pub(super) fn supplementary_group(mut extensions: &[u8]) -> Decoded<Option<u32>> {
    let mut group = None;
    while !extensions.is_empty() {
        let mut cursor = Cursor::new(extensions);
        let header: abi::ExtensionHeader = cursor.record()?;
        let bytes = (header.size as usize).next_multiple_of(abi::RECORD_ALIGNMENT);
        if (header.size as usize) < size_of::<abi::ExtensionHeader>() || bytes > extensions.len() {
            return Err(DecodeProblem::Field { field: "extension size", value: header.size.into() });
        }
        if header.kind == abi::EXTENSION_GROUPS {
            let groups: abi::SupplementaryGroups = cursor.record()?;
            group = if groups.count == 0 { None } else { Some(cursor.record::<u32>()?) };
        }
        extensions = &extensions[bytes..];
    }
    Ok(group)
}

fn names<'a>(opcode: Opcode, node: NodeId, cursor: &mut Cursor<'a>) -> Decoded<Operation<'a>> {
    Ok(match opcode {
        Opcode::Forget => {
            let forget: abi::ForgetIn = cursor.record()?;
            Operation::Forget(Forgets::One(Forget { node, lookups: forget.lookups }))
        }
        Opcode::BatchForget => {
            let batch: abi::BatchForgetIn = cursor.record()?;
            let bytes = batch.count.checked_mul(size_of::<abi::ForgetOne>() as u32).ok_or(DecodeProblem::Truncated)?;
            Operation::Forget(Forgets::Batch(cursor.data(bytes)?))
        }
        Opcode::Symlink => Operation::Symlink(Symlink { parent: node, name: cursor.name()?, target: cursor.text()? }),
        Opcode::Mknod => {
            let mknod: abi::MknodIn = cursor.record()?;
            let abi::MknodIn { mode, rdev, umask, .. } = mknod;
            Operation::Mknod(MakeNode { parent: node, name: cursor.name()?, mode, umask, rdev })
        }
        Opcode::Mkdir => {
            let abi::MkdirIn { mode, umask } = cursor.record()?;
            Operation::Mkdir(MakeDirectory { parent: node, name: cursor.name()?, mode, umask })
        }
        Opcode::Unlink => Operation::Unlink(Remove { parent: node, name: cursor.name()? }),
        Opcode::Rmdir => Operation::Rmdir(Remove { parent: node, name: cursor.name()? }),
        Opcode::Rename => {
            let rename: abi::RenameIn = cursor.record()?;
            self::rename(node, NodeId(rename.new_parent), 0, cursor)?
        }
        Opcode::Rename2 => {
            let rename: abi::Rename2In = cursor.record()?;
            self::rename(node, NodeId(rename.new_parent), rename.flags, cursor)?
        }
        Opcode::Link => {
            let link: abi::LinkIn = cursor.record()?;
            Operation::Link(Link { node: NodeId(link.node), new_parent: node, new_name: cursor.name()? })
        }
        _ => Operation::Lookup(Lookup { parent: node, name: cursor.name()? }),
    })
}

fn rename<'a>(parent: NodeId, new_parent: NodeId, flags: u32, cursor: &mut Cursor<'a>) -> Decoded<Operation<'a>> {
    const KNOWN: u32 = abi::RENAME_NOREPLACE | abi::RENAME_EXCHANGE | abi::RENAME_WHITEOUT;
    if flags & !KNOWN != 0 {
        return Err(DecodeProblem::Field { field: "rename flags", value: flags.into() });
    }
    Ok(Operation::Rename(Rename {
        parent,
        name: cursor.name()?,
        new_parent,
        new_name: cursor.name()?,
        no_replace: flags & abi::RENAME_NOREPLACE != 0,
        exchange: flags & abi::RENAME_EXCHANGE != 0,
        whiteout: flags & abi::RENAME_WHITEOUT != 0,
    }))
}

fn attributes<'a>(opcode: Opcode, node: NodeId, cursor: &mut Cursor<'a>) -> Decoded<Operation<'a>> {
    Ok(match opcode {
        Opcode::Getattr => {
            let getattr: abi::GetattrIn = cursor.record()?;
            Operation::Getattr(GetAttributes { node, handle: handle_if(getattr.flags & abi::GETATTR_HANDLE, getattr.handle) })
        }
        Opcode::Statx => {
            let statx: abi::StatxIn = cursor.record()?;
            let handle = handle_if(statx.getattr_flags & abi::GETATTR_HANDLE, statx.handle);
            Operation::Statx(Statx { node, handle, flags: statx.flags, mask: statx.mask })
        }
        Opcode::Setattr => Operation::Setattr(set_attributes(node, cursor.record()?)?),
        Opcode::Access => {
            let access: abi::AccessIn = cursor.record()?;
            Operation::Access(Access { node, mask: access.mask })
        }
        Opcode::Readlink => Operation::Readlink(ReadLink { node }),
        _ => Operation::Statfs(Statfs { node }),
    })
}

fn set_attributes(node: NodeId, wire: abi::SetattrIn) -> Decoded<SetAttributes> {
    let has = |bit| wire.valid & bit != 0;
    let time = |at, now, seconds, nanos| match (has(at), has(now)) {
        (false, false) => Ok(None),
        (_, true) => Ok(Some(TimeChange::Now)),
        (true, false) => Ok(Some(TimeChange::At(timestamp(seconds, nanos)?))),
    };
    Ok(SetAttributes {
        node,
        handle: handle_if(wire.valid & setattr::HANDLE, wire.handle),
        lock_owner: has(setattr::LOCKOWNER).then_some(LockOwner(wire.lock_owner)),
        mode: has(setattr::MODE).then_some(wire.mode),
        uid: has(setattr::UID).then_some(wire.uid),
        gid: has(setattr::GID).then_some(wire.gid),
        size: has(setattr::SIZE).then_some(wire.size),
        atime: time(setattr::ATIME, setattr::ATIME_NOW, wire.atime, wire.atime_nanos)?,
        mtime: time(setattr::MTIME, setattr::MTIME_NOW, wire.mtime, wire.mtime_nanos)?,
        ctime: if has(setattr::CTIME) { Some(timestamp(wire.ctime, wire.ctime_nanos)?) } else { None },
        kill_suidgid: has(setattr::KILL_SUIDGID),
    })
}

fn timestamp(seconds: i64, nanos: u32) -> Decoded<Timestamp> {
    if nanos >= Timestamp::NANOS_PER_SECOND {
        return Err(DecodeProblem::Field { field: "nanoseconds", value: nanos.into() });
    }
    Ok(Timestamp { seconds, nanos })
}

fn extended_attributes<'a>(opcode: Opcode, node: NodeId, cursor: &mut Cursor<'a>) -> Decoded<Operation<'a>> {
    Ok(match opcode {
        Opcode::Setxattr => {
            let wire: abi::SetxattrIn = cursor.record()?;
            Operation::Setxattr(SetExtendedAttribute {
                node,
                name: cursor.name()?,
                value: cursor.data(wire.size)?,
                create: wire.flags & abi::XATTR_CREATE != 0,
                replace: wire.flags & abi::XATTR_REPLACE != 0,
                kill_sgid: wire.setxattr_flags & abi::SETXATTR_ACL_KILL_SGID != 0,
            })
        }
        Opcode::Getxattr => {
            let wire: abi::GetxattrIn = cursor.record()?;
            Operation::Getxattr(GetExtendedAttribute { node, name: cursor.name()?, size: wire.size })
        }
        Opcode::Listxattr => {
            let wire: abi::GetxattrIn = cursor.record()?;
            Operation::Listxattr(ListExtendedAttributes { node, size: wire.size })
        }
        _ => Operation::Removexattr(RemoveExtendedAttribute { node, name: cursor.name()? }),
    })
}

fn locks<'a>(opcode: Opcode, node: NodeId, cursor: &mut Cursor<'a>) -> Decoded<Operation<'a>> {
    let wire: abi::LkIn = cursor.record()?;
    let lock = Lock::from_wire(wire.lock).ok_or(DecodeProblem::Field { field: "lock", value: wire.lock.kind.into() })?;
    let (handle, owner) = (FileHandle(wire.handle), LockOwner(wire.owner));
    if opcode == Opcode::Getlk {
        return Ok(Operation::Getlk(GetLock { node, handle, owner, lock }));
    }
    let flock = wire.lock_flags & abi::LOCK_FLOCK != 0;
    Ok(Operation::Setlk(SetLock { node, handle, owner, lock, flock, wait: opcode == Opcode::Setlkw }))
}

fn opens<'a>(opcode: Opcode, node: NodeId, cursor: &mut Cursor<'a>) -> Decoded<Operation<'a>> {
    if matches!(opcode, Opcode::Open | Opcode::Opendir) {
        let wire: abi::OpenIn = cursor.record()?;
        let open = Open { node, flags: wire.flags, kill_suidgid: wire.open_flags & abi::OPEN_KILL_SUIDGID != 0 };
        return Ok(if opcode == Opcode::Open { Operation::Open(open) } else { Operation::Opendir(open) });
    }
    let wire: abi::CreateIn = cursor.record()?;
    let name = cursor.name()?;
    let abi::CreateIn { flags, mode, umask, open_flags } = wire;
    if opcode == Opcode::Tmpfile {
        // The kernel's name for it is "/", which says nothing.
        return Ok(Operation::Tmpfile(TemporaryFile { parent: node, flags, mode, umask }));
    }
    let kill_suidgid = open_flags & abi::OPEN_KILL_SUIDGID != 0;
    Ok(Operation::Create(Create { parent: node, name, flags, mode, umask, kill_suidgid }))
}

fn open_files<'a>(opcode: Opcode, node: NodeId, cursor: &mut Cursor<'a>) -> Decoded<Operation<'a>> {
    Ok(match opcode {
        Opcode::Read => Operation::Read(read(node, cursor.record()?)),
        Opcode::Readdir => Operation::Readdir(read_directory(node, cursor.record()?)),
        Opcode::Readdirplus => Operation::Readdirplus(read_directory(node, cursor.record()?)),
        Opcode::Write => Operation::Write(write(node, cursor)?),
        Opcode::Flush => {
            let wire: abi::FlushIn = cursor.record()?;
            Operation::Flush(Flush { node, handle: FileHandle(wire.handle), lock_owner: LockOwner(wire.lock_owner) })
        }
        Opcode::Release => Operation::Release(release(node, cursor.record()?)),
        Opcode::Releasedir => Operation::Releasedir(release(node, cursor.record()?)),
        Opcode::Fsync => Operation::Fsync(fsync(node, cursor.record()?)),
        Opcode::Fsyncdir => Operation::Fsyncdir(fsync(node, cursor.record()?)),
        Opcode::Bmap => {
            let wire: abi::BmapIn = cursor.record()?;
            Operation::Bmap(BlockMap { node, block: wire.block, block_bytes: wire.block_bytes })
        }
        Opcode::Ioctl => Operation::Ioctl(ioctl(node, cursor)?),
        Opcode::Poll => {
            let abi::PollIn { handle, kernel_handle, flags, events } = cursor.record()?;
            Operation::Poll(Poll { node, handle: FileHandle(handle), kernel_handle, flags, events })
        }
        Opcode::Fallocate => {
            let wire: abi::FallocateIn = cursor.record()?;
            let abi::FallocateIn { offset, length, mode, .. } = wire;
            Operation::Fallocate(Fallocate { node, handle: FileHandle(wire.handle), offset, length, mode })
        }
        Opcode::Lseek => {
            let wire: abi::LseekIn = cursor.record()?;
            let data = match wire.whence {
                abi::SEEK_DATA => true,
                abi::SEEK_HOLE => false,
                other => return Err(DecodeProblem::Field { field: "whence", value: other.into() }),
            };
            Operation::Lseek(Seek { node, handle: FileHandle(wire.handle), offset: wire.offset, data })
        }
        Opcode::CopyFileRange | Opcode::CopyFileRange64 => Operation::CopyFileRange(copy_file_range(node, cursor.record()?)),
        Opcode::Syncfs => {
            let _padding: u64 = cursor.record()?;
            Operation::Syncfs(SyncFileSystem { node })
        }
        _ => return Err(DecodeProblem::UnknownOpcode),
    })
}

fn read(node: NodeId, wire: abi::ReadIn) -> Read {
    Read {
        node,
        handle: FileHandle(wire.handle),
        offset: wire.offset,
        size: wire.size,
        flags: wire.flags,
        lock_owner: (wire.read_flags & abi::READ_LOCKOWNER != 0).then_some(LockOwner(wire.lock_owner)),
    }
}

fn read_directory(node: NodeId, wire: abi::ReadIn) -> ReadDirectory {
    ReadDirectory { node, handle: FileHandle(wire.handle), cookie: wire.offset, size: wire.size }
}

fn write<'a>(node: NodeId, cursor: &mut Cursor<'a>) -> Decoded<Write<'a>> {
    let wire: abi::WriteIn = cursor.record()?;
    Ok(Write {
        node,
        handle: FileHandle(wire.handle),
        offset: wire.offset,
        data: cursor.data(wire.size)?,
        flags: wire.flags,
        lock_owner: (wire.write_flags & abi::WRITE_LOCKOWNER != 0).then_some(LockOwner(wire.lock_owner)),
        from_cache: wire.write_flags & abi::WRITE_CACHE != 0,
        kill_suidgid: wire.write_flags & abi::WRITE_KILL_SUIDGID != 0,
    })
}

fn release(node: NodeId, wire: abi::ReleaseIn) -> Release {
    Release {
        node,
        handle: FileHandle(wire.handle),
        flags: wire.flags,
        flush: wire.release_flags & abi::RELEASE_FLUSH != 0,
        flock_owner: (wire.release_flags & abi::RELEASE_FLOCK_UNLOCK != 0).then_some(LockOwner(wire.lock_owner)),
    }
}

fn fsync(node: NodeId, wire: abi::FsyncIn) -> Fsync {
    Fsync { node, handle: FileHandle(wire.handle), data_only: wire.flags & abi::FSYNC_DATA_ONLY != 0 }
}

fn ioctl<'a>(node: NodeId, cursor: &mut Cursor<'a>) -> Decoded<Ioctl<'a>> {
    let wire: abi::IoctlIn = cursor.record()?;
    let abi::IoctlIn { flags, command, argument, in_size, out_size, .. } = wire;
    let (handle, input) = (FileHandle(wire.handle), cursor.data(in_size)?);
    Ok(Ioctl { node, handle, flags, command, argument, input, output_size: out_size })
}

fn copy_file_range(node: NodeId, wire: abi::CopyFileRangeIn) -> CopyFileRange {
    CopyFileRange {
        node,
        handle: FileHandle(wire.handle_in),
        offset: wire.offset_in,
        target: NodeId(wire.node_out),
        target_handle: FileHandle(wire.handle_out),
        target_offset: wire.offset_out,
        length: wire.length,
        flags: wire.flags,
    }
}

fn retrieved<'a>(node: NodeId, number: u64, cursor: &mut Cursor<'a>) -> Decoded<Retrieved<'a>> {
    let wire: abi::NotifyRetrieveIn = cursor.record()?;
    Ok(Retrieved { number, node, offset: wire.offset, data: cursor.data(wire.size)? })
}

fn handle_if(flag: u32, handle: u64) -> Option<FileHandle> {
    (flag != 0).then_some(FileHandle(handle))
}

impl Init {
    /// Both forms: of 16 bytes before 7.36, of 64 since. Longer ones from later kernels are cut.
    pub(crate) fn decode(arguments: &[u8]) -> Decoded<Init> {
        const SHORT: usize = 16;
        let mut long = [0; size_of::<abi::InitIn>()];
        if arguments.len() < SHORT {
            return Err(DecodeProblem::Truncated);
        }
        let known = arguments.len().min(long.len());
        long[..known].copy_from_slice(&arguments[..known]);
        let wire = abi::InitIn::read_from_bytes(&long).map_err(|_| DecodeProblem::Truncated)?;
        let upper = if u64::from(wire.flags) & abi::init::INIT_EXT != 0 { u64::from(wire.flags2) << 32 } else { 0 };
        Ok(Init {
            major: wire.major,
            minor: wire.minor,
            max_readahead: wire.max_readahead,
            flags: u64::from(wire.flags) | upper,
        })
    }
}
