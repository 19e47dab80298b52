//! What a file system tells the kernel.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use fuse::reply::{Data, Found, Opened};
use fuse::request::{GetAttributes, Lookup, Open, Read, Release, Retrieved};
use fuse::{Attributes, AttributesFor, Caller, Entry, Errno, FileHandle, FileSystem, NodeId, Notification, Reply};
use parking_lot::Mutex;

use crate::harness::{Mounted, PATIENCE, skipped};

const FOREVER: Duration = Duration::from_secs(1 << 30);
const NODE: NodeId = NodeId(2);

/// One file `f`, whose content changes behind the kernel's back.
struct Changing {
    content: Mutex<Vec<u8>>,
    retrieved: SyncSender<(u64, Vec<u8>)>,
}

impl Changing {
    fn attributes(&self, node: NodeId) -> Attributes {
        let root = node == NodeId::ROOT;
        let size = if root { 0 } else { self.content.lock().len() as u64 };
        let mode = if root { 0o40_755 } else { 0o100_644 };
        Attributes { ino: node.0, size, mode, nlink: 1, ..Attributes::default() }
    }
}

impl FileSystem for Changing {
    fn lookup(&self, _caller: &Caller, request: Lookup<'_>, reply: Reply<Found>) {
        if request.name.as_bytes() != b"f" || self.content.lock().is_empty() {
            reply.ok(Found::Absent { valid: FOREVER });
            return;
        }
        let attributes = self.attributes(NODE);
        let entry = Entry { node: NODE, generation: 0, attributes, entry_valid: FOREVER, attributes_valid: FOREVER };
        reply.ok(Found::Entry(entry));
    }

    fn getattr(&self, _caller: &Caller, request: GetAttributes, reply: Reply<AttributesFor>) {
        reply.ok(AttributesFor { attributes: self.attributes(request.node), valid: FOREVER });
    }

    fn open(&self, _caller: &Caller, _request: Open, reply: Reply<Opened>) {
        reply.ok(Opened { keep_cache: true, ..Opened::new(FileHandle(1)) });
    }

    fn read(&self, _caller: &Caller, request: Read, reply: Reply<Data>) {
        let content = self.content.lock();
        let from = content.len().min(request.offset as usize);
        let to = content.len().min(from + request.size as usize);
        reply.parts(&[&content[from..to]]);
    }

    fn release(&self, _caller: &Caller, _request: Release, reply: Reply<()>) {
        reply.ok(());
    }

    fn retrieved(&self, retrieved: Retrieved<'_>) {
        self.retrieved.send((retrieved.number, retrieved.data.to_vec())).unwrap();
    }
}

#[test]
fn the_kernel_keeps_what_it_knows_until_it_is_told() {
    if skipped("the_kernel_keeps_what_it_knows_until_it_is_told") {
        return;
    }
    let (sender, retrieved) = sync_channel(1);
    let file_system = Arc::new(Changing { content: Mutex::new(b"before".to_vec()), retrieved: sender });
    let mount = Mounted::new(Arc::clone(&file_system));
    let notifier = mount.session().notifier();
    let file = mount.path("f");
    assert_eq!(fs::read(&file).unwrap(), b"before");
    *file_system.content.lock() = b"after!".to_vec();
    assert_eq!(fs::read(&file).unwrap(), b"before", "from the cache");
    notifier.send(&Notification::InvalidateInode { node: NODE, offset: 0, length: 0 }).unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"after!");
    assert_eq!(fs::metadata(&file).unwrap().size(), 6);
    notifier.send(&Notification::Store { node: NODE, offset: 0, data: b"AFT" }).unwrap();
    let open = File::open(&file).unwrap();
    let mut read = [0; 6];
    open.read_exact_at(&mut read, 0).unwrap();
    assert_eq!(&read, b"AFTer!");
    notifier.send(&Notification::Retrieve { number: 8, node: NODE, offset: 2, size: 4 }).unwrap();
    assert_eq!(retrieved.recv_timeout(PATIENCE), Ok((8, b"Ter!".to_vec())));
    assert_eq!(notifier.send(&Notification::InvalidateInode { node: NodeId(99), offset: 0, length: 0 }), Err(Errno::NOENT));
}

#[test]
fn names_are_looked_up_anew_when_the_kernel_is_told() {
    if skipped("names_are_looked_up_anew_when_the_kernel_is_told") {
        return;
    }
    let (sender, _retrieved) = sync_channel(1);
    let file_system = Arc::new(Changing { content: Mutex::new(Vec::new()), retrieved: sender });
    let mount = Mounted::new(Arc::clone(&file_system));
    let notifier = mount.session().notifier();
    assert!(!mount.path("f").exists());
    *file_system.content.lock() = b"new".to_vec();
    assert!(!mount.path("f").exists(), "the kernel was told that it is absent");
    notifier.send(&Notification::InvalidateEntry { parent: NodeId::ROOT, name: b"f", expire_only: false }).unwrap();
    assert_eq!(fs::read(mount.path("f")).unwrap(), b"new");
    file_system.content.lock().clear();
    notifier.send(&Notification::Delete { parent: NodeId::ROOT, child: NODE, name: b"f" }).unwrap();
    assert!(!mount.path("f").exists());
}
