//! A volume in memory, mounted in a folder of its own that is gone when the test is over, however it ends.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

use env::Env;
use filesystem::client::{Client, Opening};
use filesystem::data::Extents;
use filesystem::data::memory::MemoryPartition;
use filesystem::meta::local::LocalPartition;
use filesystem::meta::{Command, Envelope, Found, FreedPiece, MetaPartition, MetaSession, Query, Time};
use mount::{ServeOptions, ServedMount, Unmount};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// How long anything that should end is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// Room for the contents of a volume.
pub const CAPACITY_BYTES: u64 = 256 << 20;

/// Says why nothing can be mounted here, for a test to return.
pub fn skipped(test: &str) -> bool {
    let reason = if !rustix::process::geteuid().is_root() {
        "it takes root"
    } else if !Path::new("/dev/fuse").exists() {
        "it takes /dev/fuse"
    } else {
        return false;
    };
    println!("SKIPPED {test}: {reason}");
    true
}

/// Says that a program is not installed, for a test to return.
pub fn lacks(test: &str, program: &str) -> bool {
    let found =
        std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).exists()));
    if !found {
        println!("SKIPPED {test}: it takes the program {program}");
    }
    !found
}

/// Waits until something holds; it must within [`PATIENCE`].
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    const STEP: Duration = Duration::from_millis(5);
    for _step in 0..PATIENCE.as_millis() / STEP.as_millis() {
        if holds() {
            return;
        }
        std::thread::sleep(STEP);
    }
    panic!("{what} within {PATIENCE:?}");
}

/// The partitions of one volume.
#[derive(Clone)]
struct Partitions {
    meta: Arc<LocalPartition>,
    data: Arc<MemoryPartition>,
}

impl Partitions {
    fn new() -> Partitions {
        Partitions { meta: Arc::default(), data: Arc::new(MemoryPartition::new(CAPACITY_BYTES)) }
    }

    /// Gives what the tree has freed back to the data partition, as a node does.
    async fn sweep(self) {
        let env = Env::real();
        loop {
            let Ok(Ok(Found::Freed(freed))) = self.meta.query(Query::Freed { partition: 0, after: 0, most: 1000 }).await else {
                panic!("no answer")
            };
            for piece in &freed {
                match piece.what {
                    FreedPiece::Extent(extent) => self.data.remove(extent).await.unwrap(),
                    FreedPiece::Range { extent, offset, len } => self.data.punch(extent, offset, len).await.unwrap(),
                }
            }
            if let Some(last) = freed.last() {
                let (session, now) = (MetaSession::LEADER, Time::default());
                let command = Command::ConfirmFreed { partition: 0, up_to: last.number };
                let envelope = Envelope { session, sequence: 0, answered_below: 0, now, locks_lost: 0, command };
                self.meta.command(envelope).await.unwrap().unwrap();
            }
            env.sleep(Duration::from_millis(2)).await;
        }
    }
}

impl Partitions {
    /// Removes extents that no file has, as a node does with those that nothing grows in.
    async fn remove_unreferenced(&self) {
        let query = Query::Unreferenced { extents: self.data.extents() };
        let Ok(Ok(Found::Extents(unreferenced))) = self.meta.query(query).await else { panic!("no answer") };
        for extent in unreferenced {
            self.data.remove(extent).await.unwrap();
        }
    }
}

pub struct Mounted {
    folder: TempDir,
    partitions: Partitions,
    served: ServedMount,
    runtime: Runtime,
    is_exclusive: bool,
}

impl Mounted {
    /// A mount of a fresh volume.
    pub fn new() -> Self {
        Mounted::of(Partitions::new(), false)
    }

    /// The same, exclusive.
    pub fn exclusive() -> Self {
        Mounted::of(Partitions::new(), true)
    }

    fn of(partitions: Partitions, is_exclusive: bool) -> Self {
        let folder = TempDir::new().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.spawn(partitions.clone().sweep());
        let (meta, data) = (Arc::clone(&partitions.meta), Arc::clone(&partitions.data));
        let connected = Client::connect_as(meta, data, Env::real(), Opening { record: None, is_exclusive });
        let client = runtime.block_on(connected).unwrap();
        let options = ServeOptions { allow_other: true, nosuid: false, nodev: false, ..ServeOptions::default() };
        let served = mount::serve(client, folder.path(), &options, runtime.handle().clone(), None).unwrap();
        Mounted { folder, partitions, served, runtime, is_exclusive }
    }

    /// Unmounts, and mounts the same volume anew.
    pub fn again(self) -> Self {
        let (partitions, is_exclusive) = (self.partitions.clone(), self.is_exclusive);
        self.served.unmount(Unmount::Clean).unwrap();
        assert_eq!(self.served.wait_for(PATIENCE), Some(mount::End::Unmounted));
        drop(self);
        Mounted::of(partitions, is_exclusive)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn data(&self) -> &MemoryPartition {
        &self.partitions.data
    }

    /// All content is given back, once what frees it has run, and extents without a key were looked for.
    pub fn eventually_empty(&self) {
        eventually("all extents are gone", || {
            self.runtime.block_on(self.partitions.remove_unreferenced());
            self.data().extents().is_empty()
        });
    }

    pub fn eventually_room(&self, bytes: u64) {
        eventually("there is room again", || self.data().room().free_bytes >= bytes);
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A test that unmounted itself has nothing left here.
        if self.served.wait_for(Duration::ZERO).is_none()
            && let Err(error) = self.served.unmount(Unmount::Abort)
        {
            println!("{error}");
        }
    }
}

/// Opens a file for reading and writing; it is made if it is not there.
pub fn open(mount: &Mounted, name: &str) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(mount.path(name)).unwrap()
}

/// Bytes that differ from block to block and from seed to seed.
pub fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    (0..bytes as u64).map(|index| ((index / 7 + seed * 31) % 251) as u8).collect()
}

/// Runs a program and returns what it printed; it must succeed.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = std::process::Command::new(program).args(arguments).output().unwrap();
    assert!(status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}
