use proptest::prelude::{any, prop, prop_assert_eq, proptest};
use zerocopy::IntoBytes;

use super::*;
use crate::attributes::Timestamp;
use crate::ids::{FileHandle, LockOwner, NodeId};
use crate::init::Init;
use crate::lock::{Lock, LockKind};

const SESSION: SessionId = SessionId(5);

/// A message as the kernel sends it, on node 7 by 1000:100, thread 42.
fn message(opcode: u32, unique: u64, parts: &[&[u8]], extensions: &[u8]) -> Vec<u8> {
    let body = parts.concat();
    let header = InHeader {
        len: (abi::IN_HEADER_BYTES + body.len() + extensions.len()) as u32,
        opcode,
        unique,
        node: 7,
        uid: 1000,
        gid: 100,
        pid: 42,
        extension_words: (extensions.len() / 8) as u16,
        padding: 0,
    };
    [header.as_bytes(), &body, extensions].concat()
}

fn of(opcode: Opcode, parts: &[&[u8]]) -> Vec<u8> {
    message(opcode.code(), 12, parts, &[])
}

fn problem(bytes: &[u8]) -> DecodeProblem {
    Request::decode(bytes, SESSION).unwrap_err().problem
}

fn name(text: &str) -> Name<'_> {
    Name(text.as_bytes())
}

const NODE: NodeId = NodeId(7);
const HANDLE: FileHandle = FileHandle(0x1122);

/// One message of each opcode, and what it says.
fn examples() -> Vec<(Vec<u8>, Operation<'static>)> {
    let mut examples = examples_of_names();
    examples.extend(examples_of_files());
    examples.extend(examples_of_the_rest());
    examples
}

fn examples_of_names() -> Vec<(Vec<u8>, Operation<'static>)> {
    let set = abi::SetattrIn {
        valid: 0xfff & !abi::setattr::MTIME & !abi::setattr::ATIME_NOW,
        handle: HANDLE.0,
        size: 9,
        lock_owner: 3,
        atime: -5,
        atime_nanos: 6,
        ctime: 8,
        ctime_nanos: 1,
        mode: 0o100_644,
        uid: 1,
        gid: 2,
        ..abi::SetattrIn::default()
    };
    let set_says = SetAttributes {
        node: NODE,
        handle: Some(HANDLE),
        lock_owner: Some(LockOwner(3)),
        mode: Some(0o100_644),
        uid: Some(1),
        gid: Some(2),
        size: Some(9),
        atime: Some(TimeChange::At(Timestamp { seconds: -5, nanos: 6 })),
        mtime: Some(TimeChange::Now),
        ctime: Some(Timestamp { seconds: 8, nanos: 1 }),
        kill_suidgid: true,
    };
    let mknod = abi::MknodIn { mode: 0o10_600, rdev: 3, umask: 0o22, padding: 0 };
    let rename = abi::Rename2In { new_parent: 8, flags: abi::RENAME_EXCHANGE, padding: 0 };
    let renamed = Rename {
        parent: NODE,
        name: name("a"),
        new_parent: NodeId(8),
        new_name: name("b"),
        no_replace: false,
        exchange: true,
        whiteout: false,
    };
    let forgets = [1_u64, 2, 3, 4];
    let statx = abi::StatxIn { getattr_flags: 1, padding: 0, handle: HANDLE.0, flags: 2, mask: 3 };
    vec![
        (of(Opcode::Lookup, &[b"ab\0"]), Operation::Lookup(Lookup { parent: NODE, name: name("ab") })),
        (of(Opcode::Forget, &[&3_u64.to_ne_bytes()]), Operation::Forget(Forgets::One(Forget { node: NODE, lookups: 3 }))),
        (
            of(Opcode::BatchForget, &[abi::BatchForgetIn { count: 2, padding: 0 }.as_bytes(), forgets.as_bytes()]),
            Operation::Forget(Forgets::Batch(Box::leak(Box::new(forgets)).as_bytes())),
        ),
        (
            of(Opcode::Getattr, &[abi::GetattrIn { flags: 1, padding: 0, handle: HANDLE.0 }.as_bytes()]),
            Operation::Getattr(GetAttributes { node: NODE, handle: Some(HANDLE) }),
        ),
        (
            of(Opcode::Statx, &[statx.as_bytes()]),
            Operation::Statx(Statx { node: NODE, handle: Some(HANDLE), flags: 2, mask: 3 }),
        ),
        (of(Opcode::Setattr, &[set.as_bytes()]), Operation::Setattr(set_says)),
        (of(Opcode::Readlink, &[]), Operation::Readlink(ReadLink { node: NODE })),
        (of(Opcode::Symlink, &[b"l\0to\0"]), Operation::Symlink(Symlink { parent: NODE, name: name("l"), target: b"to" })),
        (
            of(Opcode::Mknod, &[mknod.as_bytes(), b"p\0"]),
            Operation::Mknod(MakeNode { parent: NODE, name: name("p"), mode: 0o10_600, umask: 0o22, rdev: 3 }),
        ),
        (
            of(Opcode::Mkdir, &[abi::MkdirIn { mode: 0o755, umask: 0o22 }.as_bytes(), b"d\0"]),
            Operation::Mkdir(MakeDirectory { parent: NODE, name: name("d"), mode: 0o755, umask: 0o22 }),
        ),
        (of(Opcode::Unlink, &[b"f\0"]), Operation::Unlink(Remove { parent: NODE, name: name("f") })),
        (of(Opcode::Rmdir, &[b"f\0"]), Operation::Rmdir(Remove { parent: NODE, name: name("f") })),
        (of(Opcode::Rename2, &[rename.as_bytes(), b"a\0b\0"]), Operation::Rename(renamed)),
        (of(Opcode::Rename, &[&8_u64.to_ne_bytes(), b"a\0b\0"]), Operation::Rename(Rename { exchange: false, ..renamed })),
        (
            of(Opcode::Link, &[&9_u64.to_ne_bytes(), b"n\0"]),
            Operation::Link(Link { node: NodeId(9), new_parent: NODE, new_name: name("n") }),
        ),
        (
            of(Opcode::Access, &[abi::AccessIn { mask: 4, padding: 0 }.as_bytes()]),
            Operation::Access(Access { node: NODE, mask: 4 }),
        ),
        (of(Opcode::Statfs, &[]), Operation::Statfs(Statfs { node: NODE })),
    ]
}

