//! Where volumes are mounted on this node: noted in a file, so that the next start of the server mounts them again.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use env::Env;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use types::FileVolumeId;

use super::volumes::Volumes;
use crate::door::{MountDoor, Mounted};
use crate::protocol::{MountInfo, MountOptions, UnmountHow};

/// Between two looks at the mounts: for those that others have ended, and those that are to be mounted again.
const LOOK: Duration = Duration::from_secs(2);
/// How long a node that stops waits for mounts that programs use.
const PAUSE_PATIENCE: Duration = Duration::from_secs(2);
const PAUSE_LOOK: Duration = Duration::from_millis(20);
/// Most mounts of a node.
const MAX_MOUNTS: usize = 256;

/// The mounts of this node.
pub struct Mounts {
    env: Env,
    door: Arc<dyn MountDoor>,
    file: PathBuf,
    volumes: Arc<Volumes>,
    /// Held while one begins or ends.
    points: tokio::sync::Mutex<BTreeMap<PathBuf, Point>>,
    /// Mounts that were ended, and that programs may still use.
    ending: Mutex<Vec<Live>>,
}

struct Point {
    noted: Noted,
    /// None while it is to be mounted again.
    live: Option<Live>,
}

/// A mount that is served.
struct Live {
    mounted: Box<dyn Mounted>,
    /// Tells the tree what the client does not have open, and so that it lives.
    telling: JoinHandle<()>,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.telling.abort();
    }
}

impl Live {
    fn is_over(&self) -> bool {
        self.mounted.is_over()
    }
}

/// What the file says of a mount. The volume's name may come to mean another one while the server is stopped.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Noted {
    point: PathBuf,
    id: u32,
    name: String,
    options: MountOptions,
}

impl Mounts {
    /// Reads what was mounted. Nothing is mounted yet.
    pub fn load(env: &Env, door: Arc<dyn MountDoor>, file: PathBuf, volumes: Arc<Volumes>) -> Result<Mounts, String> {
        let noted = read(&file).map_err(|error| {
            format!("reading {}, which names the mounts: {error}. Without it nothing is mounted: move it away", file.display())
        })?;
        let point = |noted: Noted| (noted.point.clone(), Point { noted, live: None });
        let points = tokio::sync::Mutex::new(noted.into_iter().map(point).collect());
        Ok(Mounts { env: env.clone(), door, file, volumes, points, ending: Mutex::default() })
    }

    /// Mounts a volume from now on.
    pub async fn mount(&self, name: &str, point: PathBuf, options: MountOptions) -> Result<(), String> {
        let mut points = self.points.lock().await;
        if points.get(&point).is_some_and(|found| found.live.as_ref().is_none_or(|live| !live.is_over())) {
            return Err(format!("{} is a mount already: `trilith mount --ls` shows which", point.display()));
        }
        if points.len() >= MAX_MOUNTS {
            return Err(format!("a node has at most {MAX_MOUNTS} mounts: end one of them with `trilith umount`"));
        }
        let record = self.volumes.find(name).await?;
        let noted = Noted { point: point.clone(), id: record.id.0, name: name.to_owned(), options };
        let live = Some(self.begin(&noted).await?);
        points.insert(point.clone(), Point { noted, live });
        if let Err(error) = self.note(&points) {
            let ended = points.remove(&point).and_then(|point| point.live).map(|live| live.mounted.unmount(UnmountHow::Lazy));
            tracing::debug!(?ended, "a mount that could not be noted was ended");
            return Err(format!("writing {}: {error}", self.file.display()));
        }
        Ok(())
    }

    async fn begin(&self, noted: &Noted) -> Result<Live, String> {
        let client = self.volumes.client(FileVolumeId(noted.id)).await?;
        self.door.clear(&noted.point);
        let mounted = match self.door.mount(client.clone(), &noted.name, &noted.point, &noted.options) {
            Ok(mounted) => mounted,
            Err(reason) => {
                if let Err(error) = client.close().await {
                    tracing::debug!(%error, "the session of a mount that did not begin stays for a while");
                }
                return Err(reason);
            }
        };
        let telling = client;
        let telling = self.env.spawn(async move { telling.keep_telling().await });
        Ok(Live { mounted, telling })
    }

