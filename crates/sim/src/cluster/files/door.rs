//! The mounts of a simulated node. Where the program serves FUSE and has a keeper for its mounts, here clients take what is mounted, and the host keeps it.
//!
//! A mount outlives a process that is killed: the next process goes on with its session, and calls that were not answered are made again. It goes with the power.

use filesystem::client::{Client, FileHandle, OpenFlags};
use filesystem::ids::Ino;
use filesystem::meta::MetaSession;
use filesystem::protocol::{MountOptions, UnmountHow};
use filesystem::{LeftMount, MountDoor, Mounted};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where a volume is mounted on each node: each has its own place.
pub fn point_of(volume: &str) -> PathBuf {
    PathBuf::from("/").join(volume)
}

/// A mount as those see it that use it.
pub struct Mount {
    pub client: Arc<Client>,
    /// The processes that go on with one session have one lineage.
    pub lineage: u64,
    /// What its kernel has open, until a process follows that does not know it.
    opened: Mutex<BTreeMap<Ino, FileHandle>>,
}

impl Mount {
    /// Has a file open.
    pub async fn open(&self, ino: Ino) -> Result<(), filesystem::client::ClientError> {
        if self.opened.lock().contains_key(&ino) {
            return Ok(());
        }
        let (_, handle) = self.client.open(ino, OpenFlags::default()).await?;
        let before = self.opened.lock().insert(ino, handle);
        if let Some(before) = before {
            self.client.release(ino, before, None).await;
        }
        Ok(())
    }

    /// Closes a file, if it is open.
    pub async fn close(&self, ino: Ino) {
        let handle = self.opened.lock().remove(&ino);
        if let Some(handle) = handle {
            self.client.release(ino, handle, None).await;
        }
    }
}

/// What the keeper of a host has of a mount.
struct Kept {
    label: Vec<u8>,
    record: File,
    mount: Arc<Mount>,
}

#[derive(Default)]
struct State {
    /// By volume.
    mounts: BTreeMap<String, Kept>,
    /// Those of a process that was killed.
    left: Vec<SimLeft>,
    /// All that there were, with their volumes.
    sessions: Vec<(String, MetaSession)>,
}

/// The mounts of a host.
#[derive(Clone)]
pub struct SimMounts {
    state: Arc<Mutex<State>>,
    /// Of records, before they have no name.
    record: PathBuf,
    /// Of records and lineages.
    numbers: Arc<AtomicU64>,
}

impl SimMounts {
    /// `record`: where files can be made.
    pub fn new(record: PathBuf) -> SimMounts {
        SimMounts { state: Arc::default(), record, numbers: Arc::default() }
    }

    pub fn mount_of(&self, volume: &str) -> Option<Arc<Mount>> {
        self.state.lock().mounts.get(volume).map(|kept| kept.mount.clone())
    }

    /// Every session that a mount of a volume has had.
    pub fn sessions_of(&self, volume: &str) -> Vec<MetaSession> {
        let state = self.state.lock();
        state.sessions.iter().filter(|(name, _)| name == volume).map(|(_, session)| *session).collect()
    }

    /// The process of the host has ended.
    pub fn process_ended(&self, power: bool) {
        let mut state = self.state.lock();
        let ended = std::mem::take(&mut state.mounts).into_values();
        let left =
            |kept: Kept| SimLeft { mounts: self.clone(), label: kept.label, record: kept.record, lineage: kept.mount.lineage };
        match power {
            true => state.left.clear(),
            false => state.left.extend(ended.map(left)),
        }
    }

    fn begin(
        &self,
        client: &Arc<Client>,
        volume: &str,
        label: Vec<u8>,
        lineage: Option<u64>,
    ) -> Result<Box<dyn Mounted>, String> {
        let lineage = lineage.unwrap_or_else(|| self.numbers.fetch_add(1, Ordering::Relaxed));
        let record = client.record().ok_or("a mount without a record")?.try_clone().map_err(|error| error.to_string())?;
        let mount = Arc::new(Mount { client: client.clone(), lineage, opened: Mutex::default() });
        let teller = client.clone();
        client.env().spawn(async move { teller.keep_telling().await });
        let mut state = self.state.lock();
        state.sessions.push((volume.to_owned(), client.session()));
        state.mounts.insert(volume.to_owned(), Kept { label, record, mount: mount.clone() });
        drop(state);
        Ok(Box::new(SimMounted { mounts: self.clone(), volume: volume.to_owned(), mount }))
    }
}

impl MountDoor for SimMounts {
    fn record(&self) -> io::Result<File> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let path = self.record.with_extension(number.to_string());
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(file)
    }

    fn mount(
        &self,
        client: Arc<Client>,
        volume: &str,
        _: &Path,
        _: &MountOptions,
        label: Vec<u8>,
    ) -> Result<Box<dyn Mounted>, String> {
        self.begin(&client, volume, label, None)
    }

    fn clear(&self, _: &Path) -> Result<(), String> {
        Ok(())
    }

    fn left(&self) -> Result<Vec<Box<dyn LeftMount>>, String> {
        let left = std::mem::take(&mut self.state.lock().left).into_iter();
        Ok(left.map(|left| Box::new(left) as Box<dyn LeftMount>).collect())
    }

    fn look(&self) {}
}

struct SimLeft {
    mounts: SimMounts,
    label: Vec<u8>,
    record: File,
    lineage: u64,
}

impl LeftMount for SimLeft {
    fn label(&self) -> &[u8] {
        &self.label
    }

    fn record(&self) -> io::Result<File> {
        self.record.try_clone()
    }

    fn is_in_place(&self) -> bool {
        true
    }

    fn resume(self: Box<Self>, client: &Arc<Client>, volume: &str, _: &MountOptions) -> Result<Box<dyn Mounted>, String> {
        // Its users refer to nothing between two calls: what they use has a name, or is looked for anew.
        client.ask_kernel(Box::new(|_| false));
        let SimLeft { mounts, label, lineage, .. } = *self;
        mounts.begin(client, volume, label, Some(lineage))
    }

    fn give_up(self: Box<Self>) {}
}

struct SimMounted {
    mounts: SimMounts,
    volume: String,
    mount: Arc<Mount>,
}

impl SimMounted {
    fn is_mine(&self, kept: &Kept) -> bool {
        Arc::ptr_eq(&kept.mount, &self.mount)
    }
}

impl Mounted for SimMounted {
    fn unmount(&self, _: UnmountHow) -> Result<(), String> {
        if !self.is_over() {
            self.mounts.state.lock().mounts.remove(&self.volume);
            let client = self.mount.client.clone();
            // One that is not closed ends by its silence.
            self.mount.client.env().spawn(async move { drop(client.close().await) });
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        !self.mounts.state.lock().mounts.get(&self.volume).is_some_and(|kept| self.is_mine(kept))
    }

    fn is_in_place(&self) -> bool {
        !self.is_over()
    }

    fn stop(&self) -> bool {
        false
    }

    fn is_idle(&self) -> bool {
        true
    }

    fn abandon(&self) -> usize {
        0
    }
}