fn examples_of_files() -> Vec<(Vec<u8>, Operation<'static>)> {
    let open = abi::OpenIn { flags: 2, open_flags: 1 };
    let opens = Open { node: NODE, flags: 2, kill_suidgid: true };
    let create = abi::CreateIn { flags: 2, mode: 0o100_640, umask: 0o27, open_flags: 0 };
    let creates = Create { parent: NODE, name: name("n"), flags: 2, mode: 0o100_640, umask: 0o27, kill_suidgid: false };
    let temporary = TemporaryFile { parent: NODE, flags: 2, mode: 0o100_640, umask: 0o27 };
    let read = abi::ReadIn { handle: HANDLE.0, offset: 8, size: 16, read_flags: 2, lock_owner: 4, flags: 5, padding: 0 };
    let reads = Read { node: NODE, handle: HANDLE, offset: 8, size: 16, flags: 5, lock_owner: Some(LockOwner(4)) };
    let lists = ReadDirectory { node: NODE, handle: HANDLE, cookie: 8, size: 16 };
    let write = abi::WriteIn { handle: HANDLE.0, offset: 8, size: 3, write_flags: 5, lock_owner: 4, flags: 6, padding: 0 };
    let writes = Write {
        node: NODE,
        handle: HANDLE,
        offset: 8,
        data: b"xyz",
        flags: 6,
        lock_owner: None,
        from_cache: true,
        kill_suidgid: true,
    };
    let flush = abi::FlushIn { handle: HANDLE.0, unused: 0, padding: 0, lock_owner: 4 };
    let release = abi::ReleaseIn { handle: HANDLE.0, flags: 1, release_flags: 2, lock_owner: 4 };
    let releases = Release { node: NODE, handle: HANDLE, flags: 1, flush: false, flock_owner: Some(LockOwner(4)) };
    let fsync = abi::FsyncIn { handle: HANDLE.0, flags: 1, padding: 0 };
    let fsyncs = Fsync { node: NODE, handle: HANDLE, data_only: true };
    vec![
        (of(Opcode::Open, &[open.as_bytes()]), Operation::Open(opens)),
        (of(Opcode::Opendir, &[open.as_bytes()]), Operation::Opendir(opens)),
        (of(Opcode::Create, &[create.as_bytes(), b"n\0"]), Operation::Create(creates)),
        (of(Opcode::Tmpfile, &[create.as_bytes(), b"/\0"]), Operation::Tmpfile(temporary)),
        (of(Opcode::Read, &[read.as_bytes()]), Operation::Read(reads)),
        (of(Opcode::Readdir, &[read.as_bytes()]), Operation::Readdir(lists)),
        (of(Opcode::Readdirplus, &[read.as_bytes()]), Operation::Readdirplus(lists)),
        (of(Opcode::Write, &[write.as_bytes(), b"xyz"]), Operation::Write(writes)),
        (
            of(Opcode::Flush, &[flush.as_bytes()]),
            Operation::Flush(Flush { node: NODE, handle: HANDLE, lock_owner: LockOwner(4) }),
        ),
        (of(Opcode::Release, &[release.as_bytes()]), Operation::Release(releases)),
        (of(Opcode::Releasedir, &[release.as_bytes()]), Operation::Releasedir(releases)),
        (of(Opcode::Fsync, &[fsync.as_bytes()]), Operation::Fsync(fsyncs)),
        (of(Opcode::Fsyncdir, &[fsync.as_bytes()]), Operation::Fsyncdir(fsyncs)),
    ]
}

