//! The records, in the kernel's layout.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

macro_rules! record {
    ($(#[$doc:meta])* $name:ident, $bytes:literal, { $($field:ident: $kind:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        pub struct $name { $(pub $field: $kind),* }
        const _: () = assert!(size_of::<$name>() == $bytes);
    };
}

record! {
    /// `struct fuse_in_header`: what every request begins with.
    InHeader, 40, { len: u32, opcode: u32, unique: u64, node: u64, uid: u32, gid: u32, pid: u32, extension_words: u16, padding: u16 }
}

record! {
    /// `struct fuse_out_header`: what every reply and notification begins with; `error` is 0 or a negated errno, in a notification its code.
    OutHeader, 16, { len: u32, error: i32, unique: u64 }
}

record! {
    /// `struct fuse_attr`.
    WireAttr, 88, { ino: u64, size: u64, blocks: u64, atime: i64, mtime: i64, ctime: i64, atime_nanos: u32, mtime_nanos: u32, ctime_nanos: u32, mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32, block_bytes: u32, flags: u32 }
}

record! {
    /// `struct fuse_entry_out`.
    EntryOut, 128, { node: u64, generation: u64, entry_seconds: u64, attr_seconds: u64, entry_nanos: u32, attr_nanos: u32, attr: WireAttr }
}

record! {
    /// `struct fuse_attr_out`.
    AttrOut, 104, { attr_seconds: u64, attr_nanos: u32, padding: u32, attr: WireAttr }
}

record! {
    /// `struct fuse_sx_time`.
    StatxTime, 16, { seconds: i64, nanos: u32, padding: i32 }
}

record! {
    /// `struct fuse_statx`.
    WireStatx, 256, { mask: u32, block_bytes: u32, attributes: u64, nlink: u32, uid: u32, gid: u32, mode: u16, spare: u16, ino: u64, size: u64, blocks: u64, attributes_mask: u64, atime: StatxTime, btime: StatxTime, ctime: StatxTime, mtime: StatxTime, rdev_major: u32, rdev_minor: u32, dev_major: u32, dev_minor: u32, spare_words: [u64; 14] }
}

record! {
    /// `struct fuse_statx_in`.
    StatxIn, 24, { getattr_flags: u32, padding: u32, handle: u64, flags: u32, mask: u32 }
}

record! {
    /// `struct fuse_statx_out`.
    StatxOut, 288, { attr_seconds: u64, attr_nanos: u32, flags: u32, spare: [u64; 2], stat: WireStatx }
}

record! {
    /// `struct fuse_statfs_out`.
    StatfsOut, 80, { blocks: u64, blocks_free: u64, blocks_available: u64, files: u64, files_free: u64, block_bytes: u32, name_bytes_max: u32, fragment_bytes: u32, padding: u32, spare: [u32; 6] }
}

record! {
    /// `struct fuse_file_lock`; `end` is the last byte, inclusive.
    WireLock, 24, { start: u64, end: u64, kind: u32, pid: u32 }
}

record! {
    /// `struct fuse_forget_in`.
    ForgetIn, 8, { lookups: u64 }
}

record! {
    /// `struct fuse_forget_one`.
    ForgetOne, 16, { node: u64, lookups: u64 }
}

record! {
    /// `struct fuse_batch_forget_in`; `count` records follow.
    BatchForgetIn, 8, { count: u32, padding: u32 }
}

record! {
    /// `struct fuse_getattr_in`.
    GetattrIn, 16, { flags: u32, padding: u32, handle: u64 }
}

record! {
    /// `struct fuse_setattr_in`.
    SetattrIn, 88, { valid: u32, padding: u32, handle: u64, size: u64, lock_owner: u64, atime: i64, mtime: i64, ctime: i64, atime_nanos: u32, mtime_nanos: u32, ctime_nanos: u32, mode: u32, unused_4: u32, uid: u32, gid: u32, unused_5: u32 }
}

record! {
    /// `struct fuse_mknod_in`.
    MknodIn, 16, { mode: u32, rdev: u32, umask: u32, padding: u32 }
}

record! {
    /// `struct fuse_mkdir_in`.
    MkdirIn, 8, { mode: u32, umask: u32 }
}

record! {
    /// `struct fuse_rename_in`.
    RenameIn, 8, { new_parent: u64 }
}

record! {
    /// `struct fuse_rename2_in`.
    Rename2In, 16, { new_parent: u64, flags: u32, padding: u32 }
}

record! {
    /// `struct fuse_link_in`.
    LinkIn, 8, { node: u64 }
}

record! {
    /// `struct fuse_open_in`.
    OpenIn, 8, { flags: u32, open_flags: u32 }
}

record! {
    /// `struct fuse_create_in`, of CREATE and TMPFILE.
    CreateIn, 16, { flags: u32, mode: u32, umask: u32, open_flags: u32 }
}

record! {
    /// `struct fuse_open_out`.
    OpenOut, 16, { handle: u64, open_flags: u32, backing_id: i32 }
}

record! {
    /// `struct fuse_release_in`.
    ReleaseIn, 24, { handle: u64, flags: u32, release_flags: u32, lock_owner: u64 }
}

record! {
    /// `struct fuse_flush_in`.
    FlushIn, 24, { handle: u64, unused: u32, padding: u32, lock_owner: u64 }
}

record! {
    /// `struct fuse_read_in`, of READ, READDIR and READDIRPLUS.
    ReadIn, 40, { handle: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32 }
}

record! {
    /// `struct fuse_write_in`; the data follow.
    WriteIn, 40, { handle: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32 }
}

record! {
    /// `struct fuse_write_out`.
    WriteOut, 8, { size: u32, padding: u32 }
}

record! {
    /// `struct fuse_fsync_in`.
    FsyncIn, 16, { handle: u64, flags: u32, padding: u32 }
}

record! {
    /// `struct fuse_setxattr_in` in its long form; name and value follow.
    SetxattrIn, 16, { size: u32, flags: u32, setxattr_flags: u32, padding: u32 }
}

record! {
    /// `struct fuse_getxattr_in`, of GETXATTR and LISTXATTR.
    GetxattrIn, 8, { size: u32, padding: u32 }
}

record! {
    /// `struct fuse_getxattr_out`.
    GetxattrOut, 8, { size: u32, padding: u32 }
}

record! {
    /// `struct fuse_lk_in`.
    LkIn, 48, { handle: u64, owner: u64, lock: WireLock, lock_flags: u32, padding: u32 }
}

record! {
    /// `struct fuse_lk_out`.
    LkOut, 24, { lock: WireLock }
}

record! {
    /// `struct fuse_access_in`.
    AccessIn, 8, { mask: u32, padding: u32 }
}

record! {
    /// `struct fuse_init_in` in its long form; kernels before 7.36 send the first 16 bytes.
    InitIn, 64, { major: u32, minor: u32, max_readahead: u32, flags: u32, flags2: u32, unused: [u32; 11] }
}

record! {
    /// `struct fuse_init_out`.
    InitOut, 64, { major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16, congestion_threshold: u16, max_write: u32, time_granularity: u32, max_pages: u16, map_alignment: u16, flags2: u32, max_stack_depth: u32, request_timeout: u16, unused: [u16; 11] }
}

record! {
    /// `struct fuse_interrupt_in`.
    InterruptIn, 8, { unique: u64 }
}

record! {
    /// `struct fuse_bmap_in`.
    BmapIn, 16, { block: u64, block_bytes: u32, padding: u32 }
}

record! {
    /// `struct fuse_bmap_out`.
    BmapOut, 8, { block: u64 }
}

record! {
    /// `struct fuse_ioctl_in`; the input data follow.
    IoctlIn, 32, { handle: u64, flags: u32, command: u32, argument: u64, in_size: u32, out_size: u32 }
}

record! {
    /// `struct fuse_ioctl_out`; the output data follow.
    IoctlOut, 16, { result: i32, flags: u32, in_iovs: u32, out_iovs: u32 }
}

record! {
    /// `struct fuse_poll_in`.
    PollIn, 24, { handle: u64, kernel_handle: u64, flags: u32, events: u32 }
}

record! {
    /// `struct fuse_poll_out`.
    PollOut, 8, { revents: u32, padding: u32 }
}

record! {
    /// `struct fuse_fallocate_in`.
    FallocateIn, 32, { handle: u64, offset: u64, length: u64, mode: u32, padding: u32 }
}

record! {
    /// `struct fuse_lseek_in`.
    LseekIn, 24, { handle: u64, offset: u64, whence: u32, padding: u32 }
}

record! {
    /// `struct fuse_lseek_out`.
    LseekOut, 8, { offset: u64 }
}

record! {
    /// `struct fuse_copy_file_range_in`.
    CopyFileRangeIn, 56, { handle_in: u64, offset_in: u64, node_out: u64, handle_out: u64, offset_out: u64, length: u64, flags: u64 }
}

record! {
    /// `struct fuse_copy_file_range_out`, the reply of the 64-bit form.
    CopyFileRangeOut, 8, { bytes_copied: u64 }
}

record! {
    /// `struct fuse_dirent`; the name follows, and padding up to a multiple of 8.
    Dirent, 24, { ino: u64, offset: u64, name_bytes: u32, kind: u32 }
}

record! {
    /// `struct fuse_ext_header`; `size` counts this header.
    ExtensionHeader, 8, { size: u32, kind: u32 }
}

record! {
    /// `struct fuse_supp_groups`; the groups follow.
    SupplementaryGroups, 4, { count: u32 }
}

record! {
    /// `struct fuse_notify_inval_inode_out`.
    NotifyInvalInodeOut, 24, { node: u64, offset: i64, length: i64 }
}

record! {
    /// `struct fuse_notify_inval_entry_out`; the name follows, with its NUL.
    NotifyInvalEntryOut, 16, { parent: u64, name_bytes: u32, flags: u32 }
}

record! {
    /// `struct fuse_notify_delete_out`; the name follows, with its NUL.
    NotifyDeleteOut, 24, { parent: u64, child: u64, name_bytes: u32, padding: u32 }
}

record! {
    /// `struct fuse_notify_store_out`; the data follow.
    NotifyStoreOut, 24, { node: u64, offset: u64, size: u32, padding: u32 }
}

record! {
    /// `struct fuse_notify_retrieve_out`.
    NotifyRetrieveOut, 32, { notify_unique: u64, node: u64, offset: u64, size: u32, padding: u32 }
}

record! {
    /// `struct fuse_notify_retrieve_in`; the data follow.
    NotifyRetrieveIn, 40, { unused_1: u64, offset: u64, size: u32, unused_2: u32, unused_3: u64, unused_4: u64 }
}
