//! This test program as a server: other tests start it, and people do.
//!
//! ```sh
//! FUSE_SERVE=/mnt/m cargo test -p fuse --test mount -- --ignored --exact serve::until_it_is_unmounted --nocapture
//! ```

use std::env::var;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fuse::reply::{Data, Found, Opened};
use fuse::request::{Flush, GetAttributes, Lookup, Open, Read, Release};
use fuse::{
    Attributes, AttributesFor, Caller, End, Entry, FileHandle, FileSystem, Mount, MountOptions, NodeId, Reply, Session, Unmount,
};
use parking_lot::Mutex;

use crate::harness::{PATIENCE, mount_options, options};
use crate::memfs::MemFs;

/// Where a keeper listens.
pub const SOCKET_VARIABLE: &str = "FUSE_KEEPER";

fn point() -> Option<PathBuf> {
    let point = var("FUSE_SERVE").ok().map(PathBuf::from);
    if point.is_none() {
        println!("SKIPPED: FUSE_SERVE names no directory");
    }
    point
}

/// Serves an empty file system on the directory in `FUSE_SERVE`, with `FUSE_THREADS` threads; names and attributes stay with the kernel
/// for `FUSE_VALID_S` seconds.
#[test]
#[ignore = "a server, not a test"]
fn until_it_is_unmounted() {
    let Some(point) = point() else { return };
    let number = |name: &str, or: u64| var(name).map_or(or, |text| text.parse().unwrap());
    let file_system = Arc::new(MemFs::new(Duration::from_secs(number("FUSE_VALID_S", 3600))));
    let mount = Mount::new(&point, &mount_options()).unwrap();
    let session = Session::start(mount, file_system, &options(number("FUSE_THREADS", 4) as usize)).unwrap();
    println!("served: {:?}", session.wait());
}

/// Mounts without root, uses the mount and unmounts it.
#[test]
#[ignore = "part of a_user_mounts_by_fusermount"]
fn as_a_user() {
    let Some(point) = point() else { return };
    let file_system = Arc::new(MemFs::new(Duration::from_secs(3600)));
    let mount = Mount::new(&point, &MountOptions::default()).unwrap();
    let session = Session::start(mount, file_system, &options(2)).unwrap();
    let refused = fs::write(point.join("f"), "");
    assert!(refused.is_err(), "the root belongs to root");
    assert!(fs::read_dir(&point).unwrap().next().is_none());
    session.unmount(Unmount::Clean).unwrap();
    assert_eq!(session.wait_for(PATIENCE), Some(End::Unmounted));
    println!("mounted, used and unmounted");
}

/// Serves a mount whose reads are never answered, until it is killed.
#[test]
#[ignore = "part of the tests of takeover"]
fn never_answers() {
    let Some(point) = point() else { return };
    let mount = Mount::new(&point, &mount_options()).unwrap();
    let session = Session::start(mount, Arc::new(Waiting::default()), &options(2)).unwrap();
    if let Some(keeper) = var(SOCKET_VARIABLE).ok().filter(|path| !path.is_empty()) {
        let socket = UnixStream::connect(Path::new(&keeper)).unwrap();
        session.mount().send(&socket).unwrap();
    }
    println!("serving");
    session.wait();
}

/// Has any file. A read waits for ever, or is answered.
#[derive(Default)]
pub struct Waiting {
    answers: bool,
    resent: AtomicBool,
    kept: Mutex<Vec<Reply<Data>>>,
}

impl Waiting {
    pub fn that_answers() -> Self {
        Waiting { answers: true, ..Waiting::default() }
    }

    pub fn has_seen_a_resent_request(&self) -> bool {
        self.resent.load(Ordering::SeqCst)
    }

    fn attributes(node: NodeId) -> Attributes {
        let mode = if node == NodeId::ROOT { 0o40_755 } else { 0o100_644 };
        Attributes { ino: node.0, size: 4096, mode, nlink: 1, ..Attributes::default() }
    }
}

impl FileSystem for Waiting {
    fn lookup(&self, _caller: &Caller, _request: Lookup<'_>, reply: Reply<Found>) {
        let (node, valid) = (NodeId(2), Duration::ZERO);
        let attributes = Self::attributes(node);
        reply.ok(Found::Entry(Entry { node, generation: 0, attributes, entry_valid: valid, attributes_valid: valid }));
    }

    fn getattr(&self, _caller: &Caller, request: GetAttributes, reply: Reply<AttributesFor>) {
        reply.ok(AttributesFor { attributes: Self::attributes(request.node), valid: Duration::ZERO });
    }

    fn open(&self, _caller: &Caller, _request: Open, reply: Reply<Opened>) {
        reply.ok(Opened { direct_io: true, ..Opened::new(FileHandle(1)) });
    }

    fn read(&self, caller: &Caller, request: Read, reply: Reply<Data>) {
        if caller.resent {
            self.resent.store(true, Ordering::SeqCst);
        }
        if !self.answers {
            self.kept.lock().push(reply);
            println!("a call waits");
        } else if request.offset == 0 {
            reply.parts(&[b"answered by ", b"the second process"]);
        } else {
            reply.parts(&[]);
        }
    }

    fn flush(&self, _caller: &Caller, _request: Flush, reply: Reply<()>) {
        reply.ok(());
    }

    fn release(&self, _caller: &Caller, _request: Release, reply: Reply<()>) {
        reply.ok(());
    }
}