fn examples_of_the_rest() -> Vec<(Vec<u8>, Operation<'static>)> {
    let setxattr = abi::SetxattrIn { size: 2, flags: 1, setxattr_flags: 1, padding: 0 };
    let sets =
        SetExtendedAttribute { node: NODE, name: name("user.a"), value: b"v\0", create: true, replace: false, kill_sgid: true };
    let getxattr = abi::GetxattrIn { size: 10, padding: 0 };
    let wire_lock = abi::WireLock { start: 1, end: Lock::TO_THE_END, kind: 1, pid: 4 };
    let lk = abi::LkIn { handle: HANDLE.0, owner: 6, lock: wire_lock, lock_flags: 1, padding: 0 };
    let lock = Lock { start: 1, end: Lock::TO_THE_END, kind: LockKind::Exclusive, pid: 4 };
    let set_lock = SetLock { node: NODE, handle: HANDLE, owner: LockOwner(6), lock, flock: true, wait: false };
    let ioctl = abi::IoctlIn { handle: HANDLE.0, flags: 1, command: 2, argument: 3, in_size: 2, out_size: 8 };
    let ioctls = Ioctl { node: NODE, handle: HANDLE, flags: 1, command: 2, argument: 3, input: b"in", output_size: 8 };
    let poll = abi::PollIn { handle: HANDLE.0, kernel_handle: 1, flags: 2, events: 3 };
    let fallocate = abi::FallocateIn { handle: HANDLE.0, offset: 1, length: 2, mode: 3, padding: 0 };
    let lseek = abi::LseekIn { handle: HANDLE.0, offset: 1, whence: abi::SEEK_HOLE, padding: 0 };
    let copy = abi::CopyFileRangeIn {
        handle_in: HANDLE.0,
        offset_in: 1,
        node_out: 2,
        handle_out: 3,
        offset_out: 4,
        length: 5,
        flags: 0,
    };
    let copies = CopyFileRange {
        node: NODE,
        handle: HANDLE,
        offset: 1,
        target: NodeId(2),
        target_handle: FileHandle(3),
        target_offset: 4,
        length: 5,
        flags: 0,
    };
    let retrieved = abi::NotifyRetrieveIn { offset: 4, size: 2, ..abi::NotifyRetrieveIn::default() };
    let init = abi::InitIn { major: 7, minor: 45, max_readahead: 1, flags: 2, ..abi::InitIn::default() };
    vec![
        (of(Opcode::Setxattr, &[setxattr.as_bytes(), b"user.a\0", b"v\0"]), Operation::Setxattr(sets)),
        (
            of(Opcode::Getxattr, &[getxattr.as_bytes(), b"user.a\0"]),
            Operation::Getxattr(GetExtendedAttribute { node: NODE, name: name("user.a"), size: 10 }),
        ),
        (of(Opcode::Listxattr, &[getxattr.as_bytes()]), Operation::Listxattr(ListExtendedAttributes { node: NODE, size: 10 })),
        (
            of(Opcode::Removexattr, &[b"user.a\0"]),
            Operation::Removexattr(RemoveExtendedAttribute { node: NODE, name: name("user.a") }),
        ),
        (
            of(Opcode::Getlk, &[lk.as_bytes()]),
            Operation::Getlk(GetLock { node: NODE, handle: HANDLE, owner: LockOwner(6), lock }),
        ),
        (of(Opcode::Setlk, &[lk.as_bytes()]), Operation::Setlk(set_lock)),
        (of(Opcode::Setlkw, &[lk.as_bytes()]), Operation::Setlk(SetLock { wait: true, ..set_lock })),
        (
            of(Opcode::Bmap, &[abi::BmapIn { block: 1, block_bytes: 512, padding: 0 }.as_bytes()]),
            Operation::Bmap(BlockMap { node: NODE, block: 1, block_bytes: 512 }),
        ),
        (of(Opcode::Ioctl, &[ioctl.as_bytes(), b"in"]), Operation::Ioctl(ioctls)),
        (
            of(Opcode::Poll, &[poll.as_bytes()]),
            Operation::Poll(Poll { node: NODE, handle: HANDLE, kernel_handle: 1, flags: 2, events: 3 }),
        ),
        (
            of(Opcode::Fallocate, &[fallocate.as_bytes()]),
            Operation::Fallocate(Fallocate { node: NODE, handle: HANDLE, offset: 1, length: 2, mode: 3 }),
        ),
        (of(Opcode::Lseek, &[lseek.as_bytes()]), Operation::Lseek(Seek { node: NODE, handle: HANDLE, offset: 1, data: false })),
        (of(Opcode::CopyFileRange, &[copy.as_bytes()]), Operation::CopyFileRange(copies)),
        (of(Opcode::CopyFileRange64, &[copy.as_bytes()]), Operation::CopyFileRange(copies)),
        (of(Opcode::Syncfs, &[&[0; 8]]), Operation::Syncfs(SyncFileSystem { node: NODE })),
        (
            of(Opcode::NotifyReply, &[retrieved.as_bytes(), b"pq"]),
            Operation::NotifyReply(Retrieved { number: 12, node: NODE, offset: 4, data: b"pq" }),
        ),
        (of(Opcode::Interrupt, &[&10_u64.to_ne_bytes()]), Operation::Interrupt(RequestId(10))),
        (of(Opcode::Init, &[init.as_bytes()]), Operation::Init(Init { major: 7, minor: 45, max_readahead: 1, flags: 2 })),
        (of(Opcode::Destroy, &[]), Operation::Destroy),
    ]
}