    /// Ends a mount for good.
    pub async fn unmount(&self, point: &Path, how: UnmountHow) -> Result<(), String> {
        let mut points = self.points.lock().await;
        let found = points.get(point);
        let found = found
            .ok_or_else(|| format!("{} is no mount of this node: `trilith mount --ls` shows which are", point.display()))?;
        if let Some(live) = found.live.as_ref().filter(|live| !live.is_over()) {
            live.mounted.unmount(how)?;
        }
        if let Some(live) = points.remove(point).and_then(|point| point.live) {
            self.ending.lock().push(live);
        }
        let noted = self.note(&points);
        noted.map_err(|error| {
            format!("{} is unmounted until the next start: writing {}: {error}", point.display(), self.file.display())
        })
    }

    pub async fn list(&self) -> Vec<MountInfo> {
        let points = self.points.lock().await;
        let info = |point: &Point| MountInfo {
            point: point.noted.point.clone(),
            volume: point.noted.name.clone(),
            options: point.noted.options,
            is_mounted: point.live.is_some(),
        };
        points.values().map(info).collect()
    }

    /// Where a volume is mounted.
    pub async fn points_of(&self, id: FileVolumeId) -> Vec<PathBuf> {
        let points = self.points.lock().await;
        points.values().filter(|point| point.noted.id == id.0).map(|point| point.noted.point.clone()).collect()
    }

    /// For as long as the node lives: mounts again what was mounted before the start, and forgets what others have unmounted.
    pub async fn keep(&self) {
        let mut told = BTreeSet::new();
        loop {
            let mut points = self.points.lock().await;
            let over: Vec<PathBuf> = points
                .iter()
                .filter(|(_, point)| point.live.as_ref().is_some_and(Live::is_over))
                .map(|(at, _)| at.clone())
                .collect();
            for at in &over {
                points.remove(at);
            }
            if !over.is_empty()
                && let Err(error) = self.note(&points)
            {
                tracing::warn!(%error, file = %self.file.display(), "mounts that have ended are still noted");
            }
            for point in points.values_mut().filter(|point| point.live.is_none()) {
                match self.begin(&point.noted).await {
                    Ok(live) => point.live = Some(live),
                    Err(reason) if told.insert(reason.clone()) => {
                        tracing::warn!(point = %point.noted.point.display(), reason, "what was mounted is not mounted yet");
                    }
                    Err(_) => {}
                }
            }
            drop(points);
            self.has_ending();
            self.env.sleep(LOOK).await;
        }
    }

    /// Forgets the mounts that were ended and that nothing uses any more; whether some are left.
    fn has_ending(&self) -> bool {
        let mut ending = self.ending.lock();
        ending.retain(|live| !live.is_over());
        !ending.is_empty()
    }

    /// Ends all mounts. The next start mounts those again that are kept.
    pub async fn pause(&self) {
        let mut points = self.points.lock().await;
        for live in points.values_mut().filter_map(|point| point.live.take()) {
            if let Err(reason) = live.mounted.unmount(UnmountHow::Lazy) {
                tracing::warn!(reason, "a mount was not ended");
            }
            self.ending.lock().push(live);
        }
        let until = self.env.now() + PAUSE_PATIENCE;
        while self.has_ending() && self.env.now() < until {
            self.env.sleep(PAUSE_LOOK).await;
        }
    }

    fn note(&self, points: &BTreeMap<PathBuf, Point>) -> io::Result<()> {
        let noted: Vec<&Noted> = points.values().map(|point| &point.noted).filter(|noted| noted.options.is_kept).collect();
        let temporary = self.file.with_extension("new");
        std::fs::write(&temporary, serde_json::to_vec_pretty(&noted).map_err(io::Error::other)?)?;
        std::fs::File::open(&temporary)?.sync_all()?;
        std::fs::rename(&temporary, &self.file)
    }
}

fn read(file: &Path) -> io::Result<Vec<Noted>> {
    match std::fs::read(file) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