#[test]
fn every_opcode_is_decoded() {
    let mut seen = Vec::new();
    for (bytes, says) in examples() {
        let request = Request::decode(&bytes, SESSION).unwrap_or_else(|error| panic!("{says:?}: {error}"));
        assert_eq!(request.operation, says);
        assert_eq!((request.caller.uid, request.caller.gid, request.caller.pid), (1000, 100, 42));
        assert_eq!((request.caller.id, request.caller.resent, request.caller.session), (RequestId(12), false, SESSION));
        seen.push(request.opcode);
    }
    seen.sort();
    assert_eq!(seen, Opcode::ALL, "an example of each");
}

#[test]
fn golden_bytes_of_a_lookup_and_a_write() {
    let lookup = [
        43, 0, 0, 0, 1, 0, 0, 0, // length, LOOKUP
        12, 0, 0, 0, 0, 0, 0, 0x80, // unique, sent again
        7, 0, 0, 0, 0, 0, 0, 0, // node
        0xe8, 3, 0, 0, 100, 0, 0, 0, 42, 0, 0, 0, 0, 0, 0, 0, // uid, gid, pid, no extensions
        b'a', b'b', 0,
    ];
    let request = Request::decode(&lookup, SESSION).unwrap();
    assert_eq!(request.operation, Operation::Lookup(Lookup { parent: NODE, name: name("ab") }));
    assert_eq!((request.caller.id, request.caller.resent), (RequestId(12), true));
    assert_eq!(request.unique, 12 | 1 << 63, "the reply carries the mark");
    let write = [
        83, 0, 0, 0, 16, 0, 0, 0, 14, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, // length 83, WRITE, unique 14, node 7
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // nobody: the kernel itself
        0x22, 0x11, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, // handle, offset 4096
        3, 0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, // size 3, with the lock's owner 9
        1, 0, 0, 0, 0, 0, 0, 0, // O_WRONLY
        1, 2, 3,
    ];
    let Operation::Write(write) = Request::decode(&write, SESSION).unwrap().operation else { panic!("no write") };
    assert_eq!((write.handle, write.offset, write.data), (HANDLE, 4096, &[1, 2, 3][..]));
    assert_eq!((write.lock_owner, write.flags, write.from_cache), (Some(LockOwner(9)), 1, false));
}

#[test]
fn a_batch_of_forgets_is_walked() {
    let (bytes, _) = examples_of_names().swap_remove(2);
    let Operation::Forget(forgets) = Request::decode(&bytes, SESSION).unwrap().operation else { panic!("no forgets") };
    let expected = [Forget { node: NodeId(1), lookups: 2 }, Forget { node: NodeId(3), lookups: 4 }];
    assert_eq!(forgets.iter().collect::<Vec<_>>(), expected);
    let huge = of(Opcode::BatchForget, &[abi::BatchForgetIn { count: u32::MAX, padding: 0 }.as_bytes(), &[0; 16]]);
    assert_eq!(problem(&huge), DecodeProblem::Truncated);
}

#[test]
fn a_supplementary_group_is_found_among_extensions() {
    let extension = |kind: u32, words: &[u32]| {
        let size = 8 + words.len() as u32 * 4;
        let mut bytes = [&[size, kind], words].concat().as_bytes().to_vec();
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    };
    let decode = |extensions: &[u8]| {
        let bytes = message(Opcode::Unlink.code(), 2, &[b"f\0"], extensions);
        Request::decode(&bytes, SESSION).map(|request| request.caller.supplementary_group).map_err(|error| error.problem)
    };
    assert_eq!(decode(&[]), Ok(None));
    assert_eq!(decode(&extension(abi::EXTENSION_GROUPS, &[1, 77])), Ok(Some(77)));
    assert_eq!(decode(&extension(abi::EXTENSION_GROUPS, &[0])), Ok(None));
    let both = [extension(40, &[1, 2, 3]), extension(abi::EXTENSION_GROUPS, &[1, 78])].concat();
    assert_eq!(decode(&both), Ok(Some(78)), "others are passed over");
    let endless = [0_u32, abi::EXTENSION_GROUPS];
    assert!(matches!(decode(endless.as_bytes()), Err(DecodeProblem::Field { field: "extension size", .. })));
    let long = [99_u32, abi::EXTENSION_GROUPS];
    assert!(matches!(decode(long.as_bytes()), Err(DecodeProblem::Field { field: "extension size", .. })));
}

#[test]
fn what_does_not_add_up_is_an_error() {
    assert_eq!(problem(&[]), DecodeProblem::Truncated);
    assert_eq!(problem(&message(99, 2, &[], &[])), DecodeProblem::UnknownOpcode);
    assert_eq!(problem(&message(48, 2, &[], &[])), DecodeProblem::UnknownOpcode, "DAX is never negotiated");
    let mut short = of(Opcode::Lookup, &[b"a\0"]);
    short.push(0);
    assert_eq!(problem(&short), DecodeProblem::Length { said: 42, read: 43 });
    assert_eq!(problem(&of(Opcode::Lookup, &[b"ab"])), DecodeProblem::Name);
    assert_eq!(problem(&of(Opcode::Lookup, &[b"\0"])), DecodeProblem::Name);
    assert_eq!(problem(&of(Opcode::Lookup, &[b"a\0b\0"])), DecodeProblem::Trailing { bytes: 2 });
    let mut extensions = message(Opcode::Statfs.code(), 2, &[], &[]);
    extensions[36] = 1;
    assert_eq!(problem(&extensions), DecodeProblem::Truncated, "extensions that are not there");
    let rename = abi::Rename2In { new_parent: 1, flags: 8, padding: 0 };
    let refused = problem(&of(Opcode::Rename2, &[rename.as_bytes(), b"a\0b\0"]));
    assert_eq!(refused, DecodeProblem::Field { field: "rename flags", value: 8 });
    let late = abi::SetattrIn { valid: abi::setattr::ATIME, atime_nanos: 1_000_000_000, ..abi::SetattrIn::default() };
    let refused = problem(&of(Opcode::Setattr, &[late.as_bytes()]));
    assert_eq!(refused, DecodeProblem::Field { field: "nanoseconds", value: 1_000_000_000 });
    let backwards = abi::WireLock { start: 2, end: 1, kind: 0, pid: 0 };
    let lock = abi::LkIn { lock: backwards, ..abi::LkIn::default() };
    assert!(matches!(problem(&of(Opcode::Setlk, &[lock.as_bytes()])), DecodeProblem::Field { field: "lock", .. }));
}

#[test]
fn an_error_names_the_request_that_waits() {
    let error = Request::decode(&message(99, 1234, &[], &[]), SESSION).unwrap_err();
    assert_eq!((error.unique, error.opcode), (1234, 99));
}

/// Opcodes whose last argument is what follows: INIT, which may grow, and names that a cut leaves whole do not exist.
#[test]
fn a_message_that_is_cut_anywhere_is_an_error() {
    for (bytes, says) in examples() {
        for end in abi::IN_HEADER_BYTES..bytes.len() {
            let mut cut = bytes[..end].to_vec();
            cut[..4].copy_from_slice(&(end as u32).to_ne_bytes());
            let decoded = Request::decode(&cut, SESSION);
            let grows = matches!(says, Operation::Init(_)) && end >= abi::IN_HEADER_BYTES + 16;
            assert_eq!(decoded.is_ok(), grows, "{says:?} cut at {end}: {decoded:?}");
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(
        opcode in 0_u32..60, extension_words in prop::sample::select(vec![0_u16, 1, 2, 600]),
        body in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut bytes = message(opcode, 2, &[&body], &[]);
        bytes[36..38].copy_from_slice(&extension_words.to_ne_bytes());
        match Request::decode(&bytes, SESSION) {
            Ok(request) => prop_assert_eq!(request.opcode.code(), opcode),
            Err(error) => prop_assert_eq!(error.unique, 2),
        }
    }

    #[test]
    fn a_write_is_taken_apart_as_it_was_put_together(
        handle in any::<u64>(), offset in any::<u64>(), flags in any::<u32>(), write_flags in 0_u32..8,
        data in prop::collection::vec(any::<u8>(), 0..9000),
    ) {
        let wire =
            abi::WriteIn { handle, offset, size: data.len() as u32, write_flags, lock_owner: 4, flags, padding: 0 };
        let bytes = of(Opcode::Write, &[wire.as_bytes(), &data]);
        let Operation::Write(write) = Request::decode(&bytes, SESSION).unwrap().operation else { panic!("no write") };
        prop_assert_eq!((write.handle, write.offset, write.flags), (FileHandle(handle), offset, flags));
        prop_assert_eq!(write.data, &data);
        prop_assert_eq!(write.from_cache, write_flags & 1 != 0);
        prop_assert_eq!(write.lock_owner.is_some(), write_flags & 2 != 0);
        prop_assert_eq!(write.kill_suidgid, write_flags & 4 != 0);
    }

    #[test]
    fn names_are_taken_apart_as_they_were_put_together(
        old in prop::collection::vec(1_u8.., 1..300), new in prop::collection::vec(1_u8.., 1..300), flags in 0_u32..8,
    ) {
        let wire = abi::Rename2In { new_parent: 3, flags, padding: 0 };
        let bytes = of(Opcode::Rename2, &[wire.as_bytes(), &old, &[0], &new, &[0]]);
        let Operation::Rename(rename) = Request::decode(&bytes, SESSION).unwrap().operation else { panic!("no rename") };
        prop_assert_eq!(rename.name.as_bytes(), &old);
        prop_assert_eq!(rename.new_name.as_bytes(), &new);
        let decoded = u32::from(rename.no_replace) | u32::from(rename.exchange) << 1 | u32::from(rename.whiteout) << 2;
        prop_assert_eq!(decoded, flags);
    }
}
